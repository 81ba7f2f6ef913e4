// `penstock render MODEL`: the model's chat template over given variables, by the interpreter that serves.
//
// Input, one object of template variables a line, such as {"messages": [...], "add_generation_prompt": true};
// the model's special tokens (bos_token ...) are variables too unless the line sets them. Output: {"text"},
// or
// {"error"} where the template raises one or cannot go on. That is an answer; only a line that is no JSON
// object makes the exit code 1.
#include <iostream>

#include "cli/command.h"
#include "cli/json_lines.h"
#include "text/model_text.h"

namespace penstock::cli {
namespace {

Result<Json> answer(const ModelChat& chat, const std::string& line) {
  ASSIGN_OR_RETURN(const jinja::Value variables, jinja::value_from_json(line));
  if (!variables.is(jinja::ValueKind::kDict)) {
    return fail(Error::kInvalidArgument, "expected an object of template variables");
  }
  RenderOptions options;
  options.local_time = system_local_time;
  const auto rendered = render_chat(chat, variables.as_dict(), options);
  if (!rendered.ok()) return Json{{"error", rendered.message()}};
  return Json{{"text", rendered->text}};
}

Result<int> run_render(const std::string& model) {
  ASSIGN_OR_RETURN(const ModelChat chat, load_chat_template(model));
  return answer_json_lines(std::cin, std::cout, [&](const std::string& line) { return answer(chat, line); });
}

}  // namespace

void add_render_command(CLI::App& app, CommandContext& context) {
  auto model = std::make_shared<std::string>();
  CLI::App* command = app.add_subcommand("render", "Chat template over its variables, JSON lines");
  command->add_option("model", *model, "Model folder")->required();
  context.on_run(command, [model] { return run_render(*model); });
}

}  // namespace penstock::cli

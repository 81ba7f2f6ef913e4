// `penstock tokenize MODEL`: text to token ids and back, by the tokenizer that serves.
//
// Input, one object a line: {"text": "...", "parse_special": false} gives {"ids": [...]}; with true, special
// tokens spelled in the text become their ids (default false). {"ids": [...]} gives {"text", "pieces",
// "flush"}: what each id adds to a stream, what its end adds, and all of it joined.
#include <iostream>

#include "cli/command.h"
#include "cli/json_lines.h"
#include "text/detokenizer.h"
#include "text/model_text.h"

namespace penstock::cli {
namespace {

constexpr const char* kExpected = R"(expected {"text": "...", "parse_special": false} or {"ids": [...]})";

Failure bad_line(const std::string& what) { return fail(Error::kInvalidArgument, what); }

Result<Json> text_to_ids(Tokenizer& tokenizer, const Json& line) {
  if (!line["text"].is_string()) return bad_line("text must be a string");
  ParseSpecial parse_special = ParseSpecial::kNo;
  if (const auto found = line.find("parse_special"); found != line.end()) {
    if (!found->is_boolean()) return bad_line("parse_special must be true or false");
    parse_special = found->get<bool>() ? ParseSpecial::kYes : ParseSpecial::kNo;
  }
  ASSIGN_OR_RETURN(const auto ids, tokenizer.encode(line["text"].get<std::string>(), parse_special));
  return Json{{"ids", ids}};
}

Result<Json> ids_to_text(const Tokenizer& tokenizer, const Json& line) {
  if (!line["ids"].is_array()) return bad_line("ids must be a list of token ids");
  Detokenizer detokenizer(tokenizer);
  std::string text;
  Json pieces = Json::array();
  for (const Json& id : line["ids"]) {
    if (!id.is_number_integer() || id < 0 || id >= tokenizer.vocab_size()) {
      return bad_line("ids[" + std::to_string(pieces.size()) + "] is " + id.dump() +
                      "; the vocabulary has ids from 0 to " + std::to_string(tokenizer.vocab_size() - 1));
    }
    const std::string piece = detokenizer.push(id.get<TokenId>());
    text += piece;
    pieces.push_back(piece);
  }
  const std::string flush = detokenizer.flush();
  return Json{{"text", text + flush}, {"pieces", std::move(pieces)}, {"flush", flush}};
}

Result<Json> answer(Tokenizer& tokenizer, const std::string& text) {
  const Json line = Json::parse(text, nullptr, false);
  if (line.is_discarded()) return bad_line("not JSON in UTF-8");
  if (!line.is_object()) return bad_line(kExpected);
  const bool is_text = line.contains("text");
  if (is_text == line.contains("ids")) return bad_line(kExpected);
  for (const auto& [name, value] : line.items()) {
    if (name == "text" || name == "ids" || (is_text && name == "parse_special")) continue;
    return bad_line("unknown field '" + name + "'; " + kExpected);
  }
  return is_text ? text_to_ids(tokenizer, line) : ids_to_text(tokenizer, line);
}

Result<int> run_tokenize(const std::string& model) {
  ASSIGN_OR_RETURN(Tokenizer tokenizer, load_tokenizer(model));
  return answer_json_lines(std::cin, std::cout,
                           [&](const std::string& line) { return answer(tokenizer, line); });
}

}  // namespace

void add_tokenize_command(CLI::App& app, CommandContext& context) {
  auto model = std::make_shared<std::string>();
  CLI::App* command = app.add_subcommand("tokenize", "Text to token ids and back, JSON lines");
  command->add_option("model", *model, "Model folder")->required();
  context.on_run(command, [model] { return run_tokenize(*model); });
}

}  // namespace penstock::cli

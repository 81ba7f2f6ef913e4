// A model's chat template: messages and other variables in, the prompt's text out, byte for byte as
// transformers' apply_chat_template renders it (Jinja with trim_blocks, lstrip_blocks, loop controls).
//
// Immutable after parse(): render() may be called from any thread. A template comes from a stranger's model
// folder: limits on depth, steps and bytes end one that would run away.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "base/result.h"
#include "text/jinja/value.h"
#include "text/render_options.h"
#include "text/rendered_text.h"

namespace penstock {

namespace jinja {
struct Template;
}

class ChatTemplate {
 public:
  static constexpr size_t kSourceMax = size_t{1} << 20;  // a hundred times what models ship

  // `name` (a file, usually) leads every error message. Syntax errors name the line.
  static Result<ChatTemplate> parse(std::string_view source, std::string name);

  // `variables` is a dict: messages, add_generation_prompt, tools, bos_token... What it lacks is undefined.
  // kInvalidArgument carries the message of the template's raise_exception as it stands; other failures of
  // the template are kInvalidArgument too, with the line; a limit reached is kResourceExhausted.
  Result<RenderedText> render(const jinja::Value& variables, const RenderOptions& options = {}) const;

 private:
  ChatTemplate(std::shared_ptr<const jinja::Template> parsed, std::string name);
  std::shared_ptr<const jinja::Template> template_;
  std::string name_;
};

}  // namespace penstock

// A model's chat template: messages and other variables in, the prompt's text out, byte for byte as
// transformers' apply_chat_template renders it (Jinja with trim_blocks, lstrip_blocks, loop controls).
//
// Immutable after parse(): render() may be called from any thread. A template comes from a stranger's model
// folder: limits on depth, steps and bytes end one that would run away.
#pragma once

#include <cstdint>
#include <ctime>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "base/result.h"
#include "text/jinja/value.h"
#include "text/rendered_text.h"

namespace penstock {

namespace jinja {
struct Template;
}

struct RenderOptions {
  int depth_max = 128;             // nested calls and blocks
  int64_t steps_max = 10'000'000;  // nodes evaluated, items looked at
  // Bytes that expressions create, plus the output: counted when made, never given back, so that the peak
  // stays below. A prompt of n bytes needs about 5 n.
  int64_t bytes_max = int64_t{512} << 20;
  // Local time for strftime_now(format). Empty: the template sees it as undefined.
  std::function<std::tm()> local_time;
};

class ChatTemplate {
 public:
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

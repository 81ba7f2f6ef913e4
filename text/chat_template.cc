#include "text/chat_template.h"

#include "text/jinja/parser.h"
#include "text/jinja/renderer.h"

namespace penstock {

ChatTemplate::ChatTemplate(std::shared_ptr<const jinja::Template> parsed, std::string name)
    : template_(std::move(parsed)), name_(std::move(name)) {}

Result<ChatTemplate> ChatTemplate::parse(std::string_view source, std::string name) {
  if (source.size() > kSourceMax) {
    return fail(Error::kResourceExhausted, name + ": a template of " + std::to_string(source.size()) +
                                               " bytes; the limit is " + std::to_string(kSourceMax));
  }
  auto parsed = jinja::parse_template(source);
  if (!parsed.ok()) return Result<ChatTemplate>(parsed.failure()).with_context(name);
  return ChatTemplate(std::move(*parsed), std::move(name));
}

Result<RenderedText> ChatTemplate::render(const jinja::Value& variables, const RenderOptions& options) const {
  if (!variables.is(jinja::ValueKind::kDict)) {
    return fail(Error::kInvalidArgument, "the variables of a template must be an object");
  }
  jinja::Run run(options);
  jinja::Renderer renderer(run, variables.as_dict());
  auto rendered = renderer.render(*template_);
  if (rendered.ok()) return RenderedText{std::move(rendered->text), std::move(rendered->from_template)};
  if (run.raised()) return rendered.failure();
  const std::string where = name_ + ": line " + std::to_string(run.line());
  return Result<RenderedText>(rendered.failure()).with_context(where);
}

}  // namespace penstock

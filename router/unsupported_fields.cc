#include "router/unsupported_fields.h"

#include <array>

namespace penstock::router {
namespace {

// What a field may hold and still ask for nothing. Null and absence always do.
enum class Neutral : uint8_t {
  kNothing,     // no value is neutral
  kZero,        // 0
  kOne,         // 1
  kFalse,       // false
  kTrue,        // true
  kAnyBool,     // without tools, neither value changes anything
  kEmpty,       // "", [] or {}
  kTextFormat,  // {"type": "text"}
  kNoTool,      // "none" or "auto": there are no tools
  kTextOnly,    // ["text"]
};

enum class Where : uint8_t { kBoth, kChat, kCompletions };

struct UnsupportedField {
  std::string_view name;
  Neutral neutral;
  Where where = Where::kBoth;
};

constexpr std::array kUnsupported = {
    UnsupportedField{"presence_penalty", Neutral::kZero},
    UnsupportedField{"frequency_penalty", Neutral::kZero},
    UnsupportedField{"repetition_penalty", Neutral::kOne},
    UnsupportedField{"length_penalty", Neutral::kOne},
    UnsupportedField{"logit_bias", Neutral::kEmpty},
    UnsupportedField{"bad_words", Neutral::kEmpty},
    UnsupportedField{"allowed_token_ids", Neutral::kNothing},
    UnsupportedField{"min_tokens", Neutral::kZero},
    UnsupportedField{"stop_token_ids", Neutral::kEmpty},
    UnsupportedField{"include_stop_str_in_output", Neutral::kFalse},
    UnsupportedField{"use_beam_search", Neutral::kFalse},
    UnsupportedField{"best_of", Neutral::kOne},
    UnsupportedField{"prompt_logprobs", Neutral::kNothing},
    UnsupportedField{"truncate_prompt_tokens", Neutral::kNothing},
    UnsupportedField{"response_format", Neutral::kTextFormat},
    UnsupportedField{"structured_outputs", Neutral::kEmpty},
    UnsupportedField{"guided_json", Neutral::kNothing},
    UnsupportedField{"guided_regex", Neutral::kNothing},
    UnsupportedField{"guided_choice", Neutral::kNothing},
    UnsupportedField{"guided_grammar", Neutral::kNothing},
    UnsupportedField{"cache_salt", Neutral::kNothing},
    UnsupportedField{"priority", Neutral::kZero},
    UnsupportedField{"echo", Neutral::kFalse},
    UnsupportedField{"suffix", Neutral::kEmpty, Where::kCompletions},
    UnsupportedField{"add_special_tokens", Neutral::kTrue, Where::kCompletions},
    UnsupportedField{"add_special_tokens", Neutral::kFalse, Where::kChat},
    UnsupportedField{"tools", Neutral::kEmpty, Where::kChat},
    UnsupportedField{"tool_choice", Neutral::kNoTool, Where::kChat},
    UnsupportedField{"parallel_tool_calls", Neutral::kAnyBool, Where::kChat},
    UnsupportedField{"functions", Neutral::kEmpty, Where::kChat},
    UnsupportedField{"function_call", Neutral::kNoTool, Where::kChat},
    UnsupportedField{"documents", Neutral::kEmpty, Where::kChat},
    UnsupportedField{"chat_template", Neutral::kNothing, Where::kChat},
    UnsupportedField{"chat_template_kwargs", Neutral::kEmpty, Where::kChat},
    UnsupportedField{"add_generation_prompt", Neutral::kTrue, Where::kChat},
    UnsupportedField{"continue_final_message", Neutral::kFalse, Where::kChat},
    UnsupportedField{"modalities", Neutral::kTextOnly, Where::kChat},
    UnsupportedField{"audio", Neutral::kNothing, Where::kChat},
};

bool is_number(JsonElement element, double wanted) {
  double value = 0;
  return element.get(value) == simdjson::SUCCESS && value == wanted;
}

bool is_bool(JsonElement element, bool wanted) {
  bool value = false;
  return element.get(value) == simdjson::SUCCESS && value == wanted;
}

bool is_text(JsonElement element, std::string_view wanted) {
  std::string_view value;
  return element.get(value) == simdjson::SUCCESS && value == wanted;
}

bool is_empty(JsonElement element) {
  if (element.is_array()) return simdjson::dom::array(element).size() == 0;
  if (element.is_object()) return simdjson::dom::object(element).size() == 0;
  return is_text(element, "");
}

bool is_text_format(JsonElement element) {
  JsonElement type;
  return element.is_object() && element["type"].get(type) == simdjson::SUCCESS && is_text(type, "text");
}

bool is_text_only(JsonElement element) {
  JsonElement first;
  return element.is_array() && simdjson::dom::array(element).size() == 1 &&
         element.at(0).get(first) == simdjson::SUCCESS && is_text(first, "text");
}

bool is_neutral(JsonElement element, Neutral neutral) {
  switch (neutral) {
    case Neutral::kNothing:
      return false;
    case Neutral::kZero:
      return is_number(element, 0);
    case Neutral::kOne:
      return is_number(element, 1);
    case Neutral::kFalse:
      return is_bool(element, false);
    case Neutral::kTrue:
      return is_bool(element, true);
    case Neutral::kAnyBool:
      return element.is_bool();
    case Neutral::kEmpty:
      return is_empty(element);
    case Neutral::kTextFormat:
      return is_text_format(element);
    case Neutral::kNoTool:
      return is_text(element, "none") || is_text(element, "auto");
    case Neutral::kTextOnly:
      return is_text_only(element);
  }
  return false;
}

}  // namespace

void refuse_unsupported(RequestFields& fields, Endpoint endpoint) {
  const Where other = endpoint == Endpoint::kChat ? Where::kCompletions : Where::kChat;
  for (const UnsupportedField& field : kUnsupported) {
    if (field.where == other) continue;
    const auto element = fields.any(field.name);
    if (!element || is_neutral(*element, field.neutral)) continue;
    if (field.name == "cache_salt" && is_text(*element, "")) {
      fields.refuse(field.name, "cache_salt must not be empty.");
      return;
    }
    fields.refuse(unsupported_field(std::string(field.name), "a value other than the neutral one"));
    return;
  }
}

}  // namespace penstock::router

#include "router/parse_request.h"

#include "router/json_fault.h"
#include "router/parse_options.h"
#include "router/request_fields.h"
#include "router/unsupported_fields.h"

namespace penstock::router {
namespace {

// After a body larger than this its buffers are given back.
constexpr size_t kKeptCapacity = 4u << 20;

bool is_known_role(std::string_view role) {
  return role == "system" || role == "developer" || role == "user" || role == "assistant" || role == "tool";
}

// Content parts become one text: templates made for strings get strings.
bool join_parts(simdjson::dom::array parts, const std::string& where, RequestFields& fields,
                std::string& out) {
  size_t index = 0;
  for (const JsonElement part : parts) {
    const std::string name = where + "[" + std::to_string(index) + "]";
    simdjson::dom::object object;
    if (part.get(object) != simdjson::SUCCESS) {
      fields.refuse(name, name + " must be an object, not " + std::string(json_type_name(part)) + ".");
      return false;
    }
    RequestFields members(object, name + ".");
    const auto type = members.text("type");
    if (!members.error() && (!type || *type != "text")) {
      members.refuse(unsupported_field(name + ".type", "a content part other than \"text\""));
    }
    const auto text = members.text("text");
    if (!members.error() && !text) members.refuse("text", name + ".text is missing.");
    if (members.error()) {
      fields.refuse(*members.error());
      return false;
    }
    if (index++ > 0) out += '\n';
    out += *text;
  }
  return true;
}

std::optional<ChatMessage> read_message(JsonElement element, const std::string& where,
                                        RequestFields& fields) {
  simdjson::dom::object object;
  if (element.get(object) != simdjson::SUCCESS) {
    fields.refuse(where, where + " must be an object, not " + std::string(json_type_name(element)) + ".");
    return std::nullopt;
  }
  RequestFields members(object, where + ".");
  ChatMessage message;
  const auto role = members.text("role");
  if (!members.error() && (!role || !is_known_role(*role)))
    members.refuse("role", where + ".role must be system, developer, user, assistant or tool.");
  for (const std::string_view tool_field : {"tool_calls", "function_call"}) {
    const auto calls = members.any(tool_field);
    if (calls && !(calls->is_array() && simdjson::dom::array(*calls).size() == 0))
      members.refuse(unsupported_field(members.full_name(tool_field), "calling tools"));
  }
  message.name = members.text("name");
  const auto content = members.any("content");
  if (content && content->is_array()) {
    if (!join_parts(simdjson::dom::array(*content), where + ".content", fields, message.content))
      return std::nullopt;
  } else {
    message.content = members.text("content").value_or("");
    // Only the assistant's own turns may be without content.
    if (!content && role && *role != "assistant" && !members.error())
      members.refuse("content", where + ".content is missing.");
  }
  if (members.error()) {
    fields.refuse(*members.error());
    return std::nullopt;
  }
  message.role = *role;
  return message;
}

void read_messages(RequestFields& fields, std::vector<ChatMessage>& messages) {
  const auto element = fields.any("messages");
  simdjson::dom::array array;
  if (!element || element->get(array) != simdjson::SUCCESS || array.size() == 0) {
    fields.refuse("messages", "messages must be a list of at least one message.");
    return;
  }
  size_t index = 0;
  for (const JsonElement item : array) {
    auto message = read_message(item, "messages[" + std::to_string(index++) + "]", fields);
    if (!message) return;
    messages.push_back(std::move(*message));
  }
}

bool read_ids(simdjson::dom::array array, const std::string& name, RequestFields& fields,
              std::vector<TokenId>& ids) {
  for (const JsonElement item : array) {
    int64_t id = 0;
    if (item.get(id) != simdjson::SUCCESS || id < 0 || id > INT32_MAX) {
      fields.refuse(name, name + ": token ids must be integers from 0 to the vocabulary's size.");
      return false;
    }
    ids.push_back(static_cast<TokenId>(id));
  }
  return true;
}

bool read_prompt_item(JsonElement item, RequestFields& fields, std::vector<Prompt>& prompts) {
  std::string_view text;
  simdjson::dom::array array;
  if (item.get(text) == simdjson::SUCCESS) {
    if (!is_valid_text(text)) {
      fields.refuse("prompt", "prompt contains a lone surrogate, which is no text.");
      return false;
    }
    prompts.emplace_back(std::string(text));
    return true;
  }
  std::vector<TokenId> ids;
  if (item.get(array) == simdjson::SUCCESS) {
    if (!read_ids(array, "prompt", fields, ids)) return false;
    if (ids.empty()) {
      fields.refuse("prompt", "prompt must not be an empty list.");
      return false;
    }
    prompts.emplace_back(std::move(ids));
    return true;
  }
  fields.refuse("prompt",
                "prompt must be a string, a list of strings, a list of token ids or a list of those.");
  return false;
}

// A string, a list of strings, a list of ids, or a list of lists of ids.
void read_prompts(RequestFields& fields, std::vector<Prompt>& prompts) {
  const auto element = fields.any("prompt");
  if (!element) {
    fields.refuse("prompt", "prompt is missing.");
    return;
  }
  simdjson::dom::array array;
  if (element->get(array) != simdjson::SUCCESS) {
    read_prompt_item(*element, fields, prompts);
    return;
  }
  if (array.size() == 0) {
    fields.refuse("prompt", "prompt must not be an empty list.");
    return;
  }
  if (array.at(0).is_number()) {
    read_prompt_item(*element, fields, prompts);
    return;
  }
  for (const JsonElement item : array) {
    if (prompts.size() == kPromptsMax) {
      fields.refuse("prompt", "prompt has more than " + std::to_string(kPromptsMax) + " items.");
      return;
    }
    if (!read_prompt_item(item, fields, prompts)) return;
  }
}

}  // namespace

std::variant<simdjson::dom::object, ApiError> RequestParser::object_of(const std::string& body) {
  if (parser_.capacity() > kKeptCapacity && body.size() < kKeptCapacity) parser_ = simdjson::dom::parser();
  JsonElement root;
  const simdjson::error_code error = parser_.parse(body).get(root);
  if (error != simdjson::SUCCESS) return json_fault(body, simdjson::error_message(error));
  simdjson::dom::object object;
  if (root.get(object) != simdjson::SUCCESS)
    return broken_body("The body must be a JSON object, not " + std::string(json_type_name(root)) + ".");
  return object;
}

Parsed<ChatRequest> RequestParser::chat(const std::string& body) {
  auto object = object_of(body);
  if (auto* error = std::get_if<ApiError>(&object)) return std::move(*error);
  RequestFields fields(std::get<simdjson::dom::object>(object));
  ChatRequest request;
  read_messages(fields, request.messages);
  read_chat_options(fields, request.options);
  refuse_unsupported(fields, Endpoint::kChat);
  if (fields.error()) return *fields.error();
  request.options.unknown_fields = fields.unread();
  return request;
}

Parsed<CompletionRequest> RequestParser::completion(const std::string& body) {
  auto object = object_of(body);
  if (auto* error = std::get_if<ApiError>(&object)) return std::move(*error);
  RequestFields fields(std::get<simdjson::dom::object>(object));
  CompletionRequest request;
  read_prompts(fields, request.prompts);
  read_completion_options(fields, request.options);
  refuse_unsupported(fields, Endpoint::kCompletions);
  if (!fields.error() &&
      request.prompts.size() * static_cast<size_t>(request.options.choices) > kSequencesMax)
    fields.refuse("n",
                  "n times the number of prompts must not exceed " + std::to_string(kSequencesMax) + ".");
  if (fields.error()) return *fields.error();
  request.options.unknown_fields = fields.unread();
  return request;
}

Parsed<TokenizeRequest> RequestParser::tokenize(const std::string& body) {
  auto object = object_of(body);
  if (auto* error = std::get_if<ApiError>(&object)) return std::move(*error);
  RequestFields fields(std::get<simdjson::dom::object>(object));
  TokenizeRequest request;
  request.model = fields.text("model");
  request.return_token_strs = fields.boolean("return_token_strs").value_or(false);
  const bool has_messages = fields.any("messages").has_value();
  if (has_messages == fields.any("prompt").has_value()) {
    fields.refuse("prompt", "give either prompt or messages.");
  } else if (has_messages) {
    read_messages(fields, request.messages);
    refuse_unsupported(fields, Endpoint::kChat);
  } else {
    request.prompt = fields.text("prompt");
    request.add_special_tokens = fields.boolean("add_special_tokens").value_or(true);
  }
  if (fields.error()) return *fields.error();
  return request;
}

Parsed<DetokenizeRequest> RequestParser::detokenize(const std::string& body) {
  auto object = object_of(body);
  if (auto* error = std::get_if<ApiError>(&object)) return std::move(*error);
  RequestFields fields(std::get<simdjson::dom::object>(object));
  DetokenizeRequest request;
  request.model = fields.text("model");
  const auto element = fields.any("tokens");
  simdjson::dom::array array;
  if (!element || element->get(array) != simdjson::SUCCESS) {
    fields.refuse("tokens", "tokens must be a list of token ids.");
  } else {
    read_ids(array, "tokens", fields, request.tokens);
  }
  if (fields.error()) return *fields.error();
  return request;
}

}  // namespace penstock::router

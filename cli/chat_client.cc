#include "cli/chat_client.h"

#include <nlohmann/json.hpp>

#include "cli/http_client.h"
#include "cli/sse_decoder.h"

namespace penstock::cli {
namespace {

using Json = nlohmann::ordered_json;

// A long prompt may take this long before its first token.
constexpr Duration kSilenceMax = Duration::from_ms(600000);

std::vector<std::pair<std::string, std::string>> headers_for(const std::string& api_key) {
  std::vector<std::pair<std::string, std::string>> headers = {{"Content-Type", "application/json"}};
  if (!api_key.empty()) headers.emplace_back("Authorization", "Bearer " + api_key);
  return headers;
}

// A string that may be absent or null.
std::string text_at(const Json& json, const char* key) {
  const auto found = json.find(key);
  return found != json.end() && found->is_string() ? found->get<std::string>() : "";
}

}  // namespace

double ChatAnswer::tpot_ms() const {
  return completion_tokens < 2 ? 0 : (total - ttft).ms() / static_cast<double>(completion_tokens - 1);
}

std::string chat_request_json(const ChatRequest& request) {
  Json messages = Json::array();
  for (const auto& [role, content] : request.messages)
    messages.push_back({{"role", role}, {"content", content}});
  Json json = {{"model", request.model},
               {"messages", std::move(messages)},
               {"stream", true},
               {"stream_options", {{"include_usage", true}}}};
  if (request.tokens_max > 0) json["max_tokens"] = request.tokens_max;
  if (request.temperature) json["temperature"] = *request.temperature;
  if (request.top_p) json["top_p"] = *request.top_p;
  if (request.seed) json["seed"] = *request.seed;
  // Terminal input may hold bytes that are no UTF-8.
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

Result<ChatEvent> parse_chat_event(std::string_view text) {
  try {
    const Json json = Json::parse(text);
    ChatEvent event;
    if (const auto error = json.find("error"); error != json.end() && !error->is_null()) {
      event.error = error_text(text);
      return event;
    }
    event.id = text_at(json, "id");
    for (const Json& choice : json.value("choices", Json::array())) {
      if (const auto delta = choice.find("delta"); delta != choice.end())
        event.text += text_at(*delta, "content");
      event.finish_reason = text_at(choice, "finish_reason");
    }
    if (const auto usage = json.find("usage"); usage != json.end() && usage->is_object())
      event.usage = {usage->value("prompt_tokens", int64_t{0}),
                     usage->value("completion_tokens", int64_t{0})};
    return event;
  } catch (const Json::exception& error) {
    return fail(Error::kCorrupt, std::string("an event of the stream is not JSON: ") + error.what());
  }
}

std::string error_text(std::string_view body) {
  const Json json = Json::parse(body, nullptr, false);
  if (json.is_object() && json.contains("error")) {
    const Json& error = json["error"];
    if (error.is_object() && !text_at(error, "message").empty()) return text_at(error, "message");
    if (error.is_string()) return error.get<std::string>();
  }
  return std::string(body.substr(0, 500));
}

Result<std::string> first_model(const HostPort& server, const std::string& api_key) {
  ASSIGN_OR_RETURN(const HttpResponse response,
                   http_request({.server = server, .target = "/v1/models", .headers = headers_for(api_key)}));
  if (response.status != 200)
    return fail(Error::kUnavailable,
                "/v1/models: HTTP " + std::to_string(response.status) + ": " + error_text(response.body));
  const Json json = Json::parse(response.body, nullptr, false);
  if (json.is_object() && json.contains("data") && json["data"].is_array() && !json["data"].empty())
    return text_at(json["data"][0], "id");
  return fail(Error::kCorrupt, "/v1/models: no model in the answer");
}

Result<ChatAnswer> chat(const HostPort& server, const std::string& api_key, const ChatRequest& request,
                        const Clock& clock, const std::function<void(std::string_view)>& on_text) {
  ChatAnswer answer;
  SseDecoder events;
  Status failed;
  bool done = false;
  const TimePoint began = clock.now();
  const auto on_event = [&](const std::string& data) {
    if (data == "[DONE]") {
      done = true;
      return;
    }
    auto event = parse_chat_event(data);
    if (!event.ok() || !event->error.empty()) {
      if (failed.ok()) failed = event.ok() ? fail(Error::kUnavailable, event->error) : event.failure();
      return;
    }
    if (!event->id.empty()) answer.id = event->id;
    if (!event->finish_reason.empty()) answer.finish_reason = event->finish_reason;
    if (event->usage) std::tie(answer.prompt_tokens, answer.completion_tokens) = *event->usage;
    if (event->text.empty()) return;
    answer.total = clock.now() - began;
    if (answer.text.empty()) answer.ttft = answer.total;
    answer.text += event->text;
    on_text(event->text);
  };
  auto response = http_request({.server = server,
                                .method = "POST",
                                .target = "/v1/chat/completions",
                                .body = chat_request_json(request),
                                .headers = headers_for(api_key),
                                .silence_max = kSilenceMax},
                               [&](std::string_view piece) {
                                 for (const std::string& data : events.feed(piece)) on_event(data);
                               });
  RETURN_IF_ERROR(failed);
  if (!response.ok()) return response.failure();
  if (response->status != 200)
    return fail(Error::kUnavailable,
                "HTTP " + std::to_string(response->status) + ": " + error_text(response->body));
  if (!done) return fail(Error::kUnavailable, "the stream ended before its [DONE]");
  return answer;
}

}  // namespace penstock::cli

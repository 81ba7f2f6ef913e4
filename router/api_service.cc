#include "router/api_service.h"

#include <algorithm>
#include <array>
#include <ctime>
#include <random>

#include "router/http_text.h"

namespace penstock::router {
namespace {

// Bodies above this are parsed and tokenised by the worker.
constexpr size_t kInlineBodyMax = 64u << 10;

struct Route {
  std::string_view path;
  bool is_post;
  bool needs_key;
};

constexpr std::array kRoutes = {
    Route{"/v1/chat/completions", true, true},
    Route{"/v1/completions", true, true},
    Route{"/tokenize", true, true},
    Route{"/detokenize", true, true},
    Route{"/v1/models", false, true},
    Route{"/metrics", false, true},
    Route{"/version", false, true},
    Route{"/health", false, false},
    Route{"/live", false, false},
    Route{"/ready", false, false},
};

const Route* find_route(std::string_view path) {
  const auto found =
      std::find_if(kRoutes.begin(), kRoutes.end(), [&](const Route& r) { return r.path == path; });
  return found == kRoutes.end() ? nullptr : &*found;
}

bool is_json(std::string_view content_type) {
  content_type = content_type.substr(0, content_type.find(';'));
  while (!content_type.empty() && content_type.back() == ' ') content_type.remove_suffix(1);
  constexpr std::string_view kJson = "application/json";
  return std::equal(content_type.begin(), content_type.end(), kJson.begin(), kJson.end(), [](char a, char b) {
    return (a >= 'A' && a <= 'Z' ? static_cast<char>(a - 'A' + 'a') : a) == b;
  });
}

void add_request_id(HttpResponse& response, const std::string& request_id) {
  if (is_header_text(request_id)) response.headers.emplace_back("x-request-id", request_id);
}

HttpResponse json_response(const Json& json) {
  HttpResponse response;
  response.body = dump(json);
  return response;
}

}  // namespace

ApiService::ApiService(ApiContext context)
    : context_(std::move(context)),
      created_(std::time(nullptr)),
      rng_((uint64_t{std::random_device{}()} << 32) | std::random_device{}()),
      preparer_(context_.model.clone()),
      worker_preparer_(std::make_shared<RequestPreparer>(context_.model.clone())) {}

std::optional<HttpResponse> ApiService::check_head(const HttpHead& head) {
  const Route* route = find_route(head.path);
  std::optional<ApiError> error;
  if (route != nullptr && route->needs_key && !context_.keys.accept(head.authorization)) {
    error = invalid_api_key();
  } else if (route == nullptr) {
    error = path_not_found(head.method, head.path);
  } else if (route->is_post ? head.method != "POST" : head.method != "GET" && head.method != "HEAD") {
    error = method_not_allowed(head.method, head.path);
  } else if (route->is_post && !is_json(head.content_type)) {
    error = unsupported_media_type(head.content_type);
  }
  if (!error) return std::nullopt;
  HttpResponse response = error_response(*error);
  if (error->status == 405) response.headers.emplace_back("allow", route->is_post ? "POST" : "GET, HEAD");
  add_request_id(response, head.request_id);
  return response;
}

void ApiService::answered(const HttpHead& head, int status) {
  // Paths and methods are the client's: only those we know become labels.
  const bool known = find_route(head.path) != nullptr;
  const bool plain = head.method == "GET" || head.method == "POST" || head.method == "HEAD";
  context_.metrics.count_http(plain ? head.method : "other", known ? head.path : "other", status);
}

void ApiService::handle(HttpRequest request, std::shared_ptr<HttpExchange> exchange) {
  if (request.path == "/v1/chat/completions") {
    generate(Endpoint::kChat, std::move(request), std::move(exchange));
  } else if (request.path == "/v1/completions") {
    generate(Endpoint::kCompletions, std::move(request), std::move(exchange));
  } else if (request.path == "/tokenize" || request.path == "/detokenize") {
    tokenize(std::move(request), std::move(exchange));
  } else {
    HttpResponse response = get(request.path);
    add_request_id(response, request.request_id);
    exchange->respond(std::move(response));
  }
}

HttpResponse ApiService::get(const std::string& path) const {
  if (path == "/v1/models") return json_response(model_list_json(context_.model, created_));
  if (path == "/version") return json_response({{"version", kVersion}});
  if (path == "/metrics") {
    HttpResponse response;
    response.content_type = "text/plain; version=0.0.4; charset=utf-8";
    response.body = render_metrics(context_.registry, context_.vllm_aliases);
    return response;
  }
  if (path == "/ready" && draining_) return error_response(unavailable("The server is shutting down.", 1));
  if (path == "/ready" && !context_.driver.ready())
    return error_response(unavailable("No prefill and decode nodes are ready yet.", 1));
  return json_response({{"status", "ok"}});
}

template <typename Prepare, typename Finish>
void ApiService::run(HttpRequest request, std::shared_ptr<HttpExchange> exchange, Prepare prepare,
                     Finish finish) {
  if (request.body.size() <= kInlineBodyMax) {
    finish(prepare(preparer_, request.body));
    return;
  }
  auto body = std::make_shared<std::string>(std::move(request.body));
  auto job = [body, preparer = worker_preparer_, prepare, finish] {
    auto prepared = std::make_shared<decltype(prepare(*preparer, *body))>(prepare(*preparer, *body));
    return [prepared, finish] { finish(std::move(*prepared)); };
  };
  if (context_.worker.submit(std::move(job))) return;
  HttpResponse response = error_response(overloaded("Too many large requests are being read.", 1));
  add_request_id(response, request.request_id);
  exchange->respond(std::move(response));
}

void ApiService::generate(Endpoint endpoint, HttpRequest request, std::shared_ptr<HttpExchange> exchange) {
  const Origin origin{endpoint, request.request_id, context_.keys.keep_alive_s(request.authorization),
                      exchange};
  run(
      std::move(request), std::move(exchange),
      [endpoint](RequestPreparer& preparer, const std::string& body) {
        return preparer.prepare(endpoint, body);
      },
      [this, origin](Parsed<PreparedRequest> prepared) { admit(origin, std::move(prepared)); });
}

void ApiService::tokenize(HttpRequest request, std::shared_ptr<HttpExchange> exchange) {
  const bool back = request.path == "/detokenize";
  const std::string id = request.request_id;
  run(
      std::move(request), exchange,
      [back](RequestPreparer& preparer, const std::string& body) {
        return back ? preparer.detokenize(body) : preparer.tokenize(body);
      },
      [id, exchange](Parsed<Json> answer) {
        const auto* error = std::get_if<ApiError>(&answer);
        HttpResponse response =
            error != nullptr ? error_response(*error) : json_response(std::get<Json>(answer));
        add_request_id(response, id);
        exchange->respond(std::move(response));
      });
}

void ApiService::admit(const Origin& origin, Parsed<PreparedRequest> prepared) {
  const auto refuse = [&](const ApiError& error) {
    HttpResponse response = error_response(error);
    add_request_id(response, origin.request_id);
    origin.exchange->respond(std::move(response));
  };
  if (const auto* error = std::get_if<ApiError>(&prepared)) {
    if (error->code == "model_not_found") context_.metrics.count_unknown_model(error->value);
    refuse(*error);
    return;
  }
  if (context_.driver.full()) {
    refuse(overloaded("Too many requests are running; try again later.", 1));
    return;
  }
  PreparedRequest& request = std::get<PreparedRequest>(prepared);
  AnswerSpec spec;
  spec.header.endpoint = origin.endpoint;
  spec.header.id = new_id(origin.endpoint == Endpoint::kChat ? "chatcmpl-" : "cmpl-");
  spec.header.created = std::time(nullptr);
  spec.header.model = context_.model.name();
  if (!request.options.unknown_fields.empty())
    context_.log.debug("unknown fields ignored", "response", spec.header.id, "fields",
                       request.options.unknown_fields);
  if (request.options.stream && request.options.keep_alive_s == 0)
    request.options.keep_alive_s = origin.keep_alive_s;
  std::string request_id = origin.request_id.empty() ? request.options.request_id : origin.request_id;
  if (!is_header_text(request_id)) request_id = spec.header.id;
  spec.headers.emplace_back("x-request-id", request_id);
  spec.options = std::move(request.options);
  spec.prompts = std::move(request.prompts);
  context_.driver.submit(
      std::make_unique<Answer>(std::move(spec), context_.model.tokenizer(), origin.exchange));
}

std::string ApiService::new_id(const char* prefix) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string id = prefix;
  for (int word = 0; word < 2; ++word) {
    uint64_t bits = rng_();
    for (int i = 0; i < 12; ++i, bits >>= 4) id += kDigits[bits & 15];
  }
  return id;
}

}  // namespace penstock::router

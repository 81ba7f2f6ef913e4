#include "router/parse_options.h"

#include <limits>

namespace penstock::router {
namespace {

constexpr int64_t kInt64Min = std::numeric_limits<int64_t>::min();
constexpr int64_t kInt64Max = std::numeric_limits<int64_t>::max();

void read_sampling(RequestFields& fields, SamplingOptions& sampling) {
  sampling.temperature = fields.number("temperature").value_or(1.0);
  if (!(sampling.temperature >= 0 && sampling.temperature <= 2))
    fields.refuse("temperature", "temperature must be from 0 to 2.");
  sampling.top_p = fields.number("top_p").value_or(1.0);
  if (!(sampling.top_p > 0 && sampling.top_p <= 1))
    fields.refuse("top_p", "top_p must be above 0 and at most 1.");
  sampling.min_p = fields.number("min_p").value_or(0.0);
  if (!(sampling.min_p >= 0 && sampling.min_p <= 1)) fields.refuse("min_p", "min_p must be from 0 to 1.");
  // -1 is how some clients spell "all".
  const int64_t top_k = fields.integer("top_k", -1, std::numeric_limits<int32_t>::max()).value_or(0);
  sampling.top_k = top_k < 0 ? 0 : static_cast<int32_t>(top_k);
  sampling.seed = fields.integer("seed", kInt64Min, kInt64Max);
}

void add_stop(RequestFields& fields, JsonElement item, std::vector<std::string>& stop) {
  std::string_view text;
  if (item.get(text) != simdjson::SUCCESS) {
    fields.refuse("stop", "stop must be a string or a list of strings.");
  } else if (text.empty()) {
    fields.refuse("stop", "stop must not hold an empty string.");
  } else if (text.size() > kStopBytesMax) {
    fields.refuse("stop", "a stop string may have " + std::to_string(kStopBytesMax) + " bytes at most.");
  } else if (!is_valid_text(text)) {
    fields.refuse("stop", "stop contains a lone surrogate, which is no text.");
  } else {
    stop.emplace_back(text);
  }
}

void read_stop(RequestFields& fields, std::vector<std::string>& stop) {
  const auto element = fields.any("stop");
  if (!element) return;
  simdjson::dom::array array;
  if (element->get(array) != simdjson::SUCCESS) {
    add_stop(fields, *element, stop);
    return;
  }
  if (array.size() > kStopStringsMax) {
    fields.refuse("stop", "stop may hold " + std::to_string(kStopStringsMax) + " strings at most.");
    return;
  }
  for (const JsonElement item : array) add_stop(fields, item, stop);
}

void read_stream(RequestFields& fields, GenerationOptions& options) {
  options.stream = fields.boolean("stream").value_or(false);
  const auto object = fields.object("stream_options");
  if (!object) return;
  if (!options.stream) {
    fields.refuse("stream_options", "stream_options needs stream: true.");
    return;
  }
  RequestFields members(*object, "stream_options.");
  options.include_usage = members.boolean("include_usage").value_or(false);
  options.continuous_usage =
      members.boolean("continuous_usage_stats").value_or(false) && options.include_usage;
  options.keep_alive_s =
      static_cast<int32_t>(members.integer("keep_alive_s", 1, kKeepAliveSecondsMax).value_or(0));
  if (members.error()) fields.refuse(*members.error());
}

void read_shared(RequestFields& fields, GenerationOptions& options) {
  options.model = fields.text("model");
  read_sampling(fields, options.sampling);
  options.choices = static_cast<int32_t>(fields.integer("n", 1, kChoicesMax).value_or(1));
  read_stop(fields, options.stop);
  read_stream(fields, options);
  options.ignore_eos = fields.boolean("ignore_eos").value_or(false);
  options.skip_special_tokens = fields.boolean("skip_special_tokens").value_or(true);
  options.return_token_ids = fields.boolean("return_token_ids").value_or(false);
  options.request_id = fields.text("request_id").value_or("");
  static_cast<void>(fields.text("user"));  // checked for its type only: it changes nothing here
}

}  // namespace

void read_chat_options(RequestFields& fields, GenerationOptions& options) {
  read_shared(fields, options);
  options.tokens_max = fields.integer("max_tokens", 1, kInt64Max);
  // The newer name wins when both are given.
  if (const auto newer = fields.integer("max_completion_tokens", 1, kInt64Max)) options.tokens_max = newer;
  options.logprobs = fields.boolean("logprobs").value_or(false);
  const auto top = fields.integer("top_logprobs", 0, kTopLogprobsMax);
  if (top && *top > 0 && !options.logprobs)
    fields.refuse("top_logprobs", "top_logprobs needs logprobs: true.");
  options.top_logprobs = static_cast<int32_t>(top.value_or(0));
}

void read_completion_options(RequestFields& fields, GenerationOptions& options) {
  read_shared(fields, options);
  options.tokens_max = fields.integer("max_tokens", 1, kInt64Max).value_or(kCompletionTokensDefault);
  // Here logprobs is the number of alternatives; false is how some clients spell "none".
  const auto element = fields.any("logprobs");
  bool flag = true;
  if (element && element->get(flag) == simdjson::SUCCESS && !flag) return;
  const auto top = fields.integer("logprobs", 0, kTopLogprobsMax);
  options.logprobs = top.has_value();
  options.top_logprobs = static_cast<int32_t>(top.value_or(0));
}

}  // namespace penstock::router

#include "topology/cluster_config_fields.h"

#include <algorithm>
#include <charconv>

#include "topology/device_specs.h"

namespace penstock::config_internal {
namespace {

constexpr int64_t kThreadsMax = 1024;
constexpr int64_t kPoolMbMax = int64_t{16} << 20;  // 16 TiB

Field integer(std::string section, std::string key, int64_t& value, int64_t low, int64_t high) {
  return {std::move(section), std::move(key), IntegerTarget{&value, low, high}};
}
Field boolean(std::string section, std::string key, bool& value) {
  return {std::move(section), std::move(key), BoolTarget{&value}};
}
Field text(std::string section, std::string key, std::string& value,
           std::function<Status(const std::string&)> check = {}) {
  return {std::move(section), std::move(key), TextTarget{&value, std::move(check)}};
}
// An enum whose values count from 0 in the order of the names.
template <typename Enum>
Field choice(std::string section, std::string key, Enum& value, std::vector<std::string_view> names) {
  return {std::move(section), std::move(key),
          ChoiceTarget{std::move(names), [&value] { return static_cast<size_t>(value); },
                       [&value](size_t i) { value = static_cast<Enum>(i); }}};
}

Status check_address(const std::string& value) {
  auto parsed = parse_host_port(value);
  if (!parsed.ok()) return parsed.failure();
  return {};
}

Status check_log_level(const std::string& value) {
  for (const char* known : {"debug", "info", "warning", "error", "off"})
    if (value == known) return {};
  return fail(Error::kInvalidArgument, "needs debug, info, warning, error or off");
}

// A Z85 key is 40 characters (32 bytes); ZeroMQ refuses others without saying which.
Status check_curve_key(const std::string& value) {
  if (value.empty() || value.size() == 40) return {};
  return fail(Error::kInvalidArgument, "needs a CURVE key of 40 characters in Z85");
}

Status check_device(const std::string& value) {
  if (value.empty()) return {};
  auto spec = find_device_spec(value);
  if (!spec.ok()) return spec.failure();
  return {};
}

// Node names appear in addresses of keys, file names and metrics labels.
Status check_name(const std::string& value) {
  const auto allowed = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
  };
  if (!value.empty() && value.size() <= 64 && std::all_of(value.begin(), value.end(), allowed)) return {};
  return fail(Error::kInvalidArgument, "needs 1 to 64 letters, digits, - or _");
}

std::string quoted(const std::string& value) {
  std::string out = "\"";
  for (const char c : value) {
    if (c == '"' || c == '\\') out += '\\';
    if (static_cast<unsigned char>(c) < 0x20) {
      constexpr char kHex[] = "0123456789abcdef";
      out += std::string("\\u00") + kHex[c >> 4] + kHex[c & 15];
    } else {
      out += c;
    }
  }
  return out + '"';
}

Result<int64_t> parse_integer(const std::string& value) {
  int64_t number = 0;
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), number);
  if (error != std::errc() || end != value.data() + value.size() || value.empty())
    return fail(Error::kInvalidArgument, "not an integer");
  return number;
}

std::string shown(const SourceValue& value) {
  if (const auto* number = std::get_if<int64_t>(&value)) return std::to_string(*number);
  if (const auto* flag = std::get_if<bool>(&value)) return *flag ? "true" : "false";
  if (const auto* string = std::get_if<std::string>(&value)) return quoted(*string);
  return std::get<Untyped>(value).text;
}

Failure wrong(const Field& field, const SourceValue& value, const std::string& needs) {
  return fail(Error::kInvalidArgument, field.name() + " = " + shown(value) + ": " + needs);
}

Status assign_integer(const Field& field, const IntegerTarget& target, const SourceValue& value) {
  const std::string needs =
      "needs an integer from " + std::to_string(target.low) + " to " + std::to_string(target.high);
  int64_t number = 0;
  if (const auto* untyped = std::get_if<Untyped>(&value)) {
    auto parsed = parse_integer(untyped->text);
    if (!parsed.ok()) return wrong(field, value, needs);
    number = *parsed;
  } else if (const auto* integer_value = std::get_if<int64_t>(&value)) {
    number = *integer_value;
  } else {
    return wrong(field, value, needs);
  }
  if (number < target.low || number > target.high) return wrong(field, value, needs);
  *target.value = number;
  return {};
}

Status assign_bool(const Field& field, const BoolTarget& target, const SourceValue& value) {
  if (const auto* flag = std::get_if<bool>(&value)) {
    *target.value = *flag;
    return {};
  }
  if (const auto* untyped = std::get_if<Untyped>(&value)) {
    if (untyped->text == "true" || untyped->text == "false") {
      *target.value = untyped->text == "true";
      return {};
    }
  }
  return wrong(field, value, "needs true or false");
}

// Text of a string or of a flag; numbers and booleans are no text.
const std::string* text_of(const SourceValue& value) {
  if (const auto* string = std::get_if<std::string>(&value)) return string;
  if (const auto* untyped = std::get_if<Untyped>(&value)) return &untyped->text;
  return nullptr;
}

Status assign_text(const Field& field, const TextTarget& target, const SourceValue& value) {
  const std::string* string = text_of(value);
  if (string == nullptr) return wrong(field, value, "needs a string");
  if (target.check) {
    if (Status checked = target.check(*string); !checked.ok()) return wrong(field, value, checked.message());
  }
  *target.value = *string;
  return {};
}

Status assign_choice(const Field& field, const ChoiceTarget& target, const SourceValue& value) {
  const std::string* string = text_of(value);
  std::string names;
  for (size_t i = 0; i < target.names.size(); ++i) {
    if (string != nullptr && *string == target.names[i]) {
      target.set(i);
      return {};
    }
    names += (i == 0 ? "" : i + 1 == target.names.size() ? " or " : ", ") + std::string(target.names[i]);
  }
  return wrong(field, value, "needs " + names);
}

}  // namespace

std::vector<Field> cluster_fields(ClusterConfig& c) {
  auto& transfer = c.kv_transfer;
  return {
      text("cluster", "name", c.cluster.name, check_name),
      choice("cluster", "disaggregate", c.cluster.disaggregate, {"auto", "always", "never"}),
      text("model", "path", c.model.path),
      text("model", "name", c.model.name),
      choice("model", "dtype", c.model.dtype, {"bf16", "f32"}),
      text("router", "listen", c.router.listen, check_address),
      text("router", "control", c.router.control, check_address),
      text("router", "admin", c.router.admin, check_address),
      text("router", "api_keys_file", c.router.api_keys_file),
      integer("router", "body_max_mb", c.router.body_max_mb, 1, 1024),
      integer("router", "requests_max", c.router.requests_max, 1, 1000000),
      integer("router", "drain_timeout_ms", c.router.drain_timeout_ms, 0, 3600000),
      boolean("router", "metrics_vllm_aliases", c.router.metrics_vllm_aliases),
      integer("engine", "threads", c.engine.threads, 1, kThreadsMax),
      integer("engine", "kv_pool_mb", c.engine.kv_pool_mb, 1, kPoolMbMax),
      integer("engine", "block_tokens", c.engine.block_tokens, 16, 1024),
      choice("engine", "kv_dtype", c.engine.kv_dtype, {"bf16", "f32"}),
      integer("engine", "batch_tokens_max", c.engine.batch_tokens_max, 1, 1 << 20),
      integer("engine", "sequences_max", c.engine.sequences_max, 1, 65536),
      integer("engine", "context_max", c.engine.context_max, 0, 1 << 30),
      boolean("engine", "batch_invariant", c.engine.batch_invariant),
      text("kv_transfer", "transports", transfer.transports),
      integer("kv_transfer", "lease_ms", transfer.lease_ms, 100, 600000),
      boolean("kv_transfer", "digests", transfer.digests),
      integer("heartbeat", "period_ms", c.heartbeat.period_ms, 10, 60000),
      integer("heartbeat", "dead_after_ms", c.heartbeat.dead_after_ms, 20, 600000),
      text("curve", "router_public_key", c.curve.router_public_key, check_curve_key),
      text("curve", "router_secret_key_file", c.curve.router_secret_key_file),
      text("curve", "node_public_key", c.curve.node_public_key, check_curve_key),
      text("curve", "node_secret_key_file", c.curve.node_secret_key_file),
      text("log", "level", c.log.level, check_log_level),
      text("log", "dir", c.log.dir),
  };
}

std::vector<Field> node_fields(NodeConfig& node) {
  const std::string section = "node." + node.name;
  return {
      text(section, "name", node.name, check_name),
      choice(section, "role", node.role, {"prefill", "decode"}),
      integer(section, "threads", node.threads, 0, kThreadsMax),
      integer(section, "kv_pool_mb", node.kv_pool_mb, 0, kPoolMbMax),
      text(section, "emulate", node.emulate, check_device),
      text(section, "listen_host", node.listen_host),
  };
}

Status assign(const Field& field, const SourceValue& value) {
  return std::visit(
      [&](const auto& target) -> Status {
        using Target = std::decay_t<decltype(target)>;
        if constexpr (std::is_same_v<Target, IntegerTarget>) return assign_integer(field, target, value);
        if constexpr (std::is_same_v<Target, BoolTarget>) return assign_bool(field, target, value);
        if constexpr (std::is_same_v<Target, TextTarget>) return assign_text(field, target, value);
        if constexpr (std::is_same_v<Target, ChoiceTarget>) return assign_choice(field, target, value);
      },
      field.target);
}

std::string toml_value(const Field& field) {
  if (const auto* target = std::get_if<IntegerTarget>(&field.target)) return std::to_string(*target->value);
  if (const auto* target = std::get_if<BoolTarget>(&field.target)) return *target->value ? "true" : "false";
  if (const auto* target = std::get_if<TextTarget>(&field.target)) return quoted(*target->value);
  const auto& target = std::get<ChoiceTarget>(field.target);
  return quoted(std::string(target.names[target.get()]));
}

}  // namespace penstock::config_internal

// Loading: the file, then the environment, then --set, then the checks across keys.
#include <algorithm>
#include <cctype>
#include <cstring>
#include <fstream>
#include <map>
#include <sstream>

#define TOML_EXCEPTIONS 0
#include <toml++/toml.h>

#include "topology/cluster_config.h"
#include "topology/cluster_config_fields.h"
#include "topology/nearest_name.h"

namespace penstock {

using config_internal::Field;
using config_internal::SourceValue;
using config_internal::Untyped;

namespace {

constexpr std::string_view kEnvironmentPrefix = "PENSTOCK__";

std::string upper_snake(std::string_view name) {
  std::string out;
  for (const unsigned char c : name) out += std::isalnum(c) != 0 ? static_cast<char>(std::toupper(c)) : '_';
  return out;
}

// Loads one configuration from its sources, weakest first. Remembers where each key was last set, so that
// checks across keys can name a place.
class Loader {
 public:
  Loader(ClusterConfig& config, std::string_view file) : config_(config), file_(file) {}

  Status apply_file(const toml::table& root) {
    for (const auto& [key, value] : root) {
      const std::string section(key.str());
      const std::string where = place(value);
      if (section == "node") {
        RETURN_IF_ERROR(apply_nodes(value, where));
      } else if (!is_section(section)) {
        return unknown(where, "section", "[" + section + "]", sections());
      } else if (!value.is_table()) {
        return fail(Error::kInvalidArgument,
                    where + ": " + section + " is a section: write [" + section + "]");
      } else {
        RETURN_IF_ERROR(apply_table(config_internal::cluster_fields(config_), section, *value.as_table()));
      }
    }
    return {};
  }

  // "router.listen" or "node.NAME.threads".
  Status apply_set(const std::string& assignment) {
    const std::string where = "--set " + assignment;
    const size_t equals = assignment.find('=');
    if (equals == std::string::npos)
      return fail(Error::kInvalidArgument, where + ": write section.key=value");
    const std::string name = assignment.substr(0, equals);
    const Field* found = nullptr;
    const auto fields = all_fields();
    for (const Field& field : fields)
      if (field.name() == name) found = &field;
    if (found == nullptr) return unknown(where, "key", name, names_of(fields));
    return assign_at(where, *found, Untyped{assignment.substr(equals + 1)});
  }

  Status apply_variable(const std::string& variable, const std::string& value) {
    if (variable.rfind(kEnvironmentPrefix, 0) != 0) return {};
    const auto fields = all_fields();
    std::vector<std::string> known;
    for (const Field& field : fields) {
      known.push_back(variable_of(field));
      if (known.back() == variable) return assign_at("environment " + variable, field, Untyped{value});
    }
    return unknown("environment", "variable", variable, known);
  }

  Status check() const {
    RETURN_IF_ERROR(check_ports());
    if (config_.engine.block_tokens % KvLayout::kColumnTokens != 0)
      return contradiction("engine.block_tokens", "must be a multiple of 16");
    if (!config_.engine.batch_invariant)
      return contradiction(
          "engine.batch_invariant",
          "this build has batch-invariant kernels only, at no cost in speed; remove the key");
    if (config_.heartbeat.dead_after_ms < 2 * config_.heartbeat.period_ms)
      return contradiction("heartbeat.dead_after_ms", "must be at least twice heartbeat.period_ms");
    const auto& curve = config_.curve;
    const std::string* keys[] = {&curve.router_public_key, &curve.router_secret_key_file,
                                 &curve.node_public_key, &curve.node_secret_key_file};
    const auto given =
        std::count_if(std::begin(keys), std::end(keys), [](auto* key) { return !key->empty(); });
    if (given != 0 && given != std::ssize(keys))
      return contradiction("curve.router_public_key", "CURVE needs all four keys of [curve], or none");
    return {};
  }

 private:
  std::string place(const toml::node& node) const {
    return file_ + ":" + std::to_string(node.source().begin.line);
  }

  std::vector<Field> all_fields() {
    std::vector<Field> fields = config_internal::cluster_fields(config_);
    for (NodeConfig& node : config_.nodes)
      for (Field& field : config_internal::node_fields(node))
        if (field.key != "name") fields.push_back(std::move(field));
    return fields;
  }

  static std::string variable_of(const Field& field) {
    std::string section = upper_snake(field.section);
    if (field.section.rfind("node.", 0) == 0) section = "NODE__" + upper_snake(field.section.substr(5));
    return std::string(kEnvironmentPrefix) + section + "__" + upper_snake(field.key);
  }

  static std::vector<std::string> names_of(const std::vector<Field>& fields) {
    std::vector<std::string> names;
    for (const Field& field : fields) names.push_back(field.name());
    return names;
  }

  std::vector<std::string> sections() {
    std::vector<std::string> names = {"[[node]]"};
    for (const Field& field : config_internal::cluster_fields(config_))
      names.push_back("[" + field.section + "]");
    return names;
  }
  bool is_section(const std::string& name) {
    const auto known = sections();
    return std::find(known.begin(), known.end(), "[" + name + "]") != known.end();
  }

  // `in` says of what, and takes no part in the comparison: " in model".
  static Failure unknown(const std::string& where, const std::string& what, const std::string& name,
                         const std::vector<std::string>& known, const std::string& in = "") {
    return fail(Error::kInvalidArgument, where + ": unknown " + what + " " + name + in + ": did you mean " +
                                             std::string(nearest_name(name, known)) + "?");
  }

  Failure contradiction(const std::string& key, const std::string& what) const {
    const auto found = set_at_.find(key);
    return fail(Error::kInvalidArgument,
                (found == set_at_.end() ? file_ : found->second) + ": " + key + ": " + what);
  }

  Status assign_at(const std::string& where, const Field& field, const SourceValue& value) {
    RETURN_IF_ERROR(config_internal::assign(field, value).with_context(where));
    set_at_[field.name()] = where;
    return {};
  }

  Status apply_table(const std::vector<Field>& fields, const std::string& section, const toml::table& table) {
    for (const auto& [key, value] : table) {
      const Field* found = nullptr;
      std::vector<std::string> known;
      for (const Field& field : fields) {
        if (field.section != section) continue;
        known.push_back(field.key);
        if (field.key == key.str()) found = &field;
      }
      const std::string where = place(value);
      if (found == nullptr) return unknown(where, "key", std::string(key.str()), known, " in " + section);
      ASSIGN_OR_RETURN(const SourceValue source, source_value(where, *found, value));
      RETURN_IF_ERROR(assign_at(where, *found, source));
    }
    return {};
  }

  static Result<SourceValue> source_value(const std::string& where, const Field& field,
                                          const toml::node& node) {
    if (const auto* integer = node.as_integer()) return SourceValue(integer->get());
    if (const auto* boolean = node.as_boolean()) return SourceValue(boolean->get());
    if (const auto* string = node.as_string()) return SourceValue(string->get());
    return fail(Error::kInvalidArgument,
                where + ": " + field.name() + ": needs a string, an integer or a boolean");
  }

  Status apply_nodes(const toml::node& value, const std::string& where) {
    const toml::array* array = value.as_array();
    if (array == nullptr || !array->is_homogeneous<toml::table>())
      return fail(Error::kInvalidArgument, where + ": node: write one [[node]] for each node");
    for (const toml::node& element : *array) {
      RETURN_IF_ERROR(apply_node(*element.as_table(), place(element)));
    }
    return {};
  }

  Status apply_node(const toml::table& table, const std::string& where) {
    NodeConfig node;
    if (const auto* name = table.get_as<std::string>("name")) node.name = name->get();
    for (const char* required : {"name", "role"})
      if (!table.contains(required))
        return fail(Error::kInvalidArgument, where + ": [[node]] without " + required + ": add it");
    if (config_.find_node(node.name) != nullptr)
      return fail(Error::kInvalidArgument,
                  where + ": two nodes are called \"" + node.name + "\": give each a name of its own");
    const auto fields = config_internal::node_fields(node);
    RETURN_IF_ERROR(apply_table(fields, "node." + node.name, table));
    config_.nodes.push_back(std::move(node));
    return {};
  }

  Status check_ports() const {
    const std::pair<const char*, const std::string*> addresses[] = {
        {"router.listen", &config_.router.listen},
        {"router.control", &config_.router.control},
        {"router.admin", &config_.router.admin}};
    std::map<std::string, std::string> taken;
    for (const auto& [key, address] : addresses) {
      if (parse_host_port(*address)->port == 0) continue;
      const auto [other, added] = taken.emplace(*address, key);
      if (!added) return contradiction(key, *address + " is also " + other->second + ": choose another port");
    }
    return {};
  }

  ClusterConfig& config_;
  std::string file_;
  std::map<std::string, std::string> set_at_;
};

Result<std::string> read_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in)
    return fail(Error::kNotFound, path + ": " + std::strerror(errno) + ": give a cluster file with -c FILE");
  std::ostringstream out;
  out << in.rdbuf();
  if (!in.good() && !in.eof()) return fail(Error::kIo, path + ": cannot be read");
  return std::move(out).str();
}

}  // namespace

Result<ClusterConfig> load_cluster_config(const ConfigSources& sources) {
  std::string text;
  if (!sources.file.empty()) {
    ASSIGN_OR_RETURN(text, read_file(sources.file));
  }
  return parse_cluster_config(text, sources.file.empty() ? "defaults" : sources.file, sources);
}

Result<ClusterConfig> parse_cluster_config(std::string_view toml_text, std::string_view name,
                                           const ConfigSources& overrides) {
  const toml::parse_result parsed = toml::parse(toml_text, name);
  if (!parsed) {
    const toml::parse_error& error = parsed.error();
    return fail(Error::kInvalidArgument, std::string(name) + ":" + std::to_string(error.source().begin.line) +
                                             ": not TOML: " + std::string(error.description()));
  }
  ClusterConfig config;
  Loader loader(config, name);
  RETURN_IF_ERROR(loader.apply_file(parsed.table()));
  for (const auto& [variable, value] : overrides.environment)
    RETURN_IF_ERROR(loader.apply_variable(variable, value));
  for (const std::string& assignment : overrides.sets) RETURN_IF_ERROR(loader.apply_set(assignment));
  RETURN_IF_ERROR(loader.check());
  return config;
}

}  // namespace penstock

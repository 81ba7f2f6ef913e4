#include "router/api_keys.h"

#include <fstream>

namespace penstock::router {
namespace {

bool equal_in_constant_time(std::string_view a, std::string_view b) {
  if (a.size() != b.size()) return false;
  unsigned char difference = 0;
  for (size_t i = 0; i < a.size(); ++i) difference |= static_cast<unsigned char>(a[i] ^ b[i]);
  return difference == 0;
}

}  // namespace

Result<ApiKeys> ApiKeys::load(const std::string& path) {
  std::ifstream file(path);
  if (!file) return fail(Error::kNotFound, "[router] api_keys_file: " + path + " cannot be read");
  ApiKeys keys;
  for (std::string line; std::getline(file, line);) {
    while (!line.empty() && (line.back() == '\r' || line.back() == ' ')) line.pop_back();
    if (!line.empty() && line[0] != '#') keys.keys_.push_back(line);
  }
  if (keys.keys_.empty())
    return fail(Error::kInvalidArgument, "[router] api_keys_file: " + path +
                                             " holds no key; one key a line, or leave the setting out");
  return keys;
}

bool ApiKeys::accept(std::string_view authorization) const {
  if (!required()) return true;
  constexpr std::string_view kBearer = "Bearer ";
  if (!authorization.starts_with(kBearer)) return false;
  authorization.remove_prefix(kBearer.size());
  bool found = false;
  for (const std::string& key : keys_) found |= equal_in_constant_time(key, authorization);
  return found;
}

}  // namespace penstock::router

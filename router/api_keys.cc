#include "router/api_keys.h"

#include <algorithm>
#include <charconv>
#include <fstream>
#include <sstream>

#include "router/request.h"

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
  int number = 0;
  for (std::string line; std::getline(file, line);) {
    ++number;
    std::istringstream words(line);
    Key key;
    std::string option;
    if (!(words >> key.text) || key.text[0] == '#') continue;
    while (words >> option) {
      constexpr std::string_view kKeepAlive = "keep_alive_s=";
      const char* end = option.data() + option.size();
      const char* digits = option.data() + std::min(option.size(), kKeepAlive.size());
      const auto [stopped, error] = std::from_chars(digits, end, key.keep_alive_s);
      if (!option.starts_with(kKeepAlive) || error != std::errc() || stopped != end || key.keep_alive_s < 1 ||
          key.keep_alive_s > kKeepAliveSecondsMax)
        return fail(Error::kInvalidArgument, "[router] api_keys_file: " + path + ":" +
                                                 std::to_string(number) +
                                                 ": behind the key only keep_alive_s=1 to 600 may stand");
    }
    keys.keys_.push_back(std::move(key));
  }
  if (keys.keys_.empty())
    return fail(Error::kInvalidArgument, "[router] api_keys_file: " + path +
                                             " holds no key; one key a line, or leave the setting out");
  return keys;
}

const ApiKeys::Key* ApiKeys::find(std::string_view authorization) const {
  constexpr std::string_view kBearer = "Bearer ";
  if (!authorization.starts_with(kBearer)) return nullptr;
  authorization.remove_prefix(kBearer.size());
  const Key* found = nullptr;
  for (const Key& key : keys_) {
    if (equal_in_constant_time(key.text, authorization)) found = &key;
  }
  return found;
}

}  // namespace penstock::router

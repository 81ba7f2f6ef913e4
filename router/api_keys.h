// The keys that clients of the public listener may use.
//
// Immutable after loading.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace penstock::router {

class ApiKeys {
 public:
  // No keys: every client is welcome.
  ApiKeys() = default;
  // One key a line, `keep_alive_s=N` behind it to opt its streams in to comments; blank lines and lines that
  // start with # are passed over. A file without keys is an error: it would open what was meant to be closed.
  static Result<ApiKeys> load(const std::string& path);

  bool required() const { return !keys_.empty(); }
  // `authorization`: the header's value, "Bearer KEY". Takes the same time whichever key is nearly right.
  bool accept(std::string_view authorization) const { return !required() || find(authorization) != nullptr; }
  // What the key of `authorization` opts in to; 0: nothing.
  int32_t keep_alive_s(std::string_view authorization) const {
    const Key* key = find(authorization);
    return key == nullptr ? 0 : key->keep_alive_s;
  }

 private:
  struct Key {
    std::string text;
    int32_t keep_alive_s = 0;
  };
  const Key* find(std::string_view authorization) const;

  std::vector<Key> keys_;
};

}  // namespace penstock::router

// The keys that clients of the public listener may use.
//
// Immutable after loading.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace penstock::router {

class ApiKeys {
 public:
  // No keys: every client is welcome.
  ApiKeys() = default;
  // One key a line; blank lines and lines that start with # are passed over. A file without keys is an error:
  // it would open what was meant to be closed.
  static Result<ApiKeys> load(const std::string& path);

  bool required() const { return !keys_.empty(); }
  // `authorization`: the header's value, "Bearer KEY". Takes the same time whichever key is nearly right.
  bool accept(std::string_view authorization) const;

 private:
  std::vector<std::string> keys_;
};

}  // namespace penstock::router

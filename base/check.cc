#include "base/check.h"

#include <cstdio>
#include <cstdlib>

namespace penstock {

void check_failed(const char* file, int line, std::string_view what, const std::string& details) {
  std::fprintf(stderr, "%s:%d: CHECK failed: %.*s%s%s%s\n", file, line, static_cast<int>(what.size()),
               what.data(), details.empty() ? "" : " (", details.c_str(), details.empty() ? "" : ")");
  std::fflush(stderr);
  std::abort();
}

}  // namespace penstock

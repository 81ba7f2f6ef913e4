// CHECK: a bug stops the process at once, with the values that show it.
// Expected failures are no bugs: they travel as Result (base/result.h).
#pragma once

#include <sstream>
#include <string>
#include <string_view>

namespace penstock {

// Prints "file:line: CHECK failed: what (details)" to stderr and aborts.
[[noreturn]] void check_failed(const char* file, int line, std::string_view what, const std::string& details);

namespace check_internal {
template <typename T>
void print_value(std::ostringstream& out, const T& value) {
  if constexpr (requires { out << value; }) {
    out << value;
  } else if constexpr (requires { value.value(); }) {
    out << value.value();
  } else {
    out << "?";
  }
}
template <typename A, typename B>
std::string describe(const A& a, const B& b) {
  std::ostringstream out;
  print_value(out, a);
  out << " vs ";
  print_value(out, b);
  return out.str();
}
}  // namespace check_internal
}  // namespace penstock

#define CHECK(condition)                                            \
  do {                                                              \
    if (!(condition)) [[unlikely]]                                  \
      ::penstock::check_failed(__FILE__, __LINE__, #condition, ""); \
  } while (0)

#define PENSTOCK_CHECK_OP(a, op, b)                                                       \
  do {                                                                                    \
    const auto& check_a_ = (a);                                                           \
    const auto& check_b_ = (b);                                                           \
    if (!(check_a_ op check_b_)) [[unlikely]]                                             \
      ::penstock::check_failed(__FILE__, __LINE__, #a " " #op " " #b,                     \
                               ::penstock::check_internal::describe(check_a_, check_b_)); \
  } while (0)

#define CHECK_EQ(a, b) PENSTOCK_CHECK_OP(a, ==, b)
#define CHECK_NE(a, b) PENSTOCK_CHECK_OP(a, !=, b)
#define CHECK_LT(a, b) PENSTOCK_CHECK_OP(a, <, b)
#define CHECK_LE(a, b) PENSTOCK_CHECK_OP(a, <=, b)
#define CHECK_GT(a, b) PENSTOCK_CHECK_OP(a, >, b)
#define CHECK_GE(a, b) PENSTOCK_CHECK_OP(a, >=, b)

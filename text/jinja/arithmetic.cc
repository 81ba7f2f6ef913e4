// The arithmetic half of operations.h: numbers as Python has them, within 64 bits.
#include <cmath>

#include "text/jinja/operations.h"

namespace penstock::jinja {
namespace {

bool is_int(const Value& value) { return value.is(ValueKind::kInt) || value.is(ValueKind::kBool); }
int64_t to_int(const Value& value) {
  return value.is(ValueKind::kBool) ? int64_t{value.as_bool()} : value.as_int();
}
double to_double(const Value& value) {
  return value.is(ValueKind::kFloat) ? value.as_float() : static_cast<double>(to_int(value));
}

Failure overflow(Run& run) { return run.error("OverflowError", "an integer does not fit in 64 bits"); }
Failure division_by_zero(Run& run) { return run.error("ZeroDivisionError", "division by zero"); }

Result<Value> float_power(Run& run, double base, double exponent) {
  if (base == 0 && exponent < 0) return division_by_zero(run);
  if (base < 0 && std::floor(exponent) != exponent) {
    return run.error("ValueError", "a negative number to a fractional power is a complex number");
  }
  const double result = std::pow(base, exponent);
  if (std::isinf(result) && std::isfinite(base) && std::isfinite(exponent)) {
    return run.error("OverflowError", "the power is out of range");
  }
  return Value(result);
}

Result<Value> int_power(Run& run, int64_t base, int64_t exponent) {
  if (exponent < 0) {
    return float_power(run, static_cast<double>(base), static_cast<double>(exponent));
  }
  int64_t result = 1;
  while (exponent > 0) {
    if ((exponent & 1) != 0 && __builtin_mul_overflow(result, base, &result)) return overflow(run);
    exponent >>= 1;
    if (exponent > 0 && __builtin_mul_overflow(base, base, &base)) return overflow(run);
  }
  return Value(result);
}

Result<Value> int_arithmetic(Run& run, std::string_view operation, int64_t a, int64_t b) {
  int64_t result = 0;
  if (operation == "**") return int_power(run, a, b);
  if (operation == "+")
    return __builtin_add_overflow(a, b, &result) ? Result<Value>(overflow(run)) : Value(result);
  if (operation == "-")
    return __builtin_sub_overflow(a, b, &result) ? Result<Value>(overflow(run)) : Value(result);
  if (operation == "*")
    return __builtin_mul_overflow(a, b, &result) ? Result<Value>(overflow(run)) : Value(result);
  if (b == 0) return division_by_zero(run);
  if (operation == "/") return Value(static_cast<double>(a) / static_cast<double>(b));
  if (b == -1) {  // the one division that overflows
    if (operation == "%") return Value(int64_t{0});
    return __builtin_sub_overflow(int64_t{0}, a, &result) ? Result<Value>(overflow(run)) : Value(result);
  }
  // Python rounds down, C towards zero.
  const bool adjust = a % b != 0 && (a % b < 0) != (b < 0);
  return Value(operation == "//" ? a / b - (adjust ? 1 : 0) : a % b + (adjust ? b : 0));
}

Result<Value> float_arithmetic(Run& run, std::string_view operation, double a, double b) {
  if (operation == "+") return Value(a + b);
  if (operation == "-") return Value(a - b);
  if (operation == "*") return Value(a * b);
  if (operation == "**") return float_power(run, a, b);
  if (b == 0) return division_by_zero(run);
  if (operation == "/") return Value(a / b);
  if (operation == "//") return Value(std::floor(a / b));
  const double rest = std::fmod(a, b);
  if (rest == 0) return Value(std::copysign(0.0, b));
  return Value((rest < 0) != (b < 0) ? rest + b : rest);
}

Result<Value> repeat(Run& run, const Value& sequence, int64_t count) {
  const bool is_string = sequence.is(ValueKind::kString);
  const size_t unit = is_string ? sequence.text().size() : sequence.items().size() * sizeof(Value);
  const size_t times = count > 0 ? static_cast<size_t>(count) : 0;
  size_t total = 0;
  if (__builtin_mul_overflow(unit, times, &total)) total = SIZE_MAX;
  RETURN_IF_ERROR(run.charge(total));
  RETURN_IF_ERROR(run.step(unit > 0 ? times : 0));
  TextBuilder text;
  std::vector<Value> items;
  for (size_t i = 0; unit > 0 && i < times; ++i) {
    if (is_string) {
      text.append(sequence.as_string());
    } else {
      items.insert(items.end(), sequence.items().begin(), sequence.items().end());
    }
  }
  return is_string ? run.string(text.take()) : run.list(std::move(items), sequence.as_list().kind);
}

Result<Value> join_two(Run& run, const Value& a, const Value& b) {
  if (a.is(ValueKind::kString)) {
    RETURN_IF_ERROR(run.charge(a.text().size() + b.text().size()));
    TextBuilder text;
    text.append(a.as_string());
    text.append(b.as_string());
    return run.string(text.take());
  }
  RETURN_IF_ERROR(run.charge((a.items().size() + b.items().size()) * sizeof(Value)));
  std::vector<Value> items = a.items();
  items.insert(items.end(), b.items().begin(), b.items().end());
  return run.list(std::move(items), a.as_list().kind);
}

bool is_sequence(const Value& value) { return value.is(ValueKind::kString) || is_indexed(value); }

}  // namespace

Result<Value> arithmetic(Run& run, std::string_view operation, const Value& a, const Value& b) {
  if (is_int(a) && is_int(b)) return int_arithmetic(run, operation, to_int(a), to_int(b));
  if (a.is_number() && b.is_number()) return float_arithmetic(run, operation, to_double(a), to_double(b));
  if (a.is(ValueKind::kUndefined)) return run.undefined_error(a);
  if (b.is(ValueKind::kUndefined)) return run.undefined_error(b);
  if (operation == "*" && is_sequence(a) && is_int(b)) return repeat(run, a, to_int(b));
  if (operation == "*" && is_int(a) && is_sequence(b)) return repeat(run, b, to_int(a));
  const bool alike = a.kind() == b.kind() && is_sequence(a) &&
                     (a.is(ValueKind::kString) || a.as_list().kind == b.as_list().kind);
  if (operation == "+" && alike) return join_two(run, a, b);
  if (operation == "%" && a.is(ValueKind::kString)) {
    return run.error("TypeError", "formatting with % is not supported; use ~");
  }
  return run.error("TypeError", "unsupported operand type(s) for " + std::string(operation) + ": '" +
                                    std::string(type_name(a)) + "' and '" + std::string(type_name(b)) + "'");
}

Result<Value> negate(Run& run, const Value& value) {
  if (value.is(ValueKind::kFloat)) return Value(-value.as_float());
  if (is_int(value)) return int_arithmetic(run, "-", 0, to_int(value));
  if (value.is(ValueKind::kUndefined)) return run.undefined_error(value);
  return run.error("TypeError", "bad operand type for unary -: '" + std::string(type_name(value)) + "'");
}

}  // namespace penstock::jinja

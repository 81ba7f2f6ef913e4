#include "text/jinja/tests.h"

#include <algorithm>

#include "text/jinja/filters.h"
#include "text/jinja/operations.h"
#include "text/jinja/printing.h"
#include "text/jinja/strings.h"

namespace penstock::jinja {
namespace {

template <ValueKind kKind>
Result<bool> is_kind(Run&, const Value& value, const Arguments&) {
  return value.is(kKind);
}

template <ValueKind kKind>
Result<bool> is_not_kind(Run&, const Value& value, const Arguments&) {
  return !value.is(kKind);
}

template <bool kWanted>
Result<bool> is_bool(Run&, const Value& value, const Arguments&) {
  return value.is(ValueKind::kBool) && value.as_bool() == kWanted;
}

Result<bool> is_number(Run&, const Value& value, const Arguments&) { return value.is_number(); }

Result<bool> is_iterable(Run&, const Value& value, const Arguments&) {
  return value.is(ValueKind::kString) || value.is(ValueKind::kList) || value.is(ValueKind::kDict) ||
         value.is(ValueKind::kUndefined);
}

// Anything with a length and items by index; Jinja counts dicts and undefined in.
Result<bool> is_sequence(Run& run, const Value& value, const Arguments& arguments) {
  if (value.is(ValueKind::kList)) return is_indexed(value);
  return is_iterable(run, value, arguments);
}

// value % divisor == rest, for numbers.
Result<bool> leaves_rest(Run& run, const Value& value, const Value& divisor, int64_t rest) {
  if (!value.is_number()) {
    return run.error("TypeError", "the test needs a number, not '" + std::string(type_name(value)) + "'");
  }
  ASSIGN_OR_RETURN(const Value found, arithmetic(run, "%", value, divisor));
  return equal(run, found, Value(rest));
}

template <int64_t kRest>
Result<bool> has_parity(Run& run, const Value& value, const Arguments&) {
  return leaves_rest(run, value, Value(int64_t{2}), kRest);
}

Result<const Value*> one_argument(Run& run, const Arguments& arguments) {
  if (arguments.positional.size() != 1 || !arguments.named.empty()) {
    return run.error("TypeError", "the test takes one argument");
  }
  return &arguments.positional[0];
}

Result<bool> is_divisible(Run& run, const Value& value, const Arguments& arguments) {
  ASSIGN_OR_RETURN(const Value* argument, one_argument(run, arguments));
  return leaves_rest(run, value, *argument, 0);
}

enum class Comparison : uint8_t { kEqual, kUnequal, kLess, kLessEqual, kGreater, kGreaterEqual, kIn };

template <Comparison kComparison>
Result<bool> compares(Run& run, const Value& value, const Arguments& arguments) {
  static constexpr std::string_view kOperators[] = {"==", "!=", "<", "<=", ">", ">=", "in"};
  ASSIGN_OR_RETURN(const Value* argument, one_argument(run, arguments));
  return test_comparison(run, kOperators[static_cast<size_t>(kComparison)], value, *argument);
}

// Identity: for our immutable values that of kind and content.
Result<bool> is_same(Run& run, const Value& value, const Arguments& arguments) {
  ASSIGN_OR_RETURN(const Value* argument, one_argument(run, arguments));
  if (value.kind() != argument->kind()) return false;
  return equal(run, value, *argument);
}

template <std::string (*kMap)(std::string_view), std::string (*kOpposite)(std::string_view)>
Result<bool> has_case(Run& run, const Value& value, const Arguments&) {
  ASSIGN_OR_RETURN(const Value printed_value, printed(run, value));
  const std::string& text = printed_value.text();
  RETURN_IF_ERROR(run.charge(2 * text.size()));
  return kMap(text) == text && kOpposite(text) != text;
}

Result<bool> names_filter(Run&, const Value& value, const Arguments&) {
  return value.is(ValueKind::kString) && find_filter(value.text()) != nullptr;
}

Result<bool> names_test(Run&, const Value& value, const Arguments&) {
  return value.is(ValueKind::kString) && find_test(value.text()) != nullptr;
}

// An undefined value is one in Jinja: calling it is the error.
Result<bool> is_callable(Run&, const Value& value, const Arguments&) {
  return value.is(ValueKind::kCallable) || value.is(ValueKind::kUndefined);
}

Result<bool> never(Run&, const Value&, const Arguments&) { return false; }

struct Test {
  std::string_view name;
  TestFunction call;
};

constexpr Test kTests[] = {
    {"defined", is_not_kind<ValueKind::kUndefined>},
    {"undefined", is_kind<ValueKind::kUndefined>},
    {"none", is_kind<ValueKind::kNone>},
    {"boolean", is_kind<ValueKind::kBool>},
    {"true", is_bool<true>},
    {"false", is_bool<false>},
    {"integer", is_kind<ValueKind::kInt>},
    {"float", is_kind<ValueKind::kFloat>},
    {"number", is_number},
    {"string", is_kind<ValueKind::kString>},
    {"mapping", is_kind<ValueKind::kDict>},
    {"callable", is_callable},
    {"iterable", is_iterable},
    {"sequence", is_sequence},
    {"odd", has_parity<1>},
    {"even", has_parity<0>},
    {"divisibleby", is_divisible},
    {"eq", compares<Comparison::kEqual>},
    {"equalto", compares<Comparison::kEqual>},
    {"==", compares<Comparison::kEqual>},
    {"ne", compares<Comparison::kUnequal>},
    {"!=", compares<Comparison::kUnequal>},
    {"lt", compares<Comparison::kLess>},
    {"lessthan", compares<Comparison::kLess>},
    {"<", compares<Comparison::kLess>},
    {"le", compares<Comparison::kLessEqual>},
    {"<=", compares<Comparison::kLessEqual>},
    {"gt", compares<Comparison::kGreater>},
    {"greaterthan", compares<Comparison::kGreater>},
    {">", compares<Comparison::kGreater>},
    {"ge", compares<Comparison::kGreaterEqual>},
    {">=", compares<Comparison::kGreaterEqual>},
    {"in", compares<Comparison::kIn>},
    {"sameas", is_same},
    {"upper", has_case<upper, lower>},
    {"lower", has_case<lower, upper>},
    {"filter", names_filter},
    {"test", names_test},
    {"escaped", never},
};

}  // namespace

TestFunction find_test(std::string_view name) {
  const auto found =
      std::find_if(std::begin(kTests), std::end(kTests), [&](const Test& test) { return test.name == name; });
  return found != std::end(kTests) ? found->call : nullptr;
}

}  // namespace penstock::jinja

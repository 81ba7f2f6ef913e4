// The half of Renderer that evaluates expressions.
#include "text/jinja/filters.h"
#include "text/jinja/methods.h"
#include "text/jinja/operations.h"
#include "text/jinja/printing.h"
#include "text/jinja/renderer.h"
#include "text/jinja/tests.h"

namespace penstock::jinja {

Result<Value> Renderer::evaluate(const Expression& node, Scope& scope) {
  Level level(run_);
  RETURN_IF_ERROR(level.status());
  RETURN_IF_ERROR(run_.step());
  run_.at_line(node.line);
  const auto child = [&](size_t i) { return evaluate(*node.children[i], scope); };
  switch (node.kind) {
    case ExpressionKind::kConstant:
      return node.constant;
    case ExpressionKind::kName:
      return evaluate_name(node, scope);
    case ExpressionKind::kList:
    case ExpressionKind::kTuple: {
      ASSIGN_OR_RETURN(std::vector<Value> items, evaluate_all(node.children, scope));
      const bool tuple = node.kind == ExpressionKind::kTuple;
      return run_.list(std::move(items), tuple ? ListKind::kTuple : ListKind::kList);
    }
    case ExpressionKind::kDict:
      return evaluate_dict(node, scope);
    case ExpressionKind::kAttribute: {
      ASSIGN_OR_RETURN(const Value object, child(0));
      return get_attribute(run_, object, node.name);
    }
    case ExpressionKind::kItem: {
      ASSIGN_OR_RETURN(const Value object, child(0));
      ASSIGN_OR_RETURN(const Value key, child(1));
      return get_item(run_, object, key);
    }
    case ExpressionKind::kSlice:
      return evaluate_slice(node, scope);
    case ExpressionKind::kCall:
      return evaluate_call(node, scope);
    case ExpressionKind::kFilter: {
      ASSIGN_OR_RETURN(Value input, child(0));
      return evaluate_filter(node, std::move(input), scope);
    }
    case ExpressionKind::kTest:
      return evaluate_test(node, scope);
    case ExpressionKind::kNot:
    case ExpressionKind::kNegate:
    case ExpressionKind::kPlus:
      return evaluate_unary(node, scope);
    case ExpressionKind::kAnd:
    case ExpressionKind::kOr: {
      ASSIGN_OR_RETURN(Value left, child(0));
      return truthy(left) == (node.kind == ExpressionKind::kOr) ? Result<Value>(std::move(left)) : child(1);
    }
    case ExpressionKind::kBinary: {
      ASSIGN_OR_RETURN(const Value left, child(0));
      ASSIGN_OR_RETURN(const Value right, child(1));
      run_.at_line(node.line);
      return arithmetic(run_, node.name, left, right);
    }
    case ExpressionKind::kCompare:
      return evaluate_compare(node, scope);
    case ExpressionKind::kConcat:
      return evaluate_concat(node, scope);
    case ExpressionKind::kConditional: {
      ASSIGN_OR_RETURN(const Value condition, child(1));
      if (truthy(condition)) return child(0);
      if (node.children[2] != nullptr) return child(2);
      return Value::undefined("the inline if-expression evaluated to false and no else section was defined.");
    }
  }
  return fail(Error::kInternal, "unknown expression");
}

Result<Value> Renderer::evaluate_unary(const Expression& node, Scope& scope) {
  ASSIGN_OR_RETURN(const Value operand, evaluate(*node.children[0], scope));
  if (node.kind == ExpressionKind::kNot) return Value(!truthy(operand));
  if (node.kind == ExpressionKind::kNegate) return negate(run_, operand);
  return arithmetic(run_, "+", Value(int64_t{0}), operand);
}

Result<Value> Renderer::evaluate_name(const Expression& node, Scope& scope) {
  RETURN_IF_ERROR(run_.step(static_cast<size_t>(scope.depth()) / 8));  // the chain is walked
  if (const Value* found = scope.find(node.name)) return *found;
  return Value::undefined("'" + node.name + "' is undefined");
}

Result<std::vector<Value>> Renderer::evaluate_all(const std::vector<ExpressionPtr>& nodes, Scope& scope,
                                                  size_t first) {
  std::vector<Value> values;
  for (size_t i = first; i < nodes.size(); ++i) {
    ASSIGN_OR_RETURN(Value value, evaluate(*nodes[i], scope));
    values.push_back(std::move(value));
  }
  return values;
}

Result<Value> Renderer::evaluate_dict(const Expression& node, Scope& scope) {
  Dict dict;
  for (size_t i = 0; i < node.children.size(); i += 2) {
    ASSIGN_OR_RETURN(const Value key, evaluate(*node.children[i], scope));
    ASSIGN_OR_RETURN(Value value, evaluate(*node.children[i + 1], scope));
    if (key.is(ValueKind::kUndefined)) return run_.undefined_error(key);
    RETURN_IF_ERROR(check_hashable(run_, key));
    dict.set(key, std::move(value));
  }
  return run_.dict(std::move(dict));
}

Result<Value> Renderer::evaluate_slice(const Expression& node, Scope& scope) {
  ASSIGN_OR_RETURN(const Value object, evaluate(*node.children[0], scope));
  Value bounds[3] = {None{}, None{}, None{}};
  for (size_t i = 0; i < 3; ++i) {
    if (node.children[i + 1] == nullptr) continue;
    ASSIGN_OR_RETURN(bounds[i], evaluate(*node.children[i + 1], scope));
  }
  return slice(run_, object, bounds[0], bounds[1], bounds[2]);
}

// a < b < c: each pair in turn, every operand once.
Result<Value> Renderer::evaluate_compare(const Expression& node, Scope& scope) {
  ASSIGN_OR_RETURN(Value left, evaluate(*node.children[0], scope));
  for (size_t i = 0; i < node.operators.size(); ++i) {
    ASSIGN_OR_RETURN(Value right, evaluate(*node.children[i + 1], scope));
    run_.at_line(node.line);
    ASSIGN_OR_RETURN(const bool holds, test_comparison(run_, node.operators[i], left, right));
    if (!holds) return Value(false);
    left = std::move(right);
  }
  return Value(true);
}

Result<Value> Renderer::evaluate_concat(const Expression& node, Scope& scope) {
  TextBuilder text;
  for (const ExpressionPtr& child : node.children) {
    ASSIGN_OR_RETURN(const Value value, evaluate(*child, scope));
    RETURN_IF_ERROR(append_printed(run_, value, text));
  }
  return run_.string(text.take());
}

Result<Arguments> Renderer::evaluate_arguments(const Expression& node, Scope& scope) {
  Arguments arguments;
  ASSIGN_OR_RETURN(arguments.positional, evaluate_all(node.children, scope, 1));
  for (const auto& [name, expression] : node.named) {
    ASSIGN_OR_RETURN(Value value, evaluate(*expression, scope));
    arguments.named.emplace_back(name, std::move(value));
  }
  return arguments;
}

// `caller`: the body of a call block, handed to the macro under that name.
Result<Value> Renderer::evaluate_call(const Expression& node, Scope& scope, const Value* caller) {
  const Expression& callee = *node.children[0];
  Value object, function;
  if (callee.kind == ExpressionKind::kAttribute) {  // a method need not become a value first
    ASSIGN_OR_RETURN(object, evaluate(*callee.children[0], scope));
    if (has_method(object, callee.name)) {
      ASSIGN_OR_RETURN(const Arguments arguments, evaluate_arguments(node, scope));
      run_.at_line(node.line);
      return call_method(run_, object, callee.name, arguments);
    }
    ASSIGN_OR_RETURN(function, get_attribute(run_, object, callee.name));
  } else {
    ASSIGN_OR_RETURN(function, evaluate(callee, scope));
  }
  if (function.is(ValueKind::kUndefined)) return run_.undefined_error(function);
  if (function.is(ValueKind::kObject)) {  // loop(...) of a recursive loop
    if (auto call = function.as_object().attribute("__call__")) function = std::move(*call);
  }
  if (!function.is(ValueKind::kCallable)) {
    return run_.error("TypeError", "'" + std::string(type_name(function)) + "' object is not callable");
  }
  ASSIGN_OR_RETURN(Arguments arguments, evaluate_arguments(node, scope));
  if (caller != nullptr) arguments.named.emplace_back("caller", *caller);
  run_.at_line(node.line);
  return function.as_callable().call(run_, arguments);
}

Result<Value> Renderer::evaluate_filter(const Expression& node, Value input, Scope& scope) {
  ASSIGN_OR_RETURN(const Arguments arguments, evaluate_arguments(node, scope));
  run_.at_line(node.line);
  const FilterFunction filter = find_filter(node.name);
  if (filter == nullptr) return run_.error("TemplateRuntimeError", "no filter named '" + node.name + "'");
  return filter(run_, input, arguments);
}

Result<Value> Renderer::evaluate_test(const Expression& node, Scope& scope) {
  ASSIGN_OR_RETURN(const Value input, evaluate(*node.children[0], scope));
  ASSIGN_OR_RETURN(const Arguments arguments, evaluate_arguments(node, scope));
  run_.at_line(node.line);
  const TestFunction test = find_test(node.name);
  if (test == nullptr) return run_.error("TemplateRuntimeError", "no test named '" + node.name + "'");
  ASSIGN_OR_RETURN(const bool holds, test(run_, input, arguments));
  return Value(holds);
}

}  // namespace penstock::jinja

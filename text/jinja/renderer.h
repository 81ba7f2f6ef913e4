// Walks a parsed template: statements write text, expressions give values.
//
// One Renderer for one run, on one thread. The Template, the variables and the Run outlive it.
#pragma once

#include <deque>
#include <memory>
#include <string>

#include "base/result.h"
#include "text/jinja/ast.h"
#include "text/jinja/runtime.h"
#include "text/jinja/scope.h"

namespace penstock::jinja {

class Renderer {
 public:
  Renderer(Run& run, const Dict& variables);
  Result<StringData> render(const Template& parsed);

 private:
  // How a body ended: break and continue travel up to their loop.
  enum class Flow : uint8_t { kNext, kBreak, kContinue };

  // Statements: renderer.cc
  Result<Flow> run_body(const Body& body, Scope& scope, TextBuilder& out);
  Result<Flow> run_statement(const Statement& statement, Scope& scope, TextBuilder& out);
  Result<Flow> run_if(const Statement& statement, Scope& scope, TextBuilder& out);
  Result<Flow> run_scoped(const Statement& statement, Scope& scope, TextBuilder& out);
  Result<Flow> run_for(const Statement& statement, const Value& iterable, int level, Scope& scope,
                       TextBuilder& out);
  Result<std::vector<Value>> loop_items(const Statement& statement, const Value& iterable, Scope& scope);
  Status run_set(const Statement& statement, Scope& scope);
  Status run_set_block(const Statement& statement, Scope& scope);
  Status run_filter_block(const Statement& statement, Scope& scope, TextBuilder& out);
  Status run_call_block(const Statement& statement, Scope& scope, TextBuilder& out);
  Status assign(Scope& scope, const std::vector<std::string>& targets, const Value& value);
  Result<Value> apply_filters(const std::vector<ExpressionPtr>& filters, Value value, Scope& scope);
  Result<Value> make_macro(const Statement& statement, Scope& scope);
  Result<Value> call_macro(const Statement& statement, Scope& defined_in, const Arguments& arguments);

  // Expressions: expressions.cc
  Result<Value> evaluate(const Expression& node, Scope& scope);
  Result<Value> evaluate_name(const Expression& node, Scope& scope);
  Result<Value> evaluate_dict(const Expression& node, Scope& scope);
  Result<Value> evaluate_slice(const Expression& node, Scope& scope);
  Result<Value> evaluate_compare(const Expression& node, Scope& scope);
  Result<Value> evaluate_concat(const Expression& node, Scope& scope);
  Result<Value> evaluate_call(const Expression& node, Scope& scope, const Value* caller = nullptr);
  Result<Value> evaluate_filter(const Expression& node, Value input, Scope& scope);
  Result<Value> evaluate_test(const Expression& node, Scope& scope);
  Result<Value> evaluate_unary(const Expression& node, Scope& scope);
  Result<std::vector<Value>> evaluate_all(const std::vector<ExpressionPtr>& nodes, Scope& scope,
                                          size_t first = 0);
  Result<Arguments> evaluate_arguments(const Expression& node, Scope& scope);

  // A scope inside `parent`, for as long as the guard lives or a macro needs it.
  class ScopeGuard;

  Run& run_;
  Scope globals_;    // functions of the language
  Scope variables_;  // what the caller gave; the template's own top level
  std::deque<std::unique_ptr<Scope>> captured_;
};

// range, dict, namespace, raise_exception and, where there is a clock, strftime_now.
void add_globals(Run& run, Scope& scope);

}  // namespace penstock::jinja

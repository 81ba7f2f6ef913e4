#include "text/jinja/renderer.h"

#include "text/jinja/loop.h"
#include "text/jinja/operations.h"
#include "text/jinja/printing.h"

namespace penstock::jinja {

class Renderer::ScopeGuard {
 public:
  ScopeGuard(Renderer& renderer, Scope& parent)
      : renderer_(renderer), scope_(std::make_unique<Scope>(&parent)) {}
  ~ScopeGuard() {
    if (scope_->captured()) renderer_.captured_.push_back(std::move(scope_));
  }
  ScopeGuard(const ScopeGuard&) = delete;
  ScopeGuard& operator=(const ScopeGuard&) = delete;
  Scope& operator*() { return *scope_; }
  Scope* operator->() { return scope_.get(); }

 private:
  Renderer& renderer_;
  std::unique_ptr<Scope> scope_;
};

Renderer::Renderer(Run& run, const Dict& variables) : run_(run), globals_(nullptr), variables_(&globals_) {
  add_globals(run, globals_);
  for (const auto& [name, value] : variables.entries()) {
    if (name.is(ValueKind::kString)) variables_.set(name.text(), value);
  }
}

Result<StringData> Renderer::render(const Template& parsed) {
  TextBuilder out;
  RETURN_IF_ERROR(run_body(parsed.body, variables_, out));
  return out.take();
}

Result<Renderer::Flow> Renderer::run_body(const Body& body, Scope& scope, TextBuilder& out) {
  Level level(run_);
  RETURN_IF_ERROR(level.status());
  for (const auto& statement : body) {
    ASSIGN_OR_RETURN(const Flow flow, run_statement(*statement, scope, out));
    if (flow != Flow::kNext) return flow;
  }
  return Flow::kNext;
}

Result<Renderer::Flow> Renderer::run_statement(const Statement& statement, Scope& scope, TextBuilder& out) {
  RETURN_IF_ERROR(run_.step());
  run_.at_line(statement.line);
  switch (statement.kind) {
    case StatementKind::kText:
      RETURN_IF_ERROR(append_printed(run_, statement.text, out));
      return Flow::kNext;
    case StatementKind::kOutput: {
      ASSIGN_OR_RETURN(const Value value, evaluate(*statement.expression, scope));
      RETURN_IF_ERROR(append_printed(run_, value, out));
      return Flow::kNext;
    }
    case StatementKind::kIf:
      return run_if(statement, scope, out);
    case StatementKind::kFor: {
      ASSIGN_OR_RETURN(const Value iterable, evaluate(*statement.expression, scope));
      return run_for(statement, iterable, 0, scope, out);
    }
    case StatementKind::kSet:
      RETURN_IF_ERROR(run_set(statement, scope));
      return Flow::kNext;
    case StatementKind::kSetBlock:
      RETURN_IF_ERROR(run_set_block(statement, scope));
      return Flow::kNext;
    case StatementKind::kMacro: {
      ASSIGN_OR_RETURN(Value macro, make_macro(statement, scope));
      scope.set(statement.name, std::move(macro));
      return Flow::kNext;
    }
    case StatementKind::kCallBlock:
      RETURN_IF_ERROR(run_call_block(statement, scope, out));
      return Flow::kNext;
    case StatementKind::kFilter:
      RETURN_IF_ERROR(run_filter_block(statement, scope, out));
      return Flow::kNext;
    case StatementKind::kWith:
    case StatementKind::kGeneration:
      return run_scoped(statement, scope, out);
    case StatementKind::kBreak:
      return Flow::kBreak;
    case StatementKind::kContinue:
      return Flow::kContinue;
  }
  return fail(Error::kInternal, "unknown statement");
}

Result<Renderer::Flow> Renderer::run_if(const Statement& statement, Scope& scope, TextBuilder& out) {
  for (const auto& [condition, body] : statement.branches) {
    ASSIGN_OR_RETURN(const Value value, evaluate(*condition, scope));
    if (truthy(value)) return run_body(body, scope, out);
  }
  return run_body(statement.otherwise, scope, out);
}

// with a = 1: its values see the scope outside. generation marks what a model writes, for training; here a
// scope.
Result<Renderer::Flow> Renderer::run_scoped(const Statement& statement, Scope& scope, TextBuilder& out) {
  ScopeGuard inner(*this, scope);
  for (size_t i = 0; i < statement.targets.size(); ++i) {
    ASSIGN_OR_RETURN(Value value, evaluate(*statement.defaults[i], scope));
    inner->set(statement.targets[i], std::move(value));
  }
  return run_body(statement.body, *inner, out);
}

Status Renderer::assign(Scope& scope, const std::vector<std::string>& targets, const Value& value) {
  if (targets.size() == 1) {
    scope.set(targets[0], value);
    return {};
  }
  ASSIGN_OR_RETURN(const std::vector<Value> parts, iterate(run_, value));
  if (parts.size() != targets.size()) {
    return run_.error("ValueError", "expected " + std::to_string(targets.size()) + " values to unpack, got " +
                                        std::to_string(parts.size()));
  }
  for (size_t i = 0; i < targets.size(); ++i) scope.set(targets[i], parts[i]);
  return {};
}

// The items of a loop, those that fail its condition left out: loop.length counts the rest only.
Result<std::vector<Value>> Renderer::loop_items(const Statement& statement, const Value& iterable,
                                                Scope& scope) {
  ASSIGN_OR_RETURN(std::vector<Value> items, iterate(run_, iterable));
  if (statement.condition == nullptr) return items;
  std::vector<Value> kept;
  for (Value& item : items) {
    ScopeGuard inner(*this, scope);
    RETURN_IF_ERROR(assign(*inner, statement.targets, item));
    ASSIGN_OR_RETURN(const Value passes, evaluate(*statement.condition, *inner));
    if (truthy(passes)) kept.push_back(std::move(item));
  }
  return kept;
}

// The block after else runs, as in Jinja, when no round came to its end: also when each was left by break or
// continue. It belongs to the loop outside: a break in it ends that one.
Result<Renderer::Flow> Renderer::run_for(const Statement& statement, const Value& iterable, int level,
                                         Scope& scope, TextBuilder& out) {
  Level nested(run_);
  RETURN_IF_ERROR(nested.status());
  ASSIGN_OR_RETURN(const std::vector<Value> items, loop_items(statement, iterable, scope));
  std::shared_ptr<Callable> recurse;
  if (statement.recursive) {  // loop(children): the same block over other items
    RETURN_IF_ERROR(run_.charge(scope.capture()));
    recurse = std::make_shared<Callable>();
    recurse->name = "loop";
    recurse->call = [this, &statement, level, &scope](Run& run, const Arguments& arguments) -> Result<Value> {
      if (arguments.positional.size() != 1) return run.error("TypeError", "loop() takes one argument");
      TextBuilder text;
      const auto flow = run_for(statement, arguments.positional[0], level + 1, scope, text);
      if (!flow.ok()) return flow.failure();
      return run.string(text.take());
    };
  }
  RETURN_IF_ERROR(run_.charge(sizeof(LoopObject) + items.size() * sizeof(Value)));
  auto owned = std::make_unique<LoopObject>(items, level, recurse);
  LoopObject& loop = *owned;
  const Value loop_value = run_.own(std::move(owned));
  bool finished_one = false;
  for (size_t i = 0; i < items.size(); ++i) {
    loop.move_to(i);
    ScopeGuard inner(*this, scope);
    inner->set("loop", loop_value);
    RETURN_IF_ERROR(assign(*inner, statement.targets, items[i]));
    ASSIGN_OR_RETURN(const Flow flow, run_body(statement.body, *inner, out));
    if (flow == Flow::kBreak) break;
    finished_one |= flow == Flow::kNext;
  }
  return finished_one ? Flow::kNext : run_body(statement.otherwise, scope, out);
}

Status Renderer::run_set(const Statement& statement, Scope& scope) {
  ASSIGN_OR_RETURN(const Value value, evaluate(*statement.expression, scope));
  if (statement.attribute.empty()) return assign(scope, statement.targets, value);
  const Value* target = scope.find(statement.targets[0]);
  const bool is_object = target != nullptr && target->is(ValueKind::kObject);
  RETURN_IF_ERROR(run_.charge(sizeof(Value)));
  if (!is_object || !target->as_object().set_attribute(statement.attribute, value)) {
    return run_.error("TemplateRuntimeError", "cannot assign attribute on non-namespace object");
  }
  return {};
}

Result<Value> Renderer::apply_filters(const std::vector<ExpressionPtr>& filters, Value value, Scope& scope) {
  for (const ExpressionPtr& filter : filters) {
    ASSIGN_OR_RETURN(value, evaluate_filter(*filter, std::move(value), scope));
  }
  return value;
}

Status Renderer::run_set_block(const Statement& statement, Scope& scope) {
  TextBuilder text;
  {
    ScopeGuard inner(*this, scope);
    RETURN_IF_ERROR(run_body(statement.body, *inner, text));
  }
  ASSIGN_OR_RETURN(Value value, run_.string(text.take()));
  ASSIGN_OR_RETURN(value, apply_filters(statement.filters, std::move(value), scope));
  scope.set(statement.targets[0], std::move(value));
  return {};
}

Status Renderer::run_filter_block(const Statement& statement, Scope& scope, TextBuilder& out) {
  TextBuilder text;
  {
    ScopeGuard inner(*this, scope);
    RETURN_IF_ERROR(run_body(statement.body, *inner, text));
  }
  ASSIGN_OR_RETURN(Value value, run_.string(text.take()));
  ASSIGN_OR_RETURN(value, apply_filters(statement.filters, std::move(value), scope));
  return append_printed(run_, value, out);
}

Result<Value> Renderer::make_macro(const Statement& statement, Scope& scope) {
  RETURN_IF_ERROR(run_.charge(scope.capture() + sizeof(Callable)));
  auto macro = std::make_shared<Callable>();
  macro->name = statement.name;
  macro->call = [this, &statement, &scope](Run&, const Arguments& arguments) {
    return call_macro(statement, scope, arguments);
  };
  return Value(std::shared_ptr<const Callable>(std::move(macro)));
}

Result<Value> Renderer::call_macro(const Statement& statement, Scope& defined_in,
                                   const Arguments& arguments) {
  ScopeGuard inner(*this, defined_in);
  const std::string name = statement.name.empty() ? "caller" : statement.name;
  if (arguments.positional.size() > statement.targets.size()) {
    return run_.error("TypeError", "macro '" + name + "' takes not more than " +
                                       std::to_string(statement.targets.size()) + " argument(s)");
  }
  std::vector<bool> given(statement.targets.size(), false);
  for (size_t i = 0; i < arguments.positional.size(); ++i) {
    inner->set(statement.targets[i], arguments.positional[i]);
    given[i] = true;
  }
  for (const auto& [key, value] : arguments.named) {
    size_t i = 0;
    while (i < statement.targets.size() && statement.targets[i] != key) ++i;
    if (i == statement.targets.size() && key != "caller") {
      return run_.error("TypeError", "macro '" + name + "' takes no keyword argument '" + key + "'");
    }
    if (i < given.size() && given[i]) {
      return run_.error("TypeError", "macro '" + name + "' got argument '" + key + "' twice");
    }
    inner->set(key, value);
    if (i < given.size()) given[i] = true;
  }
  for (size_t i = 0; i < statement.targets.size(); ++i) {  // defaults may use the parameters before
    if (given[i]) continue;
    Value value = Value::undefined("parameter '" + statement.targets[i] + "' was not provided");
    if (statement.defaults[i] != nullptr) {
      ASSIGN_OR_RETURN(value, evaluate(*statement.defaults[i], *inner));
    }
    inner->set(statement.targets[i], std::move(value));
  }
  TextBuilder text;
  RETURN_IF_ERROR(run_body(statement.body, *inner, text));
  return run_.string(text.take());
}

Status Renderer::run_call_block(const Statement& statement, Scope& scope, TextBuilder& out) {
  ASSIGN_OR_RETURN(const Value caller, make_macro(statement, scope));
  ASSIGN_OR_RETURN(const Value value, evaluate_call(*statement.expression, scope, &caller));
  return append_printed(run_, value, out);
}

}  // namespace penstock::jinja

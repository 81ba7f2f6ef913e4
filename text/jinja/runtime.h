// One rendering of a template: its limits, the objects it owns, and how failures are reported.
//
// A Run lives for one render() on one thread. Every value that a template makes is made through it, so that a
// hostile template meets a limit before it meets the machine's.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "text/jinja/text_builder.h"
#include "text/jinja/value.h"
#include "text/render_options.h"

namespace penstock::jinja {

class Run;

inline constexpr int kValueDepthMax = 256;  // lists and dicts within each other

struct Arguments {
  std::vector<Value> positional;
  std::vector<std::pair<std::string, Value>> named;
};

struct Callable {
  std::string name;
  std::function<Result<Value>(Run&, const Arguments&)> call;
  int depth = 0;  // of the value it holds, if any
};

// namespace(), loop: looked up by attribute, owned by the Run, so that they may refer to each other in
// circles.
class Object {
 public:
  virtual ~Object() = default;
  virtual std::optional<Value> attribute(std::string_view name) const = 0;
  // False: this kind cannot be assigned to.
  virtual bool set_attribute(const std::string&, const Value&) { return false; }
  virtual std::string_view type_name() const = 0;
};

class Run {
 public:
  explicit Run(const RenderOptions& options) : options_(options) {}
  Run(const Run&) = delete;
  Run& operator=(const Run&) = delete;

  const RenderOptions& options() const { return options_; }

  // kResourceExhausted when a limit is reached. Charge before making what may be large.
  Status step(size_t steps = 1);
  Status charge(size_t bytes);
  Status enter();  // one level deeper; leave() undoes it
  void leave() { --depth_; }

  Result<Value> string(StringData data);
  Result<Value> string(std::string text, Origin origin) {
    return string(Value::string(std::move(text), origin).as_string());
  }
  Result<Value> list(std::vector<Value> items, ListKind kind = ListKind::kList);
  Result<Value> dict(Dict dict);
  Value own(std::unique_ptr<Object> object);

  // "TypeError: message", with the kinds of Python.
  Failure error(std::string_view kind, std::string_view message) const;
  Failure undefined_error(const Value& undefined) const;
  // raise_exception(): the message goes out as it stands.
  Failure raise(std::string message);
  bool raised() const { return raised_; }

  // The line being evaluated, for messages.
  void at_line(int line) { line_ = line; }
  int line() const { return line_; }

 private:
  const RenderOptions& options_;
  int64_t steps_ = 0, bytes_ = 0;
  int depth_ = 0, line_ = 0;
  bool raised_ = false;
  std::vector<std::unique_ptr<Object>> objects_;
};

// enter() and leave() by scope: `Level level(run); RETURN_IF_ERROR(level.status());`
class Level {
 public:
  explicit Level(Run& run) : run_(run), status_(run.enter()) {}
  ~Level() { run_.leave(); }
  Level(const Level&) = delete;
  Level& operator=(const Level&) = delete;
  const Status& status() const { return status_; }

 private:
  Run& run_;
  Status status_;
};

// The arguments of one call by parameter; null where none was given.
class Bound {
 public:
  const Value* operator[](size_t index) const { return values_[index]; }
  bool has(size_t index) const { return values_[index] != nullptr && !values_[index]->is(ValueKind::kNone); }

 private:
  friend Result<Bound> bind(Run&, std::string_view, const Arguments&,
                            std::initializer_list<std::string_view>);
  static constexpr size_t kMax = 5;
  const Value* values_[kMax] = {};
};

// TypeError for too many arguments, an unknown name, or a repeated one. Bound points into `arguments`.
Result<Bound> bind(Run& run, std::string_view function, const Arguments& arguments,
                   std::initializer_list<std::string_view> parameters);

// Reads one argument as a kind; the default where it was not given. TypeError names function and parameter.
Result<int64_t> int_argument(Run& run, const Bound& bound, size_t index, std::string_view function,
                             int64_t otherwise);
Result<std::string> text_argument(Run& run, const Bound& bound, size_t index, std::string_view function,
                                  std::string_view otherwise);

}  // namespace penstock::jinja

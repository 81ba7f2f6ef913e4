// Result<T>: the value, or why there is none. No exception crosses a room.
//
// A message names what was wrong, where, and what to do about it; callers add the place they know
// with `with_context`. Result<void> is Status.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

#include "base/check.h"

namespace penstock {

// The one error enum. Codes are what a caller can act on; the message is for people.
enum class Error : int {
  kInvalidArgument,    // the caller or the user gave something that can never work
  kNotFound,           // a file, key, peer or request that is not there
  kCorrupt,            // data that contradicts itself or its digest
  kUnsupported,        // well-formed, but beyond what this build can do
  kIncompatible,       // two parties that cannot work together: model, layout, version, settings
  kResourceExhausted,  // memory, blocks, queue places, file descriptors
  kUnavailable,        // a peer or service that is not reachable now; retrying later may help
  kDeadlineExceeded,   // took longer than it was given
  kCancelled,          // ended on request
  kStaleEpoch,         // a message of an earlier life of a transfer or request
  kIo,                 // the operating system refused a read, write or socket call
  kInternal,           // a library failed in a way it should not
};

[[nodiscard]] std::string_view error_name(Error code);

struct Failure {
  Error code = Error::kInternal;
  std::string message;
};

[[nodiscard]] inline Failure fail(Error code, std::string message) { return {code, std::move(message)}; }

template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}  // NOLINT: implicit by design
  Result(Failure failure) : state_(std::in_place_index<1>, std::move(failure)) {}  // NOLINT

  bool ok() const { return state_.index() == 0; }
  explicit operator bool() const { return ok(); }

  T& value() & { return check_ok(), std::get<0>(state_); }
  const T& value() const& { return check_ok(), std::get<0>(state_); }
  T&& value() && { return check_ok(), std::get<0>(std::move(state_)); }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T&& operator*() && { return std::move(*this).value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }

  const Failure& failure() const {
    CHECK(!ok());
    return std::get<1>(state_);
  }
  Error code() const { return failure().code; }
  const std::string& message() const { return failure().message; }

  // The same failure with "where: " in front; a value passes untouched.
  Result with_context(std::string_view where) && {
    if (!ok()) std::get<1>(state_).message.insert(0, std::string(where) + ": ");
    return std::move(*this);
  }

 private:
  void check_ok() const {
    if (!ok()) [[unlikely]]
      check_failed(__FILE__, __LINE__, "Result::ok()", std::get<1>(state_).message);
  }
  std::variant<T, Failure> state_;
};

template <>
class [[nodiscard]] Result<void> {
 public:
  Result() = default;
  Result(Failure failure) : failure_(std::move(failure)) {}  // NOLINT: implicit by design

  bool ok() const { return !failure_.has_value(); }
  explicit operator bool() const { return ok(); }
  const Failure& failure() const {
    CHECK(!ok());
    return *failure_;
  }
  Error code() const { return failure().code; }
  const std::string& message() const { return failure().message; }
  Result with_context(std::string_view where) && {
    if (!ok()) failure_->message.insert(0, std::string(where) + ": ");
    return std::move(*this);
  }

 private:
  std::optional<Failure> failure_;
};

using Status = Result<void>;

}  // namespace penstock

#define PENSTOCK_CONCAT_INNER(a, b) a##b
#define PENSTOCK_CONCAT(a, b) PENSTOCK_CONCAT_INNER(a, b)

// ASSIGN_OR_RETURN(auto x, call()); returns the failure, else declares x.
#define ASSIGN_OR_RETURN(declaration, expression) \
  PENSTOCK_ASSIGN_OR_RETURN_INNER(PENSTOCK_CONCAT(result_, __LINE__), declaration, expression)
#define PENSTOCK_ASSIGN_OR_RETURN_INNER(temporary, declaration, expression) \
  auto temporary = (expression);                                            \
  if (!temporary.ok()) return temporary.failure();                          \
  declaration = std::move(temporary).value()

// RETURN_IF_ERROR(call()); returns the failure, else goes on.
#define RETURN_IF_ERROR(expression)                              \
  do {                                                           \
    if (auto status_ = (expression); !status_.ok()) [[unlikely]] \
      return status_.failure();                                  \
  } while (0)

// Time as the schedulers see it: microseconds on a monotonic clock, real or virtual.
#pragma once

#include <chrono>
#include <compare>
#include <cstdint>
#include <limits>
#include <ostream>

namespace penstock {

struct Duration {
  int64_t us = 0;
  static constexpr Duration from_ms(int64_t ms) { return {ms * 1000}; }
  static constexpr Duration from_seconds(double s) { return {static_cast<int64_t>(s * 1e6)}; }
  constexpr double seconds() const { return static_cast<double>(us) * 1e-6; }
  constexpr double ms() const { return static_cast<double>(us) * 1e-3; }
  constexpr std::chrono::microseconds chrono() const { return std::chrono::microseconds(us); }
  friend constexpr auto operator<=>(Duration, Duration) = default;
  friend constexpr Duration operator+(Duration a, Duration b) { return {a.us + b.us}; }
  friend constexpr Duration operator-(Duration a, Duration b) { return {a.us - b.us}; }
  friend constexpr Duration operator*(Duration a, int64_t n) { return {a.us * n}; }
  friend std::ostream& operator<<(std::ostream& out, Duration d) { return out << d.us << "us"; }
};

struct TimePoint {
  int64_t us = 0;  // since an origin that only the clock knows
  static constexpr TimePoint max() { return {std::numeric_limits<int64_t>::max()}; }
  friend constexpr auto operator<=>(TimePoint, TimePoint) = default;
  friend constexpr TimePoint operator+(TimePoint t, Duration d) { return {t.us + d.us}; }
  friend constexpr TimePoint operator-(TimePoint t, Duration d) { return {t.us - d.us}; }
  friend constexpr Duration operator-(TimePoint a, TimePoint b) { return {a.us - b.us}; }
  friend std::ostream& operator<<(std::ostream& out, TimePoint t) { return out << t.us << "us"; }
};

// Passed in, never global. Thread-safe.
class Clock {
 public:
  virtual ~Clock() = default;
  virtual TimePoint now() const = 0;
};

// CLOCK_MONOTONIC.
class SystemClock final : public Clock {
 public:
  TimePoint now() const override {
    const auto since = std::chrono::steady_clock::now().time_since_epoch();
    return {std::chrono::duration_cast<std::chrono::microseconds>(since).count()};
  }
};

// Stands still until moved; for tests and the simulator. Not thread-safe.
class ManualClock final : public Clock {
 public:
  TimePoint now() const override { return now_; }
  void advance(Duration d) { now_ = now_ + d; }
  void set(TimePoint t) { now_ = t; }

 private:
  TimePoint now_;
};

}  // namespace penstock

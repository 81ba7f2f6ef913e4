// Counters, gauges and histograms without a dependency, and their Prometheus text form.
//
// A Registry belongs to one process driver and is passed in. Instruments live as long as it and are
// thread-safe: updates are relaxed atomics, rendering takes a lock only against registration.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace penstock {

using Labels =
    std::vector<std::pair<std::string, std::string>>;  // (name, value); values are escaped on output

class Counter {
 public:
  void add(double amount = 1) { value_.fetch_add(amount, std::memory_order_relaxed); }
  double value() const { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<double> value_{0};
};

class Gauge {
 public:
  void set(double value) { value_.store(value, std::memory_order_relaxed); }
  void add(double amount) { value_.fetch_add(amount, std::memory_order_relaxed); }
  double value() const { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<double> value_{0};
};

class Histogram {
 public:
  explicit Histogram(std::vector<double> bounds);  // upper bounds, ascending; +Inf is implied
  void observe(double value);
  uint64_t count() const { return count_.load(std::memory_order_relaxed); }
  double sum() const { return sum_.load(std::memory_order_relaxed); }
  const std::vector<double>& bounds() const { return bounds_; }
  // Observations at or below bounds()[i]; i == bounds().size() gives all.
  uint64_t cumulative(size_t i) const;

 private:
  std::vector<double> bounds_;
  std::vector<std::atomic<uint64_t>> buckets_;
  std::atomic<uint64_t> count_{0};
  std::atomic<double> sum_{0};
};

class Registry {
 public:
  // The same name and labels give the same instrument. The help text of the first call counts.
  Counter& counter(const std::string& name, const std::string& help, const Labels& labels = {});
  Gauge& gauge(const std::string& name, const std::string& help, const Labels& labels = {});
  Histogram& histogram(const std::string& name, const std::string& help, const std::vector<double>& bounds,
                       const Labels& labels = {});
  // Prometheus exposition format 0.0.4, families in order of registration.
  std::string render() const;

 private:
  struct Instrument {
    std::string labels;  // rendered: a="b",c="d"
    std::unique_ptr<Counter> counter;
    std::unique_ptr<Gauge> gauge;
    std::unique_ptr<Histogram> histogram;
  };
  struct Family {
    std::string name, help, type;
    std::vector<std::unique_ptr<Instrument>> instruments;
  };
  Instrument& find_or_add(const std::string& name, const std::string& help, const char* type,
                          const Labels& labels);

  mutable std::mutex mutex_;
  std::vector<std::unique_ptr<Family>> families_;
};

}  // namespace penstock

#include "base/counters.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "base/check.h"

namespace penstock {
namespace {

std::string render_labels(const Labels& labels) {
  std::string out;
  for (const auto& [name, value] : labels) {
    if (!out.empty()) out += ',';
    out += name + "=\"";
    for (const char c : value) {
      if (c == '\\' || c == '"') out += '\\';
      if (c == '\n') {
        out += "\\n";
      } else {
        out += c;
      }
    }
    out += '"';
  }
  return out;
}

std::string number(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "+Inf" : "-Inf";
  char text[40];
  std::snprintf(text, sizeof(text), "%.15g", value);
  return text;
}

void sample(std::string& out, const std::string& name, const std::string& labels, double value) {
  out += name;
  if (!labels.empty()) out += '{' + labels + '}';
  out += ' ' + number(value) + '\n';
}

void render_histogram(std::string& out, const std::string& name, const std::string& labels,
                      const Histogram& h) {
  const std::string prefix = labels.empty() ? "" : labels + ',';
  for (size_t i = 0; i <= h.bounds().size(); ++i) {
    const double bound = i < h.bounds().size() ? h.bounds()[i] : INFINITY;
    sample(out, name + "_bucket", prefix + "le=\"" + number(bound) + '"',
           static_cast<double>(h.cumulative(i)));
  }
  sample(out, name + "_sum", labels, h.sum());
  sample(out, name + "_count", labels, static_cast<double>(h.count()));
}

}  // namespace

Histogram::Histogram(std::vector<double> bounds) : bounds_(std::move(bounds)), buckets_(bounds_.size() + 1) {
  CHECK(std::is_sorted(bounds_.begin(), bounds_.end()));
}

void Histogram::observe(double value) {
  const auto at = std::lower_bound(bounds_.begin(), bounds_.end(), value) - bounds_.begin();
  buckets_[static_cast<size_t>(at)].fetch_add(1, std::memory_order_relaxed);
  count_.fetch_add(1, std::memory_order_relaxed);
  sum_.fetch_add(value, std::memory_order_relaxed);
}

uint64_t Histogram::cumulative(size_t i) const {
  uint64_t total = 0;
  for (size_t k = 0; k <= i; ++k) total += buckets_[k].load(std::memory_order_relaxed);
  return total;
}

Registry::Instrument& Registry::find_or_add(const std::string& name, const std::string& help,
                                            const char* type, const Labels& labels) {
  auto family =
      std::find_if(families_.begin(), families_.end(), [&](const auto& f) { return f->name == name; });
  if (family == families_.end()) {
    family = families_.insert(family, std::make_unique<Family>(Family{name, help, type, {}}));
  }
  Family& target = **family;
  CHECK_EQ(target.type, std::string(type));
  std::string rendered = render_labels(labels);
  for (const auto& instrument : target.instruments) {
    if (instrument->labels == rendered) return *instrument;
  }
  target.instruments.push_back(std::make_unique<Instrument>());
  target.instruments.back()->labels = std::move(rendered);
  return *target.instruments.back();
}

Counter& Registry::counter(const std::string& name, const std::string& help, const Labels& labels) {
  const std::lock_guard lock(mutex_);
  Instrument& i = find_or_add(name, help, "counter", labels);
  if (i.counter == nullptr) i.counter = std::make_unique<Counter>();
  return *i.counter;
}

Gauge& Registry::gauge(const std::string& name, const std::string& help, const Labels& labels) {
  const std::lock_guard lock(mutex_);
  Instrument& i = find_or_add(name, help, "gauge", labels);
  if (i.gauge == nullptr) i.gauge = std::make_unique<Gauge>();
  return *i.gauge;
}

Histogram& Registry::histogram(const std::string& name, const std::string& help,
                               const std::vector<double>& bounds, const Labels& labels) {
  const std::lock_guard lock(mutex_);
  Instrument& i = find_or_add(name, help, "histogram", labels);
  if (i.histogram == nullptr) i.histogram = std::make_unique<Histogram>(bounds);
  return *i.histogram;
}

std::string Registry::render() const {
  const std::lock_guard lock(mutex_);
  std::string out;
  for (const auto& family : families_) {
    out += "# HELP " + family->name + ' ' + family->help + "\n# TYPE " + family->name + ' ' + family->type +
           '\n';
    for (const auto& i : family->instruments) {
      if (i->counter != nullptr) sample(out, family->name, i->labels, i->counter->value());
      if (i->gauge != nullptr) sample(out, family->name, i->labels, i->gauge->value());
      if (i->histogram != nullptr) render_histogram(out, family->name, i->labels, *i->histogram);
    }
  }
  return out;
}

}  // namespace penstock

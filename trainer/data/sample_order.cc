#include "trainer/data/sample_order.h"

#include <cmath>

#include "base/check.h"
#include "base/rng.h"

namespace penstock::trainer {

Result<SampleOrder> SampleOrder::make(uint64_t seed, std::vector<SampleSource> sources) {
  if (sources.empty()) return fail(Error::kInvalidArgument, "data: no source: name at least one");
  for (const SampleSource& source : sources) {
    if (source.sequences < 1)
      return fail(Error::kInvalidArgument, "data: source " + source.name + " holds no whole sequence");
    if (!(source.weight > 0) || !std::isfinite(source.weight))
      return fail(Error::kInvalidArgument,
                  "data: the weight of source " + source.name + " needs a positive number");
  }
  return SampleOrder(seed, std::move(sources));
}

SampleOrder::SampleOrder(uint64_t seed, std::vector<SampleSource> sources)
    : seed_(seed), sources_(std::move(sources)), taken_(sources_.size(), 0) {
  double total = 0;
  for (const SampleSource& source : sources_) total += source.weight;
  for (const SampleSource& source : sources_) shares_.push_back(source.weight / total);
}

// The source that is furthest behind its share; the first of equals.
int SampleOrder::pick() const {
  size_t best = 0;
  double most = -INFINITY;
  for (size_t s = 0; s < shares_.size(); ++s) {
    const double behind = shares_[s] * static_cast<double>(position_ + 1) - static_cast<double>(taken_[s]);
    if (behind > most) {
      most = behind;
      best = s;
    }
  }
  return static_cast<int>(best);
}

Sample SampleOrder::sample_of(int source) const {
  const auto s = static_cast<size_t>(source);
  const int64_t sequences = sources_[s].sequences, epoch = taken_[s] / sequences;
  const uint64_t key =
      mix64(mix64(seed_ ^ mix64(static_cast<uint64_t>(source))) + static_cast<uint64_t>(epoch));
  const Permutation order(key, static_cast<uint64_t>(sequences));
  return {position_, source, epoch,
          static_cast<int64_t>(order(static_cast<uint64_t>(taken_[s] % sequences)))};
}

Sample SampleOrder::next() {
  const int source = pick();
  const Sample sample = sample_of(source);
  ++taken_[static_cast<size_t>(source)];
  ++position_;
  return sample;
}

void SampleOrder::seek(int64_t index) {
  CHECK_GE(index, 0);
  if (index < position_) {
    position_ = 0;
    taken_.assign(taken_.size(), 0);
  }
  if (sources_.size() == 1) {
    position_ = taken_[0] = index;
    return;
  }
  for (; position_ < index; ++position_) ++taken_[static_cast<size_t>(pick())];
}

}  // namespace penstock::trainer

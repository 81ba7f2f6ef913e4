// The one global order in which a run sees its data.
//
// Sample i of the run is the same for any DP size, micro-batch size, worker count and restart: batch b holds
// samples [b * batch_size, (b + 1) * batch_size), and how ranks share them out changes nothing. Sources are
// mixed so that after any number of samples each has had its weight's share to within one sample (two or more
// sources: to within the number of sources). Within a source every sequence is seen once an epoch, in an
// order of that epoch's own. Pure; owned by one thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "trainer/data/permutation.h"

namespace penstock::trainer {

struct SampleSource {
  std::string name;
  int64_t sequences = 0;
  double weight = 1;  // relative
};

struct Sample {
  int64_t index = 0;  // of the run
  int source = 0;
  int64_t epoch = 0;     // of the source
  int64_t sequence = 0;  // within the source
  friend bool operator==(const Sample&, const Sample&) = default;
};

class SampleOrder {
 public:
  // kInvalidArgument names the source that is empty or whose weight is not a positive number.
  static Result<SampleOrder> make(uint64_t seed, std::vector<SampleSource> sources);

  Sample next();
  // The next sample will be `index`. Counts from the start when going back: about 10 ns a sample and source.
  void seek(int64_t index);
  int64_t position() const { return position_; }
  const std::vector<SampleSource>& sources() const { return sources_; }

 private:
  SampleOrder(uint64_t seed, std::vector<SampleSource> sources);
  int pick() const;
  Sample sample_of(int source) const;

  uint64_t seed_;
  std::vector<SampleSource> sources_;
  std::vector<double> shares_;  // weights that sum to 1
  std::vector<int64_t> taken_;  // samples of each source before position_
  int64_t position_ = 0;
};

}  // namespace penstock::trainer

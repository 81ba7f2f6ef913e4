// The lane probe: when it warns, and that every probe that started ends in one result.
#include "fabric/lane_probe.h"

#include <gtest/gtest.h>

#include "fabric/transport_memory.h"

namespace penstock {
namespace {

bool holds(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

TEST(SlowLaneWarning, SharedMemoryIsComparedWithMemcpy) {
  const LaneReport lanes{"posix", "posix", true};
  EXPECT_EQ(slow_lane_warning(lanes, 7.2, 7.3), "");
  EXPECT_EQ(slow_lane_warning(lanes, 4.5, 7.3), "");  // a busy machine is no lost setting
  const std::string text = slow_lane_warning(lanes, 1.4, 7.3);
  EXPECT_TRUE(holds(text, "puts over \"posix\" reach 1.4 GB/s, memcpy 7.3 GB/s")) << text;
  EXPECT_TRUE(holds(text, "UCX_MM_ERROR_HANDLING=y")) << text;
}

TEST(SlowLaneWarning, NetworkHasAFloorOfItsOwn) {
  const LaneReport lanes{"tcp", "tcp", false};
  EXPECT_EQ(slow_lane_warning(lanes, 2.5, 7.3), "");
  const std::string text = slow_lane_warning(lanes, 0.2, 7.3);
  EXPECT_TRUE(holds(text, "puts over \"tcp\" reach 0.2 GB/s")) << text;
  EXPECT_TRUE(holds(text, "UCX_TCP_TX_SEG_SIZE")) << text;
}

TEST(SlowLaneWarning, UnknownLanesAreSaidToBeUnknown) {
  EXPECT_TRUE(holds(slow_lane_warning({}, 0.1, 7), "puts over \"unknown\""));
}

class ProbePair : public testing::Test {
 protected:
  void make(const MemoryNetworkOptions& options = {}) {
    network_ = std::make_unique<MemoryNetwork>(options);
    here_ = network_->make_transport();
    there_ = network_->make_transport();
    target_ = *there_->allocate(LaneProbe::kBytes);
    peer_ = *here_->connect(there_->address());
    static_cast<void>(*there_->connect(here_->address()));
    LocalMemory local = *here_->allocate(LaneProbe::kBytes);
    for (size_t i = 0; i < local.bytes; i += 4096) local.base[i] = std::byte{0x5a};
    probe_ = std::make_unique<LaneProbe>(*here_, clock_, local);
  }
  ~ProbePair() override {
    if (network_ == nullptr) return;
    probe_.reset();
    here_.reset();
    there_.reset();
  }
  // Each delivery takes `delivery`.
  void run(Duration delivery) {
    while (network_->deliver()) {
      clock_.advance(delivery);
      while (here_->progress()) {
      }
    }
    while (here_->progress()) {
    }
  }

  ManualClock clock_;
  std::unique_ptr<MemoryNetwork> network_;
  std::unique_ptr<Transport> here_, there_;
  LocalMemory target_;
  PeerId peer_;
  std::unique_ptr<LaneProbe> probe_;
};

TEST_F(ProbePair, MeasuresFirstPostToFlushComplete) {
  make({.network_lanes = true});
  ASSERT_TRUE(probe_->start(peer_, target_.descriptor()).ok());
  EXPECT_TRUE(probe_->take_results().empty());
  run(Duration{1000});  // eight puts of 1 MiB, 1 ms each: 1 GB/s
  const std::vector<LaneProbeResult> results = probe_->take_results();
  ASSERT_EQ(results.size(), 1u);
  EXPECT_EQ(results[0].peer, peer_);
  EXPECT_TRUE(results[0].status.ok());
  EXPECT_NEAR(results[0].put_gbps, 1.05, 0.01);
  EXPECT_EQ(results[0].lanes.put, "memory");
  EXPECT_EQ(results[0].warning, "");
  EXPECT_EQ(target_.base[4096], std::byte{0x5a});
  EXPECT_TRUE(probe_->take_results().empty());
}

TEST_F(ProbePair, SlowLaneWarns) {
  make({.network_lanes = true});
  ASSERT_TRUE(probe_->start(peer_, target_.descriptor()).ok());
  run(Duration{100000});
  const std::vector<LaneProbeResult> results = probe_->take_results();
  ASSERT_EQ(results.size(), 1u);
  EXPECT_TRUE(holds(results[0].warning, "slow KV lane")) << results[0].warning;
}

TEST_F(ProbePair, OneProbeOfAPeerAtATimeAndAgainAfterwards) {
  make();
  ASSERT_TRUE(probe_->start(peer_, target_.descriptor()).ok());
  const Status second = probe_->start(peer_, target_.descriptor());
  ASSERT_FALSE(second.ok());
  EXPECT_EQ(second.code(), Error::kInvalidArgument);
  run(Duration{10});
  ASSERT_TRUE(probe_->start(peer_, target_.descriptor()).ok());
  run(Duration{10});
  EXPECT_EQ(probe_->take_results().size(), 2u);
}

TEST_F(ProbePair, TooSmallTargetIsRefused) {
  make();
  MemoryDescriptor small = target_.descriptor();
  small.bytes -= 1;
  const Status status = probe_->start(peer_, small);
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.code(), Error::kInvalidArgument);
  EXPECT_EQ(network_->in_flight(), 0u);
}

TEST_F(ProbePair, PeerThatDiesEndsTheProbeWithItsError) {
  make();
  ASSERT_TRUE(probe_->start(peer_, target_.descriptor()).ok());
  network_->deliver();
  network_->kill(there_->address().identity.instance);
  run(Duration{10});
  const std::vector<LaneProbeResult> results = probe_->take_results();
  ASSERT_EQ(results.size(), 1u);
  ASSERT_FALSE(results[0].status.ok());
  EXPECT_EQ(results[0].status.code(), Error::kUnavailable);
  EXPECT_EQ(results[0].put_gbps, 0);
  const Status again = probe_->start(peer_, target_.descriptor());
  ASSERT_FALSE(again.ok());
  EXPECT_EQ(again.code(), Error::kUnavailable);
}

TEST_F(ProbePair, LaneInErrorEndsTheProbe) {
  make({.fail_put = 0.2, .network_lanes = true});
  ASSERT_TRUE(probe_->start(peer_, target_.descriptor()).ok());
  run(Duration{10});
  const std::vector<LaneProbeResult> results = probe_->take_results();
  ASSERT_EQ(results.size(), 1u);
  EXPECT_FALSE(results[0].status.ok());
}

}  // namespace
}  // namespace penstock

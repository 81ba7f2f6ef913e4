#include "sim/replay.h"

#include <gtest/gtest.h>

#include "base/rng.h"
#include "scheduler/cluster/cluster_record.h"
#include "sim/simulate.h"

namespace penstock::sim {
namespace {

using scheduler::RecordReader;
using scheduler::TimedEvent;

std::vector<uint8_t> record_of(uint64_t seed) {
  std::vector<uint8_t> record;
  EXPECT_FALSE(run_seed(seed, &record).violation.has_value());
  return record;
}

TEST(Replay, ARecordReplaysToTheSameHash) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE(seed);
    std::vector<uint8_t> record;
    const WorldReport run = run_seed(seed, &record);
    const auto replay = replay_record(record);
    ASSERT_TRUE(replay.ok()) << replay.message();
    EXPECT_EQ(replay->difference, "");
    EXPECT_EQ(replay->action_hash, run.action_hash);
    EXPECT_GT(replay->events, 1000u);
    EXPECT_EQ(replay->checked, replay->events);
  }
}

// The record again, with one event changed and the digests made anew: the file is sound, the run is not.
std::vector<uint8_t> with_event_changed(const std::vector<uint8_t>& record, uint64_t which, size_t& offset) {
  RecordReader reader(record);
  std::vector<uint8_t> out;
  scheduler::encode_record_header(reader.read_header().value(), out);
  uint64_t digest = scheduler::fold_bytes(0, out), number = 0;
  while (!reader.at_end()) {
    auto item = reader.read_item().value();
    if (auto* mark = std::get_if<scheduler::RecordMark>(&item)) {
      mark->digest = digest = scheduler::fold_hash(digest, mark->action_hash);
      scheduler::encode_mark(*mark, out);
      continue;
    }
    auto& timed = std::get<TimedEvent>(item);
    const size_t start = out.size();
    if (++number == which) {
      offset = start;
      std::get<scheduler::TokenArrived>(timed.event).token ^= 1;
    }
    scheduler::encode_event(timed.now, timed.event, out);
    digest = scheduler::fold_bytes(digest, std::span<const uint8_t>(out).subspan(start));
  }
  return out;
}

TEST(Replay, TheFirstEventThatGoesAnotherWayIsNamed) {
  const std::vector<uint8_t> record = record_of(3);
  // Some token in the middle that is delivered at once: the event before a mark.
  RecordReader reader(record);
  ASSERT_TRUE(reader.read_header().ok());
  uint64_t number = 0, which = 0;
  bool last_is_token = false;
  while (!reader.at_end() && which == 0) {
    const auto item = reader.read_item().value();
    if (const auto* timed = std::get_if<TimedEvent>(&item)) {
      last_is_token = std::holds_alternative<scheduler::TokenArrived>(timed->event);
      ++number;
    } else if (last_is_token && number > 500) {
      which = number;
    }
  }
  ASSERT_GT(which, 0u);
  size_t offset = 0;
  const auto replay = replay_record(with_event_changed(record, which, offset));
  ASSERT_TRUE(replay.ok()) << replay.message();
  EXPECT_EQ(
      replay->difference.rfind("event " + std::to_string(which) + " at byte " + std::to_string(offset), 0),
      0u)
      << replay->difference;
  EXPECT_NE(replay->difference.find("TokenArrived sequence="), std::string::npos) << replay->difference;
  EXPECT_NE(replay->difference.find("now Deliver sequence="), std::string::npos) << replay->difference;
  EXPECT_EQ(replay->events, which) << "nothing is replayed beyond it";
}

TEST(Replay, AnEmptyOrForeignFileIsCorrupt) {
  EXPECT_EQ(replay_record({}).code(), Error::kCorrupt);
  const std::vector<uint8_t> other(100, 'x');
  EXPECT_EQ(replay_record(other).code(), Error::kCorrupt);
}

// Wherever the writer was killed: the whole events before the cut replay, and the cut is named.
TEST(Replay, ATruncatedRecordIsReplayedUpToTheCut) {
  const std::vector<uint8_t> record = record_of(5);
  Rng rng(1);
  int cut_inside = 0;
  for (int i = 0; i < 60; ++i) {
    const size_t size = 100 + rng.below(record.size() - 100);
    const auto replay = replay_record(std::span<const uint8_t>(record).first(size));
    if (replay.ok()) {
      EXPECT_EQ(replay->difference, "");
      continue;
    }
    ++cut_inside;
    EXPECT_EQ(replay.code(), Error::kCorrupt);
    EXPECT_NE(replay.message().find("truncated event at byte "), std::string::npos) << replay.message();
    EXPECT_NE(replay.message().find(" cause the recorded actions"), std::string::npos) << replay.message();
  }
  EXPECT_GT(cut_inside, 30);
}

// Every flipped bit is found: as damage, with its place, and never as another decision of the scheduler.
TEST(Replay, AFlippedBitIsDamageWithAnOffset) {
  const std::vector<uint8_t> record = record_of(5);
  Rng rng(2);
  for (int i = 0; i < 200; ++i) {
    std::vector<uint8_t> damaged = record;
    const size_t at = rng.below(damaged.size());
    damaged[at] ^= static_cast<uint8_t>(1u << rng.below(8));
    const auto replay = replay_record(damaged);
    ASSERT_FALSE(replay.ok()) << "byte " << at;
    EXPECT_EQ(replay.code(), Error::kCorrupt);
    EXPECT_NE(replay.message().find("at byte "), std::string::npos) << replay.message();
  }
}

}  // namespace
}  // namespace penstock::sim

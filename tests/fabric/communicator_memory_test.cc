// Every operation over ranks that are threads, and the ways in which ranks disappoint each other.
#include "fabric/communicator_memory.h"

#include <gtest/gtest.h>

#include <functional>
#include <numeric>
#include <thread>

#include "fabric/communicator_world.h"
#include "tests/fabric/communicator_check.h"

namespace penstock {
namespace {

constexpr ElementType kTypes[] = {ElementType::kF32, ElementType::kBf16, ElementType::kF64, ElementType::kI32,
                                  ElementType::kU8};

std::vector<int> everybody(int size) {
  std::vector<int> ranks(static_cast<size_t>(size));
  std::iota(ranks.begin(), ranks.end(), 0);
  return ranks;
}

using Body = std::function<std::string(RankWorld&, Communicator&)>;

// Runs `body` on every rank, each in its thread; what each returned.
std::vector<std::string> run_ranks(int size, const Body& body, Duration deadline = Duration::from_ms(10000)) {
  auto links = make_memory_links(size);
  std::vector<std::string> outcomes(static_cast<size_t>(size));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank)
    threads.emplace_back([&, rank, link = std::move(links[static_cast<size_t>(rank)])]() mutable {
      const auto world = make_rank_world(std::move(link), CommunicatorOptions{deadline});
      const auto group = world->make_group(0, everybody(size));
      outcomes[static_cast<size_t>(rank)] = group.ok() ? body(*world, **group) : group.message();
    });
  for (std::thread& thread : threads) thread.join();
  return outcomes;
}

std::string text_of(const Status& status) { return status.ok() ? "" : status.message(); }

class EveryOperation : public testing::TestWithParam<int> {};

TEST_P(EveryOperation, EqualsThePlainComputation) {
  for (const int64_t count : {0, 1, 2, 7, 1000, 4096, 100003})
    for (const ElementType type : kTypes) {
      const auto outcomes = run_ranks(
          GetParam(), [&](RankWorld&, Communicator& group) { return check_operations(group, count, type); });
      for (const std::string& outcome : outcomes) EXPECT_EQ(outcome, "");
    }
}
INSTANTIATE_TEST_SUITE_P(Ranks, EveryOperation, testing::Values(1, 2, 3, 4, 8));

TEST(CommunicatorMemory, ManyChunksOfALargeTensor) {
  const auto outcomes = run_ranks(3, [](RankWorld&, Communicator& group) {
    return check_operations(group, 1'500'007, ElementType::kF32);
  });
  for (const std::string& outcome : outcomes) EXPECT_EQ(outcome, "");
}

TEST(CommunicatorMemory, OperationsOverlapAndFinishInAnyOrder) {
  const auto outcomes = run_ranks(4, [](RankWorld&, Communicator& group) {
    std::vector<std::vector<float>> data;
    for (int i = 0; i < 8; ++i) data.emplace_back(i % 2 == 0 ? 100000 : 10, static_cast<float>(i));
    std::vector<OperationId> operations;
    for (auto& tensor : data)
      operations.push_back(group.start_all_reduce(tensor.data(), static_cast<int64_t>(tensor.size()),
                                                  ElementType::kF32, Reduction::kSum));
    for (int i = 7; i >= 0; --i) {
      group.progress();
      if (const Status s = group.wait(operations[static_cast<size_t>(i)]); !s.ok()) return s.message();
      if (!group.finished(operations[static_cast<size_t>(i)])) return std::string("not finished");
      for (const float x : data[static_cast<size_t>(i)])
        if (x != static_cast<float>(4 * i)) return "sum " + std::to_string(x);
    }
    return std::string();
  });
  for (const std::string& outcome : outcomes) EXPECT_EQ(outcome, "");
}

TEST(CommunicatorMemory, GroupsOfAMeshDoNotMix) {
  const auto outcomes = run_ranks(4, [](RankWorld& world, Communicator&) {
    const int pair = world.rank() / 2 * 2, column = world.rank() % 2;
    const auto tensor = world.make_group(1, {pair, pair + 1});
    const auto data_parallel = world.make_group(2, {column, column + 2});
    float a = static_cast<float>(1 << world.rank()), b = a;
    const OperationId first = (*tensor)->start_all_reduce(&a, 1, ElementType::kF32, Reduction::kSum);
    const OperationId second = (*data_parallel)->start_all_reduce(&b, 1, ElementType::kF32, Reduction::kSum);
    if (!(*data_parallel)->wait(second).ok() || !(*tensor)->wait(first).ok()) return std::string("failed");
    const float wanted_a = pair == 0 ? 3 : 12, wanted_b = column == 0 ? 5 : 10;
    return a == wanted_a && b == wanted_b ? std::string() : std::to_string(a) + " " + std::to_string(b);
  });
  for (const std::string& outcome : outcomes) EXPECT_EQ(outcome, "");
}

TEST(CommunicatorMemory, MembersThatCallDifferentThingsAreBothNamed) {
  struct Case {
    int64_t count;
    ElementType type;
    bool barrier;
  };
  for (const Case& other : {Case{7, ElementType::kF32, false}, Case{5, ElementType::kBf16, false},
                            Case{0, ElementType::kF32, true}}) {
    const auto outcomes = run_ranks(3, [&](RankWorld& world, Communicator& group) {
      std::vector<double> data(10);
      if (world.rank() != 1) return text_of(group.all_reduce(data.data(), 5, ElementType::kF32));
      return text_of(other.barrier ? group.barrier()
                                   : group.all_reduce(data.data(), other.count, other.type));
    });
    for (const std::string& outcome : outcomes) {
      EXPECT_NE(outcome.find("rank 1"), std::string::npos) << outcome;
      EXPECT_NE(outcome.find("all_reduce(sum) of 5 f32"), std::string::npos) << outcome;
      EXPECT_NE(outcome.find("must call the same"), std::string::npos) << outcome;
    }
  }
}

TEST(CommunicatorMemory, ADeadRankEndsItForAll) {
  for (const int64_t count : {10, 500000}) {
    const auto outcomes = run_ranks(4, [&](RankWorld& world, Communicator& group) {
      if (world.rank() == 2) return std::string("rank 2");  // its world closes
      std::vector<float> data(static_cast<size_t>(count));
      const std::string first = text_of(group.all_reduce(data.data(), count, ElementType::kF32));
      // From then on the world says so at once.
      const std::string second = text_of(group.barrier());
      return first == second ? first : "changed its mind";
    });
    for (const std::string& outcome : outcomes)
      EXPECT_NE(outcome.find("rank 2"), std::string::npos) << outcome;
  }
}

// Rank 2 is alive but never comes back to its communicator.
TEST(CommunicatorMemory, ASilentRankEndsItForAllAndIsNamedAlone) {
  std::atomic<int> ended = 0;
  const auto outcomes = run_ranks(
      4,
      [&](RankWorld& world, Communicator& group) {
        if (world.rank() == 2) {
          while (ended < 3) std::this_thread::sleep_for(std::chrono::milliseconds(5));
          return std::string("rank 2 silent");
        }
        float x = 0;
        // A chain: 0 waits for 1, which waits for 2; only 2 is to blame.
        const Status status =
            world.rank() == 3 ? group.barrier() : group.recv(&x, 1, ElementType::kF32, world.rank() + 1);
        ended += 1;
        return text_of(status);
      },
      Duration::from_ms(500));
  for (const std::string& outcome : outcomes) {
    EXPECT_NE(outcome.find("2 silent"), std::string::npos) << outcome;
    EXPECT_EQ(outcome.find("1 silent"), std::string::npos) << outcome;
  }
}

TEST(CommunicatorMemory, ARankThatAnswersButNeverJoinsIsNamed) {
  const auto outcomes = run_ranks(
      2,
      [](RankWorld& world, Communicator& group) {
        float x = 0;  // both wait for the other
        return text_of(group.recv(&x, 1, ElementType::kF32, 1 - world.rank()));
      },
      Duration::from_ms(200));
  for (const std::string& outcome : outcomes)
    EXPECT_NE(outcome.find("did not join"), std::string::npos) << outcome;
}

TEST(CommunicatorMemory, ARankThatWasBusyLongerThanTheDeadlineIsNoAlarmForItself) {
  const auto outcomes = run_ranks(
      2,
      [](RankWorld& world, Communicator& group) {
        float x = 0;
        const OperationId operation = group.start_all_reduce(&x, 1, ElementType::kF32, Reduction::kSum);
        std::this_thread::sleep_for(std::chrono::milliseconds(600));
        static_cast<void>(world);
        return text_of(group.wait(operation));
      },
      Duration::from_ms(200));
  for (const std::string& outcome : outcomes) EXPECT_EQ(outcome, "");
}

TEST(CommunicatorMemory, GroupsAreChecked) {
  const auto outcomes = run_ranks(1, [](RankWorld& world, Communicator&) {
    EXPECT_FALSE(world.make_group(0, {0}).ok());  // taken
    EXPECT_FALSE(world.make_group(256, {0}).ok());
    EXPECT_FALSE(world.make_group(1, {}).ok());
    EXPECT_FALSE(world.make_group(1, {0, 0}).ok());
    EXPECT_FALSE(world.make_group(1, {0, 1}).ok());
    EXPECT_TRUE(world.make_group(1, {0}).ok());
    return std::string();
  });
  EXPECT_EQ(outcomes[0], "");
}

TEST(CommunicatorMemory, ShardsCoverEveryElementOnce) {
  for (int size = 1; size <= 9; ++size)
    for (int64_t count = 0; count < 30; ++count) {
      int64_t next = 0;
      for (int index = 0; index < size; ++index) {
        const Shard shard = shard_of(count, even_shard_count(count, size), index);
        EXPECT_EQ(shard.begin, next);
        next += shard.count;
      }
      EXPECT_EQ(next, count);
    }
}

}  // namespace
}  // namespace penstock

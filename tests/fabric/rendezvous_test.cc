#include "fabric/rendezvous.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <map>
#include <thread>

#include "base/fd.h"
#include "tests/fabric/free_port.h"

namespace penstock {
namespace {

struct Rank {
  int rank;
  int world_size;
};

// Each in its thread; what each learned, or its error.
std::vector<std::string> meet(const std::vector<Rank>& ranks, Duration timeout) {
  const uint16_t port = free_port();
  std::vector<std::string> outcomes(ranks.size());
  std::vector<std::thread> threads;
  for (size_t i = 0; i < ranks.size(); ++i)
    threads.emplace_back([&, i] {
      const RankEnvironment environment{ranks[i].rank, ranks[i].world_size, "127.0.0.1", port};
      const std::string mine =
          std::string(static_cast<size_t>(ranks[i].rank * 1000), 'x') + std::to_string(ranks[i].rank);
      const auto met = exchange_addresses(environment, mine, timeout);
      if (!met.ok()) {
        outcomes[i] = met.message();
        return;
      }
      for (const std::string& address : *met)
        outcomes[i] += std::to_string(address.size()) + address.back() + " ";
    });
  for (std::thread& thread : threads) thread.join();
  return outcomes;
}

const Duration kLong = Duration::from_ms(20000);

TEST(Rendezvous, EveryRankLearnsAllAddressesInOrder) {
  for (const std::string& outcome : meet({{2, 4}, {1, 4}, {3, 4}, {0, 4}}, kLong))
    EXPECT_EQ(outcome, "10 10011 20012 30013 ");
  EXPECT_EQ(meet({{0, 1}}, kLong)[0], "10 ");
}

TEST(Rendezvous, ADuplicateRankIsNamedToAll) {
  for (const std::string& outcome : meet({{0, 3}, {1, 3}, {1, 3}}, kLong))
    EXPECT_NE(outcome.find("two processes are rank 1"), std::string::npos) << outcome;
}

TEST(Rendezvous, AnotherWorldSizeIsNamedToBoth) {
  for (const std::string& outcome : meet({{0, 2}, {1, 4}}, kLong))
    EXPECT_NE(outcome.find("rank 1 has world size 4, rank 0 has 2"), std::string::npos) << outcome;
}

TEST(Rendezvous, AMissingRankIsNamedToThoseWhoCame) {
  for (const std::string& outcome : meet({{0, 4}, {1, 4}, {3, 4}}, Duration::from_ms(700)))
    EXPECT_NE(outcome.find("did not come to 127.0.0.1:"), std::string::npos) << outcome;
  EXPECT_EQ(meet({{0, 4}, {1, 4}, {3, 4}}, Duration::from_ms(700))[0].back(), '2');
}

TEST(Rendezvous, WithoutRankZeroItSaysWhereItLooked) {
  const std::string outcome = meet({{1, 2}}, Duration::from_ms(200))[0];
  EXPECT_NE(outcome.find("rank 0 was not reached at 127.0.0.1:"), std::string::npos) << outcome;
}

Result<RankEnvironment> read(const std::map<std::string, std::string>& variables) {
  return read_rank_environment([&](const char* name) {
    const auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  });
}

TEST(RankEnvironment, IsReadAsTorchrunSetsIt) {
  const auto given =
      read({{"RANK", "3"}, {"WORLD_SIZE", "8"}, {"MASTER_ADDR", "node1"}, {"MASTER_PORT", "12345"}});
  ASSERT_TRUE(given.ok());
  EXPECT_EQ(given->rank, 3);
  EXPECT_EQ(given->world_size, 8);
  EXPECT_EQ(given->master_address, "node1");
  EXPECT_EQ(given->master_port, 12345);
  EXPECT_EQ(read({})->world_size, 1);
}

TEST(RankEnvironment, BadValuesAreNamed) {
  EXPECT_NE(read({{"RANK", "4"}, {"WORLD_SIZE", "4"}}).message().find("RANK=4"), std::string::npos);
  EXPECT_NE(read({{"RANK", "0"}, {"WORLD_SIZE", "2x"}}).message().find("WORLD_SIZE=2x"), std::string::npos);
  EXPECT_NE(read({{"RANK", "0"}}).message().find("set both"), std::string::npos);
  EXPECT_NE(read({{"MASTER_PORT", "70000"}}).message().find("MASTER_PORT=70000"), std::string::npos);
}

}  // namespace
}  // namespace penstock

#include "node/inbox.h"

#include <gtest/gtest.h>
#include <poll.h>

#include <memory>
#include <thread>

namespace penstock {
namespace {

constexpr int kPatienceMs = 20000;

bool readable(int fd, int timeout_ms) {
  pollfd waiting{fd, POLLIN, 0};
  return ::poll(&waiting, 1, timeout_ms) == 1;
}

TEST(Inbox, TakesInOrderAndClearsWhatItIsGiven) {
  Inbox<int> inbox;
  inbox.post(1);
  inbox.post(2);
  std::vector<int> out = {99};
  inbox.take(out);
  EXPECT_EQ(out, (std::vector<int>{1, 2}));
  inbox.take(out);
  EXPECT_TRUE(out.empty());
}

TEST(Inbox, IsReadableWhileItHoldsSomething) {
  Inbox<int> inbox;
  EXPECT_FALSE(readable(inbox.fd(), 0));
  inbox.post(1);
  inbox.post(2);
  EXPECT_TRUE(readable(inbox.fd(), 0));
  EXPECT_TRUE(readable(inbox.fd(), 0)) << "polling alone takes nothing";
  std::vector<int> out;
  inbox.take(out);
  EXPECT_FALSE(readable(inbox.fd(), 0));
}

TEST(Inbox, ANudgeWakesWithoutAMessage) {
  Inbox<int> inbox;
  inbox.nudge();
  EXPECT_TRUE(readable(inbox.fd(), 0));
  std::vector<int> out;
  inbox.take(out);
  EXPECT_TRUE(out.empty());
  EXPECT_FALSE(readable(inbox.fd(), 0));
}

TEST(Inbox, MovesWhatCannotBeCopied) {
  Inbox<std::unique_ptr<int>> inbox;
  inbox.post(std::make_unique<int>(7));
  std::vector<std::unique_ptr<int>> out;
  inbox.take(out);
  ASSERT_EQ(out.size(), 1u);
  EXPECT_EQ(*out[0], 7);
}

// An owner that sleeps whenever the inbox is empty still gets everything, each sender's in order: no wake is
// lost between take() and poll().
TEST(Inbox, ManySendersOneSleepingOwner) {
  constexpr int kSenders = 4, kEach = 5000;
  Inbox<std::pair<int, int>> inbox;
  std::vector<std::thread> senders;
  for (int sender = 0; sender < kSenders; ++sender) {
    senders.emplace_back([&inbox, sender] {
      for (int i = 0; i < kEach; ++i) {
        inbox.post({sender, i});
        if (i % 64 == 0) std::this_thread::yield();
      }
    });
  }
  std::vector<int> next(kSenders, 0);
  std::vector<std::pair<int, int>> out;
  int received = 0;
  while (received < kSenders * kEach) {
    if (!readable(inbox.fd(), kPatienceMs)) {
      ADD_FAILURE() << "a wake was lost after " << received << " messages";
      break;
    }
    inbox.take(out);
    for (const auto& [sender, number] : out) {
      EXPECT_EQ(number, next[static_cast<size_t>(sender)]++) << "of sender " << sender;
      ++received;
    }
  }
  for (std::thread& sender : senders) sender.join();
}

}  // namespace
}  // namespace penstock

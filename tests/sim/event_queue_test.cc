#include "sim/event_queue.h"

#include <gtest/gtest.h>

namespace penstock::sim {
namespace {

TEST(EventQueue, RunsByTimeThenByPosting) {
  EventQueue queue;
  std::vector<int> order;
  queue.at(TimePoint{20}, [&] { order.push_back(3); });
  queue.at(TimePoint{10}, [&] {
    order.push_back(1);
    queue.after(Duration{10}, [&] { order.push_back(4); });  // 20 again, posted last
  });
  queue.at(TimePoint{10}, [&] { order.push_back(2); });
  while (!queue.empty()) queue.run_next();
  EXPECT_EQ(order, (std::vector<int>{1, 2, 3, 4}));
  EXPECT_EQ(queue.now(), TimePoint{20});
}

TEST(EventQueue, ThePastIsNow) {
  EventQueue queue;
  queue.at(TimePoint{10}, [&] { queue.at(TimePoint{1}, [] {}); });
  queue.run_next();
  queue.run_next();
  EXPECT_EQ(queue.now(), TimePoint{10});
}

}  // namespace
}  // namespace penstock::sim

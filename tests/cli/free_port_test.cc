#include "cli/free_port.h"

#include <gtest/gtest.h>

#include "tests/cli/local_server.h"

namespace penstock::cli {
namespace {

TEST(FreePort, ATakenPortMovesOn) {
  LocalServer server({});
  const HostPort taken = server.address();
  const Status status = check_port_free(taken);
  EXPECT_EQ(status.message(), taken.text() + ": Address already in use");
  auto next = next_free_port(taken);
  ASSERT_TRUE(next.ok()) << next.message();
  EXPECT_GT(next->port, taken.port);
  EXPECT_TRUE(check_port_free(*next).ok());
  auto avoided = next_free_port(*next, {next->port});
  ASSERT_TRUE(avoided.ok());
  EXPECT_NE(avoided->port, next->port);
}

TEST(FreePort, ZeroBecomesOneThatTheSystemChose) {
  auto chosen = next_free_port({"127.0.0.1", 0});
  ASSERT_TRUE(chosen.ok());
  EXPECT_NE(chosen->port, 0);
}

TEST(FreePort, AHostThatIsNotOursIsAFailure) {
  EXPECT_FALSE(next_free_port({"192.0.2.1", 8000}).ok());  // TEST-NET-1
}

}  // namespace
}  // namespace penstock::cli

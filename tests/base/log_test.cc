#include "base/log.h"

#include <gtest/gtest.h>

namespace penstock {
namespace {

TEST(Logger, WritesKeyValuesAboveItsLevel) {
  testing::internal::CaptureStderr();
  const Logger log = Logger::to_stderr("node-1", LogLevel::kInfo);
  log.info("handoff done", "transfer", 7, "gbps", 6.5);
  log.debug("never seen", "x", 1);
  const std::string out = testing::internal::GetCapturedStderr();
  EXPECT_NE(out.find(" I node-1 handoff done transfer=7 gbps=6.5\n"), std::string::npos) << out;
  EXPECT_EQ(out.find("never"), std::string::npos);
}

// Values come from peers and files: none may write a line of its own.
TEST(Logger, AnEventIsOneLineWhateverItsValues) {
  testing::internal::CaptureStderr();
  const Logger log = Logger::to_stderr("router", LogLevel::kInfo);
  log.warn("frame dropped", "identity", "x\n2026-01-01T00:00:00.000 I router drained", "reason", "\xff{}");
  const std::string out = testing::internal::GetCapturedStderr();
  EXPECT_EQ(out.find('\n'), out.size() - 1) << out;
  EXPECT_NE(out.find("identity=x\\x0a2026-01-01T00:00:00.000 I router drained reason=\\xff{}"),
            std::string::npos)
      << out;
}

TEST(Logger, ParsesLevels) {
  EXPECT_EQ(parse_log_level("warning").value(), LogLevel::kWarning);
  EXPECT_EQ(parse_log_level("loud").code(), Error::kInvalidArgument);
}

}  // namespace
}  // namespace penstock

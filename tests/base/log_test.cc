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

TEST(Logger, ParsesLevels) {
  EXPECT_EQ(parse_log_level("warning").value(), LogLevel::kWarning);
  EXPECT_EQ(parse_log_level("loud").code(), Error::kInvalidArgument);
}

}  // namespace
}  // namespace penstock

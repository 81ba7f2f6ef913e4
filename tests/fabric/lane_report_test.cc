// Which lanes UCX chose, read from what ucp_ep_print_info of 1.13 and 1.22 prints.
#include "fabric/lane_report.h"

#include <gtest/gtest.h>

namespace penstock {
namespace {

std::string endpoint(const std::string& lanes) {
  return "#\n# UCP endpoint \n#\n#               peer: <no debug data>\n" + lanes +
         "#\n#                tag_send: 0..<egr/short>..92..<egr/bcopy>..8256\n"
         "#           rma_bw: mds [1] rndv_rkey_size 18\n#\n";
}

TEST(LaneReport, SharedMemory) {
  const LaneReport report = parse_lane_report(endpoint(
      "#                 lane[0]:  1:posix/memory.0 md[1] -> md[1]/posix/sysdev[255] rma_bw#0 am am_bw#0\n"
      "#                 lane[1]:  0:tcp/lo.0 md[0] -> md[0]/tcp/sysdev[255] keepalive\n"));
  EXPECT_EQ(report.put, "posix");
  EXPECT_EQ(report.message, "posix");
  EXPECT_TRUE(report.shared_memory);
}

TEST(LaneReport, TcpEmulatesPutsOverMessages) {
  const LaneReport report = parse_lane_report(endpoint(
      "#                 lane[0]:  0:tcp/eth0.0 md[0] -> md[0]/tcp/sysdev[255] am am_bw#0 wireup\n"));
  EXPECT_EQ(report.put, "tcp");
  EXPECT_EQ(report.message, "tcp");
  EXPECT_FALSE(report.shared_memory);
}

TEST(LaneReport, SeveralLanesAreEachNamedOnce) {
  const LaneReport report = parse_lane_report(
      endpoint("#  lane[0]:  3:rc_mlx5/mlx5_0:1.0 md[2] -> md[2]/ib/sysdev[0] rma#0 rma_bw#0 am\n"
               "#  lane[1]:  4:rc_mlx5/mlx5_1:1.0 md[3] -> md[3]/ib/sysdev[1] rma_bw#1\n"
               "#  lane[2]:  0:tcp/eth0.0 md[0] -> md[0]/tcp/sysdev[255] am_bw#1\n"));
  EXPECT_EQ(report.put, "rc_mlx5");
  EXPECT_EQ(report.message, "rc_mlx5,tcp");
  EXPECT_FALSE(report.shared_memory);
}

// One lane that maps memory is enough: whoever frees memory must count on stores.
TEST(LaneReport, AnyMappingLaneCounts) {
  for (const char* name : {"posix", "sysv", "xpmem", "cma", "knem"}) {
    const LaneReport report = parse_lane_report(
        "# lane[0]:  0:tcp/lo.0 md[0] -> md[0]/tcp/sysdev[255] rma am\n# lane[1]:  2:" + std::string(name) +
        "/memory md[3] -> md[3]/x/sysdev[255] rma_bw#0\n");
    EXPECT_TRUE(report.shared_memory) << name;
  }
}

TEST(LaneReport, WhatCannotBeReadIsUnknownAndCountsAsSharedMemory) {
  for (const char* text : {"", "garbage", "# lane[0]", "# lane[0]:", "# lane[0]:   \n", "#lane[\n]:"}) {
    const LaneReport report = parse_lane_report(text);
    EXPECT_EQ(report.put, "") << text;
    EXPECT_TRUE(report.shared_memory) << text;
  }
}

}  // namespace
}  // namespace penstock

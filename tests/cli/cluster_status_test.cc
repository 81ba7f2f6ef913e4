#include "cli/cluster_status.h"

#include <gtest/gtest.h>

namespace penstock::cli {
namespace {

constexpr const char* kStatus = R"({"cluster": "demo", "model": "smol", "ready": true, "draining": false,
  "requests": {"running": 2, "finished": 5, "rejected": 1, "failed": 0, "replays": 3},
  "nodes": [{"name": "prefill-0", "role": "prefill", "state": "ready", "pid": 41, "running": 1, "waiting": 4,
             "kv_blocks_total": 200, "kv_blocks_used": 50, "kv_blocks_leased": 8, "kv_blocks_quarantined": 0}],
  "pairs": [{"prefill": "prefill-0", "decode": "decode-0", "lanes": "posix", "put_gbps": 7.2, "memcpy_gbps": 7.4}],
  "handoffs": [{"response_id": "r9", "prefill": "prefill-0", "decode": "decode-0", "done": true, "bytes": 1474560,
                "transfer_us": 210, "reserve_to_ack_us": 900, "gbps": 7.02}]})";

TEST(ClusterStatus, ReadsTheRoutersAnswer) {
  auto status = parse_cluster_status(kStatus);
  ASSERT_TRUE(status.ok()) << status.message();
  EXPECT_TRUE(status->ready);
  EXPECT_EQ(status->replays, 3);
  ASSERT_EQ(status->nodes.size(), 1U);
  EXPECT_EQ(status->nodes[0].pid, 41);
  EXPECT_EQ(status->nodes[0].kv_blocks_leased, 8);
  EXPECT_EQ(status->pairs.at(0).lanes, "posix");
  EXPECT_EQ(status->handoffs.at(0).bytes, 1474560);
}

TEST(ClusterStatus, ForTheTerminal) {
  const std::string text = format_cluster_status(*parse_cluster_status(kStatus));
  EXPECT_NE(text.find("cluster demo: ready, model smol\n"), std::string::npos) << text;
  EXPECT_NE(text.find("50 of 200 used (25 %), 8 leased, 0 quarantined\n"), std::string::npos) << text;
  EXPECT_NE(text.find("pair prefill-0 -> decode-0: posix, puts 7.2 GB/s, memcpy 7.4 GB/s\n"),
            std::string::npos);
  EXPECT_NE(
      text.find(
          "last handoff: prefill-0 -> decode-0, 1.47 MB in 0.21 ms (7.0 GB/s), RESERVE to ACK 0.90 ms\n"),
      std::string::npos)
      << text;
}

TEST(ClusterStatus, OtherDocumentsAreRefused) {
  for (const char* bad :
       {"", "[]", "{}", "{\"cluster\": 3}", "{\"cluster\": \"a\", \"nodes\": [{\"pid\": \"x\"}]}"})
    EXPECT_EQ(parse_cluster_status(bad).code(), Error::kCorrupt) << bad;
}

}  // namespace
}  // namespace penstock::cli

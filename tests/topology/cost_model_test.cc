#include "topology/cost_model.h"

#include <gtest/gtest.h>

namespace penstock {
namespace {

TEST(CostModel, FromMeasuredSpeedsPassesThroughThePoints) {
  // 1,000 tokens/s of prefill; a step of one takes 10 ms, a step of 16 takes 25 ms.
  const CostModel cost =
      CostModel::from_measured({.prefill_toks = 1000, .decode_b1_toks = 100, .decode_bmax_toks = 640});
  EXPECT_NEAR(cost.prefill_seconds(512), 0.512, 1e-12);
  EXPECT_NEAR(cost.prefill_seconds(512, 4096), 0.512, 1e-12);
  EXPECT_NEAR(cost.decode_step_seconds(1), 0.010, 1e-12);
  EXPECT_NEAR(cost.decode_step_seconds(16), 0.025, 1e-12);
  EXPECT_NEAR(cost.decode_marginal_seconds(4, 100), 0.001, 1e-12);
  EXPECT_EQ(cost.prefill_seconds(0), 0);
  EXPECT_EQ(cost.decode_step_seconds(0), 0);
}

TEST(CostModel, UnmeasuredSpeedsCostNothing) {
  const CostModel none = CostModel::from_measured({});
  EXPECT_EQ(none.prefill_seconds(1000), 0);
  EXPECT_EQ(none.decode_step_seconds(8, 1000), 0);
  // One point gives a flat line, and a batch measured faster than one sequence no negative slope.
  EXPECT_NEAR(CostModel::from_measured({.decode_b1_toks = 50}).decode_step_seconds(9), 0.02, 1e-12);
  const CostModel odd = CostModel::from_measured({.decode_b1_toks = 10, .decode_bmax_toks = 1000});
  EXPECT_NEAR(odd.decode_step_seconds(16), 0.1, 1e-12);
}

TEST(CostModel, FromSpecCountsWorkAndBytes) {
  const DeviceSpec device{.name = "unit",
                          .dense_tflops = 100,
                          .fp8_tflops = 0,
                          .memory_gb = 80,
                          .memory_gbps = 1000,
                          .nvlink_gbps = 0,
                          .pcie_gbps = 32,
                          .tdp_w = 1,
                          .price_low_usd_h = 1,
                          .price_high_usd_h = 1,
                          .matmul_efficiency = 0.5};
  const ModelShape model{.parameters = 1000000000,
                         .heads = 32,
                         .weight_bytes = 2,
                         .kv = {.layers = 10, .kv_heads = 8, .head_dim = 128}};
  const CostModel cost = CostModel::from_spec(device, model);
  // 2e9 operations a token at 5e13/s; pairs: 4 * 32 * 128 * 10 operations.
  EXPECT_NEAR(cost.prefill_seconds(1), 1e-3 + 40e-6, 1e-12);
  EXPECT_NEAR(cost.prefill_seconds(2, 100) - cost.prefill_seconds(2, 0), 200 * 163840 / 5e13, 1e-15);
  EXPECT_NEAR(cost.prefill_seconds(101) - cost.prefill_seconds(100), 40e-6 + 100 * 163840 / 5e13, 1e-13);
  // 2 GB of weights and 40,960 bytes of KV a token at 0.8 TB/s.
  EXPECT_NEAR(cost.decode_step_seconds(1, 1000), 1e-3 + 2.5e-3 + 40e-6 + 40960000 / 8e11, 1e-12);
}

TEST(CostModel, TransferAndItsExposedPart) {
  const LinkSpeed link{.bytes_per_s = 1e9, .latency_s = 1e-3};
  EXPECT_NEAR(transfer_seconds(link, 500000000), 0.501, 1e-12);
  EXPECT_NEAR(transfer_seconds({}, 500000000), 0, 1e-12);
  // A link faster than compute exposes the last layer alone: 0.1 s of bytes over 10 layers.
  EXPECT_NEAR(exposed_transfer_seconds(link, 100000000, 1.0, 10), 1e-3 + 0.01, 1e-12);
  // A slower one works from the end of the first layer: 0.1 + 2 - 1.
  EXPECT_NEAR(exposed_transfer_seconds(link, 2000000000, 1.0, 10), 1e-3 + 1.1, 1e-12);
  EXPECT_NEAR(exposed_transfer_seconds(link, 100000000, 0.0, 1), transfer_seconds(link, 100000000), 1e-12);
}

}  // namespace
}  // namespace penstock

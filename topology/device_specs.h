// Data-sheet figures of accelerators, as constants: what planning and emulation start from.
// Measured speeds replace them wherever a node has reported some (cost_model.h).
#pragma once

#include <span>
#include <string_view>

#include "base/result.h"

namespace penstock {

struct DeviceSpec {
  std::string_view name;
  double dense_tflops;  // bf16, no sparsity; fp16 on V100 and T4
  double fp8_tflops;    // 0: no FP8 units
  double memory_gb;
  double memory_gbps;  // GB/s of device memory
  double nvlink_gbps;  // GB/s, both directions together; 0: none
  double pcie_gbps;    // GB/s, one direction, what a x16 slot of its generation carries
  double tdp_w;
  double price_low_usd_h;
  double price_high_usd_h;
  // Share of dense_tflops that products of LLM shapes reach. Measured: A100 0.86, L40S 0.59, L4 and T4 0.40;
  // the others take the value of the nearest measured card.
  double matmul_efficiency;
};

[[nodiscard]] std::span<const DeviceSpec> device_specs();

// By name, case-insensitive; a prefix will do when it fits one device alone ("h100"). kNotFound names the
// nearest.
[[nodiscard]] Result<const DeviceSpec*> find_device_spec(std::string_view name);

}  // namespace penstock

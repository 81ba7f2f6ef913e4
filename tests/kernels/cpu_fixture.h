// CPU streams for the tests of ops: one for every instruction set of this machine, with one and two threads.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "kernels/device.h"
#include "kernels/isa.h"

namespace penstock {

class CpuOpTest : public testing::TestWithParam<std::tuple<Isa, int>> {
 protected:
  CpuOpTest() {
    auto made = device_->make_stream({.threads = std::get<1>(GetParam()), .isa = std::get<0>(GetParam())});
    CHECK(made.ok());
    stream_ = std::move(*made);
  }
  std::unique_ptr<Device> device_ = make_cpu_device();
  std::unique_ptr<Stream> stream_;
};

inline std::string isa_and_threads(const testing::TestParamInfo<std::tuple<Isa, int>>& info) {
  return std::string(isa_name(std::get<0>(info.param))) + "_" + std::to_string(std::get<1>(info.param));
}

// Relative to the larger of the reference and `floor`.
inline void expect_near_all(std::span<const float> actual, std::span<const double> expected, double tolerance,
                            double floor) {
  ASSERT_EQ(actual.size(), expected.size());
  for (size_t i = 0; i < actual.size(); ++i) {
    ASSERT_NEAR(actual[i], expected[i], tolerance * std::max(std::abs(expected[i]), floor)) << "at " << i;
  }
}

}  // namespace penstock

#define INSTANTIATE_CPU_OP_TEST(name)                                                                    \
  INSTANTIATE_TEST_SUITE_P(Machine, name,                                                                \
                           testing::Combine(testing::ValuesIn(available_isas()), testing::Values(1, 2)), \
                           isa_and_threads)

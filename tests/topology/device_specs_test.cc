#include "topology/device_specs.h"

#include <gtest/gtest.h>

#include <set>

namespace penstock {
namespace {

TEST(DeviceSpecs, FoundByNameWhateverTheCase) {
  const auto l40 = find_device_spec("L40");
  ASSERT_TRUE(l40.ok());
  EXPECT_EQ((*l40)->dense_tflops, 181);
  EXPECT_EQ((*l40)->memory_gbps, 864);
  EXPECT_EQ((*find_device_spec("l40s"))->dense_tflops, 362);
  EXPECT_EQ((*find_device_spec("h100"))->name, "H100-SXM");  // a prefix of one device alone
}

TEST(DeviceSpecs, AmbiguousAndUnknownNamesAreExplained) {
  EXPECT_EQ(find_device_spec("a100").message(),
            "device \"a100\" fits several: write A100-SXM-40 or A100-SXM-80");
  EXPECT_EQ(find_device_spec("RTX4O90").message(), "device \"RTX4O90\" is not known: did you mean RTX4090?");
  EXPECT_FALSE(find_device_spec("").ok());
}

TEST(DeviceSpecs, FiguresAreWithinReason) {
  std::set<std::string_view> names;
  for (const DeviceSpec& spec : device_specs()) {
    EXPECT_TRUE(names.insert(spec.name).second) << spec.name;
    EXPECT_GT(spec.dense_tflops, 0) << spec.name;
    EXPECT_GT(spec.memory_gbps, 0) << spec.name;
    EXPECT_LE(spec.price_low_usd_h, spec.price_high_usd_h) << spec.name;
    EXPECT_TRUE(spec.fp8_tflops == 0 || spec.fp8_tflops > 1.9 * spec.dense_tflops) << spec.name;
    EXPECT_GT(spec.matmul_efficiency, 0) << spec.name;
    EXPECT_LE(spec.matmul_efficiency, 1) << spec.name;
  }
}

}  // namespace
}  // namespace penstock

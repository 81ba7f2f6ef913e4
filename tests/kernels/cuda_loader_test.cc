// What make_cuda_device() says where there is no CUDA, in each of the ways that can be.
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "kernels/device.h"

namespace penstock {
namespace {

Result<std::unique_ptr<Device>> load(const char* path, int ordinal = 0) {
  ::setenv("PENSTOCK_CUDA_PLUGIN", path, 1);
  return make_cuda_device(ordinal);
}

void expect_no_device(const Result<std::unique_ptr<Device>>& device, const std::string& reason) {
  ASSERT_FALSE(device.ok());
  EXPECT_EQ(device.code(), Error::kUnavailable);
  EXPECT_EQ(device.message().find("no CUDA device: "), 0U) << device.message();
  EXPECT_NE(device.message().find(reason), std::string::npos) << device.message();
}

TEST(CudaLoader, NoPlugin) {
  expect_no_device(load("/nonexistent/libpenstock_cuda.so"), "could not be loaded");
}

TEST(CudaLoader, NotAPlugin) { expect_no_device(load("libm.so.6"), "is not a Penstock CUDA plugin"); }

TEST(CudaLoader, PluginOfAnotherVersion) { expect_no_device(load(PENSTOCK_OLD_PLUGIN), "plugin version 0"); }

TEST(CudaLoader, OrdinalThatDoesNotExist) {
  expect_no_device(load(PENSTOCK_EMULATED_PLUGIN, 7), "ordinal 7 of 1 devices");
  const auto device = load(PENSTOCK_EMULATED_PLUGIN);
  ASSERT_TRUE(device.ok());
  EXPECT_EQ((*device)->name(), "cuda:0 emulator");
}

#ifdef PENSTOCK_REAL_PLUGIN
// The plugin must load without a driver, and then say why there is no device; with a GPU it just works.
TEST(CudaLoader, RealPlugin) {
  const auto device = load(PENSTOCK_REAL_PLUGIN);
  if (device.ok()) {
    EXPECT_EQ((*device)->kind(), DeviceKind::kCuda);
  } else {
    expect_no_device(device, "");
    EXPECT_EQ(device.message().find("could not be loaded"), std::string::npos) << device.message();
    EXPECT_GT(device.message().size(), std::string("no CUDA device: ").size() + 5);
  }
}
#endif

}  // namespace
}  // namespace penstock

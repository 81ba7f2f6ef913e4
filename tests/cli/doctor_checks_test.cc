#include "cli/doctor_checks.h"

#include <gtest/gtest.h>

#include "tests/cli/local_server.h"

namespace penstock::cli {
namespace {

TEST(Doctor, ReadsCpuFeatures) {
  const CpuInfo info = parse_cpuinfo(
      "processor\t: 0\nmodel name\t: Test CPU\nflags\t\t: fpu avx2 avx512f amx_tile avx2x\nprocessor : "
      "1\nflags : fma\n");
  EXPECT_EQ(info.model, "Test CPU");
  EXPECT_EQ(info.features, (std::vector<std::string>{"avx2", "avx512f", "amx_tile"}));
  EXPECT_TRUE(parse_cpuinfo("").features.empty());
}

TEST(Doctor, APoolLargerThanSharedMemoryIsFatal) {
  auto config =
      parse_cluster_config("[[node]]\nname = \"a\"\nrole = \"decode\"\nkv_pool_mb = 16777216\n", "big.toml");
  ASSERT_TRUE(config.ok());
  const auto findings = check_memory(*config);
  EXPECT_EQ(findings.at(0).severity, Severity::kFatal);
  EXPECT_NE(findings.at(0).what.find("/dev/shm"), std::string::npos) << findings.at(0).what;
  config->nodes.clear();
  EXPECT_EQ(check_memory(*config).at(0).severity, Severity::kOk);
}

TEST(Doctor, APortInUseIsFatalAndNamed) {
  LocalServer server({"HTTP/1.1 404 No\r\n\r\n"});
  ClusterConfig config;
  config.router.listen = server.address().text();
  config.router.admin = "127.0.0.1:0";
  config.router.control = "127.0.0.1:0";
  const auto findings = check_ports(config);
  ASSERT_EQ(findings.size(), 3U);
  EXPECT_EQ(findings[0].severity, Severity::kFatal);
  EXPECT_EQ(format_finding(findings[0]), "FATAL    ports          router.listen " + config.router.listen +
                                             ": Address already in use\n                        -> stop what "
                                             "listens there, or set router.listen to another port\n");
  EXPECT_EQ(findings[1].severity, Severity::kOk);
}

TEST(Doctor, AMissingModelIsFatal) {
  ClusterConfig config;
  EXPECT_EQ(check_model(config).at(0).severity, Severity::kOk);
  config.model.path = "/nonexistent";
  EXPECT_EQ(check_model(config).at(0).severity, Severity::kFatal);
}

}  // namespace
}  // namespace penstock::cli

#include "topology/cluster_config.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>

namespace penstock {
namespace {

constexpr std::string_view kDemo = R"([cluster]
name = "demo"
disaggregate = "always"

[model]
path = "/models/SmolLM2-135M-Instruct/"
dtype = "f32"

[router]
listen = "127.0.0.1:9000"

[engine]
threads = 3
kv_pool_mb = 128

[[node]]
name = "prefill-0"
role = "prefill"
threads = 2

[[node]]
name = "decode-0"
role = "decode"
kv_pool_mb = 64
emulate = "L40"
)";

std::string error_of(std::string_view toml, const ConfigSources& overrides = {}) {
  auto parsed = parse_cluster_config(toml, "demo.toml", overrides);
  return parsed.ok() ? "no error" : parsed.message();
}

TEST(ClusterConfig, ReadsTheFile) {
  auto config = parse_cluster_config(kDemo, "demo.toml");
  ASSERT_TRUE(config.ok()) << config.message();
  EXPECT_EQ(config->cluster.name, "demo");
  EXPECT_EQ(config->cluster.disaggregate, Disaggregate::kAlways);
  EXPECT_EQ(config->model.dtype, WeightDtype::kF32);
  EXPECT_EQ(config->served_model_name(), "SmolLM2-135M-Instruct");
  EXPECT_EQ(config->router.listen, "127.0.0.1:9000");
  EXPECT_EQ(config->router.control, "127.0.0.1:8100");  // default
  ASSERT_EQ(config->nodes.size(), 2U);
  EXPECT_EQ(config->nodes[0].role, NodeRole::kPrefill);
  EXPECT_EQ(config->threads_of(config->nodes[0]), 2);
  EXPECT_EQ(config->threads_of(config->nodes[1]), 3);
  EXPECT_EQ(config->kv_pool_bytes_of(config->nodes[0]), int64_t{128} << 20);
  EXPECT_EQ(config->kv_pool_bytes_of(config->nodes[1]), int64_t{64} << 20);
  EXPECT_EQ(config->find_node("decode-0")->emulate, "L40");
  EXPECT_EQ(config->find_node("nobody"), nullptr);
}

TEST(ClusterConfig, FlagBeatsEnvironmentBeatsFile) {
  const ConfigSources sources{
      .environment = {{"PENSTOCK__ROUTER__LISTEN", "127.0.0.1:9001"},
                      {"PENSTOCK__ENGINE__THREADS", "5"},
                      {"PENSTOCK__NODE__DECODE_0__KV_POOL_MB", "32"},
                      {"PENSTOCK_MODEL", "single underscores are not ours"},
                      {"HOME", "/"}},
      .sets = {"engine.threads=7", "node.prefill-0.threads=4", "kv_transfer.digests=false"}};
  auto config = parse_cluster_config(kDemo, "demo.toml", sources);
  ASSERT_TRUE(config.ok()) << config.message();
  EXPECT_EQ(config->router.listen, "127.0.0.1:9001");
  EXPECT_EQ(config->engine.threads, 7);
  EXPECT_EQ(config->nodes[0].threads, 4);
  EXPECT_EQ(config->nodes[1].kv_pool_mb, 32);
  EXPECT_FALSE(config->kv_transfer.digests);
}

TEST(ClusterConfig, UnknownNamesPointToTheNearest) {
  EXPECT_EQ(error_of("\n[router]\nlisen = \"127.0.0.1:1\"\n"),
            "demo.toml:3: unknown key lisen in router: did you mean listen?");
  EXPECT_EQ(parse_cluster_config("[model]\npth = 1\n", "demo.toml").message(),
            "demo.toml:2: unknown key pth in model: did you mean path?");
  EXPECT_EQ(error_of("[engin]\nthreads = 1\n"),
            "demo.toml:1: unknown section [engin]: did you mean [engine]?");
  EXPECT_EQ(error_of("[[node]]\nname = \"a\"\nrole = \"decode\"\nthread = 1\n"),
            "demo.toml:4: unknown key thread in node.a: did you mean threads?");
  EXPECT_EQ(error_of("", {.sets = {"engine.theads=1"}}),
            "--set engine.theads=1: unknown key engine.theads: did you mean engine.threads?");
  EXPECT_EQ(
      error_of("", {.environment = {{"PENSTOCK__ENGINE__THREAD", "1"}}}),
      "environment: unknown variable PENSTOCK__ENGINE__THREAD: did you mean PENSTOCK__ENGINE__THREADS?");
}

TEST(ClusterConfig, WrongTypesAndValuesSayWhatIsNeeded) {
  EXPECT_EQ(error_of("[engine]\nthreads = \"two\"\n"),
            "demo.toml:2: engine.threads = \"two\": needs an integer from 1 to 1024");
  EXPECT_EQ(error_of("[engine]\nthreads = 0\n"),
            "demo.toml:2: engine.threads = 0: needs an integer from 1 to 1024");
  EXPECT_EQ(error_of("[engine]\nbatch_invariant = 1\n"),
            "demo.toml:2: engine.batch_invariant = 1: needs true or false");
  EXPECT_EQ(error_of("[cluster]\ndisaggregate = \"sometimes\"\n"),
            "demo.toml:2: cluster.disaggregate = \"sometimes\": needs auto, always or never");
  EXPECT_EQ(error_of("[model]\npath = 3\n"), "demo.toml:2: model.path = 3: needs a string");
  EXPECT_EQ(error_of("[router]\nlisten = \"8000\"\n"),
            "demo.toml:2: router.listen = \"8000\": needs HOST:PORT, such as 127.0.0.1:8000");
  EXPECT_EQ(error_of("[engine]\nthreads = 1.5\n"),
            "demo.toml:2: engine.threads: needs a string, an integer or a boolean");
  EXPECT_EQ(error_of("", {.sets = {"engine.threads=99999"}}),
            "--set engine.threads=99999: engine.threads = 99999: needs an integer from 1 to 1024");
  EXPECT_EQ(error_of("", {.sets = {"engine.threads"}}), "--set engine.threads: write section.key=value");
  EXPECT_EQ(error_of("[log]\nlevel = \"loud\"\n"),
            "demo.toml:2: log.level = \"loud\": needs debug, info, warning, error or off");
  EXPECT_EQ(error_of("engine = 3\n"), "demo.toml:1: engine is a section: write [engine]");
}

TEST(ClusterConfig, NodesAreChecked) {
  const std::string a = "[[node]]\nname = \"a\"\nrole = \"decode\"\n";
  EXPECT_EQ(error_of(a + a), "demo.toml:4: two nodes are called \"a\": give each a name of its own");
  EXPECT_EQ(error_of("[[node]]\nrole = \"decode\"\n"), "demo.toml:1: [[node]] without name: add it");
  EXPECT_EQ(error_of("[[node]]\nname = \"a\"\n"), "demo.toml:1: [[node]] without role: add it");
  EXPECT_EQ(error_of("[[node]]\nname = \"a b\"\nrole = \"decode\"\n"),
            "demo.toml:2: node.a b.name = \"a b\": needs 1 to 64 letters, digits, - or _");
  EXPECT_EQ(error_of("node = 1\n"), "demo.toml:1: node: write one [[node]] for each node");
  EXPECT_EQ(error_of(a + "emulate = \"L41\"\n"),
            "demo.toml:4: node.a.emulate = \"L41\": device \"L41\" is not known: did you mean L4?");
}

TEST(ClusterConfig, ContradictionsNameThePlace) {
  EXPECT_EQ(error_of("[router]\nlisten = \"127.0.0.1:7\"\nadmin = \"127.0.0.1:7\"\n"),
            "demo.toml:3: router.admin: 127.0.0.1:7 is also router.listen: choose another port");
  EXPECT_EQ(error_of("[router]\nlisten = \"127.0.0.1:0\"\nadmin = \"127.0.0.1:0\"\n"), "no error");
  EXPECT_EQ(error_of("[heartbeat]\ndead_after_ms = 300\n"),
            "demo.toml:2: heartbeat.dead_after_ms: must be at least twice heartbeat.period_ms");
  EXPECT_EQ(error_of("[engine]\nblock_tokens = 40\n"),
            "demo.toml:2: engine.block_tokens: must be a multiple of 16");
  EXPECT_EQ(error_of("[engine]\nbatch_invariant = false\n"),
            "demo.toml:2: engine.batch_invariant: this build has batch-invariant kernels only, at no cost in "
            "speed; "
            "remove the key");
  EXPECT_EQ(error_of("[curve]\nrouter_secret_key_file = \"x\"\n"),
            "demo.toml: curve.router_public_key: CURVE needs all four keys of [curve], or none");
}

TEST(ClusterConfig, BrokenTomlAndMissingFileAreErrors) {
  EXPECT_EQ(error_of("[engine]\nthreads = = 1\n").rfind("demo.toml:2: not TOML: ", 0), 0U);
  const auto missing = load_cluster_config({.file = "/nonexistent/cluster.toml"});
  EXPECT_EQ(missing.message(),
            "/nonexistent/cluster.toml: No such file or directory: give a cluster file with -c FILE");
  EXPECT_EQ(missing.code(), Error::kNotFound);
}

TEST(ClusterConfig, LoadsFromDisk) {
  const std::string path = ::testing::TempDir() + "penstock_config_" + std::to_string(::getpid()) + ".toml";
  std::ofstream(path) << kDemo;
  auto config = load_cluster_config({.file = path, .sets = {"log.level=debug"}});
  std::remove(path.c_str());
  ASSERT_TRUE(config.ok()) << config.message();
  EXPECT_EQ(config->log.level, "debug");
}

// What --print-config prints is the configuration in force: loading it again changes nothing.
TEST(ClusterConfig, PrintedFormLoadsBack) {
  auto config = parse_cluster_config(kDemo, "demo.toml", {.sets = {R"(model.name=a"b\c)"}});
  ASSERT_TRUE(config.ok());
  const std::string printed = print_cluster_config(*config);
  auto again = parse_cluster_config(printed, "printed");
  ASSERT_TRUE(again.ok()) << again.message() << "\n" << printed;
  EXPECT_EQ(print_cluster_config(*again), printed);
  EXPECT_EQ(again->model.name, R"(a"b\c)");
  EXPECT_EQ(again->nodes[1].emulate, "L40");
}

TEST(HostPort, BothFamilies) {
  EXPECT_EQ(*parse_host_port("localhost:80"), (HostPort{"localhost", 80}));
  EXPECT_EQ(*parse_host_port("[::1]:8000"), (HostPort{"::1", 8000}));
  EXPECT_EQ(parse_host_port("[::1]:8000")->text(), "[::1]:8000");
  for (const char* bad : {"", ":80", "host", "host:", "host:65536", "::1:80", "host:8x"})
    EXPECT_FALSE(parse_host_port(bad).ok()) << bad;
}

}  // namespace
}  // namespace penstock

#include "node/node.h"

#include <signal.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <random>
#include <thread>
#include <utility>

#include "base/fd.h"
#include "engine/calibrate.h"
#include "engine/model_runner.h"
#include "fabric/transport_ucx.h"
#include "node/control_loop.h"
#include "node/engine_loop.h"
#include "node/transfer_loop.h"

namespace penstock {
namespace {

// Everything a node has before its threads start, in the order it is made.
struct Parts {
  std::unique_ptr<Transport> transport;
  std::unique_ptr<Device> device;
  std::unique_ptr<Model> model;
  HandoffPool pool;
  LocalMemory probe_memory;
  HandoffCapability capability;
  std::unique_ptr<Runner> runner;
  MeasuredCapacity measured;
  wire::CurveKeys curve;
  scheduler::BatchConfig batch;
};

// The first eight bytes of the system's randomness, never 0.
uint64_t new_incarnation() {
  std::random_device source;
  return ((uint64_t{source()} << 32) | source()) | 1;
}

// SIGTERM and SIGINT as a readable descriptor. Threads started later inherit the mask.
Result<UniqueFd> signal_descriptor() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  if (pthread_sigmask(SIG_BLOCK, &signals, nullptr) != 0)
    return fail(Error::kInternal, "pthread_sigmask failed");
  UniqueFd fd(::signalfd(-1, &signals, SFD_NONBLOCK | SFD_CLOEXEC));
  if (!fd.valid()) return fail(Error::kInternal, "signalfd failed");
  return fd;
}

DType dtype_of(WeightDtype dtype) { return dtype == WeightDtype::kBf16 ? DType::kBf16 : DType::kF32; }

int64_t context_max_of(const ClusterConfig& config, const Model& model) {
  const int64_t own = model.config().context_max;
  return config.engine.context_max == 0 ? own : std::min(own, config.engine.context_max);
}

// With CURVE: our pair, and the key of the router.
Status load_keys(const ClusterConfig& config, Parts& parts) {
  if (config.curve.node_public_key.empty()) return {};
  ASSIGN_OR_RETURN(parts.curve, wire::load_curve_pair("node", config.curve.node_public_key,
                                                      config.curve.node_secret_key_file));
  parts.curve.server_key = config.curve.router_public_key;
  return {};
}

Status make_pool(const ClusterConfig& config, const NodeConfig& node, Parts& parts) {
  parts.pool.layout = kv_layout_of(parts.model->config(), static_cast<int32_t>(config.engine.block_tokens),
                                   config.engine.kv_dtype);
  RETURN_IF_ERROR(parts.pool.layout.validate());
  const int64_t bytes = config.kv_pool_bytes_of(node);
  parts.pool.blocks = static_cast<uint32_t>(parts.pool.layout.blocks_in(bytes));
  if (parts.pool.blocks < 2) {
    return fail(Error::kInvalidArgument,
                "node " + node.name + ": kv_pool_mb = " + std::to_string(bytes >> 20) + " holds " +
                    std::to_string(parts.pool.blocks) + " KV blocks of " +
                    std::to_string(parts.pool.layout.block_bytes_all()) + " bytes: give it more");
  }
  auto memory =
      parts.transport->allocate(static_cast<size_t>(parts.pool.layout.pool_bytes(parts.pool.blocks)))
          .with_context("KV pool of node " + node.name);
  if (!memory.ok()) return memory.failure();
  parts.pool.memory = std::move(*memory);
  auto probe = parts.transport->allocate(LaneProbe::kBytes).with_context("memory of the lane probe");
  if (!probe.ok()) return probe.failure();
  parts.probe_memory = std::move(*probe);
  return {};
}

Status make_model(const ClusterConfig& config, const NodeConfig& node, Parts& parts) {
  parts.device = make_cpu_device();
  ModelOptions options;
  options.dtype = dtype_of(config.model.dtype);
  options.rows_max = std::max(config.engine.batch_tokens_max, config.engine.sequences_max);
  options.logit_rows_max = config.engine.sequences_max;
  options.positions_max = config.engine.context_max;
  options.threads = static_cast<int>(config.threads_of(node));
  auto model = load_model(config.model.path, options, *parts.device);
  if (!model.ok()) return model.failure();
  parts.model = std::move(*model);
  return {};
}

Status make_runner(const ClusterConfig& config, const NodeConfig& node, const Clock& clock, Parts& parts) {
  StreamOptions stream_options;
  stream_options.threads = static_cast<int>(config.threads_of(node));
  auto stream = parts.device->make_stream(stream_options);
  if (!stream.ok()) return stream.failure();
  const KvPoolView view{parts.pool.memory.base, parts.pool.layout, parts.pool.blocks};
  auto runner =
      ModelRunner::create(*parts.device, std::move(*stream), *parts.model, view, config.engine.sequences_max);
  if (!runner.ok()) return runner.failure();
  parts.runner = std::move(*runner);
  CalibrationPlan plan;
  plan.prompt_tokens =
      static_cast<int32_t>(std::min<int64_t>(plan.prompt_tokens, config.engine.batch_tokens_max));
  plan.batch_max = static_cast<int32_t>(std::min<int64_t>(plan.batch_max, config.engine.sequences_max));
  plan.block_tokens = parts.pool.layout.block_tokens;
  plan.pool_blocks = parts.pool.blocks;
  plan.context_max = context_max_of(config, *parts.model);
  plan.vocab = parts.model->config().vocab_size;
  ASSIGN_OR_RETURN(parts.measured, calibrate(*parts.runner, clock, plan));
  return {};
}

void describe(const ClusterConfig& config, Parts& parts) {
  const ModelConfig& model = parts.model->config();
  parts.capability.model = config.served_model_name();
  parts.capability.weight_version = WeightVersion(parts.model->digest());
  parts.capability.layout = parts.pool.layout;
  parts.capability.context_max = static_cast<uint32_t>(context_max_of(config, *parts.model));
  parts.capability.vocab = static_cast<uint32_t>(model.vocab_size);
  parts.batch.pool_blocks = static_cast<int32_t>(parts.pool.blocks);
  parts.batch.block_tokens = parts.pool.layout.block_tokens;
  parts.batch.batch_tokens_max =
      static_cast<int32_t>(std::max(config.engine.batch_tokens_max, config.engine.sequences_max));
  parts.batch.sequences_max = static_cast<int32_t>(config.engine.sequences_max);
  parts.batch.context_max = static_cast<int32_t>(context_max_of(config, *parts.model));
  // RESERVE and its answer take a few milliseconds at worst; four layers of a full chunk on top.
  const double lead_s = 0.005;
  parts.batch.reserve_lead_tokens =
      static_cast<int32_t>(parts.measured.prefill_tokens_per_s * lead_s) +
      static_cast<int32_t>(parts.batch.batch_tokens_max * 4 / std::max<int64_t>(model.layers, 4));
}

wire::RegisterT registration_of(const NodeConfig& node, NodeRole role, const Parts& parts,
                                uint64_t incarnation) {
  wire::RegisterT message;
  message.name = node.name;
  message.role = role == NodeRole::kPrefill ? wire::Role::Prefill : wire::Role::Decode;
  message.protocol = wire::kProtocolVersion;
  message.incarnation = incarnation;
  message.pid = static_cast<uint32_t>(::getpid());
  message.capability = std::make_unique<wire::CapabilityT>();
  wire::CapabilityT& capability = *message.capability;
  const KvLayout& layout = parts.pool.layout;
  capability.model = parts.capability.model;
  capability.weight_version = parts.capability.weight_version.value();
  capability.kv_dtype = std::string(kv_dtype_name(layout.dtype));
  capability.block_tokens = static_cast<uint32_t>(layout.block_tokens);
  capability.layers = static_cast<uint32_t>(layout.layers);
  capability.kv_heads = static_cast<uint32_t>(layout.kv_heads);
  capability.head_dim = static_cast<uint32_t>(layout.head_dim);
  capability.layout_hash = layout.hash().value();
  capability.context_max = parts.capability.context_max;
  capability.vocab = parts.capability.vocab;
  message.capacity = std::make_unique<wire::CapacityT>();
  message.capacity->pool_blocks = parts.pool.blocks;
  message.capacity->sequences_max = static_cast<uint32_t>(parts.batch.sequences_max);
  message.capacity->batch_tokens_max = static_cast<uint32_t>(parts.batch.batch_tokens_max);
  message.capacity->prefill_toks = static_cast<float>(parts.measured.prefill_tokens_per_s);
  message.capacity->decode_b1_toks = static_cast<float>(parts.measured.decode_b1_tokens_per_s);
  message.capacity->decode_bmax_toks = static_cast<float>(parts.measured.decode_bmax_tokens_per_s);
  return message;
}

ControlOptions control_options_of(const ClusterConfig& config, const NodeConfig& node, NodeRole role,
                                  const Parts& parts, const HandoffOptions& handoff) {
  ControlOptions options;
  const uint64_t incarnation = new_incarnation();
  options.router_endpoint = "tcp://" + config.router.control;
  options.listen_host = node.listen_host.empty() ? "127.0.0.1" : node.listen_host;
  options.registration = registration_of(node, role, parts, incarnation);
  options.hello.node = node.name;
  options.hello.incarnation = incarnation;
  options.hello.address = parts.transport->address();
  options.hello.capability = parts.capability;
  options.hello.probe = parts.probe_memory.descriptor();
  options.hello.pool = parts.pool.memory.descriptor();
  options.hello.credits = handoff.transfers_max;
  options.heartbeat_period = Duration::from_ms(config.heartbeat.period_ms);
  options.dead_after = Duration::from_ms(config.heartbeat.dead_after_ms);
  options.channel.curve = parts.curve;
  options.drain_timeout = Duration::from_ms(config.router.drain_timeout_ms);
  return options;
}

// Runs the three threads; this one is the control thread.
Status serve(const ClusterConfig& config, const NodeConfig& node, const RoleParts& role, Parts& parts,
             const Clock& clock, int signal_fd, const Logger& log) {
  TransferLoopOptions transfer_options;
  transfer_options.handoff.digests = config.kv_transfer.digests;
  transfer_options.handoff.lease = Duration::from_ms(config.kv_transfer.lease_ms);
  transfer_options.heartbeat.period = Duration::from_ms(config.heartbeat.period_ms);
  transfer_options.heartbeat.dead_after = Duration::from_ms(config.heartbeat.dead_after_ms);

  NodePorts ports;
  std::atomic<bool> stop{false};
  const std::unique_ptr<EngineSide> side = role.make_engine_side(ports);
  Engine engine(parts.batch, *parts.runner, clock, *side);
  side->attach(engine);
  ControlLoop control(control_options_of(config, node, role.role, parts, transfer_options.handoff), ports,
                      clock, log);
  std::thread engine_thread([&] { run_engine_loop(engine, *side, ports, stop); });
  std::thread transfer_thread([&] {
    TransferLoop loop(*parts.transport, parts.pool, parts.capability, parts.probe_memory, transfer_options,
                      ports, clock, log, role.make_transfer_side);
    loop.run(stop);
  });
  const Status status = control.run(signal_fd);
  stop.store(true);
  ports.engine.nudge();
  ports.transfer.nudge();
  engine_thread.join();
  transfer_thread.join();
  log.info("node stopped");
  return status;
}

}  // namespace

Status run_node(const ClusterConfig& config, const NodeConfig& node, const RoleParts& role,
                const Logger& log) {
  const SystemClock clock;
  ASSIGN_OR_RETURN(const UniqueFd signals, signal_descriptor());
  Parts parts;
  RETURN_IF_ERROR(load_keys(config, parts));
  UcxOptions ucx;
  if (!config.kv_transfer.transports.empty()) ucx.transports = config.kv_transfer.transports;
  ASSIGN_OR_RETURN(parts.transport, make_ucx_transport(ucx));
  RETURN_IF_ERROR(make_model(config, node, parts));
  RETURN_IF_ERROR(make_pool(config, node, parts));
  RETURN_IF_ERROR(make_runner(config, node, clock, parts));
  describe(config, parts);
  log.info("model loaded", "model", config.model.path, "weights_mb", parts.model->weights_bytes() >> 20,
           "pool_blocks", parts.pool.blocks, "isa", isa_name(parts.runner->isa()), "prefill_toks",
           parts.measured.prefill_tokens_per_s, "decode_b1_toks", parts.measured.decode_b1_tokens_per_s,
           "decode_bmax_toks", parts.measured.decode_bmax_tokens_per_s);
  return serve(config, node, role, parts, clock, signals.get(), log);
}

}  // namespace penstock

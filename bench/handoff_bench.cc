#include "bench/handoff_bench.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "bench/handoff_peer.h"
#include "kernels/device.h"
#include "kernels/kv_layer.h"
#include "kv_transfer/handoff_receiver.h"
#include "kv_transfer/handoff_sender.h"
#include "model/llama.h"

namespace penstock::bench {
namespace {

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + static_cast<int64_t>(values.size() / 2), values.end());
  return values[values.size() / 2];
}

double gbps(uint64_t bytes, Duration took) {
  return static_cast<double>(bytes) * 1e-3 / static_cast<double>(std::max<int64_t>(took.us, 1));
}

// Repetition r uses the r-th run of blocks, on both sides.
std::vector<BlockId> blocks_of_repetition(uint64_t repetition, int64_t blocks) {
  std::vector<BlockId> run;
  for (int64_t i = 0; i < blocks; ++i)
    run.emplace_back(static_cast<uint32_t>(static_cast<int64_t>(repetition) * blocks + i));
  return run;
}

HandoffOptions handoff_options(bool digests) {
  HandoffOptions options;
  options.digests = digests;
  return options;
}

// ---- the decode side: a child that grants what is asked for ----

Status serve_phase(HandoffPeer& peer, bool digests, uint64_t repetitions) {
  HandoffReceiver receiver(peer.transport(), peer.pool(), peer.capability(), handoff_options(digests));
  return peer.run_until([&] { return peer.has_message(); },
                        [&](TimePoint now) {
                          const bool more = receiver.poll(now);
                          for (const ReceiverEvent& event : receiver.take_events()) {
                            if (event.kind != ReceiverEvent::Kind::kReserveRequested) continue;
                            const int64_t blocks =
                                peer.pool().layout.blocks_for(static_cast<int64_t>(event.request.ids.size()));
                            const uint64_t repetition = event.key.transfer.value() % repetitions;
                            receiver.offer(now, event.key, blocks_of_repetition(repetition, blocks));
                          }
                          return more;
                        });
}

Status serve(int channel, const HandoffBenchOptions& options, const KvLayout& layout, uint32_t pool_blocks) {
  ASSIGN_OR_RETURN(const auto peer, HandoffPeer::make(channel, options.transports, layout, pool_blocks));
  RETURN_IF_ERROR(peer->connect());
  while (true) {
    RETURN_IF_ERROR(peer->run_until([&] { return peer->has_message(); }));
    ASSIGN_OR_RETURN(const std::string order, peer->receive());
    if (order == "stop") return {};
    RETURN_IF_ERROR(peer->send("ready"));
    RETURN_IF_ERROR(serve_phase(*peer, order == "digests", static_cast<uint64_t>(options.repetitions)));
  }
}

// ---- the prefill side ----

struct Timed {
  HandoffStats stats;
  TimePoint acked;
};

class Prefiller {
 public:
  Prefiller(HandoffPeer& peer, const HandoffBenchOptions& options)
      : peer_(peer),
        options_(options),
        blocks_(peer.pool().layout.blocks_for(options.prompt_tokens)),
        bytes_(static_cast<uint64_t>(blocks_ * peer.pool().layout.block_bytes_all())) {}

  Status begin_phase(bool digests) {
    sender_.reset();
    RETURN_IF_ERROR(peer_.send(digests ? "digests" : "plain"));
    ASSIGN_OR_RETURN(const std::string ready, peer_.receive());
    sender_ = std::make_unique<HandoffSender>(peer_.transport(), peer_.pool(), peer_.capability(),
                                              handoff_options(digests));
    return {};
  }

  // One put per plane, then a flush: what the machine can do.
  Result<double> put_loop(int repetition) {
    const KvLayout& layout = peer_.pool().layout;
    const TimePoint started = peer_.clock().now();
    for (int64_t plane = 0; plane < layout.planes(); ++plane) {
      const int64_t offset = layout.block_offset(static_cast<int32_t>(plane / 2), plane % 2 == 1,
                                                 repetition * blocks_, peer_.pool().blocks);
      RETURN_IF_ERROR(peer_.transport().put(peer_.peer(), peer_.pool().memory.base + offset,
                                            peer_.peer_pool(), static_cast<uint64_t>(offset),
                                            static_cast<size_t>(blocks_ * layout.block_bytes()), {}));
    }
    bool flushed = false;
    RETURN_IF_ERROR(peer_.transport().flush(peer_.peer(), [&](const Status&) { flushed = true; }));
    RETURN_IF_ERROR(peer_.run_until([&] { return flushed; }));
    return gbps(bytes_, peer_.clock().now() - started);
  }

  double copy(int repetition) {
    const KvLayout& layout = peer_.pool().layout;
    private_.resize(bytes_);
    const TimePoint started = peer_.clock().now();
    size_t to = 0;
    for (int64_t plane = 0; plane < layout.planes(); ++plane) {
      const int64_t offset = layout.block_offset(static_cast<int32_t>(plane / 2), plane % 2 == 1,
                                                 repetition * blocks_, peer_.pool().blocks);
      std::memcpy(private_.data() + to, peer_.pool().memory.base + offset,
                  static_cast<size_t>(blocks_ * layout.block_bytes()));
      to += static_cast<size_t>(blocks_ * layout.block_bytes());
    }
    return gbps(bytes_, peer_.clock().now() - started);
  }

  Result<HandoffKey> reserve(int repetition) {
    // The transfer's id says which blocks it takes on the other side.
    const uint64_t id =
        ++round_ * static_cast<uint64_t>(options_.repetitions) + static_cast<uint64_t>(repetition);
    HandoffRequest request;
    request.key = {TransferId(id), Epoch(1)};
    request.sequence = SequenceId(id);
    request.ids.assign(static_cast<size_t>(options_.prompt_tokens), 1);
    RETURN_IF_ERROR(sender_->reserve(peer_.clock().now(), peer_.peer(), std::move(request),
                                     blocks_of_repetition(static_cast<uint64_t>(repetition), blocks_)));
    return HandoffKey{TransferId(id), Epoch(1)};
  }

  // A handoff of KV that is there already.
  Result<Timed> hand_off(int repetition) {
    ASSIGN_OR_RETURN(const HandoffKey key, reserve(repetition));
    for (int32_t layer = 0; layer < peer_.pool().layout.layers; ++layer)
      sender_->layer_ready(peer_.clock().now(), key, layer, static_cast<uint32_t>(options_.prompt_tokens));
    sender_->commit(peer_.clock().now(), key, {1, options_.prompt_tokens, 0, 0});
    return finish({});
  }

  // Runs until the one handoff under way has ended. `each` runs every turn.
  Result<Timed> finish(const std::function<void(TimePoint)>& each) {
    std::optional<Timed> timed;
    std::optional<Failure> failure;
    RETURN_IF_ERROR(peer_.run_until([&] { return timed || failure; },
                                    [&](TimePoint now) {
                                      if (each) each(now);
                                      const bool more = sender_->poll(now);
                                      for (const SenderEvent& event : sender_->take_events()) {
                                        if (event.kind == SenderEvent::Kind::kCommitted)
                                          timed = Timed{event.stats, peer_.clock().now()};
                                        if (event.kind == SenderEvent::Kind::kFailed)
                                          failure = fail(handoff_reason_error(event.failure.reason),
                                                         event.failure.message);
                                      }
                                      return more;
                                    }));
    if (failure) return *failure;
    return *timed;
  }

  HandoffSender& sender() { return *sender_; }
  uint64_t bytes() const { return bytes_; }
  int64_t blocks() const { return blocks_; }

 private:
  HandoffPeer& peer_;
  const HandoffBenchOptions& options_;
  int64_t blocks_;
  uint64_t bytes_;
  uint64_t round_ = 0;
  std::vector<std::byte> private_;
  std::unique_ptr<HandoffSender> sender_;
};

Status measure_transfers(Prefiller& prefiller, const HandoffBenchOptions& options,
                         HandoffBenchResult& result) {
  std::vector<double> loops, puts, shares, acks, ack_shares, copies;
  for (int r = 0; r < options.repetitions; ++r) {  // first touch of every page, on both sides
    ASSIGN_OR_RETURN(const double ignored, prefiller.put_loop(r));
    static_cast<void>(ignored);
    prefiller.copy(r);
  }
  for (const bool digests : {false, true}) {
    RETURN_IF_ERROR(prefiller.begin_phase(digests));
    for (int r = 0; r < options.repetitions; ++r) {
      // Whoever comes second finds the bytes in the cache: they take turns.
      double loop = 0;
      if (r % 2 == 0) {
        ASSIGN_OR_RETURN(loop, prefiller.put_loop(r));
      }
      ASSIGN_OR_RETURN(const Timed timed, prefiller.hand_off(r));
      if (r % 2 == 1) {
        ASSIGN_OR_RETURN(loop, prefiller.put_loop(r));
      }
      copies.push_back(prefiller.copy(r));
      loops.push_back(loop);
      if (digests) {
        acks.push_back(gbps(prefiller.bytes(), timed.stats.reserve_to_ack));
        ack_shares.push_back(acks.back() / loop);
      } else {
        puts.push_back(gbps(prefiller.bytes(), timed.stats.transfer));
        shares.push_back(puts.back() / loop);
      }
    }
  }
  result.bytes = prefiller.bytes();
  result.put_loop_gbps = median(loops);
  result.put_gbps = median(puts);
  result.put_share = median(shares);
  result.reserve_to_ack_gbps = median(acks);
  result.reserve_to_ack_share = median(ack_shares);
  result.memcpy_gbps = median(copies);
  return {};
}

// One real prefill on its own thread, its layers handed over while later ones are computed.
struct Overlap {
  double share = 0, prefill_ms = 0, exposed_us = 0;
};

class OverlapRun {
 public:
  OverlapRun(HandoffPeer& peer, Prefiller& prefiller, const HandoffBenchOptions& options)
      : peer_(peer), prefiller_(prefiller), options_(options) {}

  Status load() {
    ASSIGN_OR_RETURN(stream_, device_->make_stream({options_.threads, std::nullopt}));
    ModelOptions model_options;
    model_options.rows_max = options_.prompt_tokens;
    model_options.logit_rows_max = 1;
    model_options.threads = options_.threads;
    ASSIGN_OR_RETURN(model_, load_model(options_.model, model_options, *device_));
    if (!(kv_layout_of(model_->config(), 64, KvDtype::kBf16) == peer_.pool().layout))
      return fail(
          Error::kUnsupported,
          options_.model + ": the benchmark's blocks have SmolLM2-135M's shape, this model has another");
    ASSIGN_OR_RETURN(logits_,
                     device_->allocate(model_->config().vocab_size * static_cast<int64_t>(sizeof(float))));
    return {};
  }

  Result<Overlap> run(int repetition) {
    ASSIGN_OR_RETURN(const HandoffKey key, prefiller_.reserve(repetition));
    std::atomic<uint64_t> completed{0}, at_last_layer{0};
    std::atomic<int64_t> prefill_end_us{0};
    std::vector<int> layers;
    std::mutex mutex;
    WakeEvent wake;
    peer_.wake_on(wake.fd());
    const TimePoint started = peer_.clock().now();
    std::thread engine([&] {
      forward(repetition, [&](int layer) {
        if (layer + 1 == peer_.pool().layout.layers) at_last_layer = completed.load();
        const std::lock_guard lock(mutex);
        layers.push_back(layer);
        wake.notify();
      });
      prefill_end_us = peer_.clock().now().us;
      const std::lock_guard lock(mutex);
      layers.push_back(-1);
      wake.notify();
    });
    const Result<Timed> timed = prefiller_.finish([&](TimePoint now) {
      wake.drain();
      std::vector<int> ready;
      {
        const std::lock_guard lock(mutex);
        ready.swap(layers);
      }
      for (int layer : ready) {
        if (layer >= 0)
          prefiller_.sender().layer_ready(now, key, layer, static_cast<uint32_t>(options_.prompt_tokens));
        if (layer < 0) prefiller_.sender().commit(now, key, {1, options_.prompt_tokens, 0, 0});
      }
      completed = prefiller_.sender().bytes_completed(key);
    });
    engine.join();
    peer_.wake_on(-1);
    if (!timed.ok()) return timed.failure();
    Overlap overlap;
    overlap.share = static_cast<double>(at_last_layer.load()) / static_cast<double>(prefiller_.bytes());
    overlap.prefill_ms = static_cast<double>(prefill_end_us.load() - started.us) * 1e-3;
    overlap.exposed_us = static_cast<double>(timed->acked.us - prefill_end_us.load());
    return overlap;
  }

 private:
  void forward(int repetition, LayerCallback on_layer) {
    const auto rows = options_.prompt_tokens;
    std::vector<TokenId> tokens;
    std::vector<int32_t> positions;
    for (int i = 0; i < rows; ++i) {
      tokens.push_back(100 + i * 37 % 4000);
      positions.push_back(i);
    }
    std::vector<uint32_t> table;
    for (BlockId block : blocks_of_repetition(static_cast<uint64_t>(repetition), prefiller_.blocks()))
      table.push_back(block.value());
    const SequenceSlice slice{0, rows, 0, table};
    const std::vector<int32_t> logit_rows = {rows - 1};
    const KvPoolView pool{peer_.pool().memory.base, peer_.pool().layout, peer_.pool().blocks};
    model_->forward(*stream_, {tokens, positions, {&slice, 1}, logit_rows}, pool,
                    Matrix<float>(logits_.as<float>(), 1, model_->config().vocab_size), on_layer);
  }

  HandoffPeer& peer_;
  Prefiller& prefiller_;
  const HandoffBenchOptions& options_;
  std::unique_ptr<Device> device_ = make_cpu_device();
  std::unique_ptr<Stream> stream_;
  std::unique_ptr<Model> model_;
  DeviceBuffer logits_;
};

Status measure_overlap(HandoffPeer& peer, Prefiller& prefiller, const HandoffBenchOptions& options,
                       HandoffBenchResult& result) {
  OverlapRun overlap(peer, prefiller, options);
  RETURN_IF_ERROR(overlap.load());
  std::vector<double> shares, times, exposed;
  for (int r = -1; r < options.prefills; ++r) {
    ASSIGN_OR_RETURN(const Overlap one, overlap.run((r + options.repetitions) % options.repetitions));
    if (r < 0) continue;  // the first one warms caches
    shares.push_back(one.share);
    times.push_back(one.prefill_ms);
    exposed.push_back(one.exposed_us);
  }
  result.overlap_share = median(shares);
  result.prefill_ms = median(times);
  result.exposed_us = median(exposed);
  return {};
}

Result<HandoffBenchResult> measure(int channel, const HandoffBenchOptions& options, const KvLayout& layout,
                                   uint32_t pool_blocks) {
  ASSIGN_OR_RETURN(const auto peer, HandoffPeer::make(channel, options.transports, layout, pool_blocks));
  RETURN_IF_ERROR(peer->connect());
  HandoffBenchResult result;
  result.library = peer->transport().address().identity.library;
  result.lanes = peer->transport().lanes(peer->peer()).put;
  Prefiller prefiller(*peer, options);
  RETURN_IF_ERROR(measure_transfers(prefiller, options, result));
  if (!options.model.empty()) RETURN_IF_ERROR(measure_overlap(*peer, prefiller, options, result));
  RETURN_IF_ERROR(peer->send("stop"));
  return result;
}

}  // namespace

Result<HandoffBenchResult> run_handoff_bench(const HandoffBenchOptions& options) {
  const KvLayout layout{30, 3, 64, 64, KvDtype::kBf16};  // SmolLM2-135M
  const auto pool_blocks =
      static_cast<uint32_t>(options.repetitions * layout.blocks_for(options.prompt_tokens));
  int pair[2];
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0)
    return fail(Error::kIo, std::string("socketpair: ") + std::strerror(errno));
  UniqueFd ours(pair[0]), theirs(pair[1]);
  const pid_t child = ::fork();
  if (child < 0) return fail(Error::kIo, std::string("fork: ") + std::strerror(errno));
  if (child == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    ours.reset();
    const Status served = serve(theirs.get(), options, layout, pool_blocks);
    if (!served.ok()) std::fprintf(stderr, "bench handoff, decode side: %s\n", served.message().c_str());
    ::_exit(served.ok() ? 0 : 1);
  }
  theirs.reset();
  Result<HandoffBenchResult> result = measure(ours.get(), options, layout, pool_blocks);
  if (!result.ok()) ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  return result;
}

}  // namespace penstock::bench

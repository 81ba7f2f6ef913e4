#include "fabric/lane_probe.h"

#include <algorithm>
#include <cstring>
#include <sstream>

namespace penstock {
namespace {

constexpr int kRepetitions = 4;  // the first one also wires lanes up and touches pages; the best counts
constexpr size_t kPutBytes = 1u << 20;
constexpr double kSharedShare = 0.6;   // of memcpy; shared memory is measured at 0.95 to 1
constexpr double kNetworkFloor = 0.8;  // GB/s; loopback tcp with default segments already reaches 1.4

double gbps(size_t bytes, Duration took) {
  return static_cast<double>(bytes) / std::max<double>(static_cast<double>(took.us), 1) * 1e-3;
}

}  // namespace

std::string slow_lane_warning(const LaneReport& lanes, double put_gbps, double memcpy_gbps) {
  const bool slow = lanes.shared_memory ? put_gbps < kSharedShare * memcpy_gbps : put_gbps < kNetworkFloor;
  if (!slow) return "";
  std::ostringstream text;
  text.precision(3);
  text << "slow KV lane: puts over \"" << (lanes.put.empty() ? "unknown" : lanes.put) << "\" reach "
       << put_gbps << " GB/s, memcpy " << memcpy_gbps << " GB/s; ";
  if (lanes.shared_memory) {
    text << "on one host check that UCX_TLS lists posix and that UCX_MM_ERROR_HANDLING=y is in force "
            "(ucx_info -c), and that other processes leave the cores free";
  } else {
    text
        << "check that UCX_TLS lists a fast transport of both hosts (posix on one host, rc on RDMA) and that "
           "UCX_TCP_TX_SEG_SIZE and UCX_TCP_RX_SEG_SIZE are 256k";
  }
  return text.str();
}

LaneProbe::LaneProbe(Transport& transport, const Clock& clock, LocalMemory local)
    : transport_(transport), clock_(clock), local_(std::move(local)) {
  CHECK_GE(local_.bytes, kBytes);
}

Status LaneProbe::start(PeerId peer, const MemoryDescriptor& target) {
  if (runs_.contains(peer)) return fail(Error::kInvalidArgument, "a probe of this peer is under way");
  if (target.bytes < kBytes) return fail(Error::kInvalidArgument, "the peer's probe memory is too small");
  Run run;
  ASSIGN_OR_RETURN(run.target, transport_.import_memory(peer, target));
  post(peer, runs_[peer] = run);
  return {};
}

void LaneProbe::post(PeerId peer, Run& run) {
  run.started = clock_.now();
  Status status;
  for (size_t offset = 0; offset < kBytes && status.ok(); offset += kPutBytes) {
    status = transport_.put(peer, local_.base + offset, run.target, offset, kPutBytes, {});
  }
  if (status.ok()) {
    status = transport_.flush(peer, [this, peer](const Status& flushed) { finished(peer, flushed); });
  }
  if (!status.ok()) finished(peer, status);
}

void LaneProbe::finished(PeerId peer, const Status& status) {
  const auto found = runs_.find(peer);
  if (found == runs_.end()) return;
  Run& run = found->second;
  if (status.ok()) {
    run.best_gbps = std::max(run.best_gbps, gbps(kBytes, clock_.now() - run.started));
    if (++run.repetition < kRepetitions) return post(peer, run);
  }
  LaneProbeResult result;
  result.peer = peer;
  result.status = status;
  if (status.ok()) {
    result.lanes = transport_.lanes(peer);
    result.put_gbps = run.best_gbps;
    std::vector<std::byte> target(kBytes);  // value-initialised: its pages exist
    for (int i = 0; i < kRepetitions; ++i) {
      const TimePoint started = clock_.now();
      std::memcpy(target.data(), local_.base, kBytes);
      result.memcpy_gbps = std::max(result.memcpy_gbps, gbps(kBytes, clock_.now() - started));
    }
    result.warning = slow_lane_warning(result.lanes, result.put_gbps, result.memcpy_gbps);
  }
  runs_.erase(found);
  results_.push_back(std::move(result));
}

std::vector<LaneProbeResult> LaneProbe::take_results() {
  std::vector<LaneProbeResult> results;
  results.swap(results_);
  return results;
}

}  // namespace penstock

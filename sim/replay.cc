#include "sim/replay.h"

#include <array>
#include <optional>
#include <sstream>
#include <variant>
#include <vector>

#include "scheduler/cluster/cluster_codec.h"
#include "scheduler/cluster/cluster_scheduler.h"

namespace penstock::sim {

namespace {

using scheduler::ClusterAction;
using scheduler::ClusterActions;
using scheduler::ClusterEvent;
using scheduler::RecordItem;
using scheduler::RecordReader;
using scheduler::TimedEvent;

constexpr std::array kEventNames = {"NodeJoined",     "NodeLost",          "PairUp",       "PairDown",
                                    "NodeLoad",       "Arrival",           "TokenArrived", "HandoffDone",
                                    "ReserveRefused", "SequenceFailed",    "ClientGone",   "StopFound",
                                    "DrainRequested", "ShutdownRequested", "Tick"};
static_assert(kEventNames.size() == std::variant_size_v<ClusterEvent>);
constexpr std::array kActionNames = {"NodeAccepted", "NodeRefused", "StartPrefill", "StartColocated",
                                     "AbortOn",      "Deliver",     "Finish",       "Reject",
                                     "Fail",         "NodeDrained"};
static_assert(kActionNames.size() == std::variant_size_v<ClusterAction>);

// "Deliver sequence=7 position=9": the name and whatever ids the struct has.
template <typename Variant, typename Names>
void describe(std::ostringstream& out, const Variant& variant, const Names& names) {
  out << names[variant.index()];
  std::visit(
      [&out](const auto& x) {
        if constexpr (requires { x.sequence; }) out << " sequence=" << x.sequence;
        if constexpr (requires { x.epoch; }) out << " epoch=" << x.epoch;
        if constexpr (requires { x.node; }) out << " node=" << x.node;
        if constexpr (requires { x.prefill; }) out << " prefill=" << x.prefill;
        if constexpr (requires { x.decode; }) out << " decode=" << x.decode;
        if constexpr (requires { x.position; }) out << " position=" << x.position;
        if constexpr (requires { x.token; }) out << " token=" << x.token;
      },
      variant);
}

// An event with actions that no mark has confirmed yet.
struct Unconfirmed {
  uint64_t number = 0;  // of the event, from 1
  size_t offset = 0;
  TimedEvent timed;
  ClusterActions actions;
};

std::string difference_at(const Unconfirmed& at, bool recorded_some) {
  constexpr size_t kActionsShown = 8;
  std::ostringstream out;
  out << "event " << at.number << " at byte " << at.offset << ", time " << at.timed.now << ", ";
  describe(out, at.timed.event, kEventNames);
  out << (recorded_some ? ", causes other actions than the recorded ones: now "
                        : ", caused no action when it was recorded and does now: ");
  if (at.actions.empty()) out << "none";
  for (size_t i = 0; i < at.actions.size() && i < kActionsShown; ++i) {
    out << (i == 0 ? "" : "; ");
    describe(out, at.actions[i], kActionNames);
  }
  if (at.actions.size() > kActionsShown) out << "; and " << at.actions.size() - kActionsShown << " more";
  return out.str();
}

class Replay {
 public:
  explicit Replay(const scheduler::ClusterPolicy& policy) : cluster_(policy) {}

  void add(TimedEvent timed, size_t offset) {
    const ClusterActions& actions = cluster_.step(timed.now, timed.event);
    hash_.add(timed.now, actions);
    ++report_.events;
    last_ = {report_.events, offset, std::move(timed), actions};
    if (!actions.empty() && !first_) first_ = last_;
  }

  // The recorded run caused its last actions by the event before the mark, and none since the mark before.
  void add(const scheduler::RecordMark& mark) {
    const bool recorded_some = mark.action_hash != recorded_hash_;
    recorded_hash_ = mark.action_hash;
    if (mark.action_hash == hash_.value()) {
      report_.checked = report_.events;
      first_.reset();
      return;
    }
    const bool is_early = first_ && (first_->number < last_.number || !recorded_some);
    report_.difference = is_early ? difference_at(*first_, false) : difference_at(last_, recorded_some);
  }

  bool differs() const { return !report_.difference.empty(); }
  ReplayReport report() {
    report_.action_hash = hash_.value();
    return report_;
  }

 private:
  scheduler::ClusterScheduler cluster_;
  scheduler::ActionHash hash_;
  uint64_t recorded_hash_ = 0;
  std::optional<Unconfirmed> first_;  // since the last mark
  Unconfirmed last_;
  ReplayReport report_;
};

// Reads all of it, so that nothing damaged reaches the scheduler, which trusts its driver: of a damaged
// record only what its last good mark covers.
struct Checked {
  size_t bytes = 0;  // may be replayed
  Status status;
};

Checked check_bytes(RecordReader reader) {
  TimePoint last;
  Checked checked{reader.offset(), {}};
  while (!reader.at_end()) {
    const size_t offset = reader.offset();
    const auto item = reader.read_item();
    if (!item.ok()) {
      checked.status = item.failure();
      return checked;
    }
    const auto* timed = std::get_if<TimedEvent>(&*item);
    if (timed == nullptr) {
      checked.bytes = reader.offset();
      continue;
    }
    if (timed->now < last) {
      checked.status = fail(Error::kCorrupt, "record: time goes back at byte " + std::to_string(offset));
      return checked;
    }
    last = timed->now;
  }
  checked.bytes = reader.offset();
  return checked;
}

}  // namespace

Result<ReplayReport> replay_record(std::span<const uint8_t> record) {
  RecordReader reader(record);
  ASSIGN_OR_RETURN(const scheduler::ClusterPolicy policy, reader.read_header());
  const Checked checked = check_bytes(reader);
  Replay replay(policy);
  while (reader.offset() < checked.bytes && !replay.differs()) {
    const size_t offset = reader.offset();
    ASSIGN_OR_RETURN(RecordItem item, reader.read_item());
    if (auto* timed = std::get_if<TimedEvent>(&item)) {
      replay.add(std::move(*timed), offset);
    } else {
      replay.add(std::get<scheduler::RecordMark>(item));
    }
  }
  ReplayReport report = replay.report();
  if (!checked.status.ok() && report.difference.empty()) {
    return fail(checked.status.code(), checked.status.message() + "; the first " +
                                           std::to_string(report.events) +
                                           " events cause the recorded actions");
  }
  return report;
}

}  // namespace penstock::sim

// Faults of a simulated world: how each kind begins and ends.
#include <utility>

#include "sim/world.h"

namespace penstock::sim {

using namespace scheduler;  // NOLINT: the vocabulary of this file is the scheduler's

namespace {
constexpr NodeId kStranger{0xffffffff};
}

void World::start_fault(const FaultPlan& fault) {
  --faults_left_;
  ++faults_active_;
  last_fault_ = now();
  ++report_.faults[static_cast<int>(fault.kind)];
  SimNode& node = *nodes_[static_cast<size_t>(fault.node)];
  Noise& noise = noise_[static_cast<size_t>(fault.node)];
  switch (fault.kind) {
    case FaultKind::kCrash:
      if (node.alive()) crash(fault.node);
      break;
    case FaultKind::kRoleOutage:
      for (auto& other : nodes_)
        if (other->plan().role == node.plan().role && other->alive()) crash(other->index());
      break;
    case FaultKind::kPause:
      node.pause();
      break;
    case FaultKind::kLoss:
      noise.loss = fault.strength;
      break;
    case FaultKind::kDuplication:
      noise.duplication = fault.strength;
      break;
    case FaultKind::kReordering:
      noise.reordering = fault.strength;
      break;
    case FaultKind::kSlowDevice:
      node.set_slowness(fault.strength, 1);
      break;
    case FaultKind::kSlowLink:
      node.set_slowness(1, fault.strength);
      break;
    case FaultKind::kPartition:
      partitioned_.insert({fault.node, fault.other});
      cut_pair(node.id(), nodes_[static_cast<size_t>(fault.other)]->id());
      break;
    case FaultKind::kStepFailure:
      node.fail_next_slice();
      break;
    case FaultKind::kDrain:
      drain(fault.node);
      break;
    case FaultKind::kStranger:
      admit_stranger();
      break;
  }
  queue_.after(fault.lasts, [this, fault] { end_fault(fault); });
}

void World::end_fault(const FaultPlan& fault) {
  --faults_active_;
  last_fault_ = now();
  SimNode& node = *nodes_[static_cast<size_t>(fault.node)];
  Noise& noise = noise_[static_cast<size_t>(fault.node)];
  switch (fault.kind) {
    case FaultKind::kCrash:
      restart(fault.node);
      break;
    case FaultKind::kRoleOutage:
      for (auto& other : nodes_)
        if (other->plan().role == node.plan().role) restart(other->index());
      break;
    case FaultKind::kPause:
      if (node.alive() && node.paused()) node.resume();
      break;
    case FaultKind::kLoss:
      noise.loss = 0;
      break;
    case FaultKind::kDuplication:
      noise.duplication = 0;
      break;
    case FaultKind::kReordering:
      noise.reordering = 0;
      break;
    case FaultKind::kSlowDevice:
    case FaultKind::kSlowLink:
      node.set_slowness(1, 1);
      break;
    case FaultKind::kPartition: {
      partitioned_.erase({fault.node, fault.other});
      const NodeId prefill = node.id(), decode = nodes_[static_cast<size_t>(fault.other)]->id();
      if (registrations_.contains(prefill) && registrations_.contains(decode)) connect(prefill, decode);
      break;
    }
    case FaultKind::kStepFailure:
    case FaultKind::kDrain:
    case FaultKind::kStranger:
      break;
  }
}

// The router sees the closed connection soon, or only the silence; peers see the process exit.
void World::crash(int index) {
  SimNode& node = *nodes_[static_cast<size_t>(index)];
  const uint32_t incarnation = node.incarnation();
  node.crash();
  if (rng_.below(3) > 0) {
    queue_.after(Duration{rng_.between(1000, 50'000)}, [this, index, incarnation] {
      lose_process(index, [&](const Registration& r) { return r.incarnation == incarnation; });
    });
  }
  for (auto& peer : nodes_) {
    if (peer->index() == index || !peer->alive()) continue;
    queue_.after(Duration{rng_.between(4000, 150'000)}, [&target = *peer, own = peer->incarnation(), index,
                                                         incarnation] {
      target.run(own, [&target, index, incarnation] { target.on_peer_died(index, incarnation); });
    });
  }
}

void World::restart(int index) {
  SimNode& node = *nodes_[static_cast<size_t>(index)];
  if (!node.alive()) node.start_process();
}

void World::cut_pair(NodeId prefill, NodeId decode) {
  if (pairs_.erase({prefill, decode}) > 0) step(PairDown{prefill, decode});
}

void World::drain(int index) {
  for (auto& [id, registration] : registrations_) {
    if (registration.node != index || !registration.accepted) continue;
    registration.draining = true;
    step(DrainRequested{id});
    return;
  }
}

void World::admit_stranger() {
  if (registrations_.empty()) return;  // an empty cluster takes the layout of whoever comes first
  NodeJoined joined;
  joined.node = kStranger;
  joined.name = "stranger";
  joined.capability.model = "simulated";
  joined.capability.layout_hash = LayoutHash(0xbad);
  joined.capability.context_max = 160;
  joined.capacity = {64, 8, 64, 1000, 50, 200};
  stranger_pending_ = true;
  step(joined);
  if (stranger_pending_) violate(5, "a node of another layout got no answer");
}

}  // namespace penstock::sim

#include "tests/router/fake_node.h"

#include <poll.h>

#include <algorithm>

namespace penstock::router {
namespace {

constexpr auto kHeartbeat = std::chrono::milliseconds(20);

template <typename Event>
wire::EventUnion event_of(Event event) {
  wire::EventUnion result;
  result.Set(std::move(event));
  return result;
}

}  // namespace

FakeNode::FakeNode(FakeCluster& cluster, std::string router_endpoint, FakeNodeOptions options)
    : cluster_(cluster), endpoint_(std::move(router_endpoint)), options_(std::move(options)) {
  thread_ = std::thread([this] { run(); });
}

void FakeNode::kill() {
  stop_ = true;
  if (thread_.joinable()) thread_.join();
}

void FakeNode::pause(bool on) { paused_ = on; }

void FakeNode::fail_next(const std::string& message) {
  const std::lock_guard lock(mutex_);
  fail_next_ = message;
}

std::vector<wire::StartT> FakeNode::starts() const {
  const std::lock_guard lock(mutex_);
  return starts_;
}

std::vector<wire::AbortT> FakeNode::aborts() const {
  const std::lock_guard lock(mutex_);
  return aborts_;
}

std::string FakeNode::refusal() const {
  const std::lock_guard lock(mutex_);
  return refusal_;
}

size_t FakeNode::active() const {
  const std::lock_guard lock(mutex_);
  return active_.size() + incoming_.size();
}

void FakeNode::run() {
  channel_ =
      wire::NodeChannel::dial(context_, endpoint_, wire::node_identity(options_.name, options_.incarnation))
          .value();
  while (!stop_) {
    pollfd descriptor{channel_->fd(), POLLIN, 0};
    ::poll(&descriptor, 1, options_.token_ms);
    if (paused_ || tokens_sent_ >= options_.step_tokens_max) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      continue;
    }
    std::vector<std::unique_ptr<wire::ControlT>> messages;
    channel_->receive(messages);
    for (const auto& message : messages) on_message(*message);
    announce();
    if (!accepted_ && !final_) register_now();
    if (accepted_) step();
    changed_.notify_all();
  }
  {
    const std::lock_guard lock(cluster_.mutex);
    std::erase_if(cluster_.nodes, [this](const auto& entry) { return entry.second == this; });
  }
  channel_.reset();
}

void FakeNode::register_now() {
  wire::RegisterT message;
  message.name = options_.name;
  message.role = options_.role;
  message.protocol = wire::kProtocolVersion;
  message.capability = std::make_unique<wire::CapabilityT>();
  message.capability->model = options_.model;
  message.capability->kv_dtype = "bf16";
  message.capability->block_tokens = 64;
  message.capability->layers = 2;
  message.capability->kv_heads = 1;
  message.capability->head_dim = 16;
  message.capability->layout_hash = options_.layout_hash;
  message.capability->context_max = 512;
  message.capability->vocab = 1015;
  message.capacity = std::make_unique<wire::CapacityT>();
  message.capacity->pool_blocks = options_.pool_blocks;
  message.capacity->sequences_max = options_.sequences_max;
  message.capacity->batch_tokens_max = 512;
  message.capacity->prefill_toks = 10000;
  message.capacity->decode_b1_toks = 100;
  message.capacity->decode_bmax_toks = 1000;
  message.peer_address = "tcp://127.0.0.1:1";
  message.incarnation = options_.incarnation;
  if (channel_->send(wire::control_of(std::move(message))).ok()) {
    accepted_ = true;  // until told otherwise; frames wait for the id
    ++registrations_;
    frame_no_ = 0;
    id_ = 0;
  }
}

// The cluster's lock comes before a node's, never after.
void FakeNode::announce() {
  if (id_ == 0) return;
  const std::lock_guard lock(cluster_.mutex);
  cluster_.nodes[id_] = this;
}

void FakeNode::on_message(const wire::ControlT& message) {
  const std::lock_guard lock(mutex_);
  if (const auto* answer = message.body.AsRegistered()) {
    active_.clear();
    if (!answer->accepted) {
      refusal_ = answer->reason;
      final_ = answer->final;
      accepted_ = false;
      id_ = 0;
      return;
    }
    id_ = answer->node_id;
  } else if (const auto* peers = message.body.AsPeers()) {
    if (options_.role != wire::Role::Prefill) return;
    for (const auto& peer : peers->peers) pairing_.push_back(peer->node_id);
  } else if (const auto* start = message.body.AsStart()) {
    starts_.push_back(*start);
    if (!fail_next_.empty()) {
      wire::SequenceFailedT failed;
      failed.sequence = start->sequence;
      failed.epoch = start->epoch;
      failed.code = wire::ErrorCode::InvalidArgument;
      failed.message = std::exchange(fail_next_, "");
      events_.push_back(event_of(std::move(failed)));
      return;
    }
    active_.push_back({*start, static_cast<uint32_t>(start->ids.size()), 0});
  } else if (const auto* abort = message.body.AsAbort()) {
    aborts_.push_back(*abort);
    std::erase_if(active_, [&](const Sequence& s) {
      return s.start.sequence == abort->sequence && s.start.epoch == abort->epoch;
    });
  }
}

void FakeNode::add_token(wire::FrameT& frame, Sequence& sequence, bool& ended) {
  const uint32_t index = sequence.position - sequence.start.prompt_tokens;
  auto token = std::make_unique<wire::TokenT>();
  token->sequence = sequence.start.sequence;
  token->epoch = sequence.start.epoch;
  token->position = sequence.position++;
  token->token = options_.script[index % options_.script.size()];
  token->logprob = -0.5f;
  if (sequence.start.logprobs) token->top.emplace_back(token->token, -0.5f);
  if (token->token == options_.end_id && !sequence.start.ignore_eos) {
    token->end_reason = wire::EndReason::Stop;
  } else if (index + 1 == sequence.start.tokens_max) {
    token->end_reason = wire::EndReason::Length;
  }
  ended = token->end_reason != wire::EndReason::None;
  frame.tokens.push_back(std::move(token));
  ++tokens_sent_;
}

// A pair is up once the decode node knows its own id: before, nothing could be handed to it.
void FakeNode::report_pairs() {
  const std::lock_guard lock(cluster_.mutex);
  std::erase_if(pairing_, [this](uint32_t peer) {
    if (!cluster_.nodes.contains(peer)) return false;
    wire::PairUpT up;
    up.peer = peer;
    up.lanes = "fake";
    up.put_gbps = 7;
    up.memcpy_gbps = 8;
    events_.push_back(event_of(std::move(up)));
    return true;
  });
}

void FakeNode::step() {
  if (id_ == 0) return;
  report_pairs();
  wire::FrameT frame;
  std::vector<Sequence> handed;
  {
    const std::lock_guard lock(mutex_);
    std::move(incoming_.begin(), incoming_.end(), std::back_inserter(active_));
    incoming_.clear();
    std::erase_if(active_, [&](Sequence& sequence) {
      if (held_) return false;
      bool ended = false;
      add_token(frame, sequence, ended);
      if (!ended && sequence.start.mode == wire::Mode::Prefill && options_.role == wire::Role::Prefill) {
        handed.push_back(sequence);
        return true;
      }
      return ended;
    });
    for (const Sequence& sequence : handed) {
      wire::HandoffDoneT done;
      done.sequence = sequence.start.sequence;
      done.epoch = sequence.start.epoch;
      done.transfer = sequence.start.transfer;
      done.bytes = 4096;
      done.transfer_us = 10;
      done.reserve_to_ack_us = 20;
      events_.push_back(event_of(std::move(done)));
    }
  }
  frame.events = std::exchange(events_, {});
  // A frame with news at once, an empty one as a heartbeat.
  const auto now = std::chrono::steady_clock::now();
  if (!frame.tokens.empty() || !frame.events.empty() || now - last_frame_ > kHeartbeat) {
    last_frame_ = now;
    send_frame(std::move(frame));
  }
  for (const Sequence& sequence : handed) hand_over(sequence);
}

void FakeNode::hand_over(const Sequence& sequence) {
  const std::lock_guard lock(cluster_.mutex);
  const auto found = cluster_.nodes.find(sequence.start.decode_node);
  if (found != cluster_.nodes.end()) found->second->take_over(sequence);
}

void FakeNode::take_over(Sequence sequence) {
  const std::lock_guard lock(mutex_);
  incoming_.push_back(std::move(sequence));
}

void FakeNode::send_frame(wire::FrameT frame) {
  frame.frame_no = ++frame_no_ + (skip_frame_.exchange(false) ? 1 : 0);
  frame.load = std::make_unique<wire::LoadT>();
  frame.load->free_blocks = options_.pool_blocks;
  frame.load->running = static_cast<uint32_t>(active());
  if (!channel_->send(wire::control_of(std::move(frame))).ok()) accepted_ = false;
}

}  // namespace penstock::router

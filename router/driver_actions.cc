// What the scheduler decided, carried out.
#include <algorithm>

#include "router/cluster_driver.h"
#include "router/wire_events.h"

namespace penstock::router {
namespace {

constexpr size_t kHandoffsKept = 256;

ApiError reject_error(const scheduler::Reject& action) {
  const int retry = std::max(action.retry_after_s, 1);
  switch (action.reason) {
    case scheduler::RejectReason::kQueueFull:
      return overloaded("The queue is full; try again later.", retry);
    case scheduler::RejectReason::kDeadline:
      return overloaded("No node can start this request in time; try again later.", retry);
    case scheduler::RejectReason::kNoPrefillNode:
      return unavailable("No prefill node is ready.", retry);
    case scheduler::RejectReason::kNoDecodeNode:
      return unavailable("No decode node is ready.", retry);
    case scheduler::RejectReason::kNoPair:
      return unavailable("No prefill node is connected to a decode node.", retry);
    case scheduler::RejectReason::kShuttingDown:
      return unavailable("The server is shutting down.", retry);
    case scheduler::RejectReason::kTooLong:
      return {400,
              "The prompt and its completion are larger than the KV pool of any node; lower max_tokens or "
              "shorten the prompt.",
              "invalid_request_error",
              "",
              "context_length_exceeded",
              0};
  }
  return internal_error("rejected");
}

ApiError fail_error(const scheduler::Fail& action) {
  const std::string detail = action.message.empty() ? "" : ": " + action.message;
  switch (action.reason) {
    case scheduler::FailReason::kNoOtherPair:
      return unavailable("The nodes serving this request were lost and no others are ready" + detail, 1);
    case scheduler::FailReason::kTooManyAttempts:
      return internal_error("The request failed on several nodes" + detail);
    case scheduler::FailReason::kNotRetryable:
      return internal_error("The request could not be served" + detail);
  }
  return internal_error("failed");
}

wire::StartT start_message(wire::Mode mode, TransferId transfer, NodeId decode) {
  wire::StartT start;
  start.mode = mode;
  start.transfer = transfer.value();
  start.decode_node = decode.value();
  return start;
}

}  // namespace

void ClusterDriver::apply(const scheduler::ClusterAction& action) {
  std::visit([this](const auto& a) { apply(a); }, action);
}

void ClusterDriver::apply(const scheduler::NodeAccepted& action) {
  NodeState* node = nodes_.find(action.node);
  if (node == nullptr) return;
  node->accepted = true;
  wire::RegisteredT answer;
  answer.accepted = true;
  answer.node_id = action.node.value();
  answer.heartbeat_ms = static_cast<uint32_t>(options_.heartbeat_period.us / 1000);
  answer.dead_after_ms = static_cast<uint32_t>(options_.dead_after.us / 1000);
  log_.info("node accepted", "node", action.node, "name", node->name, "role",
            node->role == scheduler::NodeRole::kPrefill ? "prefill" : "decode", "pid", node->pid);
  send_to(action.node, wire::control_of(std::move(answer)));
  announce_peers();
}

void ClusterDriver::apply(const scheduler::NodeRefused& action) {
  const NodeState* node = nodes_.find(action.node);
  if (node == nullptr) return;
  const std::string identity = node->identity;
  nodes_.remove(action.node);
  refuse(identity, action.reason, true);
}

void ClusterDriver::apply(const scheduler::StartPrefill& action) {
  HandoffRecord record;
  record.transfer = action.transfer;
  record.prefill = nodes_.name_of(action.prefill);
  record.decode = nodes_.name_of(action.decode);
  if (const auto found = sequences_.find(action.sequence); found != sequences_.end())
    record.response_id = found->second.request->answer->spec().header.id;
  if (handoffs_.size() == kHandoffsKept) handoffs_.pop_front();
  handoffs_.push_back(std::move(record));
  start(action.sequence, action.epoch, action.prefill,
        start_message(wire::Mode::Prefill, action.transfer, action.decode));
}

void ClusterDriver::apply(const scheduler::StartColocated& action) {
  start(action.sequence, action.epoch, action.node,
        start_message(wire::Mode::Colocated, TransferId(), NodeId()));
}

void ClusterDriver::start(SequenceId id, Epoch epoch, NodeId on, wire::StartT message) {
  const auto found = sequences_.find(id);
  CHECK(found != sequences_.end());
  Sequence& sequence = found->second;
  const AnswerSpec& spec = sequence.request->answer->spec();
  const TimePoint now = clock_.now();
  if (epoch.value() > 1) {
    metrics_.replays.add();
    log_.warn("replay", "sequence", id, "epoch", epoch, "node", nodes_.name_of(on), "delivered",
              sequence.ids.size() - sequence.prompt_tokens);
  } else {
    metrics_.queue_time.observe((now - sequence.request->arrived).seconds());
  }
  sequence.started = now;
  sequence.epoch = epoch;
  sequence.arrived.clear();  // what an earlier attempt said and was not delivered does not count

  message.sequence = id.value();
  message.epoch = epoch.value();
  message.ids = sequence.ids;
  message.prompt_tokens = static_cast<uint32_t>(sequence.prompt_tokens);
  message.tokens_max = static_cast<uint32_t>(sequence.tokens_max);
  message.stop_ids = model_.eos_ids();
  message.ignore_eos = spec.options.ignore_eos;
  message.logprobs = spec.options.logprobs;
  message.top_logprobs = static_cast<uint32_t>(spec.options.top_logprobs);
  message.sampling = std::make_unique<wire::SamplingT>();
  message.sampling->temperature = static_cast<float>(spec.options.sampling.temperature);
  message.sampling->top_k = static_cast<uint32_t>(spec.options.sampling.top_k);
  message.sampling->top_p = static_cast<float>(spec.options.sampling.top_p);
  message.sampling->min_p = static_cast<float>(spec.options.sampling.min_p);
  message.sampling->seed = sequence.request->seed;
  // Prompts of one request are independent: each counts its choices from 0, as if it had come alone.
  message.sampling->choice =
      static_cast<uint32_t>(sequence.choice % static_cast<size_t>(spec.options.choices));
  send_to(on, wire::control_of(std::move(message)));
}

void ClusterDriver::apply(const scheduler::AbortOn& action) {
  wire::AbortT abort;
  abort.sequence = action.sequence.value();
  abort.epoch = action.epoch.value();
  abort.reason = abort_reason(action.reason);
  send_to(action.node, wire::control_of(std::move(abort)));
}

void ClusterDriver::apply(const scheduler::Deliver& action) {
  const auto found = sequences_.find(action.sequence);
  CHECK(found != sequences_.end());
  Sequence& sequence = found->second;
  CHECK_EQ(static_cast<size_t>(action.position), sequence.ids.size());
  GeneratedToken token;
  if (auto extra = sequence.arrived.find(action.position); extra != sequence.arrived.end())
    token = std::move(extra->second);
  sequence.arrived.erase(sequence.arrived.begin(), sequence.arrived.upper_bound(action.position));
  token.token = action.token;
  sequence.ids.push_back(action.token);

  const TimePoint now = clock_.now();
  if (sequence.first_token.us == 0) {
    sequence.first_token = now;
    metrics_.time_to_first_token.observe((now - sequence.request->arrived).seconds());
    metrics_.prefill_time.observe((now - sequence.started).seconds());
  } else {
    metrics_.inter_token_latency.observe((now - sequence.last_token).seconds());
  }
  sequence.last_token = sequence.request->last_sent = now;
  metrics_.generation_tokens.add();
  if (sequence.request->client_gone) return;
  if (sequence.request->answer->push(sequence.choice, std::move(token)))
    post(scheduler::StopFound{action.sequence});
}

void ClusterDriver::apply(const scheduler::Finish& action) {
  const auto found = sequences_.find(action.sequence);
  CHECK(found != sequences_.end());
  Request& request = *found->second.request;
  if (action.reason == scheduler::EndReason::kAborted) {
    end_sequence(action.sequence, "abort");
    return;
  }
  const char* reason = action.reason == scheduler::EndReason::kLength ? "length" : "stop";
  if (!request.client_gone) request.answer->end(found->second.choice, reason);
  end_sequence(action.sequence, reason);
}

void ClusterDriver::apply(const scheduler::Reject& action) {
  fail_request(action.sequence, reject_error(action));
}

void ClusterDriver::apply(const scheduler::Fail& action) {
  const ApiError error = fail_error(action);
  log_.error("sequence given up", "sequence", action.sequence, "reason", error.message);
  fail_request(action.sequence, error);
}

void ClusterDriver::apply(const scheduler::NodeDrained& action) {
  log_.info("node drained", "node", action.node, "name", nodes_.name_of(action.node));
  send_to(action.node, wire::control_of(wire::DrainT()));
}

}  // namespace penstock::router

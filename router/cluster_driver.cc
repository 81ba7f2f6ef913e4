#include "router/cluster_driver.h"

#include <algorithm>
#include <random>

namespace penstock::router {
namespace {

uint64_t random_seed() {
  std::random_device device;
  return (static_cast<uint64_t>(device()) << 32) | device();
}

}  // namespace

ClusterDriver::ClusterDriver(const ServedModel& model, DriverOptions options, const Clock& clock, Logger log,
                             RouterMetrics& metrics, Send send)
    : model_(model),
      options_(std::move(options)),
      clock_(clock),
      log_(std::move(log)),
      metrics_(metrics),
      send_(std::move(send)),
      scheduler_(options_.policy),
      rng_(random_seed()),
      last_tick_(clock.now()),
      heartbeat_due_(clock.now()) {
  // Sequence ids start anywhere, so that a node which outlives a router cannot mistake one life's for
  // another's.
  last_sequence_ = random_seed() >> 16;
}

void ClusterDriver::submit(std::unique_ptr<Answer> answer) {
  const uint64_t number = ++last_request_;
  Request& request = *requests_.emplace(number, std::make_unique<Request>()).first->second;
  request.number = number;
  request.arrived = request.last_sent = clock_.now();
  request.answer = std::move(answer);
  const GenerationOptions& options = request.answer->spec().options;
  request.seed = options.sampling.seed ? static_cast<uint64_t>(*options.sampling.seed) : rng_();
  request.answer->exchange().on_gone([this, number] { client_gone(number); });
  for (const auto& prompt : request.answer->spec().prompts)
    metrics_.prompt_tokens.add(static_cast<double>(prompt.size()));

  // All choices first: a rejection of one while others are unknown would end the request too early.
  std::vector<scheduler::Arrival> arrivals;
  for (size_t choice = 0; choice < request.answer->choice_count(); ++choice) {
    const SequenceId id(++last_sequence_);
    Sequence& sequence = sequences_[id];
    sequence.request = &request;
    sequence.choice = choice;
    sequence.ids = request.answer->prompt_of(choice);
    sequence.prompt_tokens = sequence.ids.size();
    const int64_t room = model_.context_max() - static_cast<int64_t>(sequence.prompt_tokens);
    sequence.tokens_max = static_cast<int32_t>(std::min(options.tokens_max.value_or(room), room));
    request.open.push_back(id);
    arrivals.push_back(
        {id, static_cast<int32_t>(sequence.prompt_tokens), sequence.tokens_max, TimePoint::max()});
  }
  for (const scheduler::Arrival& arrival : arrivals) {
    // A choice before this one may have ended the request.
    const auto found = sequences_.find(arrival.sequence);
    if (found->second.request->answer->complete()) {
      end_sequence(arrival.sequence, "error");
    } else {
      post(arrival);
    }
  }
}

void ClusterDriver::shutdown() { post(scheduler::ShutdownRequested{}); }

bool ClusterDriver::ready() const {
  if (options_.policy.disaggregate == scheduler::Disaggregate::kAlways) return nodes_.has_pair();
  return nodes_.has_role(scheduler::NodeRole::kDecode);
}

// Actions may cause events (a stop string in a delivered token): those wait until the step is carried out.
void ClusterDriver::post(scheduler::ClusterEvent event) {
  events_.push_back(std::move(event));
  if (stepping_) return;
  stepping_ = true;
  while (!events_.empty()) {
    const scheduler::ClusterEvent next = std::move(events_.front());
    events_.pop_front();
    for (const scheduler::ClusterAction& action : step(next)) apply(action);
  }
  stepping_ = false;
  metrics_.requests_running.set(static_cast<double>(requests_.size()));
  metrics_.requests_waiting.set(scheduler_.stats().queued);
  if (on_step_) on_step_();
}

const scheduler::ClusterActions& ClusterDriver::step(const scheduler::ClusterEvent& event) {
  const TimePoint now = clock_.now();
  if (options_.recorder != nullptr) options_.recorder->add_event(now, event);
  const scheduler::ClusterActions& actions = scheduler_.step(now, event);
  if (options_.recorder != nullptr) options_.recorder->add_actions(now, actions);
  return actions;
}

void ClusterDriver::client_gone(uint64_t number) {
  const auto found = requests_.find(number);
  if (found == requests_.end()) return;
  found->second->client_gone = true;
  log_.info("client gone", "response", found->second->answer->spec().header.id);
  for (const SequenceId id : std::vector<SequenceId>(found->second->open)) post(scheduler::ClientGone{id});
}

void ClusterDriver::keep_alive(TimePoint now) {
  for (const auto& [number, request] : requests_) {
    const int32_t after_s = request->answer->spec().options.keep_alive_s;
    if (after_s == 0 || request->client_gone || now - request->last_sent < Duration::from_ms(1000) * after_s)
      continue;
    request->last_sent = now;
    request->answer->keep_alive();
  }
}

// One sequence is lost, so the request is: its other sequences end too.
void ClusterDriver::fail_request(SequenceId lost, const ApiError& error) {
  const auto found = sequences_.find(lost);
  CHECK(found != sequences_.end());
  Request& request = *found->second.request;
  if (!request.client_gone) request.answer->fail(error);
  for (const SequenceId id : request.open) {
    if (id != lost) post(scheduler::ClientGone{id});
  }
  end_sequence(lost, "error");
}

void ClusterDriver::end_sequence(SequenceId id, const char* metric_reason) {
  const auto found = sequences_.find(id);
  CHECK(found != sequences_.end());
  Request& request = *found->second.request;
  const Sequence& sequence = found->second;
  metrics_.count_finished(metric_reason);
  if (sequence.first_token.us != 0)
    metrics_.decode_time.observe((sequence.last_token - sequence.first_token).seconds());
  std::erase(request.open, id);
  sequences_.erase(found);
  if (!request.open.empty()) return;
  metrics_.request_latency.observe((clock_.now() - request.arrived).seconds());
  requests_.erase(request.number);
}

TimePoint ClusterDriver::next_due() const { return std::min(heartbeat_due_, scheduler_.next_wakeup()); }

void ClusterDriver::tick() {
  const TimePoint now = clock_.now();
  // A router that was itself stopped has heard nothing, which says nothing about the nodes.
  const bool was_stopped = now - last_tick_ > options_.heartbeat_period * 3;
  last_tick_ = now;
  std::vector<NodeId> silent;
  for (auto& [id, node] : nodes_.all()) {
    if (was_stopped) node.last_seen = now;
    if (now - node.last_seen > options_.dead_after) silent.push_back(id);
  }
  for (const NodeId id : silent)
    lose(id, "silent for more than " + std::to_string(options_.dead_after.us / 1000) + " ms");
  if (now >= heartbeat_due_) {
    heartbeat_due_ = now + options_.heartbeat_period;
    const wire::ControlT beat = wire::control_of(wire::HeartbeatT());
    std::vector<NodeId> ids;
    for (const auto& [id, node] : nodes_.all()) ids.push_back(id);
    for (const NodeId id : ids) send_to(id, beat);
    keep_alive(now);
  }
  if (now >= scheduler_.next_wakeup()) post(scheduler::Tick{});
}

}  // namespace penstock::router

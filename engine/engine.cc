#include "engine/engine.h"

#include <utility>

#include "base/check.h"

namespace penstock {

using scheduler::BatchActions;
using scheduler::RunStep;
using scheduler::SequenceKind;
using scheduler::Slice;

namespace {

// Weight of the newest step in the running means: about the last 16 steps count.
constexpr double kNewest = 1.0 / 16;

void blend(double& mean, double value) { mean = mean == 0 ? value : mean + kNewest * (value - mean); }

std::string refuse_message(const scheduler::Refused& refused) {
  using scheduler::RefuseReason;
  switch (refused.reason) {
    case RefuseReason::kNoBlocks:
    case RefuseReason::kTooLong:
      return "needs " + std::to_string(refused.blocks_needed) + " KV blocks, " +
             std::to_string(refused.blocks_free) + " are free";
    case RefuseReason::kTooManySequences:
      return "as many sequences as engine.sequences_max allows";
    case RefuseReason::kDuplicate:
      return "this attempt of the sequence is known already";
    case RefuseReason::kStaleEpoch:
      return "a newer attempt of the sequence is known";
    case RefuseReason::kInvalid:
      return "no tokens, or limits out of range";
  }
  return "refused";
}

}  // namespace

Engine::Engine(const scheduler::BatchConfig& config, Runner& runner, const Clock& clock,
               EngineListener& listener)
    : scheduler_(config), runner_(runner), clock_(clock), listener_(listener) {}

bool Engine::run_step() {
  const BatchActions& actions = scheduler_.step(clock_.now(), scheduler::Schedule{});
  const RunStep* step = nullptr;
  for (const auto& action : actions) {
    if (const auto* run = std::get_if<RunStep>(&action)) step = run;
  }
  carry_out(actions);
  if (step == nullptr) return false;
  const RunStep running = *step;  // the actions live only until the next scheduler call; its slices longer
  forward(running);
  // What was in the pass but is not in done_ has lost its KV with the pass.
  std::vector<SequenceKey> lost;
  if (step_failed_) {
    for (const Slice& slice : running.slices) {
      if (!slice.wants_sample) lost.push_back(slice.key);
    }
  }
  carry_out(scheduler_.step(clock_.now(), done_));
  for (const SequenceKey key : lost) carry_out(scheduler_.step(clock_.now(), scheduler::Abort{key}));
  step_failed_ = false;
  listener_.on_step_end();
  return true;
}

void Engine::handle(const EngineCommand& command) {
  std::visit(
      [this](const auto& c) {
        using Command = std::decay_t<decltype(c)>;
        if constexpr (std::is_same_v<Command, SubmitSequence>) {
          submit(c.kind, c.spec, c.params);
        } else if constexpr (std::is_same_v<Command, ReserveSequence>) {
          submit(SequenceKind::kDecode, c.spec, c.params);
        } else {
          carry_out(scheduler_.step(clock_.now(), c));
        }
      },
      command);
}

void Engine::submit(SequenceKind kind, const scheduler::SequenceSpec& spec, const DecodeParams& params) {
  const auto [entry, added] = params_.try_emplace(spec.key, params);
  const TimePoint now = clock_.now();
  const BatchActions& actions = kind == SequenceKind::kDecode
                                    ? scheduler_.step(now, scheduler::Reserve{spec})
                                    : scheduler_.step(now, scheduler::Add{kind, spec});
  bool refused = false;
  for (const auto& action : actions) {
    const auto* r = std::get_if<scheduler::Refused>(&action);
    refused = refused || (r != nullptr && r->key == spec.key);
  }
  if (refused && added) params_.erase(entry);
  carry_out(actions);
}

void Engine::carry_out(const BatchActions& actions) {
  for (const auto& action : actions) {
    std::visit(
        [this](const auto& a) {
          using Action = std::decay_t<decltype(a)>;
          if constexpr (std::is_same_v<Action, scheduler::Emit>) {
            tell(a);
          } else if constexpr (std::is_same_v<Action, scheduler::HandoffReady>) {
            listener_.on_handoff_ready(a.key, a.position, a.first_token);
          } else if constexpr (std::is_same_v<Action, scheduler::ReserveGranted>) {
            listener_.on_reserve_granted(a.key, a.blocks);
          } else if constexpr (std::is_same_v<Action, scheduler::Refused>) {
            listener_.on_refused(a.key, a.reason, refuse_message(a));
          } else if constexpr (std::is_same_v<Action, scheduler::Preempted>) {
            ++speeds_.preemptions;
          } else if constexpr (std::is_same_v<Action, scheduler::Ended>) {
            const EndReason reason = step_failed_ ? EndReason::kFailed : a.reason;
            listener_.on_ended(a.key, reason, a.handoff_open, reason == EndReason::kFailed ? failure_ : "");
          } else if constexpr (std::is_same_v<Action, scheduler::Freed>) {
            params_.erase(a.key);
            listener_.on_freed(a.key);
          }
        },
        action);
  }
}

// Fills done_ with one result per sampled slice.
void Engine::forward(const RunStep& step) {
  const TimePoint start = clock_.now();
  batch_.gather(scheduler_, step.slices);
  for (const Slice& slice : step.slices) {
    if (slice.reserve_now) listener_.on_reserve_due(slice, scheduler_.blocks_of(slice.key));
  }
  const Status status =
      runner_.run(batch_.view(), [&](int32_t layer) { listener_.on_layer(layer, step.slices); });
  if (status.ok()) {
    sample_all(step);
  } else {
    fail_all(step, status.message());
  }
  measure(step, clock_.now() - start);
}

void Engine::sample_all(const RunStep& step) {
  size_t count = 0;
  for (const Slice& slice : step.slices) {
    if (!slice.wants_sample) continue;
    if (count == rows_.size()) rows_.emplace_back();
    rows_[count].slice = &slice;
    rows_[count++].params = &params_.at(slice.key);
  }
  runner_.for_each(static_cast<int64_t>(count), [this](int64_t row) { sample_row(row); });
  done_.results.clear();
  sampled_.clear();
  for (size_t i = 0; i < count; ++i) {
    const bool failed = !rows_[i].failure.empty();
    if (failed) failure_ = rows_[i].failure;
    done_.results.push_back({rows_[i].slice->key, rows_[i].token.token, failed});
    sampled_.push_back(std::move(rows_[i].token));
  }
}

void Engine::sample_row(int64_t index) {
  SampledRow& row = rows_[static_cast<size_t>(index)];
  const DecodeParams& params = *row.params;
  row.failure.clear();
  row.token = {};
  row.token.key = row.slice->key;
  row.token.position = row.slice->first_position + row.slice->token_count;
  const std::span<const float> logits = runner_.logits(index);
  const auto drawn = sample(runner_.isa(), logits, params.sampling, row.token.position, row.scratch);
  if (!drawn.ok()) {
    row.failure = drawn.message();
    return;
  }
  row.token.token = drawn->token;
  row.token.logprob = drawn->logprob;
  if (params.logprobs && params.top_logprobs > 0) {
    row.token.top.resize(static_cast<size_t>(params.top_logprobs));
    const auto found = top_logprobs(runner_.isa(), logits, params.top_logprobs, row.token.top, row.scratch);
    row.token.top.resize(found.ok() ? static_cast<size_t>(*found) : 0);
  }
}

void Engine::fail_all(const RunStep& step, const std::string& message) {
  failure_ = message;
  step_failed_ = true;
  done_.results.clear();
  sampled_.clear();
  for (const Slice& slice : step.slices) {
    if (!slice.wants_sample) continue;
    done_.results.push_back({slice.key, 0, true});
    sampled_.emplace_back();
  }
}

void Engine::tell(const scheduler::Emit& emit) {
  ++speeds_.generated_tokens;
  EmittedToken token;
  if (emit.result_index >= 0) token = std::move(sampled_[static_cast<size_t>(emit.result_index)]);
  token.key = emit.key;
  token.position = emit.position;
  token.token = emit.token;
  token.end = emit.end;
  listener_.on_token(token);
}

void Engine::measure(const RunStep& step, Duration took) {
  ++speeds_.steps;
  int64_t decode_tokens = 0;
  for (const Slice& slice : step.slices) decode_tokens += slice.token_count == 1 ? 1 : 0;
  const int64_t prefill_tokens = step.token_count - decode_tokens;
  speeds_.prompt_tokens += static_cast<uint64_t>(prefill_tokens);
  const double seconds = took.seconds();
  if (seconds <= 0) return;
  if (prefill_tokens == 0) {
    blend(speeds_.decode_step_s, seconds);
    blend(speeds_.decode_tokens_per_s, static_cast<double>(decode_tokens) / seconds);
  } else if (prefill_tokens > 4 * decode_tokens) {
    blend(speeds_.prefill_tokens_per_s, static_cast<double>(step.token_count) / seconds);
  }
}

}  // namespace penstock

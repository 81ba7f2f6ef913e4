// Engine: the step loop of a serving node. Events in, one forward pass a step, tokens out.
//
// Owned and driven by ONE thread (the node's engine thread). It holds the batch scheduler and what each
// sequence needs beside it: how to sample, whether log-probabilities are wanted. Nothing here blocks except
// the forward pass. The listener is called on the same thread and must not call back into the engine: it
// posts.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <unordered_map>
#include <variant>
#include <vector>

#include "base/ids.h"
#include "base/time.h"
#include "engine/runner.h"
#include "engine/step_batch.h"
#include "kernels/sampling.h"
#include "scheduler/batch/batch_scheduler.h"

namespace penstock {

using scheduler::EndReason;
using scheduler::SequenceKey;

// How tokens of a sequence are drawn and what is told about them.
struct DecodeParams {
  SamplingParams sampling;
  bool logprobs = false;
  int32_t top_logprobs = 0;  // <= kTopLogprobsMax
};

// ---- Commands ----
struct SubmitSequence {
  scheduler::SequenceKind kind = scheduler::SequenceKind::kLocal;  // kLocal or kPrefill
  scheduler::SequenceSpec spec;
  DecodeParams params;
};
struct ReserveSequence {  // D: a prefill node asks for blocks
  scheduler::SequenceSpec spec;
  DecodeParams params;
};
using EngineCommand = std::variant<SubmitSequence, ReserveSequence, scheduler::KvCommitted,
                                   scheduler::HandoffEnded, scheduler::Abort>;

// ---- What the listener hears ----
struct EmittedToken {
  SequenceKey key;
  int32_t position = 0;
  TokenId token = 0;
  float logprob = 0;
  std::vector<TokenLogprob> top;  // best first
  EndReason end = EndReason::kNone;
};

class EngineListener {
 public:
  virtual ~EngineListener() = default;
  virtual void on_token(const EmittedToken& token) = 0;
  // P: the handoff is to be opened, before this slice is computed. `blocks` are all blocks of the prompt;
  // they stand still until HandoffEnded. KV of positions below slice.first_position is in them already.
  virtual void on_reserve_due(const scheduler::Slice& slice, std::span<const BlockId> blocks) = 0;
  // During a step: the K and V of `layer` of every slice are in the pool.
  virtual void on_layer(int32_t layer, std::span<const scheduler::Slice> slices) = 0;
  virtual void on_handoff_ready(SequenceKey key, int32_t position, TokenId first_token) = 0;
  virtual void on_reserve_granted(SequenceKey key, std::span<const BlockId> blocks) = 0;
  virtual void on_refused(SequenceKey key, scheduler::RefuseReason reason, const std::string& message) = 0;
  // With handoff_open the listener ends the handoff and owes the engine HandoffEnded.
  virtual void on_ended(SequenceKey key, EndReason reason, bool handoff_open, const std::string& message) = 0;
  virtual void on_freed(SequenceKey key) = 0;
  virtual void on_step_end() = 0;  // a forward pass ended and its tokens were told
};

// What the node reports of itself; recent means over about a second of steps.
struct EngineSpeeds {
  double prefill_tokens_per_s = 0;  // over steps that are mostly prefill
  double decode_step_s = 0;         // over steps without prefill
  double decode_tokens_per_s = 0;
  uint64_t steps = 0, prompt_tokens = 0, generated_tokens = 0, preemptions = 0;
};

class Engine {
 public:
  // runner, clock and listener outlive the engine.
  Engine(const scheduler::BatchConfig& config, Runner& runner, const Clock& clock, EngineListener& listener);

  void handle(const EngineCommand& command);
  // Runs one forward pass if there is work; false when nothing can run until another command comes.
  bool run_step();

  scheduler::BatchLoad load() const { return scheduler_.load(); }
  const EngineSpeeds& speeds() const { return speeds_; }
  void set_reserve_lead_tokens(int32_t tokens) { scheduler_.set_reserve_lead_tokens(tokens); }
  const scheduler::BatchScheduler& batch() const { return scheduler_; }

 private:
  // One row of logits on its way to a token. Rows are drawn side by side, each with buffers of its own.
  struct SampledRow {
    const scheduler::Slice* slice = nullptr;
    const DecodeParams* params = nullptr;
    SamplingScratch scratch;
    EmittedToken token;
    std::string failure;
  };

  void carry_out(const scheduler::BatchActions& actions);
  void submit(scheduler::SequenceKind kind, const scheduler::SequenceSpec& spec, const DecodeParams& params);
  void forward(const scheduler::RunStep& step);
  void sample_all(const scheduler::RunStep& step);
  void sample_row(int64_t row);
  void fail_all(const scheduler::RunStep& step, const std::string& message);
  void measure(const scheduler::RunStep& step, Duration took);
  void tell(const scheduler::Emit& emit);

  scheduler::BatchScheduler scheduler_;
  Runner& runner_;
  const Clock& clock_;
  EngineListener& listener_;
  std::unordered_map<SequenceKey, DecodeParams> params_;
  StepBatch batch_;
  std::vector<SampledRow> rows_;  // rows of this step's logits; never shrinks
  scheduler::StepDone done_;
  std::vector<EmittedToken> sampled_;  // one per result: log-probabilities until Emit names the position
  std::string failure_;                // why the last step's failed sequences failed
  bool step_failed_ = false;           // the forward pass itself, so all its sequences
  EngineSpeeds speeds_;
};

}  // namespace penstock

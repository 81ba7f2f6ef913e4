#include "node/frame_builder.h"

#include <utility>

namespace penstock {
namespace {

wire::EndReason wire_end(EndReason end) {
  if (end == EndReason::kStop) return wire::EndReason::Stop;
  return end == EndReason::kLength ? wire::EndReason::Length : wire::EndReason::None;
}

std::unique_ptr<wire::TokenT> wire_token(EmittedToken&& token) {
  auto out = std::make_unique<wire::TokenT>();
  out->sequence = token.key.sequence.value();
  out->epoch = token.key.epoch.value();
  out->position = static_cast<uint32_t>(token.position);
  out->token = token.token;
  out->logprob = token.logprob;
  for (const TokenLogprob& top : token.top) out->top.emplace_back(top.token, top.logprob);
  out->end_reason = wire_end(token.end);
  return out;
}

std::unique_ptr<wire::LoadT> wire_load(const scheduler::BatchLoad& load, const EngineSpeeds& speeds) {
  auto out = std::make_unique<wire::LoadT>();
  out->free_blocks = static_cast<uint32_t>(load.blocks_free);
  out->held_blocks = static_cast<uint32_t>(load.blocks_held);
  out->leased_blocks = static_cast<uint32_t>(load.blocks_leased);
  out->quarantined_blocks = static_cast<uint32_t>(load.blocks_quarantined);
  out->running = static_cast<uint32_t>(load.running);
  out->waiting = static_cast<uint32_t>(load.waiting);
  out->waiting_tokens = static_cast<uint64_t>(load.waiting_tokens);
  out->prefill_toks = static_cast<float>(speeds.prefill_tokens_per_s);
  out->decode_toks = static_cast<float>(speeds.decode_tokens_per_s);
  out->preemptions = speeds.preemptions;
  return out;
}

}  // namespace

void FrameBuilder::restart() {
  frame_ = {};
  frames_ = 0;
  load_changed_ = true;
}

void FrameBuilder::add(StepReport&& report) {
  for (EmittedToken& token : report.tokens) frame_.tokens.push_back(wire_token(std::move(token)));
  for (wire::EventUnion& event : report.events) frame_.events.push_back(std::move(event));
  load_ = report.load;
  speeds_ = report.speeds;
  load_changed_ = true;
}

wire::FrameT FrameBuilder::take() {
  frame_.frame_no = ++frames_;
  frame_.load = wire_load(load_, speeds_);
  load_changed_ = false;
  return std::exchange(frame_, wire::FrameT{});
}

}  // namespace penstock

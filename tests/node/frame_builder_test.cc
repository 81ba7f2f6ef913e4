#include "node/frame_builder.h"

#include <gtest/gtest.h>

namespace penstock {
namespace {

StepReport report_with(int32_t position, EndReason end = EndReason::kNone) {
  StepReport report;
  EmittedToken token;
  token.key = {SequenceId(7), Epoch(2)};
  token.position = position;
  token.token = 42;
  token.logprob = -0.25F;
  token.top = {{42, -0.25F}, {1, -3.0F}};
  token.end = end;
  report.tokens.push_back(std::move(token));
  return report;
}

TEST(FrameBuilder, TokensKeepTheirFieldsAndOrder) {
  FrameBuilder builder;
  builder.add(report_with(5));
  builder.add(report_with(6, EndReason::kStop));
  const wire::FrameT frame = builder.take();
  ASSERT_EQ(frame.tokens.size(), 2u);
  const wire::TokenT& token = *frame.tokens[0];
  EXPECT_EQ(token.sequence, 7u);
  EXPECT_EQ(token.epoch, 2u);
  EXPECT_EQ(token.position, 5u);
  EXPECT_EQ(token.token, 42);
  EXPECT_FLOAT_EQ(token.logprob, -0.25F);
  ASSERT_EQ(token.top.size(), 2u);
  EXPECT_EQ(token.top[1].token(), 1);
  EXPECT_EQ(token.end_reason, wire::EndReason::None);
  EXPECT_EQ(frame.tokens[1]->position, 6u);
  EXPECT_EQ(frame.tokens[1]->end_reason, wire::EndReason::Stop);
}

// Only what the sampling node decides travels with a token; other ends are events.
TEST(FrameBuilder, EndReasonsOfTokens) {
  FrameBuilder builder;
  builder.add(report_with(1, EndReason::kLength));
  builder.add(report_with(2, EndReason::kAborted));
  const wire::FrameT frame = builder.take();
  EXPECT_EQ(frame.tokens[0]->end_reason, wire::EndReason::Length);
  EXPECT_EQ(frame.tokens[1]->end_reason, wire::EndReason::None);
}

TEST(FrameBuilder, FramesAreNumberedFromOneWithoutGapsAndAgainAfterARestart) {
  FrameBuilder builder;
  for (const int lives : {1, 2}) {
    builder.restart();
    for (uint64_t number = 1; number <= 5; ++number) {
      if (number % 2 == 0) builder.add(report_with(static_cast<int32_t>(number)));
      EXPECT_EQ(builder.take().frame_no, number) << "life " << lives;
    }
  }
}

TEST(FrameBuilder, TheLoadIsTheLastOneReportedAndEveryFrameHasIt) {
  FrameBuilder builder;
  StepReport report;
  report.load.blocks_free = 1;
  builder.add(StepReport(report));
  report.load.blocks_free = 9;
  report.load.blocks_held = 8;
  report.load.blocks_leased = 7;
  report.load.blocks_quarantined = 6;
  report.load.running = 5;
  report.load.waiting = 4;
  report.load.waiting_tokens = int64_t{1} << 40;
  report.speeds.prefill_tokens_per_s = 100;
  report.speeds.decode_tokens_per_s = 50;
  report.speeds.preemptions = 3;
  builder.add(std::move(report));
  for (int i = 0; i < 2; ++i) {
    const wire::FrameT frame = builder.take();
    ASSERT_NE(frame.load, nullptr);
    EXPECT_EQ(frame.load->free_blocks, 9u);
    EXPECT_EQ(frame.load->held_blocks, 8u);
    EXPECT_EQ(frame.load->leased_blocks, 7u);
    EXPECT_EQ(frame.load->quarantined_blocks, 6u);
    EXPECT_EQ(frame.load->running, 5u);
    EXPECT_EQ(frame.load->waiting, 4u);
    EXPECT_EQ(frame.load->waiting_tokens, uint64_t{1} << 40);
    EXPECT_FLOAT_EQ(frame.load->prefill_toks, 100);
    EXPECT_FLOAT_EQ(frame.load->decode_toks, 50);
    EXPECT_EQ(frame.load->preemptions, 3u);
  }
  EXPECT_EQ(builder.load().running, 5);
}

TEST(FrameBuilder, NewsAreTokensEventsOrAnotherLoad) {
  FrameBuilder builder;
  EXPECT_FALSE(builder.has_news());
  builder.add(report_with(1));
  EXPECT_TRUE(builder.has_news());
  builder.take();
  EXPECT_FALSE(builder.has_news());
  builder.add(event_of(wire::DrainingT{}));
  EXPECT_TRUE(builder.has_news());
  EXPECT_EQ(builder.take().events.size(), 1u);
  EXPECT_FALSE(builder.has_news());
  builder.add(StepReport{});  // reported because the load changed
  EXPECT_TRUE(builder.has_news());
}

// A router that has just taken the node in knows none of its sequences.
TEST(FrameBuilder, RestartForgetsWhatWasGatheredButTellsTheLoad) {
  FrameBuilder builder;
  StepReport report = report_with(1);
  report.load.blocks_free = 12;
  builder.add(std::move(report));
  builder.add(event_of(wire::AbortedT{}));
  builder.restart();
  EXPECT_TRUE(builder.has_news());
  const wire::FrameT frame = builder.take();
  EXPECT_TRUE(frame.tokens.empty());
  EXPECT_TRUE(frame.events.empty());
  EXPECT_EQ(frame.load->free_blocks, 12u);
}

}  // namespace
}  // namespace penstock

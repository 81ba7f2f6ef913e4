#include "node/sequence_codec.h"

#include <gtest/gtest.h>

#include "kv_transfer/handoff_messages.h"

namespace penstock {
namespace {

constexpr int32_t kVocab = 100;

// Every field differs from its default, so that a forgotten one shows.
wire::StartT full_start() {
  wire::StartT start;
  start.sequence = 11;
  start.epoch = 3;
  start.transfer = 12;
  start.mode = wire::Mode::Prefill;
  start.decode_node = 5;
  start.ids = {1, 2, 3, 4, 99};
  start.prompt_tokens = 3;
  start.sampling = std::make_unique<wire::SamplingT>();
  start.sampling->temperature = 0.5F;
  start.sampling->top_k = 40;
  start.sampling->top_p = 0.9F;
  start.sampling->min_p = 0.1F;
  start.sampling->seed = uint64_t{1} << 63;
  start.sampling->choice = 2;
  start.tokens_max = 7;
  start.stop_ids = {8, 9};
  start.ignore_eos = true;
  start.logprobs = true;
  start.top_logprobs = 4;
  return start;
}

void expect_full(const scheduler::SequenceSpec& spec, const DecodeParams& params) {
  EXPECT_EQ(spec.key, (SequenceKey{SequenceId(11), Epoch(3)}));
  EXPECT_EQ(spec.tokens, (std::vector<TokenId>{1, 2, 3, 4, 99}));
  EXPECT_EQ(spec.prompt_tokens, 3);
  EXPECT_EQ(spec.tokens_max, 7);
  EXPECT_EQ(spec.stop_ids, (std::vector<TokenId>{8, 9}));
  EXPECT_TRUE(spec.ignore_eos);
  EXPECT_FLOAT_EQ(params.sampling.temperature, 0.5F);
  EXPECT_EQ(params.sampling.top_k, 40);
  EXPECT_FLOAT_EQ(params.sampling.top_p, 0.9F);
  EXPECT_FLOAT_EQ(params.sampling.min_p, 0.1F);
  EXPECT_EQ(params.sampling.seed, uint64_t{1} << 63);
  EXPECT_EQ(params.sampling.choice, 2u);
  EXPECT_TRUE(params.logprobs);
  EXPECT_EQ(params.top_logprobs, 4);
}

TEST(SequenceCodec, StartBecomesASubmitWithEveryField) {
  const auto request = start_request_of(full_start(), kVocab);
  ASSERT_TRUE(request.ok()) << request.message();
  EXPECT_EQ(request->transfer, TransferId(12));
  EXPECT_EQ(request->submit.kind, scheduler::SequenceKind::kPrefill);
  EXPECT_TRUE(request->decode_peer.empty()) << "the control loop knows peers, this function does not";
  expect_full(request->submit.spec, request->submit.params);
}

TEST(SequenceCodec, ModeChoosesTheKindOfSequence) {
  wire::StartT start = full_start();
  start.mode = wire::Mode::Colocated;
  EXPECT_EQ(start_request_of(start, kVocab)->submit.kind, scheduler::SequenceKind::kLocal);
}

TEST(SequenceCodec, WithoutSamplingTheDefaultsHold) {
  wire::StartT start = full_start();
  start.sampling = nullptr;
  const auto request = start_request_of(start, kVocab);
  ASSERT_TRUE(request.ok());
  EXPECT_FLOAT_EQ(request->submit.params.sampling.temperature, SamplingParams{}.temperature);
}

struct BadStart {
  const char* what;
  const char* named;  // the message says so
  void (*spoil)(wire::StartT&);
};

class SequenceCodecRefuses : public ::testing::TestWithParam<BadStart> {};

TEST_P(SequenceCodecRefuses, NamingTheField) {
  wire::StartT start = full_start();
  GetParam().spoil(start);
  const auto request = start_request_of(start, kVocab);
  ASSERT_FALSE(request.ok());
  EXPECT_EQ(request.code(), Error::kInvalidArgument);
  EXPECT_NE(request.message().find(GetParam().named), std::string::npos) << request.message();
}

INSTANTIATE_TEST_SUITE_P(
    Fields, SequenceCodecRefuses,
    ::testing::Values(
        BadStart{"NoIds", "ids", [](wire::StartT& s) { s.ids.clear(); }},
        BadStart{"IdPastVocab", "token id 100", [](wire::StartT& s) { s.ids[4] = kVocab; }},
        BadStart{"NegativeId", "token id -1", [](wire::StartT& s) { s.ids[0] = -1; }},
        BadStart{"NoPrompt", "prompt_tokens", [](wire::StartT& s) { s.prompt_tokens = 0; }},
        BadStart{"PromptPastIds", "prompt_tokens", [](wire::StartT& s) { s.prompt_tokens = 6; }},
        BadStart{"NoTokens", "tokens_max", [](wire::StartT& s) { s.tokens_max = 0; }},
        BadStart{"TokensPastInt32", "tokens_max", [](wire::StartT& s) { s.tokens_max = 1u << 31; }},
        BadStart{"TopPZero", "top_p", [](wire::StartT& s) { s.sampling->top_p = 0; }},
        BadStart{"TemperatureNegative", "temperature", [](wire::StartT& s) { s.sampling->temperature = -1; }},
        BadStart{"TopKPastInt32", "top_k", [](wire::StartT& s) { s.sampling->top_k = 1u << 31; }},
        BadStart{"TooManyLogprobs", "top_logprobs",
                 [](wire::StartT& s) { s.top_logprobs = kTopLogprobsMax + 1; }},
        BadStart{"LogprobsPastInt32", "top_logprobs", [](wire::StartT& s) { s.top_logprobs = ~0u; }}),
    [](const auto& test) { return std::string(test.param.what); });

// What D submits is what P was asked for, through RESERVE's bytes and back.
TEST(SequenceCodec, ReserveCarriesTheWholeSequenceToTheDecodeNode) {
  const auto started = start_request_of(full_start(), kVocab);
  ASSERT_TRUE(started.ok());
  const HandoffRequest asked = handoff_request_of(*started);
  EXPECT_EQ(asked.key, (HandoffKey{TransferId(12), Epoch(3)}));
  const auto reserve = reserve_of(asked, HandoffCapability{});
  const std::string bytes = encode_body(asked.key, reserve);
  const auto message = decode_message(std::as_bytes(std::span(bytes)), 1000);
  ASSERT_TRUE(message.ok()) << message.message();
  const HandoffRequest heard = request_of(message->key, *message->body.AsReserve());
  const ReserveSequence submitted = reserve_sequence_of(heard);
  expect_full(submitted.spec, submitted.params);
}

}  // namespace
}  // namespace penstock

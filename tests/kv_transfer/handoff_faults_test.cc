// The faults that public prefill/decode systems met, one test each (numbers of the shared list of faults).
// Time is virtual and the network seeded.
#include <gtest/gtest.h>

#include "kv_transfer/handoff_messages.h"
#include "tests/kv_transfer/handoff_world.h"

namespace penstock {
namespace {

using wire::handoff::Body;

constexpr HandoffKey kKey{TransferId(1), Epoch(1)};
constexpr uint32_t kTokens = 40;  // three blocks, the last one half used

class HandoffFaults : public testing::Test {
 protected:
  void make(MemoryNetworkOptions network = {}, HandoffOptions options = {}, uint32_t blocks = 24) {
    world_ = std::make_unique<HandoffWorld>(network, options, blocks);
  }
  void TearDown() override {
    if (world_ == nullptr) return;
    world_->check_end();
    EXPECT_TRUE(world_->problems.empty()) << world_->problems.front();
  }
  void complete(HandoffKey key) {
    world_->ready_all(key);
    world_->commit(key);
  }
  // Loses every message of one kind, the first `count` times.
  void lose(Body type, int count) {
    world_->network->set_filter(
        [type, count](uint64_t, uint64_t, MessageType, std::span<const std::byte> body) mutable {
          const auto message = decode_message(body, 1u << 20);
          return !(message.ok() && message->body.type == type && count-- > 0);
        });
  }
  template <typename Message>
  void inject_at_decode(HandoffKey key, Message body) {
    const std::string bytes = encode_body(key, std::move(body));
    ASSERT_TRUE(world_->prefill
                    ->send_message(world_->decode_at_prefill, MessageType::kToReceiver,
                                   std::as_bytes(std::span(bytes)))
                    .ok());
  }
  // The answers that D sends from now on, by kind.
  std::map<Body, int>& watch_answers() {
    world_->network->set_filter(
        [this](uint64_t, uint64_t, MessageType type, std::span<const std::byte> body) {
          const auto message = decode_message(body, 1u << 20);
          if (type == MessageType::kToSender && message.ok()) {
            answers_[message->body.type] += 1;
            if (const auto* nack = message->body.AsNack())
              last_reason_ = static_cast<HandoffReason>(nack->reason);
            if (const auto* refuse = message->body.AsRefuse())
              last_reason_ = static_cast<HandoffReason>(refuse->reason);
          }
          return true;
        });
    return answers_;
  }

  std::unique_ptr<HandoffWorld> world_;
  std::map<Body, int> answers_;
  HandoffReason last_reason_ = HandoffReason::kNone;
};

TEST_F(HandoffFaults, NoFaultCarriesRequestBytesAndFirstToken) {
  make();
  ASSERT_TRUE(world_->start(kKey, kTokens));
  complete(kKey);
  world_->settle();
  EXPECT_EQ(world_->sent[kKey].committed, 1);
  const ReceiverView& view = world_->received[kKey];
  EXPECT_EQ(view.committed, 1);
  EXPECT_EQ(view.request.ids.size(), kTokens);
  EXPECT_EQ(view.request.sampling.seed, kKey.transfer.value());
  EXPECT_EQ(view.first.position, kTokens);
  EXPECT_EQ(world_->sent[kKey].stats.bytes, static_cast<uint64_t>(3 * small_layout().block_bytes_all()));
}

TEST_F(HandoffFaults, Row1AbortBeforeAnyByteReturnsBlocksOnBothSides) {
  make();
  ASSERT_TRUE(world_->start(kKey, kTokens));
  world_->settle();
  EXPECT_EQ(world_->decode_free.size(), 21u);
  world_->receiver->abort(world_->clock.now(), kKey, HandoffReason::kCancelled);
  world_->settle();  // P never reported a byte; DRAINED alone gives the blocks back
  EXPECT_EQ(world_->decode_free.size(), 24u);
  EXPECT_EQ(world_->prefill_free.size(), 24u);
}

TEST_F(HandoffFaults, Row2RefusalFreesPrefillAtOnce) {
  make({}, {}, 4);
  world_->decode_free.clear();  // D is full
  ASSERT_TRUE(world_->start(kKey, kTokens));
  complete(kKey);
  const TimePoint started = world_->clock.now();
  world_->pass(Duration::from_ms(1000));
  EXPECT_EQ(world_->sent[kKey].failure.reason, HandoffReason::kFull);
  EXPECT_EQ(world_->prefill_free.size(), 4u);
  EXPECT_LT(world_->sent[kKey].released_at - started, Duration::from_ms(1000));
  world_->decode_free = {0, 1, 2, 3};
}

TEST_F(HandoffFaults, Row3DecodeCrashIsReclaimed) {
  make();
  ASSERT_TRUE(world_->start(kKey, kTokens));
  world_->ready(kKey, 0, kTokens);
  world_->settle();
  world_->kill_decode();
  world_->settle();
  EXPECT_EQ(world_->sent[kKey].failure.reason, HandoffReason::kPeerLost);
  EXPECT_EQ(world_->prefill_free.size(), 24u);
}

TEST_F(HandoffFaults, Row5SixHundredCancelsInFlight) {
  HandoffOptions options;
  options.put_bytes_max = 256;
  make({.seed = 5, .reorder_messages = true}, options);
  uint64_t begun = 0;
  for (uint64_t i = 0; begun < 600; ++i) {
    ASSERT_LT(i, 100000u);
    const HandoffKey key{TransferId(i + 1), Epoch(1)};
    if (world_->start(key, kTokens)) {
      begun += 1;
      world_->ready_all(key);
      for (uint64_t n = world_->rng.below(60); n > 0; --n) world_->step();
      if (begun % 2 == 0) world_->sender->abort(world_->clock.now(), key, HandoffReason::kCancelled);
      if (begun % 2 == 1) world_->receiver->abort(world_->clock.now(), key, HandoffReason::kCancelled);
    }
    for (int n = 0; n < 30; ++n) world_->step();
    if (begun % 2 == 1) world_->sender->abort(world_->clock.now(), key, HandoffReason::kCancelled);
  }
  world_->pass(Duration::from_ms(6000));
}

TEST_F(HandoffFaults, Row8DisconnectInEveryState) {
  for (int steps = 0; steps < 60; ++steps) {
    for (const bool network_lanes : {false, true}) {
      make({.seed = static_cast<uint64_t>(steps) + 1, .network_lanes = network_lanes});
      ASSERT_TRUE(world_->start(kKey, kTokens));
      complete(kKey);
      for (int i = 0; i < steps; ++i) world_->step();
      world_->prefill->close(world_->decode_at_prefill);
      world_->decode->close(world_->prefill_at_decode);
      world_->pass(Duration::from_ms(8000));
      EXPECT_EQ(world_->prefill_free.size(), 24u) << "P hangs after a disconnect at step " << steps;
      // Over shared memory a closed connection proves nothing: only the end of the process does.
      if (!network_lanes && world_->receiver->quarantined_blocks() > 0) world_->kill_prefill();
      world_->settle();
      TearDown();
    }
  }
  world_.reset();
}

TEST_F(HandoffFaults, Row9StoppedWriterNeverTouchesTheNextOwner) {
  make();
  ASSERT_TRUE(world_->start(kKey, kTokens));
  world_->settle();
  world_->ready_all(kKey);
  world_->prefill->progress();
  world_->sender->poll(world_->clock.now());  // posted, nothing has landed
  ASSERT_GT(world_->network->in_flight(), 0u);
  world_->stop_prefill();
  world_->pass(Duration::from_ms(5000));
  EXPECT_EQ(world_->received[kKey].failure.reason, HandoffReason::kLeaseExpired);
  EXPECT_EQ(world_->received[kKey].released, 0);
  EXPECT_EQ(world_->receiver->quarantined_blocks(), 3u);
  world_->check_free_blocks();
  world_->resume_prefill();
  world_->pass(Duration::from_ms(6000));
  EXPECT_EQ(world_->received[kKey].released, 1);  // P woke, was told, flushed and said DRAINED
}

TEST_F(HandoffFaults, Row10OneFailedLaneDoesNotFreeBlocksOfItsSiblings) {
  HandoffOptions options;
  options.put_bytes_max = 512;
  make({.seed = 3, .fail_put = 0.25}, options);
  ASSERT_TRUE(world_->start(kKey, kTokens));
  world_->settle();
  complete(kKey);
  // However long the siblings of the failed put are under way: released only when the last has landed.
  bool failed_with_puts_under_way = false;
  for (int i = 0; i < 2000 && world_->received[kKey].released == 0; ++i) {
    world_->step();
    const bool under_way = world_->network->in_flight() > 0;
    failed_with_puts_under_way |= under_way && world_->sent[kKey].failed > 0;
    ASSERT_FALSE(under_way && world_->received[kKey].released > 0);
  }
  EXPECT_TRUE(failed_with_puts_under_way) << "the seed does not show what is tested here";
  world_->pass(Duration::from_ms(5000));
  EXPECT_EQ(world_->sent[kKey].failure.reason, HandoffReason::kPeerLost);
  EXPECT_EQ(world_->received[kKey].committed, 0);
  EXPECT_EQ(world_->received[kKey].released, 1);
}

TEST_F(HandoffFaults, Row11ReplayedDescriptorsGetTypedErrors) {
  make();
  ASSERT_TRUE(world_->start(kKey, kTokens));
  complete(kKey);
  world_->settle();
  ASSERT_EQ(world_->received[kKey].committed, 1);
  std::map<Body, int>& answers = watch_answers();
  inject_at_decode(kKey, reserve_of(make_request(kKey, kTokens), small_capability()));
  world_->settle();
  EXPECT_EQ(answers[Body::Refuse], 1);
  EXPECT_EQ(last_reason_, HandoffReason::kConsumed);
  inject_at_decode({TransferId(99), Epoch(1)}, wire::handoff::CommitT());
  world_->settle();
  EXPECT_EQ(last_reason_, HandoffReason::kUnknown);
  ASSERT_TRUE(world_->start({kKey.transfer, Epoch(3)}, kTokens));
  world_->settle();
  inject_at_decode({kKey.transfer, Epoch(2)},
                   reserve_of(make_request({kKey.transfer, Epoch(2)}, kTokens), small_capability()));
  world_->settle();
  EXPECT_EQ(last_reason_, HandoffReason::kStaleEpoch);
  EXPECT_EQ(
      world_->sender
          ->reserve(world_->clock.now(), world_->decode_at_prefill, make_request(kKey, 5), {BlockId(23)})
          .code(),
      Error::kStaleEpoch);
  world_->sender->abort(world_->clock.now(), {kKey.transfer, Epoch(3)}, HandoffReason::kCancelled);
  world_->settle();
}

TEST_F(HandoffFaults, Row14LostMessagesAreAskedFor) {
  for (Body lost : {Body::Reserve, Body::Offer, Body::Commit, Body::Ack, Body::Progress}) {
    make();
    lose(lost, 2);
    ASSERT_TRUE(world_->start(kKey, kTokens));
    complete(kKey);
    world_->pass(Duration::from_ms(4000));
    EXPECT_EQ(world_->sent[kKey].committed, 1) << "lost " << static_cast<int>(lost);
    EXPECT_EQ(world_->received[kKey].committed, 1) << "lost " << static_cast<int>(lost);
    TearDown();
  }
  for (Body lost : {Body::Abort, Body::Drained}) {
    make();
    lose(lost, 2);
    ASSERT_TRUE(world_->start(kKey, kTokens));
    world_->settle();
    world_->receiver->abort(world_->clock.now(), kKey, HandoffReason::kCancelled);
    world_->pass(Duration::from_ms(4000));
    EXPECT_EQ(world_->decode_free.size(), 24u) << "lost " << static_cast<int>(lost);
    TearDown();
  }
  world_.reset();
}

TEST_F(HandoffFaults, Row15SourceBlocksAreHeldUntilEveryPutEnded) {
  make();
  ASSERT_TRUE(world_->start(kKey, kTokens));
  world_->settle();
  world_->ready_all(kKey);
  world_->prefill->progress();
  world_->sender->poll(world_->clock.now());
  world_->sender->abort(world_->clock.now(), kKey, HandoffReason::kCancelled);
  world_->sender->poll(world_->clock.now());
  for (const SenderEvent& event : world_->sender->take_events()) {
    EXPECT_NE(event.kind, SenderEvent::Kind::kReleased) << "puts are in flight";
    if (event.kind == SenderEvent::Kind::kFailed) world_->sent[kKey].failed += 1;
  }
  world_->settle();
  EXPECT_EQ(world_->sent[kKey].released, 1);
}

TEST_F(HandoffFaults, Row19FullDecodeRefusesAndEveryRequestGetsThrough) {
  make({}, {}, 6);
  uint64_t done = 0;
  for (uint64_t round = 0; done < 40; ++round) {
    ASSERT_LT(round, 2000u);
    const HandoffKey key{TransferId(round + 1), Epoch(1)};
    if (!world_->start(key, kTokens)) continue;
    complete(key);
    world_->settle();
    done += static_cast<uint64_t>(world_->received[key].committed);
    if (round % 3 == 2) world_->finish_committed();
  }
}

TEST_F(HandoffFaults, CreditsAreBoundedAndTyped) {
  HandoffOptions options;
  options.transfers_max = 2;
  make({}, options);
  world_->grant = false;
  ASSERT_TRUE(world_->start({TransferId(1), Epoch(1)}, 5));
  ASSERT_TRUE(world_->start({TransferId(2), Epoch(1)}, 5));
  EXPECT_EQ(world_->sender
                ->reserve(world_->clock.now(), world_->decode_at_prefill,
                          make_request({TransferId(3), Epoch(1)}, 5), {BlockId(9)})
                .code(),
            Error::kResourceExhausted);
  world_->settle();
  watch_answers();
  inject_at_decode({TransferId(3), Epoch(1)},
                   reserve_of(make_request({TransferId(3), Epoch(1)}, 5), small_capability()));
  world_->settle();
  EXPECT_EQ(last_reason_, HandoffReason::kNoCredit);
  for (uint64_t id : {1, 2})
    world_->receiver->refuse(world_->clock.now(), {TransferId(id), Epoch(1)}, HandoffReason::kFull, "");
  world_->settle();
}

TEST_F(HandoffFaults, Row21IdentityIsTheTransferNotTheSequence) {
  make();
  const HandoffKey other{TransferId(2), Epoch(1)};
  ASSERT_TRUE(world_->start(kKey, kTokens));
  ASSERT_TRUE(world_->start(other, 7));
  complete(kKey);
  complete(other);
  world_->settle();
  EXPECT_EQ(world_->received[kKey].committed, 1);
  EXPECT_EQ(world_->received[other].committed, 1);
  EXPECT_EQ(world_->received[other].request.ids.size(), 7u);
}

TEST_F(HandoffFaults, Rows22And27UnlikePairsAreRefusedWithTheReason) {
  HandoffCapability layout = small_capability(), version = layout, model = layout, protocol = layout;
  layout.layout.kv_heads = 4;
  version.weight_version = WeightVersion(6);
  model.model = "another-model";
  protocol.protocol = 0;
  const std::pair<HandoffCapability, HandoffReason> cases[] = {{layout, HandoffReason::kWrongLayout},
                                                               {version, HandoffReason::kWrongVersion},
                                                               {model, HandoffReason::kWrongModel},
                                                               {protocol, HandoffReason::kProtocol}};
  for (const auto& [decode, reason] : cases) {
    world_ = std::make_unique<HandoffWorld>(MemoryNetworkOptions{}, HandoffOptions{}, 24, decode);
    ASSERT_TRUE(world_->start(kKey, kTokens));
    complete(kKey);
    world_->settle();
    EXPECT_EQ(world_->sent[kKey].failure.reason, reason);
    EXPECT_EQ(world_->received.size(), 0u);
    TearDown();
  }
  world_.reset();
}

TEST_F(HandoffFaults, Row24PutsAreCoalescedAndBounded) {
  make({}, {}, 64);
  world_->scatter = false;                    // as the block pool's allocator does while it can
  ASSERT_TRUE(world_->start(kKey, 512 / 4));  // eight blocks of 16 tokens, as 512 tokens are eight of 64
  complete(kKey);
  world_->settle();
  ASSERT_EQ(world_->sent[kKey].committed, 1);
  EXPECT_LE(world_->sent[kKey].stats.puts, 4u * static_cast<uint64_t>(small_layout().layers) * 2);
  world_->finish_committed();
  // A descriptor cap under load: one poll posts no more than its budget, whatever is ready.
  HandoffOptions options;
  options.put_bytes_max = 512;
  options.post_bytes_per_poll = 1024;
  world_->check_end();
  make({}, options, 64);
  world_->scatter = false;
  for (uint64_t id = 1; id <= 7; ++id) {
    ASSERT_TRUE(world_->start({TransferId(id), Epoch(1)}, 128));
    world_->settle();
    complete({TransferId(id), Epoch(1)});
  }
  world_->sender->poll(world_->clock.now());
  EXPECT_LE(world_->network->in_flight(), 7u * 2);
  world_->pass(Duration::from_ms(1000));
}

TEST_F(HandoffFaults, LeasesAreRenewedWhileAPrefillIsSlow) {
  make();
  ASSERT_TRUE(world_->start(kKey, kTokens));
  world_->pass(Duration::from_ms(10000));  // five leases long
  complete(kKey);
  world_->settle();
  EXPECT_EQ(world_->sent[kKey].committed, 1);
}

TEST_F(HandoffFaults, PrefillThatCouldNotRenewFencesItself) {
  make();
  ASSERT_TRUE(world_->start(kKey, kTokens));
  world_->settle();
  world_->stop_prefill();
  world_->clock.advance(Duration::from_ms(3000));  // D's thread did not run either: nobody told P
  world_->resume_prefill();
  complete(kKey);
  world_->decode_running = false;
  world_->settle();
  EXPECT_EQ(world_->sent[kKey].failure.reason, HandoffReason::kLeaseExpired);
  world_->decode_running = true;
  world_->pass(Duration::from_ms(6000));
}

TEST_F(HandoffFaults, LateEpochReplacesTheEarlierOne) {
  make();
  ASSERT_TRUE(world_->start(kKey, kTokens));
  world_->settle();
  const HandoffKey next{kKey.transfer, Epoch(2)};
  ASSERT_TRUE(world_->start(next, kTokens));
  complete(next);
  world_->pass(Duration::from_ms(6000));
  EXPECT_EQ(world_->received[kKey].failure.reason, HandoffReason::kStaleEpoch);
  EXPECT_EQ(world_->received[next].committed, 1);
}

TEST_F(HandoffFaults, ChunksArrivingBeforeAndAfterTheOfferAreAllPosted) {
  HandoffOptions options;
  options.progress_bytes = 1;  // flush as soon as what is unflushed outweighs what is left
  make({}, options);
  ASSERT_TRUE(world_->start(kKey, 90));
  for (int32_t layer = 0; layer < 3; ++layer) world_->ready(kKey, layer, 33);
  world_->settle();
  for (int32_t layer = 2; layer >= 0; --layer) world_->ready(kKey, layer, 70);
  world_->settle();
  const auto whole_blocks = static_cast<uint64_t>(4 * small_layout().block_bytes_all());
  EXPECT_GT(world_->sender->bytes_completed(kKey), 0u) << "nothing left before the last chunk";
  EXPECT_LE(world_->sender->bytes_completed(kKey), whole_blocks) << "a block that was not ready left";
  complete(kKey);
  world_->settle();
  EXPECT_EQ(world_->received[kKey].committed, 1);
}

TEST_F(HandoffFaults, DrainingDecodeTakesNoNewWork) {
  make();
  world_->receiver->drain();
  ASSERT_TRUE(world_->start(kKey, kTokens));
  world_->settle();
  EXPECT_EQ(world_->sent[kKey].failure.reason, HandoffReason::kDraining);
}

TEST_F(HandoffFaults, MalformedMessagesAreDropped) {
  make();
  Rng rng(11);
  const std::string good = encode_body(kKey, reserve_of(make_request(kKey, kTokens), small_capability()));
  for (int i = 0; i < 3000; ++i) {
    std::string bad = good.substr(0, 1 + rng.below(good.size()));
    for (int flips = 0; flips < 3; ++flips)
      bad[rng.below(bad.size())] ^= static_cast<char>(1u << rng.below(8));
    static_cast<void>(decode_message(std::as_bytes(std::span(bad)), 1000));
  }
  wire::handoff::OfferT offer;
  offer.blocks = {{4000000000u, 4000000000u}};
  EXPECT_FALSE(blocks_of(offer.blocks, 24, 3).ok());
  EXPECT_FALSE(blocks_of({{3, 2}, {4, 1}}, 24, 3).ok()) << "one block twice";
  EXPECT_FALSE(blocks_of({{3, 2}}, 24, 3).ok()) << "too few";
  EXPECT_TRUE(blocks_of({{3, 2}, {9, 1}}, 24, 3).ok());
}

}  // namespace
}  // namespace penstock

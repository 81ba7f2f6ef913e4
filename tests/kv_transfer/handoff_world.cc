#include "tests/kv_transfer/handoff_world.h"

#include <algorithm>
#include <sstream>

namespace penstock {
namespace {

HandoffPool make_pool(Transport& transport, const KvLayout& layout, uint32_t blocks) {
  HandoffPool pool;
  pool.layout = layout;
  pool.blocks = blocks;
  pool.memory = *transport.allocate(static_cast<size_t>(layout.pool_bytes(blocks)));
  return pool;
}

}  // namespace

std::byte kv_byte(HandoffKey key, uint32_t plane, uint32_t position, size_t offset) {
  const uint64_t place = key.transfer.value() * 1000003 + key.epoch.value() * 10007 + plane * 101 + position;
  return static_cast<std::byte>(mix64(place * 65537 + offset / 8) >> (offset % 8 * 8));
}

HandoffRequest make_request(HandoffKey key, uint32_t tokens) {
  HandoffRequest request;
  request.key = key;
  request.sequence = SequenceId(key.transfer.value() + 500);
  for (uint32_t i = 0; i < tokens; ++i) request.ids.push_back(static_cast<TokenId>(i % 1000));
  request.prompt_tokens = tokens;
  request.sampling.seed = key.transfer.value();
  request.tokens_max = 16;
  return request;
}

HandoffWorld::HandoffWorld(const MemoryNetworkOptions& network_options, const HandoffOptions& options,
                           uint32_t pool_blocks, const HandoffCapability& decode_capability)
    : rng(network_options.seed * 77 + 5), network(std::make_unique<MemoryNetwork>(network_options)) {
  clock.set({1'000'000});
  prefill = network->make_transport();
  decode = network->make_transport();
  prefill_pool = make_pool(*prefill, small_layout(), pool_blocks);
  decode_pool = make_pool(*decode, small_layout(), pool_blocks);
  sender = std::make_unique<HandoffSender>(*prefill, prefill_pool, small_capability(), options);
  receiver = std::make_unique<HandoffReceiver>(*decode, decode_pool, decode_capability, options);
  decode_at_prefill = *prefill->connect(decode->address());
  prefill_at_decode = *decode->connect(prefill->address());
  for (uint32_t block = 0; block < pool_blocks; ++block) {
    prefill_free.insert(block);
    decode_free.insert(block);
    own(block);
  }
}

HandoffWorld::~HandoffWorld() {
  // Completions in flight point at sender and receiver: those go last of all but the transports.
  network->deliver_all();
  sender.reset();
  receiver.reset();
  prefill.reset();
  decode.reset();
}

std::byte* HandoffWorld::at(const HandoffPool& pool, uint32_t plane, uint32_t block) const {
  return pool.memory.base +
         pool.layout.block_offset(static_cast<int32_t>(plane / 2), plane % 2 == 1, block, pool.blocks);
}

void HandoffWorld::problem(HandoffKey key, const std::string& what) {
  std::ostringstream text;
  text << "transfer " << key << ": " << what;
  problems.push_back(text.str());
}

// The block goes to somebody else, who fills it.
void HandoffWorld::own(uint32_t block) {
  const uint8_t pattern = next_owner_++;
  owner_of_[block] = pattern;
  for (uint32_t plane = 0; plane < decode_pool.layout.planes(); ++plane) {
    std::byte* data = at(decode_pool, plane, block);
    std::fill(data, data + decode_pool.layout.block_bytes(), std::byte{pattern});
  }
}

void HandoffWorld::check_free_blocks() {
  for (uint32_t block : decode_free) {
    for (uint32_t plane = 0; plane < decode_pool.layout.planes(); ++plane) {
      const std::byte* data = at(decode_pool, plane, block);
      const bool intact = std::all_of(data, data + decode_pool.layout.block_bytes(),
                                      [&](std::byte b) { return b == std::byte{owner_of_[block]}; });
      if (intact) continue;
      problems.push_back("block " + std::to_string(block) + " of another owner was overwritten");
      own(block);
      break;
    }
  }
}

bool HandoffWorld::start(HandoffKey key, uint32_t tokens) {
  const auto needed = static_cast<size_t>(small_layout().blocks_for(tokens));
  if (!prefill_alive || prefill_free.size() < needed) return false;
  std::vector<BlockId> blocks;
  for (size_t i = 0; i < needed; ++i) {
    auto chosen = prefill_free.begin();
    if (scatter && rng.below(3) == 0)
      std::advance(chosen, static_cast<std::ptrdiff_t>(rng.below(prefill_free.size())));
    blocks.emplace_back(*chosen);
    prefill_free.erase(chosen);
  }
  for (uint32_t plane = 0; plane < small_layout().planes(); ++plane) {
    for (uint32_t position = 0; position < needed; ++position) {
      std::byte* data = at(prefill_pool, plane, blocks[position].value());
      for (int64_t i = 0; i < small_layout().block_bytes(); ++i)
        data[i] = kv_byte(key, plane, position, static_cast<size_t>(i));
    }
  }
  if (!sender->reserve(clock.now(), decode_at_prefill, make_request(key, tokens), blocks).ok()) {
    for (BlockId block : blocks) prefill_free.insert(block.value());
    return false;
  }
  source_[key] = blocks;
  tokens_of[key] = tokens;
  sent[key] = {};
  return true;
}

void HandoffWorld::ready_all(HandoffKey key) {
  for (int32_t layer = 0; layer < small_layout().layers; ++layer) ready(key, layer, tokens_of[key]);
}

void HandoffWorld::commit(HandoffKey key) {
  sender->commit(clock.now(), key, {42, static_cast<int64_t>(tokens_of[key]), key.transfer.value(), 0});
}

void HandoffWorld::run_prefill() {
  if (!prefill_alive || prefill_stopped) return;
  prefill->progress();
  sender->poll(clock.now());
  for (const SenderEvent& event : sender->take_events()) on_event(event);
}

void HandoffWorld::run_decode() {
  if (!decode_alive || !decode_running) return;
  decode->progress();
  receiver->poll(clock.now());
  for (const ReceiverEvent& event : receiver->take_events()) on_event(event);
}

void HandoffWorld::on_event(const SenderEvent& event) {
  SenderView& view = sent[event.key];
  switch (event.kind) {
    case SenderEvent::Kind::kReserved:
      view.reserved += 1;
      break;
    case SenderEvent::Kind::kCommitted:
      view.committed += 1;
      view.stats = event.stats;
      break;
    case SenderEvent::Kind::kFailed:
      view.failed += 1;
      view.failure = event.failure;
      view.failed_at = clock.now();
      break;
    case SenderEvent::Kind::kReleased:
      view.released += 1;
      view.released_at = clock.now();
      if (view.committed + view.failed != 1) problem(event.key, "P: released before it ended");
      for (BlockId block : source_[event.key]) {
        prefill_free.insert(block.value());
        for (uint32_t plane = 0; plane < small_layout().planes(); ++plane) {
          std::byte* data = at(prefill_pool, plane, block.value());
          std::fill(data, data + small_layout().block_bytes(), std::byte{0xDD});  // evicted, reused
        }
      }
      break;
  }
}

void HandoffWorld::on_event(const ReceiverEvent& event) {
  ReceiverView& view = received[event.key];
  switch (event.kind) {
    case ReceiverEvent::Kind::kReserveRequested:
      view.requested += 1;
      view.request = event.request;
      if (grant) answer(event.key);
      break;
    case ReceiverEvent::Kind::kCommitted:
      view.committed += 1;
      view.first = event.first;
      check_committed(view, event.key);
      break;
    case ReceiverEvent::Kind::kFailed:
      view.failed += 1;
      view.failure = event.failure;
      break;
    case ReceiverEvent::Kind::kReleased:
      view.released += 1;
      if (view.failed != 1 || view.committed != 0) problem(event.key, "D: released without failure");
      for (BlockId block : event.blocks) {
        decode_free.insert(block.value());
        own(block.value());
      }
      break;
  }
}

void HandoffWorld::answer(HandoffKey key) {
  ReceiverView& view = received[key];
  const auto needed =
      static_cast<size_t>(small_layout().blocks_for(static_cast<int64_t>(view.request.ids.size())));
  if (decode_free.size() < needed)
    return receiver->refuse(clock.now(), key, HandoffReason::kFull, "no blocks");
  std::vector<BlockId> blocks;
  for (uint32_t block : decode_free) {
    if (blocks.size() == needed) break;
    blocks.emplace_back(block);
  }
  if (scatter && rng.below(3) == 0) std::reverse(blocks.begin(), blocks.end());
  if (!receiver->offer(clock.now(), key, blocks)) return;
  view.offered = true;
  view.blocks = blocks;
  for (BlockId block : blocks) decode_free.erase(block.value());
}

void HandoffWorld::check_committed(const ReceiverView& view, HandoffKey key) {
  const KvLayout layout = small_layout();
  const auto tokens = static_cast<int32_t>(tokens_of[key]);
  if (view.first.token != 42 || view.first.position != tokens) problem(key, "wrong first token");
  for (uint32_t plane = 0; plane < layout.planes(); ++plane) {
    for (uint32_t position = 0; position < view.blocks.size(); ++position) {
      const std::byte* data = at(decode_pool, plane, view.blocks[position].value());
      for (int32_t head = 0; head < layout.kv_heads; ++head) {
        for (int32_t token = 0; token < layout.block_tokens; ++token) {
          const bool used = static_cast<int32_t>(position) * layout.block_tokens + token < tokens;
          for (int32_t dim = 0; dim < layout.head_dim; ++dim) {
            const int64_t element = plane % 2 == 0 ? layout.key_element(head, token, dim)
                                                   : layout.value_element(head, token, dim);
            const auto offset = static_cast<size_t>(element * layout.element_bytes());
            const std::byte expected = used ? kv_byte(key, plane, position, offset) : std::byte{0};
            if (data[offset] == expected) continue;
            return problem(key,
                           used ? "committed with bytes that are not its own" : "unused part is not zero");
          }
        }
      }
    }
  }
}

void HandoffWorld::finish_committed() {
  for (auto& [key, view] : received) {
    if (view.committed == 0 || view.blocks.empty()) continue;
    for (BlockId block : view.blocks) {
      decode_free.insert(block.value());
      own(block.value());
    }
    view.blocks.clear();
  }
}

void HandoffWorld::step() {
  switch (rng.below(4)) {
    case 0:
      return run_prefill();
    case 1:
      return run_decode();
    default:
      network->deliver();
  }
}

void HandoffWorld::settle() {
  for (int quiet = 0; quiet < 4;) {
    const bool moved = network->deliver();
    run_prefill();
    run_decode();
    quiet = moved ? 0 : quiet + 1;
  }
}

void HandoffWorld::pass(Duration time) {
  const TimePoint end = clock.now() + time;
  for (settle(); clock.now() < end; settle())
    clock.advance(std::min(Duration::from_ms(50), end - clock.now()));
}

void HandoffWorld::stop_prefill() {
  prefill_stopped = true;
  network->stop(prefill->address().identity.instance);
}

void HandoffWorld::resume_prefill() {
  prefill_stopped = false;
  network->resume(prefill->address().identity.instance);
}

void HandoffWorld::kill_prefill() {
  prefill_alive = false;
  network->kill(prefill->address().identity.instance);
}

void HandoffWorld::kill_decode() {
  decode_alive = false;
  network->kill(decode->address().identity.instance);
}

void HandoffWorld::check_end() {
  check_free_blocks();
  for (const auto& [key, view] : sent) {
    if (!prefill_alive) break;
    if (view.committed + view.failed != 1) problem(key, "P: did not end exactly once");
    if (view.released != 1) problem(key, "P: source blocks were not released exactly once");
  }
  for (const auto& [key, view] : received) {
    if (!decode_alive) break;
    if (view.requested != 1) problem(key, "D: asked for more than once");
    if (view.offered && view.committed + view.failed != 1) problem(key, "D: did not end exactly once");
    if (view.offered && view.failed != view.released) problem(key, "D: blocks still in quarantine");
  }
  if (prefill_alive && sender->active() != 0) problems.push_back("P: transfers left");
  if (decode_alive && receiver->active() != 0) problems.push_back("D: transfers left");
  if (prefill_alive && prefill_free.size() != prefill_pool.blocks) problems.push_back("P: blocks lost");
  finish_committed();
  if (decode_alive && decode_free.size() != decode_pool.blocks) problems.push_back("D: blocks lost");
}

}  // namespace penstock

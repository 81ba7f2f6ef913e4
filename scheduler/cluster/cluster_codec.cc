#include "scheduler/cluster/cluster_codec.h"

#include <algorithm>
#include <bit>
#include <string>
#include <type_traits>
#include <utility>

#include "base/rng.h"

namespace penstock::scheduler {

namespace {

constexpr uint64_t kMagic = 0x3244524b4e545350ULL;  // "PSTNKRD2"

// ---- The fields of every struct, once, for both directions ------------------------------------------------
// `f` takes any number of fields in wire order.

template <typename F>
void fields(Capability& x, F f) {
  f(x.model, x.weight_version, x.layout_hash, x.kv_dtype, x.block_tokens, x.tensor_parallel,
    x.pipeline_parallel, x.layers, x.kv_heads, x.head_dim, x.context_max, x.vocab, x.protocol);
}
template <typename F>
void fields(Capacity& x, F f) {
  f(x.pool_blocks, x.sequences_max, x.batch_tokens_max, x.prefill_tokens_per_s, x.decode_b1_tokens_per_s,
    x.decode_bmax_tokens_per_s);
}
template <typename F>
void fields(ClusterPolicy& x, F f) {
  f(x.disaggregate, x.model, x.seed, x.first_transfer, x.queue_len_max, x.attempts_max, x.reorder_max,
    x.replay_wait_max, x.gap_wait_max, x.progress_wait_max);
}

template <typename F>
void fields(NodeJoined& x, F f) {
  f(x.node, x.name, x.role, x.capability, x.capacity);
}
template <typename F>
void fields(NodeLost& x, F f) {
  f(x.node);
}
template <typename F>
void fields(PairUp& x, F f) {
  f(x.prefill, x.decode, x.bytes_per_s);
}
template <typename F>
void fields(PairDown& x, F f) {
  f(x.prefill, x.decode);
}
template <typename F>
void fields(NodeLoad& x, F f) {
  f(x.node, x.blocks_free, x.blocks_held, x.blocks_leased, x.blocks_quarantined, x.running, x.waiting,
    x.waiting_tokens, x.prefill_tokens_per_s, x.decode_step_s);
}
template <typename F>
void fields(Arrival& x, F f) {
  f(x.sequence, x.prompt_tokens, x.tokens_max, x.deadline);
}
template <typename F>
void fields(TokenArrived& x, F f) {
  f(x.node, x.sequence, x.epoch, x.position, x.token, x.end);
}
template <typename F>
void fields(HandoffDone& x, F f) {
  f(x.node, x.sequence, x.epoch, x.bytes, x.transfer);
}
template <typename F>
void fields(ReserveRefused& x, F f) {
  f(x.node, x.sequence, x.epoch);
}
template <typename F>
void fields(SequenceFailed& x, F f) {
  f(x.node, x.sequence, x.epoch, x.retryable, x.message);
}
template <typename F>
void fields(ClientGone& x, F f) {
  f(x.sequence);
}
template <typename F>
void fields(StopFound& x, F f) {
  f(x.sequence);
}
template <typename F>
void fields(DrainRequested& x, F f) {
  f(x.node);
}
template <typename F>
void fields(ShutdownRequested&, F f) {
  f();
}
template <typename F>
void fields(Tick&, F f) {
  f();
}

template <typename F>
void fields(RecordMark& x, F f) {
  f(x.action_hash, x.digest);
}

template <typename F>
void fields(NodeAccepted& x, F f) {
  f(x.node);
}
template <typename F>
void fields(NodeRefused& x, F f) {
  f(x.node, x.reason);
}
template <typename F>
void fields(StartPrefill& x, F f) {
  f(x.sequence, x.epoch, x.transfer, x.prefill, x.decode, x.tokens);
}
template <typename F>
void fields(StartColocated& x, F f) {
  f(x.sequence, x.epoch, x.node, x.tokens);
}
template <typename F>
void fields(AbortOn& x, F f) {
  f(x.node, x.sequence, x.epoch, x.reason);
}
template <typename F>
void fields(Deliver& x, F f) {
  f(x.sequence, x.position, x.token);
}
template <typename F>
void fields(Finish& x, F f) {
  f(x.sequence, x.reason);
}
template <typename F>
void fields(Reject& x, F f) {
  f(x.sequence, x.reason, x.http_status, x.retry_after_s);
}
template <typename F>
void fields(Fail& x, F f) {
  f(x.sequence, x.reason, x.message);
}
template <typename F>
void fields(NodeDrained& x, F f) {
  f(x.node);
}

// Number of enumerators of each enum on the wire: a larger value is corrupt.
constexpr int enumerators(NodeRole) { return 2; }
constexpr int enumerators(Disaggregate) { return 3; }
constexpr int enumerators(EndReason) { return static_cast<int>(EndReason::kHandoffFailed) + 1; }
constexpr int enumerators(AbortReason) { return static_cast<int>(AbortReason::kFinished) + 1; }
constexpr int enumerators(RejectReason) { return static_cast<int>(RejectReason::kTooLong) + 1; }
constexpr int enumerators(FailReason) { return static_cast<int>(FailReason::kNotRetryable) + 1; }

template <typename T>
concept Id = requires(T x) {
  typename T::Representation;
};

// ---- Out --------------------------------------------------------------------------------------------------

class Writer {
 public:
  explicit Writer(std::vector<uint8_t>& out) : out_(out) {}

  template <typename T>
  void write(T& x) {
    if constexpr (std::is_same_v<T, bool>) {
      put(uint8_t{x});
    } else if constexpr (std::is_enum_v<T>) {
      put(static_cast<uint8_t>(x));
    } else if constexpr (std::is_same_v<T, double>) {
      put(std::bit_cast<uint64_t>(x));
    } else if constexpr (std::is_integral_v<T>) {
      put(static_cast<std::make_unsigned_t<T>>(x));
    } else if constexpr (Id<T>) {
      put(x.value());
    } else if constexpr (std::is_same_v<T, Duration> || std::is_same_v<T, TimePoint>) {
      put(static_cast<uint64_t>(x.us));
    } else if constexpr (std::is_same_v<T, std::string>) {
      const auto size = static_cast<uint32_t>(std::min<size_t>(x.size(), kTextMax));
      put(size);
      out_.insert(out_.end(), x.begin(), x.begin() + size);
    } else {
      fields(x, [this](auto&... field) { (write(field), ...); });
    }
  }

  template <typename Variant>
  void write_variant(const Variant& variant) {
    put(static_cast<uint8_t>(variant.index()));
    std::visit([this](const auto& x) { write(const_cast<std::remove_cvref_t<decltype(x)>&>(x)); }, variant);
  }

  template <typename U>
  void put(U value) {
    static_assert(std::is_unsigned_v<U>);
    for (size_t i = 0; i < sizeof(U); ++i) out_.push_back(static_cast<uint8_t>(uint64_t{value} >> (8 * i)));
  }

 private:
  std::vector<uint8_t>& out_;
};

// ---- In ---------------------------------------------------------------------------------------------------

class Reader {
 public:
  explicit Reader(std::span<const uint8_t> bytes) : bytes_(bytes) {}

  // After the first failure everything reads as zero; ask failed() at the end.
  template <typename T>
  void read(T& x) {
    if constexpr (std::is_same_v<T, bool>) {
      const auto raw = get<uint8_t>();
      if (raw > 1) failed_ = true;
      x = raw == 1;
    } else if constexpr (std::is_enum_v<T>) {
      const auto raw = get<uint8_t>();
      if (raw >= enumerators(T{})) failed_ = true;
      x = failed_ ? T{} : static_cast<T>(raw);
    } else if constexpr (std::is_same_v<T, double>) {
      x = std::bit_cast<double>(get<uint64_t>());
    } else if constexpr (std::is_integral_v<T>) {
      x = static_cast<T>(get<std::make_unsigned_t<T>>());
    } else if constexpr (Id<T>) {
      x = T(get<typename T::Representation>());
    } else if constexpr (std::is_same_v<T, Duration> || std::is_same_v<T, TimePoint>) {
      x.us = static_cast<int64_t>(get<uint64_t>());
    } else if constexpr (std::is_same_v<T, std::string>) {
      const auto size = get<uint32_t>();
      if (size > kTextMax || size > bytes_.size() - offset_) failed_ = true;
      if (failed_) return;
      x.assign(reinterpret_cast<const char*>(bytes_.data()) + offset_, size);
      offset_ += size;
    } else {
      fields(x, [this](auto&... field) { (read(field), ...); });
    }
  }

  template <typename Variant>
  Variant read_variant() {
    Variant variant;
    const size_t kind = get<uint8_t>();
    if (!select(kind, variant, std::make_index_sequence<std::variant_size_v<Variant>>())) failed_ = true;
    return variant;
  }

  template <typename U>
  U get() {
    if (failed_ || bytes_.size() - offset_ < sizeof(U)) {
      failed_ = true;
      return 0;
    }
    uint64_t value = 0;
    for (size_t i = 0; i < sizeof(U); ++i) value |= uint64_t{bytes_[offset_ + i]} << (8 * i);
    offset_ += sizeof(U);
    return static_cast<U>(value);
  }
  bool failed() const { return failed_; }
  bool at_end() const { return offset_ == bytes_.size(); }
  size_t offset() const { return offset_; }

 private:
  template <typename Variant, size_t... I>
  bool select(size_t kind, Variant& variant, std::index_sequence<I...>) {
    return ((kind == I && (read(variant.template emplace<I>()), true)) || ...);
  }

  std::span<const uint8_t> bytes_;
  size_t offset_ = 0;
  bool failed_ = false;
};

// Length, time, and what `fill` writes.
template <typename Fill>
void encode_item(TimePoint now, std::vector<uint8_t>& out, Fill fill) {
  const size_t start = out.size();
  Writer writer(out);
  writer.put(uint32_t{0});
  writer.write(now);
  fill(writer);
  const auto length = static_cast<uint32_t>(out.size() - start - sizeof(uint32_t));
  for (size_t i = 0; i < sizeof(length); ++i) out[start + i] = static_cast<uint8_t>(length >> (8 * i));
}

Failure corrupt(const std::string& what, size_t offset) {
  return fail(Error::kCorrupt, "record: " + what + " at byte " + std::to_string(offset));
}

}  // namespace

void encode_record_header(const ClusterPolicy& policy, std::vector<uint8_t>& out) {
  Writer writer(out);
  writer.put(kMagic);
  ClusterPolicy copy = policy;
  writer.write(copy);
}

void encode_event(TimePoint now, const ClusterEvent& event, std::vector<uint8_t>& out) {
  encode_item(now, out, [&](Writer& writer) { writer.write_variant(event); });
}

void encode_mark(const RecordMark& mark, std::vector<uint8_t>& out) {
  encode_item(TimePoint{}, out, [&](Writer& writer) {
    writer.put(kMarkKind);
    RecordMark copy = mark;
    writer.write(copy);
  });
}

void encode_action(const ClusterAction& action, std::vector<uint8_t>& out) {
  Writer(out).write_variant(action);
}

Result<ClusterPolicy> RecordReader::read_header() {
  Reader reader(bytes_);
  if (reader.get<uint64_t>() != kMagic)
    return corrupt("no record of this version (make it with `penstock router --record`)", 0);
  ClusterPolicy policy;
  reader.read(policy);
  if (reader.failed() || policy.queue_len_max < 0 || policy.attempts_max < 1 || policy.reorder_max < 1)
    return corrupt("broken policy", reader.offset());
  offset_ = checked_ = reader.offset();
  digest_ = fold_bytes(0, bytes_.first(offset_));
  return policy;
}

Result<RecordItem> RecordReader::read_item() {
  constexpr size_t kKindAt = sizeof(uint32_t) + sizeof(int64_t);
  Reader frame(bytes_.subspan(offset_));
  const auto length = frame.get<uint32_t>();
  if (frame.failed() || length > bytes_.size() - offset_ - sizeof(uint32_t))
    return corrupt("truncated event", offset_);
  const auto item = bytes_.subspan(offset_, sizeof(uint32_t) + length);
  const bool is_mark = item.size() > kKindAt && item[kKindAt] == kMarkKind;
  Reader reader(item.subspan(sizeof(uint32_t)));
  TimedEvent timed;
  RecordMark mark;
  reader.read(timed.now);
  if (is_mark) {
    reader.get<uint8_t>();
    reader.read(mark);
  } else {
    timed.event = reader.read_variant<ClusterEvent>();
  }
  if (reader.failed() || !reader.at_end() || (is_mark && timed.now != TimePoint{}))
    return corrupt("broken event", offset_);
  if (is_mark && mark.digest != fold_hash(digest_, mark.action_hash))
    return corrupt("damaged events between byte " + std::to_string(checked_) + " and their mark", offset_);
  offset_ += item.size();
  if (is_mark) {
    checked_ = offset_;
    digest_ = mark.digest;
    return RecordItem(mark);
  }
  digest_ = fold_bytes(digest_, item);
  return RecordItem(std::move(timed));
}

Result<TimedEvent> RecordReader::read_event() {
  const size_t offset = offset_;
  ASSIGN_OR_RETURN(RecordItem item, read_item());
  if (auto* timed = std::get_if<TimedEvent>(&item)) return std::move(*timed);
  return corrupt("a mark in the place of an event", offset);
}

Result<ClusterAction> decode_action(std::span<const uint8_t> bytes) {
  Reader reader(bytes);
  ClusterAction action = reader.read_variant<ClusterAction>();
  if (reader.failed() || !reader.at_end()) return corrupt("broken action", reader.offset());
  return action;
}

uint64_t fold_bytes(uint64_t so_far, std::span<const uint8_t> bytes) {
  for (size_t i = 0; i < bytes.size(); i += 8) {
    uint64_t word = 0;
    for (size_t b = 0; b < std::min<size_t>(8, bytes.size() - i); ++b)
      word |= uint64_t{bytes[i + b]} << (8 * b);
    so_far = mix64(so_far ^ word);
  }
  return so_far;
}

uint64_t fold_hash(uint64_t so_far, uint64_t action_hash) { return mix64(so_far ^ action_hash); }

void ActionHash::add(TimePoint now, const ClusterActions& actions) {
  if (actions.empty()) return;
  scratch_.clear();
  Writer(scratch_).write(now);
  for (const ClusterAction& action : actions) encode_action(action, scratch_);
  value_ = fold_bytes(value_, scratch_);
}

}  // namespace penstock::scheduler

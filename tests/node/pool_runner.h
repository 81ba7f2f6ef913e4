// PoolRunner: a "model" whose K and V are numbers made of the token, and whose next token is a hash of every
// number it reads back through the block table.
//
// Unlike tests/engine/fake_runner.h it keeps them in a real pool, layer by layer, so that a KV handoff
// carries them. Bytes that did not arrive, or are another sequence's, change every later token; `mismatches`
// counts positions whose planes contradict each other.
#pragma once

#include <cstring>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/function_ref.h"
#include "base/rng.h"
#include "engine/runner.h"
#include "kv_transfer/handoff_types.h"

namespace penstock {

class PoolRunner final : public Runner {
 public:
  static constexpr int32_t kVocab = 64;
  static constexpr int32_t kBlockTokens = 16;
  static KvLayout layout() { return {3, 2, 4, kBlockTokens, KvDtype::kF32}; }

  explicit PoolRunner(const HandoffPool& pool) : pool_(pool) {}

  // The token after `ids`, as every correct greedy run must find it.
  static TokenId next_token(const std::vector<TokenId>& ids) {
    uint64_t hash = 0;
    for (const TokenId id : ids) hash = mix64(hash ^ static_cast<uint64_t>(id + 1));
    return static_cast<TokenId>(hash % kVocab);
  }
  static std::vector<TokenId> continuation(std::vector<TokenId> ids, int count) {
    std::vector<TokenId> out;
    for (int i = 0; i < count; ++i) {
      out.push_back(next_token(ids));
      ids.push_back(out.back());
    }
    return out;
  }

  Status run(const ForwardBatch& batch, LayerCallback on_layer) override {
    if (!fail_next.empty()) return fail(Error::kInternal, std::exchange(fail_next, ""));
    for (int32_t layer = 0; layer < layers(); ++layer) {
      for (const SequenceSlice& slice : batch.sequences) write(batch, slice, layer);
      on_layer(layer);
      if (between_layers) between_layers();
    }
    rows_.clear();
    for (const int32_t row : batch.logit_rows) rows_.push_back(logits_at(batch, row));
    return {};
  }
  std::span<const float> logits(int64_t index) const override { return rows_[static_cast<size_t>(index)]; }
  void for_each(int64_t count, FunctionRef<void(int64_t)> fn) override {
    while (count > 0) fn(--count);
  }
  Isa isa() const override { return Isa::kPortable; }
  int32_t layers() const override { return layout().layers; }

  std::function<void()> between_layers;  // what other threads do meanwhile
  std::string fail_next;
  int mismatches = 0;

 private:
  static float number_of(TokenId token, int32_t plane, int32_t head, int32_t dim) {
    return static_cast<float>((token + 1) * 1024 + plane * 64 + head * 16 + dim);
  }
  // Calls `visit(number in the pool, plane, head, dim)` for one position of both planes of a layer.
  template <typename Visit>
  void each_number(const SequenceSlice& slice, int64_t position, int32_t layer, Visit visit) {
    const KvLayout& layout = pool_.layout;
    const uint32_t block = slice.block_table[static_cast<size_t>(position / layout.block_tokens)];
    const auto token = static_cast<int32_t>(position % layout.block_tokens);
    for (const bool is_value : {false, true}) {
      std::byte* base = pool_.memory.base + layout.block_offset(layer, is_value, block, pool_.blocks);
      for (int32_t head = 0; head < layout.kv_heads; ++head) {
        for (int32_t dim = 0; dim < layout.head_dim; ++dim) {
          const int64_t element =
              is_value ? layout.value_element(head, token, dim) : layout.key_element(head, token, dim);
          visit(base + element * layout.element_bytes(), 2 * layer + (is_value ? 1 : 0), head, dim);
        }
      }
    }
  }
  void write(const ForwardBatch& batch, const SequenceSlice& slice, int32_t layer) {
    for (int64_t i = 0; i < slice.rows; ++i) {
      const auto row = static_cast<size_t>(slice.first_row + i);
      CHECK_EQ(int64_t{batch.positions[row]}, slice.first_position + i);
      each_number(slice, slice.first_position + i, layer,
                  [&](std::byte* at, int32_t plane, int32_t head, int32_t dim) {
                    const float number = number_of(batch.tokens[row], plane, head, dim);
                    std::memcpy(at, &number, sizeof(number));
                  });
    }
  }
  // The token that a position's K and V stand for; -2 when they contradict each other.
  TokenId read(const SequenceSlice& slice, int64_t position) {
    TokenId token = -2;
    bool agree = true;
    for (int32_t layer = 0; layer < layers(); ++layer) {
      each_number(slice, position, layer, [&](const std::byte* at, int32_t plane, int32_t head, int32_t dim) {
        float number = 0;
        std::memcpy(&number, at, sizeof(number));
        if (token == -2) token = static_cast<TokenId>(number / 1024) - 1;
        agree = agree && number == number_of(token, plane, head, dim);
      });
    }
    mismatches += agree ? 0 : 1;
    return agree ? token : -2;
  }
  std::vector<float> logits_at(const ForwardBatch& batch, int32_t row) {
    for (const SequenceSlice& slice : batch.sequences) {
      if (row < slice.first_row || row >= slice.first_row + slice.rows) continue;
      std::vector<TokenId> ids;
      for (int64_t p = 0; p <= slice.first_position + row - slice.first_row; ++p)
        ids.push_back(read(slice, p));
      std::vector<float> out(kVocab, 0.0F);
      out[static_cast<size_t>(next_token(ids))] = 5.0F;
      return out;
    }
    CHECK(false);
  }

  const HandoffPool& pool_;
  std::vector<std::vector<float>> rows_;
};

}  // namespace penstock

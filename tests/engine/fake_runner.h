// FakeRunner: a "model" whose next token is a hash of all tokens it reads through the block table.
//
// It keeps token ids where a real model keeps K and V. A wrong block table, a block handed out twice, a
// position fed twice or never: each changes what is read, and so every later token.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/check.h"
#include "base/rng.h"
#include "engine/runner.h"

namespace penstock {

class FakeRunner final : public Runner {
 public:
  static constexpr int32_t kVocab = 64;
  static constexpr TokenId kEmpty = -1;

  FakeRunner(int64_t pool_blocks, int32_t block_tokens, int32_t layers = 2)
      : block_tokens_(block_tokens),
        layers_(layers),
        pool_(static_cast<size_t>(pool_blocks * block_tokens), kEmpty) {}

  // The token after `ids`, as every correct run must find it.
  static TokenId next_token(const std::vector<TokenId>& ids) {
    uint64_t hash = 0;
    for (const TokenId id : ids) hash = mix64(hash ^ static_cast<uint64_t>(id + 1));
    return static_cast<TokenId>(hash % kVocab);
  }
  // `count` tokens after `ids`.
  static std::vector<TokenId> continuation(std::vector<TokenId> ids, int count) {
    std::vector<TokenId> out;
    for (int i = 0; i < count; ++i) {
      out.push_back(next_token(ids));
      ids.push_back(out.back());
    }
    return out;
  }

  Status run(const ForwardBatch& batch, LayerCallback on_layer) override {
    ++runs;
    if (!fail_next.empty()) return fail(Error::kInternal, std::exchange(fail_next, ""));
    for (const SequenceSlice& slice : batch.sequences) {
      for (int64_t i = 0; i < slice.rows; ++i) {
        const auto row = static_cast<size_t>(slice.first_row + i);
        CHECK_EQ(int64_t{batch.positions[row]}, slice.first_position + i);
        cell(slice, slice.first_position + i) = batch.tokens[row];
      }
    }
    for (int32_t layer = 0; layer < layers_; ++layer) on_layer(layer);
    rows_.clear();
    for (const int32_t row : batch.logit_rows) rows_.push_back(logits_at(batch, row));
    return {};
  }
  // Last row first: no result may depend on the order.
  void for_each(int64_t count, FunctionRef<void(int64_t)> fn) override {
    while (count > 0) fn(--count);
  }
  std::span<const float> logits(int64_t index) const override { return rows_[static_cast<size_t>(index)]; }
  Isa isa() const override { return Isa::kPortable; }
  int32_t layers() const override { return layers_; }

  // What lies in the pool, for tests that move KV by hand.
  TokenId& at(BlockId block, int64_t offset) {
    return pool_[static_cast<size_t>(int64_t{block.value()} * block_tokens_ + offset)];
  }

  int runs = 0;
  std::string fail_next;

 private:
  TokenId& cell(const SequenceSlice& slice, int64_t position) {
    return at(BlockId(slice.block_table[static_cast<size_t>(position / block_tokens_)]),
              position % block_tokens_);
  }
  std::vector<float> logits_at(const ForwardBatch& batch, int32_t row) {
    for (const SequenceSlice& slice : batch.sequences) {
      if (row < slice.first_row || row >= slice.first_row + slice.rows) continue;
      std::vector<TokenId> read;
      for (int64_t p = 0; p <= slice.first_position + row - slice.first_row; ++p)
        read.push_back(cell(slice, p));
      std::vector<float> out(kVocab, 0.0F);
      out[static_cast<size_t>(next_token(read))] = 5.0F;
      return out;
    }
    CHECK(false);
  }

  int32_t block_tokens_;
  int32_t layers_;
  std::vector<TokenId> pool_;
  std::vector<std::vector<float>> rows_;
};

}  // namespace penstock

#include "kernels/paged_attention.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>

#include "kernels/paged_attention_cpu.h"
#include "tests/kernels/random_data.h"
#include "tests/reference/attention_reference.h"
#include "tests/reference/kv_pool_reference.h"

namespace penstock {
namespace {

struct Shape {
  int64_t q_heads, kv_heads, head_dim, block_tokens;
  DType dtype;
  int64_t cols() const { return q_heads * head_dim; }
  int64_t kv_cols() const { return kv_heads * head_dim; }
};

// A pool whose free memory is NaN, and sequences with random keys and values in shuffled blocks.
class Cache {
 public:
  Cache(const Shape& shape, const std::vector<int64_t>& contexts, uint64_t seed) : shape_(shape), rng_(seed) {
    const int64_t block_elements = shape.kv_cols() * shape.block_tokens;
    for (const int64_t context : contexts) blocks_ += (context + shape.block_tokens - 1) / shape.block_tokens;
    blocks_ += 2;
    const size_t bytes = static_cast<size_t>(blocks_ * block_elements * dtype_bytes(shape.dtype));
    k_pool_.assign(bytes, 0xFF);
    v_pool_.assign(bytes, 0xFF);
    std::vector<uint32_t> order(static_cast<size_t>(blocks_));
    std::iota(order.begin(), order.end(), 0U);
    std::shuffle(order.begin(), order.end(), rng_);
    for (const int64_t context : contexts) add_sequence(context, order);
  }

  KvLayerView view() {
    return {k_pool_.data(),      v_pool_.data(),  shape_.dtype,   blocks_,
            shape_.block_tokens, shape_.kv_heads, shape_.head_dim};
  }
  const std::vector<uint32_t>& table(size_t sequence) const { return tables_[sequence]; }
  const std::vector<float>& keys(size_t sequence) const { return keys_[sequence]; }
  const std::vector<float>& values(size_t sequence) const { return values_[sequence]; }

 private:
  void add_sequence(int64_t context, std::vector<uint32_t>& order) {
    const int64_t blocks = (context + shape_.block_tokens - 1) / shape_.block_tokens;
    std::vector<uint32_t> table(order.end() - blocks, order.end());
    order.resize(order.size() - static_cast<size_t>(blocks));
    const int64_t cols = shape_.kv_cols();
    keys_.push_back(random_bf16_floats(rng_, context * cols));
    values_.push_back(random_bf16_floats(rng_, context * cols));
    const reference::PoolShape pool{shape_.kv_heads, shape_.head_dim, shape_.block_tokens};
    for (int64_t t = 0; t < context; ++t) {
      const int64_t block = table[static_cast<size_t>(t / shape_.block_tokens)],
                    slot = t % shape_.block_tokens;
      for (int64_t c = 0; c < cols; ++c) {
        const int64_t head = c / shape_.head_dim, d = c % shape_.head_dim;
        const size_t at = static_cast<size_t>(t * cols + c);
        put(k_pool_, reference::k_index(pool, block, slot, head, d), keys_.back()[at]);
        put(v_pool_, reference::v_index(pool, block, slot, head, d), values_.back()[at]);
      }
    }
    tables_.push_back(std::move(table));
  }
  void put(std::vector<uint8_t>& pool, int64_t index, float value) {
    if (shape_.dtype == DType::kF32) {
      std::memcpy(pool.data() + index * 4, &value, 4);
    } else {
      const Bf16 narrow = to_bf16(value);
      std::memcpy(pool.data() + index * 2, &narrow, 2);
    }
  }

  Shape shape_;
  Rng rng_;
  int64_t blocks_ = 0;
  std::vector<uint8_t> k_pool_, v_pool_;
  std::vector<std::vector<uint32_t>> tables_;
  std::vector<std::vector<float>> keys_, values_;
};

class EveryIsaAttention : public testing::TestWithParam<Isa> {
 protected:
  std::vector<float> attend(Cache& cache, const Shape& shape, const std::vector<float>& q,
                            const std::vector<SequenceSlice>& slices, int threads) {
    ThreadPool pool(threads);
    const int64_t rows = static_cast<int64_t>(q.size()) / shape.cols();
    std::vector<float> out(q.size(), 123.0F);
    paged_attention_cpu(pool, GetParam(), {q.data(), rows, shape.cols()}, cache.view(), slices, scale(shape),
                        {out.data(), rows, shape.cols()});
    return out;
  }
  static float scale(const Shape& shape) {
    return static_cast<float>(1 / std::sqrt(static_cast<double>(shape.head_dim)));
  }
};

const std::vector<Shape> kShapes = {{3, 3, 64, 64, DType::kBf16},  {9, 3, 64, 64, DType::kBf16},
                                    {8, 2, 16, 32, DType::kBf16},  {4, 1, 128, 64, DType::kBf16},
                                    {9, 3, 64, 64, DType::kF32},   {2, 2, 48, 16, DType::kF32},
                                    {6, 2, 128, 128, DType::kF32}, {70, 1, 16, 64, DType::kF32}};

// Prefill and decode of several sequences in one call, contexts that end before, at and after block ends.
TEST_P(EveryIsaAttention, AgreesWithTheReference) {
  for (const Shape& shape : kShapes) {
    const std::vector<int64_t> contexts = {1, 64, 65, 130, 200, 17};
    const std::vector<int64_t> rows = {1, 64, 1, 130, 37, 3};  // the last `rows` positions of each context
    Cache cache(shape, contexts, 31);
    std::vector<SequenceSlice> slices;
    int64_t total = 0;
    for (size_t s = 0; s < contexts.size(); ++s) {
      slices.push_back({total, rows[s], contexts[s] - rows[s], cache.table(s)});
      total += rows[s] + 1;  // one row in no slice
    }
    Rng rng(32);
    const std::vector<float> q = random_floats(rng, total * shape.cols(), 2);
    const std::vector<float> out = attend(cache, shape, q, slices, 2);
    for (size_t s = 0; s < contexts.size(); ++s) {
      for (int64_t i = 0; i <= rows[s]; ++i) {
        const int64_t row = slices[s].first_row + i;
        const std::span<const float> q_row(q.data() + row * shape.cols(), static_cast<size_t>(shape.cols()));
        const float* got = out.data() + row * shape.cols();
        if (i == rows[s]) {
          for (int64_t c = 0; c < shape.cols(); ++c) ASSERT_EQ(got[c], 123.0F) << "row in no slice";
          continue;
        }
        const std::vector<double> expected = reference::attention_row(
            q_row, cache.keys(s), cache.values(s), {shape.q_heads, shape.kv_heads, shape.head_dim},
            slices[s].first_position + i);
        for (int64_t c = 0; c < shape.cols(); ++c) {
          ASSERT_NEAR(got[c], expected[static_cast<size_t>(c)], 4e-6)
              << "heads " << shape.q_heads << "/" << shape.kv_heads << " dim " << shape.head_dim
              << " sequence " << s << " row " << i << " column " << c;
        }
      }
    }
  }
}

// The same rows as one prefill, in chunks, and one token at a time; with one and with two threads.
TEST_P(EveryIsaAttention, DecodeEqualsPrefillBitForBit) {
  for (const Shape& shape : kShapes) {
    const int64_t context = 203;
    Cache cache(shape, {context}, 33);
    Rng rng(34);
    const std::vector<float> q = random_floats(rng, context * shape.cols(), 2);
    const std::vector<float> whole = attend(cache, shape, q, {{0, context, 0, cache.table(0)}}, 1);
    std::vector<SequenceSlice> chunks, tokens;
    for (int64_t row = 0; row < context; row += 29) {
      chunks.push_back({row, std::min<int64_t>(29, context - row), row, cache.table(0)});
    }
    for (int64_t row = 0; row < context; ++row) tokens.push_back({row, 1, row, cache.table(0)});
    for (const auto& slices : {chunks, tokens}) {
      const std::vector<float> parts = attend(cache, shape, q, slices, 2);
      ASSERT_EQ(std::memcmp(parts.data(), whole.data(), whole.size() * sizeof(float)), 0)
          << slices.size() << " slices, heads " << shape.q_heads << "/" << shape.kv_heads << " dim "
          << shape.head_dim;
    }
  }
}

// The block size decides where keys lie, not how they are added up.
TEST_P(EveryIsaAttention, BlockSizeDoesNotMatter) {
  std::vector<float> first;
  for (const int64_t block_tokens : {16, 64, 128}) {
    const Shape shape{6, 2, 64, block_tokens, DType::kBf16};
    Cache cache(shape, {150}, 35);
    // The shuffle draws from the same stream as the data, so compare through one set of keys and values.
    const KvLayerView view = cache.view();
    const reference::PoolShape pool{shape.kv_heads, shape.head_dim, block_tokens};
    Rng data(36);
    for (int64_t t = 0; t < 150; ++t) {
      const int64_t block = cache.table(0)[static_cast<size_t>(t / block_tokens)];
      for (int64_t c = 0; c < shape.kv_cols(); ++c) {
        const int64_t head = c / 64, d = c % 64, slot = t % block_tokens;
        const float key = static_cast<float>(data.uniform()), value = static_cast<float>(data.uniform());
        static_cast<Bf16*>(view.k)[reference::k_index(pool, block, slot, head, d)] = to_bf16(key);
        static_cast<Bf16*>(view.v)[reference::v_index(pool, block, slot, head, d)] = to_bf16(value);
      }
    }
    const std::vector<float> q = random_floats(data, 40 * shape.cols());
    const std::vector<float> out = attend(cache, shape, q, {{0, 40, 110, cache.table(0)}}, 1);
    if (first.empty()) first = out;
    ASSERT_EQ(std::memcmp(out.data(), first.data(), first.size() * sizeof(float)), 0) << block_tokens;
  }
}

// Large scores: the maximum moves from tile to tile, and far keys weigh exactly nothing.
TEST_P(EveryIsaAttention, LargeScoresStayFinite) {
  const Shape shape{2, 2, 64, 64, DType::kF32};
  Cache cache(shape, {300}, 37);
  Rng rng(38);
  const std::vector<float> q = random_floats(rng, shape.cols(), 200);
  const std::vector<float> out = attend(cache, shape, q, {{0, 1, 299, cache.table(0)}}, 1);
  const std::vector<double> expected =
      reference::attention_row(q, cache.keys(0), cache.values(0), {2, 2, 64}, 299);
  for (size_t c = 0; c < out.size(); ++c) ASSERT_NEAR(out[c], expected[c], 2e-3);
}

INSTANTIATE_TEST_SUITE_P(PagedAttention, EveryIsaAttention, testing::ValuesIn(available_isas()),
                         [](const testing::TestParamInfo<Isa>& test) {
                           return std::string(isa_name(test.param));
                         });

}  // namespace
}  // namespace penstock

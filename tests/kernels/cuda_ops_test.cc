// The CUDA kernels through the plugin, against the references that the CPU ops meet. Built three times:
// emulated, emulated backwards, and (label gpu) for a real device; PENSTOCK_TEST_PLUGIN says which.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <vector>

#include "kernels/cuda_plugin.h"
#include "kernels/device.h"
#include "kernels/rmsnorm.h"
#include "kernels/swiglu.h"
#include "tests/kernels/random_data.h"
#include "tests/reference/attention_reference.h"
#include "tests/reference/kv_pool_reference.h"
#include "tests/reference/rmsnorm_reference.h"
#include "tests/reference/swiglu_reference.h"

namespace penstock {
namespace {

class CudaOpsTest : public testing::Test {
 protected:
  void SetUp() override {
    ::setenv("PENSTOCK_CUDA_PLUGIN", PENSTOCK_TEST_PLUGIN, 1);
    ::setenv("PENSTOCK_EMULATOR_ORDER", PENSTOCK_TEST_ORDER, 1);
    auto device = make_cuda_device(0);
    ASSERT_TRUE(device.ok()) << device.message();
    device_ = std::move(*device);
    stream_ = std::move(device_->make_stream({})).value();
  }
  template <typename T>
  DeviceBuffer upload(const std::vector<T>& host) {
    const auto bytes = static_cast<int64_t>(host.size() * sizeof(T));
    DeviceBuffer buffer = std::move(device_->allocate(bytes)).value();
    stream_->copy_async(buffer.data(), host.data(), bytes, CopyKind::kHostToDevice);
    CHECK(stream_->synchronize().ok());
    return buffer;
  }
  std::vector<float> download(const DeviceBuffer& buffer) {
    std::vector<float> host(static_cast<size_t>(buffer.bytes()) / sizeof(float));
    stream_->copy_async(host.data(), buffer.data(), buffer.bytes(), CopyKind::kDeviceToHost);
    const Status status = stream_->synchronize();
    EXPECT_TRUE(status.ok()) << (status.ok() ? "" : status.message());
    return host;
  }
  DeviceBuffer filled(int64_t count, float value) { return upload(std::vector<float>(size_t(count), value)); }

  std::unique_ptr<Device> device_;
  std::unique_ptr<Stream> stream_;
};

TEST_F(CudaOpsTest, MemoryIsZeroAndCopiesArriveInOrder) {
  const DeviceBuffer zero = std::move(device_->allocate(4 * 1001)).value();
  EXPECT_EQ(download(zero), std::vector<float>(1001, 0.0F));
  const DeviceBuffer pinned = std::move(device_->allocate_pinned(4 * 64)).value();
  std::fill_n(pinned.as<float>(), 64, 3.0F);
  const DeviceBuffer target = filled(64, 1);
  const auto event = std::move(device_->make_event()).value();
  const auto other = std::move(device_->make_stream({})).value();
  stream_->copy_async(target.data(), pinned.data(), 4 * 64, CopyKind::kHostToDevice);
  stream_->record(*event);
  other->wait(*event);
  other->zero_async(target.data(), 4 * 32);
  ASSERT_TRUE(other->synchronize().ok());
  EXPECT_TRUE(event->done());
  EXPECT_TRUE(event->synchronize().ok());
  std::vector<float> expected(64, 3.0F);
  std::fill_n(expected.begin(), 32, 0.0F);
  EXPECT_EQ(download(target), expected);
}

TEST_F(CudaOpsTest, Rmsnorm) {
  Rng rng(31);
  for (const int64_t cols : {1, 31, 64, 255, 257, 576, 1000}) {
    const int64_t rows = 3, stride = cols + 3;
    const auto x = random_floats(rng, rows * stride, 3), weight = random_bf16_floats(rng, cols);
    std::vector<Bf16> weight_bf16;
    for (const float value : weight) weight_bf16.push_back(to_bf16(value));
    const DeviceBuffer dx = upload(x), dw = upload(weight), dw_bf16 = upload(weight_bf16);
    for (const DType dtype : {DType::kF32, DType::kBf16}) {
      const DeviceBuffer dy = filled(rows * stride, 9);
      const void* w = dtype == DType::kF32 ? dw.data() : dw_bf16.data();
      rmsnorm(*stream_, {dx.as<const float>(), rows, cols, stride}, {w, dtype, cols}, 1e-5F,
              {dy.as<float>(), rows, cols, stride});
      const auto y = download(dy);
      for (int64_t row = 0; row < rows; ++row) {
        const auto expected = reference::rmsnorm_row({x.data() + row * stride, size_t(cols)}, weight, 1e-5F);
        for (int64_t i = 0; i < cols; ++i) {
          ASSERT_NEAR(y[row * stride + i], expected[i], 2e-6 * std::max(std::abs(expected[i]), 1e-3))
              << "row " << row << " column " << i << " of " << cols;
        }
        for (int64_t i = cols; i < stride; ++i) ASSERT_EQ(y[row * stride + i], 9) << "wrote into the padding";
      }
    }
  }
}

TEST_F(CudaOpsTest, Swiglu) {
  Rng rng(32);
  for (const int64_t ffn : {1, 32, 255, 256, 257, 1536}) {
    const int64_t rows = 4;
    auto gate_up = random_floats(rng, rows * 2 * ffn, 6);
    gate_up[0] = -200;  // exp overflows on the way; the result is 0
    const DeviceBuffer dx = upload(gate_up), dy = filled(rows * ffn, 9);
    swiglu(*stream_, {dx.as<const float>(), rows, 2 * ffn}, {dy.as<float>(), rows, ffn});
    const auto y = download(dy);
    for (int64_t i = 0; i < rows * ffn; ++i) {
      const float* gate = gate_up.data() + i / ffn * 2 * ffn + i % ffn;
      const double expected = reference::swiglu(gate[0], gate[ffn]);
      ASSERT_NEAR(y[i], expected, 2e-6 * std::abs(expected) + 1e-30) << gate[0];
    }
  }
}

struct DecodeCase {
  int64_t q_heads, kv_heads, head_dim, block_tokens;
  std::vector<int32_t> lengths;
};

// Plain K and V of one sequence, and their places in a pool whose unused bytes are NaN.
class DecodePool {
 public:
  DecodePool(const DecodeCase& shape, Rng& rng) : shape_(shape) {
    const int64_t longest = *std::ranges::max_element(shape.lengths);
    table_stride = (longest + shape.block_tokens - 1) / shape.block_tokens;
    blocks = table_stride * static_cast<int64_t>(shape.lengths.size()) + 3;
    tables.assign(size_t(table_stride) * shape.lengths.size(), 0xFFFFFFFFU);
    const reference::PoolShape pool{shape.kv_heads, shape.head_dim, shape.block_tokens};
    k_pool.assign(size_t(blocks * pool.block_elements()), NAN);
    v_pool = k_pool;
    int64_t next_block = blocks - 1;  // scattered: from the end, every sequence in turn
    const int64_t row = shape.kv_heads * shape.head_dim;
    for (size_t s = 0; s < shape.lengths.size(); ++s) {
      k.push_back(random_bf16_floats(rng, shape.lengths[s] * row));
      v.push_back(random_bf16_floats(rng, shape.lengths[s] * row));
    }
    for (int64_t b = 0; b < table_stride; ++b) {
      for (size_t s = 0; s < shape.lengths.size(); ++s) {
        if (b * shape.block_tokens >= shape.lengths[s]) continue;
        tables[s * size_t(table_stride) + size_t(b)] = static_cast<uint32_t>(next_block);
        fill_block(pool, s, b, next_block--);
      }
    }
  }
  int64_t table_stride = 0, blocks = 0;
  std::vector<uint32_t> tables;
  std::vector<float> k_pool, v_pool;
  std::vector<std::vector<float>> k, v;

 private:
  void fill_block(const reference::PoolShape& pool, size_t s, int64_t b, int64_t block) {
    const int64_t first = b * shape_.block_tokens,
                  last = std::min<int64_t>(first + shape_.block_tokens, shape_.lengths[s]);
    for (int64_t t = first; t < last; ++t) {
      for (int64_t h = 0; h < shape_.kv_heads; ++h) {
        for (int64_t i = 0; i < shape_.head_dim; ++i) {
          const size_t from = size_t((t * shape_.kv_heads + h) * shape_.head_dim + i);
          k_pool[size_t(reference::k_index(pool, block, t - first, h, i))] = k[s][from];
          v_pool[size_t(reference::v_index(pool, block, t - first, h, i))] = v[s][from];
        }
      }
    }
  }
  DecodeCase shape_;
};

std::vector<Bf16> narrowed(const std::vector<float>& values) {
  std::vector<Bf16> narrow;
  narrow.reserve(values.size());
  for (const float value : values) narrow.push_back(to_bf16(value));
  return narrow;
}

class CudaDecodeTest : public CudaOpsTest, public testing::WithParamInterface<DecodeCase> {
 protected:
  std::vector<float> run(const DecodeCase& shape, const DecodePool& pool, const std::vector<float>& q,
                         bool bf16) {
    const auto sequences = static_cast<int32_t>(shape.lengths.size());
    const int64_t row = shape.q_heads * shape.head_dim;
    const DeviceBuffer dq = upload(q), out = filled(sequences * row, 9);
    const DeviceBuffer dk = bf16 ? upload(narrowed(pool.k_pool)) : upload(pool.k_pool);
    const DeviceBuffer dv = bf16 ? upload(narrowed(pool.v_pool)) : upload(pool.v_pool);
    const DeviceBuffer tables = upload(pool.tables), lengths = upload(shape.lengths);
    CudaPagedDecodeArgs args{};
    args.q = dq.as<const float>();
    args.q_stride = args.out_stride = row;
    args.out = out.as<float>();
    args.k = dk.data();
    args.v = dv.data();
    args.block_tables = tables.as<const uint32_t>();
    args.lengths = lengths.as<const int32_t>();
    args.table_stride = pool.table_stride;
    args.sequences = sequences;
    args.q_heads = static_cast<int32_t>(shape.q_heads);
    args.kv_heads = static_cast<int32_t>(shape.kv_heads);
    args.head_dim = static_cast<int32_t>(shape.head_dim);
    args.block_tokens = static_cast<int32_t>(shape.block_tokens);
    args.kv_is_bf16 = bf16;
    args.scale = 1 / std::sqrt(static_cast<float>(shape.head_dim));
    stream_->note_failure("decode", stream_->cuda().paged_attention_decode(&args, stream_->cuda_handle()));
    return download(out);
  }
};

INSTANTIATE_TEST_SUITE_P(Shapes, CudaDecodeTest,
                         testing::Values(DecodeCase{9, 3, 64, 64, {1, 15, 16, 17, 63, 64, 65, 130, 257}},
                                         DecodeCase{4, 4, 16, 16, {1, 33, 100}},
                                         DecodeCase{6, 2, 80, 32, {5, 96}},
                                         DecodeCase{4, 1, 128, 64, {70, 128}},
                                         DecodeCase{2, 1, 256, 64, {66}},
                                         DecodeCase{22, 2, 32, 64, {90}}));  // 11 heads a group: two blocks

TEST_P(CudaDecodeTest, EqualsTheReference) {
  Rng rng(33);
  const DecodeCase& shape = GetParam();
  const DecodePool pool(shape, rng);
  const int64_t row = shape.q_heads * shape.head_dim;
  const auto q = random_floats(rng, row * int64_t(shape.lengths.size()), 2);
  for (const bool bf16 : {false, true}) {
    const auto out = run(shape, pool, q, bf16);
    for (size_t s = 0; s < shape.lengths.size(); ++s) {
      const auto expected =
          reference::attention_row({q.data() + int64_t(s) * row, size_t(row)}, pool.k[s], pool.v[s],
                                   {shape.q_heads, shape.kv_heads, shape.head_dim}, shape.lengths[s] - 1);
      for (int64_t i = 0; i < row; ++i) {
        ASSERT_NEAR(out[s * size_t(row) + size_t(i)], expected[size_t(i)], 5e-6)
            << "sequence " << s << " of length " << shape.lengths[s] << ", element " << i;
      }
    }
  }
}

// A sequence alone gives the bits it gives in company.
TEST_P(CudaDecodeTest, SequencesDoNotDependOnTheBatch) {
  Rng rng(34);
  const DecodeCase& shape = GetParam();
  const DecodePool pool(shape, rng);
  const int64_t row = shape.q_heads * shape.head_dim;
  const auto q = random_floats(rng, row * int64_t(shape.lengths.size()));
  const auto together = run(shape, pool, q, true);
  DecodeCase alone = shape;
  alone.lengths = {shape.lengths.back()};
  DecodePool alone_pool = pool;
  alone_pool.tables.assign(pool.tables.end() - pool.table_stride, pool.tables.end());
  EXPECT_EQ(run(alone, alone_pool, {q.end() - row, q.end()}, true),
            std::vector<float>(together.end() - row, together.end()));
}

TEST_F(CudaOpsTest, ARefusedLaunchSurfacesAtSynchronize) {
  CudaPagedDecodeArgs args{};
  args.head_dim = 24;
  stream_->note_failure("decode", stream_->cuda().paged_attention_decode(&args, stream_->cuda_handle()));
  const Status status = stream_->synchronize();
  ASSERT_FALSE(status.ok());
  EXPECT_NE(status.message().find("head_dim"), std::string::npos);
  EXPECT_TRUE(stream_->synchronize().ok());  // reported once
}

}  // namespace
}  // namespace penstock

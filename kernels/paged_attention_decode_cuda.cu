// Decode attention over the paged KV pool on CUDA: one query row a sequence, online softmax (Milakov,
// Gimelshein 2018) over tiles of 64 positions.
//
// One block serves one sequence and up to kHeadsMax query heads of one KV head, so that K and V are read once
// for the whole group. Layout: kv_layer.h; K comes in columns of 16 tokens, so 16 lanes read 16 neighbouring
// elements. A sequence's result depends on nothing else in the batch. Long contexts are not split over blocks
// yet: with few sequences the GPU is not filled.
// Shapes: CudaPagedDecodeArgs. Reference: tests/reference/attention_reference.h.
#include "kernels/launch_cuda.h"
#include "kernels/ops_cuda.h"

namespace penstock {
namespace {

constexpr int kThreads = 128;
constexpr int kTile = 64;     // positions a tile: four warps, 16 positions each
constexpr int kHeadsMax = 8;  // query heads a block
constexpr int kHeadDimMax = 256;

// Shared memory of one block.
struct Shared {
  float q[kHeadsMax][kHeadDimMax];  // scaled; at the end, partial results
  float scores[kHeadsMax][kTile];   // then probabilities
  float highest[kHeadsMax], sum[kHeadsMax], correction[kHeadsMax];
};

// Offset of position p's 16-token column of K, or its row of V, for one KV head.
struct PageView {
  const uint32_t* table;
  int64_t head_offset;     // of the KV head within a block
  int64_t block_elements;  // all KV heads
  int block_tokens, head_dim;

  __device__ int64_t k_column(int position) const {  // position a multiple of 16
    const int within = position % block_tokens;
    return table[position / block_tokens] * block_elements + head_offset +
           static_cast<int64_t>(within) * head_dim;
  }
  __device__ int64_t v_row(int position) const {
    return k_column(position);
  }  // same size a token, so the same sum
};

// Scores of the tile that begins at `first`: a warp takes 16 positions, and each half of it half of head_dim.
template <typename KvType>
__device__ void score_tile(const KvType* k, const PageView& pages, int first, int length, int heads,
                           Shared& shared) {
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int position = first + warp * 16 + lane % 16;
  float partial[kHeadsMax] = {};
  if (first + warp * 16 < length) {  // the same for the whole warp
    const KvType* column = k + pages.k_column(first + warp * 16) + lane % 16;
    const int half = pages.head_dim / 2, begin = lane / 16 * half;
    for (int i = begin; i < begin + half; ++i) {
      const float element = widen(column[i * 16]);
      for (int h = 0; h < kHeadsMax; ++h) {
        if (h < heads) partial[h] += shared.q[h][i] * element;
      }
    }
  }
  for (int h = 0; h < kHeadsMax; ++h) {
    if (h >= heads) break;
    const float score = partial[h] + __shfl_xor_sync(kFullWarp, partial[h], 16);
    if (lane < 16) shared.scores[h][warp * 16 + lane] = position < length ? score : -INFINITY;
  }
}

// Turns scores into exp(score - highest) and updates the running maximum and sum: a warp a head.
__device__ inline void softmax_tile(int heads, Shared& shared) {
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  for (int h = warp; h < heads; h += kThreads / 32) {
    const float a = shared.scores[h][lane], b = shared.scores[h][lane + 32];
    const float before = shared.highest[h];
    const float highest = fmaxf(before, warp_max(fmaxf(a, b)));  // finite: a tile holds a valid position
    const float weight_a = expf(a - highest), weight_b = expf(b - highest);
    shared.scores[h][lane] = weight_a;
    shared.scores[h][lane + 32] = weight_b;
    const float tile_sum = warp_sum(weight_a + weight_b);  // needs every lane's `before`: none reads it later
    if (lane == 0) {
      const float correction = expf(before - highest);
      shared.correction[h] = correction;
      shared.highest[h] = highest;
      shared.sum[h] = shared.sum[h] * correction + tile_sum;
    }
  }
}

// A thread owns two columns at most (head_dim up to 256) or shares one with others that take other positions.
struct Columns {
  int parts;   // threads that share a column
  int part;    // this thread's share: positions part, part + parts, ...
  int column;  // -1: idle
};
__device__ inline Columns columns_of_thread(int head_dim, int pass) {
  const int thread = static_cast<int>(threadIdx.x);
  if (head_dim >= kThreads) {
    const int column = thread + pass * kThreads;
    return {1, 0, column < head_dim ? column : -1};
  }
  const int parts = kThreads / head_dim;
  return {parts, thread / head_dim, thread < parts * head_dim ? thread % head_dim : -1};
}

template <typename KvType>
__device__ void accumulate_tile(const KvType* v, const PageView& pages, int first, int length, int heads,
                                const Columns& mine, const Shared& shared, float* accumulator) {
  for (int h = 0; h < kHeadsMax; ++h) {
    if (h < heads) accumulator[h] *= shared.correction[h];
  }
  if (mine.column < 0) return;
  const int count = length - first < kTile ? length - first : kTile;
  for (int t = mine.part; t < count; t += mine.parts) {
    const float element = widen(v[pages.v_row(first + t) + mine.column]);
    for (int h = 0; h < kHeadsMax; ++h) {
      if (h < heads) accumulator[h] += shared.scores[h][t] * element;
    }
  }
}

// Adds the shares of each column in order and writes the normalised result.
__device__ inline void write_result(const Columns& mine, int pass, int heads, int head_dim,
                                    const float* accumulator, Shared& shared, float* out) {
  for (int h = 0; h < heads; ++h) {
    __syncthreads();  // q is no longer needed, or the last head's shares have been read
    float* shares = shared.q[0];
    shares[threadIdx.x] = mine.column < 0 ? 0.0F : accumulator[h];
    __syncthreads();
    if (mine.column < 0 || mine.part != 0) continue;
    float total = 0;
    for (int part = 0; part < mine.parts; ++part)
      total += shares[part * head_dim + mine.column - pass * kThreads];
    out[h * head_dim + mine.column] = total / shared.sum[h];
  }
}

template <typename KvType>
__global__ void __launch_bounds__(kThreads) paged_attention_decode_kernel(CudaPagedDecodeArgs args) {
  Shared& shared = *PENSTOCK_SHARED(Shared);
  const int sequence = static_cast<int>(blockIdx.x), length = args.lengths[sequence],
            head_dim = args.head_dim;
  const int group = args.q_heads / args.kv_heads, chunks = (group + kHeadsMax - 1) / kHeadsMax;
  const int kv_head = static_cast<int>(blockIdx.y) / chunks, chunk = static_cast<int>(blockIdx.y) % chunks;
  const int q_head = kv_head * group + chunk * kHeadsMax;
  const int heads = group - chunk * kHeadsMax < kHeadsMax ? group - chunk * kHeadsMax : kHeadsMax;
  const int64_t head_elements = static_cast<int64_t>(args.block_tokens) * head_dim;
  const PageView pages{args.block_tables + sequence * args.table_stride, kv_head * head_elements,
                       args.kv_heads * head_elements, args.block_tokens, head_dim};

  const float* q = args.q + sequence * args.q_stride + static_cast<int64_t>(q_head) * head_dim;
  for (int i = static_cast<int>(threadIdx.x); i < heads * head_dim; i += kThreads) {
    shared.q[i / head_dim][i % head_dim] = q[i] * args.scale;
  }
  if (threadIdx.x < kHeadsMax) {
    shared.highest[threadIdx.x] = -INFINITY;
    shared.sum[threadIdx.x] = 0;
  }
  constexpr int kPasses = kHeadDimMax / kThreads;
  float accumulator[kPasses][kHeadsMax] = {};
  __syncthreads();
  for (int first = 0; first < length; first += kTile) {
    score_tile(static_cast<const KvType*>(args.k), pages, first, length, heads, shared);
    __syncthreads();
    softmax_tile(heads, shared);
    __syncthreads();
    for (int pass = 0; pass < kPasses; ++pass) {
      accumulate_tile(static_cast<const KvType*>(args.v), pages, first, length, heads,
                      columns_of_thread(head_dim, pass), shared, accumulator[pass]);
      if (head_dim <= kThreads) break;
    }
    __syncthreads();  // before the next tile overwrites the scores
  }
  float* out = args.out + sequence * args.out_stride + static_cast<int64_t>(q_head) * head_dim;
  for (int pass = 0; pass < kPasses; ++pass) {
    write_result(columns_of_thread(head_dim, pass), pass, heads, head_dim, accumulator[pass], shared, out);
    if (head_dim <= kThreads) break;
  }
}

}  // namespace

CudaError paged_attention_decode_cuda(const CudaPagedDecodeArgs* args, void* stream) {
  if (args->head_dim < 16 || args->head_dim > kHeadDimMax || args->head_dim % 16 != 0) {
    return "paged_attention_decode: head_dim must be a multiple of 16, at most 256";
  }
  if (args->block_tokens % 16 != 0 || args->block_tokens < 16) {
    return "paged_attention_decode: block_tokens must be a multiple of 16";
  }
  if (args->kv_heads < 1 || args->q_heads % args->kv_heads != 0) {
    return "paged_attention_decode: q_heads must be a multiple of kv_heads";
  }
  if (args->sequences == 0) return nullptr;
  const int chunks = (args->q_heads / args->kv_heads + kHeadsMax - 1) / kHeadsMax;
  const dim3 grid(static_cast<unsigned>(args->sequences), static_cast<unsigned>(args->kv_heads * chunks));
  if (args->kv_is_bf16 != 0) {
    return PENSTOCK_LAUNCH(paged_attention_decode_kernel<__nv_bfloat16>, grid, dim3(kThreads), sizeof(Shared),
                           stream, *args);
  }
  return PENSTOCK_LAUNCH(paged_attention_decode_kernel<float>, grid, dim3(kThreads), sizeof(Shared), stream,
                         *args);
}

}  // namespace penstock

#include <immintrin.h>

#include "kernels/matmul_amx.h"

namespace penstock {
namespace {

// The tile registers of this thread, configured for 16 rows of 64 bytes while the object lives.
// Inline assembly: the compiler's intrinsics want literal tile numbers, which a template does not have.
class AmxTiles {
 public:
  AmxTiles() {
    struct alignas(64) Config {
      uint8_t palette = 1;
      uint8_t start_row = 0;
      uint8_t reserved[14] = {};
      uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
      uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
    };
    const Config config;
    __asm__ volatile("ldtilecfg %0" ::"m"(config));
  }
  ~AmxTiles() { __asm__ volatile("tilerelease"); }
  AmxTiles(const AmxTiles&) = delete;
  AmxTiles& operator=(const AmxTiles&) = delete;

  template <int T>
  void zero() {
    __asm__ volatile("tilezero %%tmm%c0" ::"i"(T));
  }
  template <int T>
  void load(const void* from, int64_t stride_bytes) {
    __asm__ volatile("tileloadd (%0,%1,1), %%tmm%c2" ::"r"(from), "r"(stride_bytes), "i"(T) : "memory");
  }
  template <int T>
  void store(float* to, int64_t stride_bytes) const {
    __asm__ volatile("tilestored %%tmm%c2, (%0,%1,1)" ::"r"(to), "r"(stride_bytes), "i"(T) : "memory");
  }
  template <int C, int A, int B>
  void multiply() {
    __asm__ volatile("tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0" ::"i"(C), "i"(A), "i"(B));
  }
};

void run_panels(const AmxTask& task) {
  AmxTiles tiles;
  amx_panels(tiles, task);
}

// Rounds to nearest even. The instruction takes subnormals as zero, as the tile product does.
void round_rows(const float* x, int64_t x_stride, int64_t rows, int64_t k, int64_t padded_k, uint16_t* out) {
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t i = 0; i < padded_k; i += 32) {
      const int64_t left = k - i;
      const uint32_t mask = left >= 32 ? ~0U : (1U << left) - 1U;
      const float* source = x + r * x_stride + i;
      const __m512 low = _mm512_maskz_loadu_ps(static_cast<__mmask16>(mask), source);
      const __m512 high = _mm512_maskz_loadu_ps(static_cast<__mmask16>(mask >> 16), source + 16);
      const __m512bh both = _mm512_cvtne2ps_pbh(high, low);
      __asm__("vmovdqu64 %1, %0" : "=m"(*reinterpret_cast<__m512i*>(out + r * padded_k + i)) : "v"(both));
    }
  }
}

}  // namespace

AmxKernels amx_kernels() { return {round_rows, run_panels}; }

}  // namespace penstock

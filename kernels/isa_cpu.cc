#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "kernels/isa.h"

namespace penstock {
namespace {

constexpr std::array<std::string_view, 5> kNames = {"portable", "avx2", "avx512", "avx512bf16", "amxbf16"};

struct CpuidLeaf {
  uint32_t eax = 0, ebx = 0, ecx = 0, edx = 0;
};

CpuidLeaf cpuid(uint32_t leaf, uint32_t subleaf) {
  CpuidLeaf r;
  if (__get_cpuid_count(leaf, subleaf, &r.eax, &r.ebx, &r.ecx, &r.edx) == 0) return {};
  return r;
}

bool has_bit(uint32_t word, int bit) { return ((word >> bit) & 1U) != 0; }

// XCR0: the register state that the operating system saves. A CPU feature whose state it does not save must
// not be used, whatever CPUID shows.
uint64_t saved_state() {
  if (!has_bit(cpuid(1, 0).ecx, 27)) return 0;  // OSXSAVE
  uint32_t low = 0, high = 0;
  __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return uint64_t{high} << 32 | low;
}

// Linux gives tile registers (XSAVE component 18) only to processes that ask.
bool request_amx_tiles() {
#if defined(__linux__) && defined(SYS_arch_prctl)
  constexpr int kRequestPermission = 0x1023;  // ARCH_REQ_XCOMP_PERM
  constexpr int kTileData = 18;
  return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
#else
  return false;
#endif
}

std::vector<Isa> detect() {
  std::vector<Isa> isas = {Isa::kPortable};
  const uint64_t saved = saved_state();
  constexpr uint64_t kYmm = 0x6, kZmm = 0xE6, kTiles = 0x60000;
  const CpuidLeaf leaf1 = cpuid(1, 0), leaf7 = cpuid(7, 0), leaf7_1 = cpuid(7, 1);

  const bool fma = has_bit(leaf1.ecx, 12), f16c = has_bit(leaf1.ecx, 29);
  const bool avx2 = has_bit(leaf7.ebx, 5), bmi2 = has_bit(leaf7.ebx, 8);
  if ((saved & kYmm) != kYmm || !fma || !f16c || !avx2 || !bmi2) return isas;
  isas.push_back(Isa::kAvx2);

  const bool f = has_bit(leaf7.ebx, 16), dq = has_bit(leaf7.ebx, 17);
  const bool bw = has_bit(leaf7.ebx, 30), vl = has_bit(leaf7.ebx, 31);
  if ((saved & kZmm) != kZmm || !f || !dq || !bw || !vl) return isas;
  isas.push_back(Isa::kAvx512);

  if (!has_bit(leaf7_1.eax, 5)) return isas;  // AVX512_BF16
  isas.push_back(Isa::kAvx512Bf16);

  const bool amx_tile = has_bit(leaf7.edx, 24), amx_bf16 = has_bit(leaf7.edx, 22);
  if ((saved & kTiles) != kTiles || !amx_tile || !amx_bf16 || !request_amx_tiles()) return isas;
  isas.push_back(Isa::kAmxBf16);
  return isas;
}

std::string names(const std::vector<Isa>& isas) {
  std::string list;
  for (const Isa isa : isas) {
    if (!list.empty()) list += ", ";
    list += isa_name(isa);
  }
  return list;
}

Result<Isa> require(Isa isa, std::string_view origin) {
  const std::vector<Isa>& have = available_isas();
  if (std::ranges::find(have, isa) != have.end()) return isa;
  return fail(Error::kUnsupported, std::string(origin) + std::string(isa_name(isa)) +
                                       " is not available on this machine; it has " + names(have));
}

}  // namespace

std::string_view isa_name(Isa isa) { return kNames[static_cast<size_t>(isa)]; }

std::optional<Isa> parse_isa(std::string_view name) {
  const auto found = std::ranges::find(kNames, name);
  if (found == kNames.end()) return std::nullopt;
  return static_cast<Isa>(found - kNames.begin());
}

const std::vector<Isa>& available_isas() {
  static const std::vector<Isa> isas = detect();
  return isas;
}

Result<Isa> choose_isa(std::optional<Isa> forced) {
  if (forced) return require(*forced, "instruction set ");
  const char* name = std::getenv("PENSTOCK_ISA");
  if (name == nullptr || *name == '\0') return available_isas().back();
  const std::optional<Isa> isa = parse_isa(name);
  if (!isa) {
    return fail(Error::kInvalidArgument, "PENSTOCK_ISA=" + std::string(name) +
                                             " names no instruction set; known are portable, avx2, avx512, "
                                             "avx512bf16, amxbf16");
  }
  return require(*isa, "PENSTOCK_ISA=");
}

}  // namespace penstock

#include "text/byte_alphabet.h"

#include <array>
#include <cstdint>

#include "text/utf8.h"

namespace penstock {
namespace {

constexpr bool stands_for_itself(int byte) {
  return (byte >= '!' && byte <= '~') || (byte >= 0xA1 && byte <= 0xAC) || (byte >= 0xAE && byte <= 0xFF);
}

constexpr int kAlphabetEnd = 0x100 + 68;

struct Alphabet {
  std::array<uint16_t, 256> to_code_point{};
  std::array<int16_t, kAlphabetEnd> to_byte{};
};

constexpr Alphabet make_alphabet() {
  Alphabet alphabet;
  for (int16_t& byte : alphabet.to_byte) byte = -1;
  uint16_t next = 0x100;
  for (int byte = 0; byte < 256; ++byte) {
    const uint16_t code_point = stands_for_itself(byte) ? static_cast<uint16_t>(byte) : next++;
    alphabet.to_code_point[byte] = code_point;
    alphabet.to_byte[code_point] = static_cast<int16_t>(byte);
  }
  return alphabet;
}

constexpr Alphabet kAlphabet = make_alphabet();

}  // namespace

std::optional<std::string> alphabet_to_bytes(std::string_view spelled) {
  std::string bytes;
  bytes.reserve(spelled.size());
  while (!spelled.empty()) {
    const Utf8Step step = decode_utf8(spelled);
    if (step.state != Utf8State::kWhole || step.code_point >= kAlphabetEnd) return std::nullopt;
    const int byte = kAlphabet.to_byte[step.code_point];
    if (byte < 0) return std::nullopt;
    bytes.push_back(static_cast<char>(byte));
    spelled.remove_prefix(step.length);
  }
  return bytes;
}

std::string bytes_to_alphabet(std::string_view bytes) {
  std::string spelled;
  spelled.reserve(bytes.size() * 2);
  for (const char c : bytes) append_utf8(kAlphabet.to_code_point[static_cast<uint8_t>(c)], spelled);
  return spelled;
}

}  // namespace penstock

#include "text/utf8.h"

#include <algorithm>
#include <cstring>

namespace penstock {
namespace {

// What a first byte promises: length, and the range of the second byte (narrower after E0, ED, F0, F4: no
// overlong forms, no surrogates, nothing above U+10FFFF).
struct Lead {
  uint8_t length;
  uint8_t second_min, second_max;
};

Lead classify(uint8_t byte) {
  if (byte < 0x80) return {1, 0, 0};
  if (byte < 0xC2) return {0, 0, 0};
  if (byte < 0xE0) return {2, 0x80, 0xBF};
  if (byte < 0xF0) return {3, uint8_t(byte == 0xE0 ? 0xA0 : 0x80), uint8_t(byte == 0xED ? 0x9F : 0xBF)};
  if (byte < 0xF5) return {4, uint8_t(byte == 0xF0 ? 0x90 : 0x80), uint8_t(byte == 0xF4 ? 0x8F : 0xBF)};
  return {0, 0, 0};
}

// Length of the run of ASCII at the start, by words of eight bytes.
size_t ascii_prefix(std::string_view text) {
  size_t at = 0;
  while (at + 8 <= text.size()) {
    uint64_t word = 0;
    std::memcpy(&word, text.data() + at, 8);
    if ((word & 0x8080808080808080ULL) != 0) break;
    at += 8;
  }
  while (at < text.size() && static_cast<uint8_t>(text[at]) < 0x80) ++at;
  return at;
}

}  // namespace

Utf8Step decode_utf8(std::string_view text) {
  const auto first = static_cast<uint8_t>(text[0]);
  const Lead lead = classify(first);
  if (lead.length == 1) return {first, 1, Utf8State::kWhole};
  if (lead.length == 0) return {0, 1, Utf8State::kIllFormed};
  uint32_t code_point = first & (0x7FU >> lead.length);
  for (uint8_t i = 1; i < lead.length; ++i) {
    if (i == text.size()) return {0, i, Utf8State::kIncomplete};
    const auto byte = static_cast<uint8_t>(text[i]);
    const uint8_t min = i == 1 ? lead.second_min : 0x80, max = i == 1 ? lead.second_max : 0xBF;
    if (byte < min || byte > max) return {0, i, Utf8State::kIllFormed};
    code_point = (code_point << 6) | (byte & 0x3FU);
  }
  return {code_point, lead.length, Utf8State::kWhole};
}

bool is_valid_utf8(std::string_view text) {
  for (;;) {
    text.remove_prefix(ascii_prefix(text));
    if (text.empty()) return true;
    const Utf8Step step = decode_utf8(text);
    if (step.state != Utf8State::kWhole) return false;
    text.remove_prefix(step.length);
  }
}

void append_utf8(uint32_t c, std::string& out) {
  const auto put = [&out](uint32_t byte) { out.push_back(static_cast<char>(byte)); };
  if (c < 0x80) return put(c);
  if (c < 0x800) {
    put(0xC0 | (c >> 6));
  } else if (c < 0x10000) {
    put(0xE0 | (c >> 12));
    put(0x80 | ((c >> 6) & 0x3F));
  } else {
    put(0xF0 | (c >> 18));
    put(0x80 | ((c >> 12) & 0x3F));
    put(0x80 | ((c >> 6) & 0x3F));
  }
  put(0x80 | (c & 0x3F));
}

void append_repaired_utf8(std::string_view text, std::string& out) {
  while (!text.empty()) {
    const size_t ascii = ascii_prefix(text);
    out.append(text.substr(0, ascii));
    text.remove_prefix(ascii);
    if (text.empty()) return;
    const Utf8Step step = decode_utf8(text);
    out.append(step.state == Utf8State::kWhole ? text.substr(0, step.length) : kReplacement);
    text.remove_prefix(step.length);
  }
}

size_t count_code_points(std::string_view text) {
  return static_cast<size_t>(std::count_if(text.begin(), text.end(),
                                           [](char c) { return (static_cast<uint8_t>(c) & 0xC0) != 0x80; }));
}

}  // namespace penstock

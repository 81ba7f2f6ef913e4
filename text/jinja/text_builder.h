// Builds a string piece by piece and keeps track of which bytes are the template's own.
#pragma once

#include <string>
#include <string_view>

#include "text/jinja/value.h"

namespace penstock::jinja {

class TextBuilder {
 public:
  void append(std::string_view text, Origin origin);
  void append(const StringData& piece) { append_part(piece, 0, piece.text.size()); }
  // Bytes [begin, end) of `piece`.
  void append_part(const StringData& piece, size_t begin, size_t end);
  size_t size() const { return data_.text.size(); }
  StringData take() { return std::move(data_); }

 private:
  void mark(size_t begin, size_t end);
  StringData data_;
};

// Bytes [begin, end) as a string of its own.
StringData part_of(const StringData& whole, size_t begin, size_t end);
// kTemplate only when every byte is the template's.
Origin origin_of(const StringData& data);

}  // namespace penstock::jinja

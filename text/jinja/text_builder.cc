#include "text/jinja/text_builder.h"

#include <algorithm>

namespace penstock::jinja {

void TextBuilder::mark(size_t begin, size_t end) {
  if (begin == end) return;
  auto& ranges = data_.from_template;
  if (!ranges.empty() && ranges.back().end == begin) {
    ranges.back().end = end;
  } else {
    ranges.push_back({begin, end});
  }
}

void TextBuilder::append(std::string_view text, Origin origin) {
  const size_t begin = data_.text.size();
  data_.text.append(text);
  if (origin == Origin::kTemplate) mark(begin, data_.text.size());
}

void TextBuilder::append_part(const StringData& piece, size_t begin, size_t end) {
  const size_t base = data_.text.size();
  data_.text.append(piece.text, begin, end - begin);
  auto range = std::lower_bound(piece.from_template.begin(), piece.from_template.end(), begin,
                                [](const TextRange& r, size_t at) { return r.end <= at; });
  for (; range != piece.from_template.end() && range->begin < end; ++range) {
    mark(base + std::max(range->begin, begin) - begin, base + std::min(range->end, end) - begin);
  }
}

StringData part_of(const StringData& whole, size_t begin, size_t end) {
  TextBuilder builder;
  builder.append_part(whole, begin, end);
  return builder.take();
}

Origin origin_of(const StringData& data) {
  if (data.text.empty()) return Origin::kTemplate;
  const bool all = data.from_template.size() == 1 && data.from_template[0] == TextRange{0, data.text.size()};
  return all ? Origin::kTemplate : Origin::kRequest;
}

}  // namespace penstock::jinja

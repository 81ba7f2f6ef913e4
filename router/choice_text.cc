#include "router/choice_text.h"

#include <algorithm>

namespace penstock::router {
namespace {

size_t count_code_points(std::string_view text) {
  return static_cast<size_t>(std::count_if(
      text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }));
}

}  // namespace

ChoiceText::ChoiceText(const Tokenizer& tokenizer, const GenerationOptions& options)
    : detokenizer_(tokenizer, options.skip_special_tokens ? SkipSpecial::kYes : SkipSpecial::kNo),
      stops_(options.stop) {}

bool ChoiceText::push(GeneratedToken token, TextDelta& delta) {
  ++token_count_;
  ShownToken shown;
  // The stop id itself is never shown, not even with skip_special_tokens: false.
  if (!token.is_stop_id) detokenizer_.push(token.token, shown.piece);
  shown.generated = std::move(token);
  shown.text_offset = text_code_points_;
  text_code_points_ += count_code_points(shown.piece);
  std::string text;
  const bool stopped = stops_.push(shown.piece, text);
  held_.push_back(std::move(shown));
  release(delta, std::move(text));
  return stopped;
}

void ChoiceText::finish(TextDelta& delta) {
  std::string text;
  if (!stops_.stopped()) stops_.flush(text);
  release(delta, std::move(text));
  detokenizer_.discard();
  // What is left was cut by a stop string: the rest of its text is not part of the answer.
  size_t shown_bytes = held_released_;
  for (ShownToken& token : held_) {
    token.piece.resize(shown_bytes);
    shown_bytes = 0;
    delta.tokens.push_back(std::move(token));
  }
  held_.clear();
  held_released_ = 0;
}

// `text` leaves; tokens go with the last byte of their piece.
void ChoiceText::release(TextDelta& delta, std::string text) {
  held_released_ += text.size();
  delta.text += text;
  while (!held_.empty() && held_.front().piece.size() <= held_released_) {
    held_released_ -= held_.front().piece.size();
    delta.tokens.push_back(std::move(held_.front()));
    held_.pop_front();
  }
}

}  // namespace penstock::router

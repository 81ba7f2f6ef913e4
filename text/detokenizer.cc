#include "text/detokenizer.h"

#include "text/utf8.h"

namespace penstock {

void Detokenizer::push(TokenId id, std::string& out) {
  if (skip_special_ == SkipSpecial::kYes && tokenizer_->is_special(id)) return;
  held_.append(tokenizer_->token_bytes(id));
  std::string_view rest = held_;
  while (!rest.empty()) {
    const Utf8Step step = decode_utf8(rest);
    if (step.state == Utf8State::kIncomplete) break;
    out.append(step.state == Utf8State::kWhole ? rest.substr(0, step.length) : kReplacement);
    rest.remove_prefix(step.length);
  }
  held_.erase(0, held_.size() - rest.size());
}

std::string Detokenizer::push(TokenId id) {
  std::string out;
  push(id, out);
  return out;
}

std::string Detokenizer::flush() {
  std::string out(held_.empty() ? std::string_view() : kReplacement);
  held_.clear();
  return out;
}

}  // namespace penstock

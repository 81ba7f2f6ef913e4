#include "text/pre_tokenizer.h"

#include "text/utf8.h"

namespace penstock {

Status PreTokenizer::split(std::string_view text, Regex::Scratch& scratch,
                           std::vector<std::string_view>& words) const {
  return split_from(0, text, scratch, words);
}

Status PreTokenizer::split_from(size_t step, std::string_view text, Regex::Scratch& scratch,
                                std::vector<std::string_view>& words) const {
  if (text.empty()) return {};
  if (step == steps_.size()) {
    words.push_back(text);
    return {};
  }
  const auto emit = [&](size_t begin, size_t end, bool keep) -> Status {
    if (!keep || begin == end) return {};
    return split_from(step + 1, text.substr(begin, end - begin), scratch, words);
  };
  const SplitStep& split = steps_[step];
  size_t done = 0, from = 0;  // text before `done` has been emitted
  while (from < text.size()) {
    ASSIGN_OR_RETURN(const auto match, split.regex.find(text, from, scratch));
    if (!match.has_value()) break;
    if (match->begin == match->end) {  // an empty match cuts nothing
      from = match->begin + (match->begin < text.size() ? decode_utf8(text.substr(match->begin)).length : 1);
      continue;
    }
    RETURN_IF_ERROR(emit(done, match->begin, split.keep_gaps));
    RETURN_IF_ERROR(emit(match->begin, match->end, split.keep_matches));
    done = from = match->end;
  }
  return emit(done, text.size(), split.keep_gaps);
}

}  // namespace penstock

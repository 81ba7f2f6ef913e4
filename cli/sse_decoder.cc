#include "cli/sse_decoder.h"

#include <utility>

namespace penstock::cli {

std::vector<std::string> SseDecoder::feed(std::string_view piece) {
  std::vector<std::string> events;
  for (const char c : piece) {
    if (c != '\n') {
      line_ += c;
      continue;
    }
    if (!line_.empty() && line_.back() == '\r') line_.pop_back();
    const std::string line = std::exchange(line_, {});
    if (line.empty()) {
      if (std::exchange(has_data_, false)) events.push_back(std::exchange(data_, {}));
    } else if (line.rfind("data:", 0) == 0) {
      if (has_data_) data_ += '\n';
      data_ += line.substr(line.size() > 5 && line[5] == ' ' ? 6 : 5);
      has_data_ = true;
    }
  }
  return events;
}

}  // namespace penstock::cli

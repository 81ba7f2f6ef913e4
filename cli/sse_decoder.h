// SseDecoder: the `data:` payloads of a stream of server-sent events, whatever the pieces it arrives in.
// A value; comments and other fields are passed over.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace penstock::cli {

class SseDecoder {
 public:
  // The payloads that this piece completes, in order; several `data:` lines of one event are joined by \n.
  [[nodiscard]] std::vector<std::string> feed(std::string_view piece);

 private:
  std::string line_;
  std::string data_;
  bool has_data_ = false;
};

}  // namespace penstock::cli

#include "cli/sse_decoder.h"

#include <gtest/gtest.h>

namespace penstock::cli {
namespace {

TEST(SseDecoder, EventsWhateverTheCut) {
  const std::string wire =
      "data: {\"a\": 1}\n\n: comment\nevent: x\ndata:two\r\ndata: lines\r\n\r\n\n\ndata: [DONE]\n\n";
  const std::vector<std::string> expected = {"{\"a\": 1}", "two\nlines", "[DONE]"};
  for (size_t cut = 0; cut <= wire.size(); ++cut) {
    SseDecoder decoder;
    auto events = decoder.feed(std::string_view(wire).substr(0, cut));
    for (auto& event : decoder.feed(std::string_view(wire).substr(cut))) events.push_back(event);
    EXPECT_EQ(events, expected) << cut;
  }
}

TEST(SseDecoder, AnUnfinishedEventIsNone) {
  SseDecoder decoder;
  EXPECT_TRUE(decoder.feed("data: half\n").empty());
  EXPECT_EQ(decoder.feed("\n"), std::vector<std::string>{"half"});
}

}  // namespace
}  // namespace penstock::cli

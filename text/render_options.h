// What bounds the rendering of a chat template, and the clock it may see.
#pragma once

#include <cstdint>
#include <ctime>
#include <functional>

namespace penstock {

struct RenderOptions {
  int depth_max = 500;             // recursion: expressions, blocks and calls within each other
  int64_t steps_max = 10'000'000;  // nodes evaluated, items looked at
  // Bytes that expressions create, plus the output: counted when made, never given back, so that the peak
  // stays below. A prompt of n bytes needs about 5 n.
  int64_t bytes_max = int64_t{512} << 20;
  // Local time for strftime_now(format). Empty: the template sees it as undefined.
  std::function<std::tm()> local_time;
};

}  // namespace penstock

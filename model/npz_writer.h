// NumPy archives: a ZIP of .npy arrays, stored and not deflated, so that a reader may map them.
//
// One thread; blocking. An archive is valid after finish() only. Without ZIP64: 4 GB in all.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"

namespace penstock {

class NpzWriter {
 public:
  [[nodiscard]] static Result<NpzWriter> create(const std::string& path);
  NpzWriter(NpzWriter&&) noexcept;
  NpzWriter& operator=(NpzWriter&&) noexcept;
  ~NpzWriter();

  // Begins an f32 array of this shape; its values follow by append(), row after row, exactly as many as it
  // has. kInvalidArgument when the archive would grow beyond 4 GB.
  [[nodiscard]] Status begin(const std::string& name, const std::vector<int64_t>& shape);
  [[nodiscard]] Status append(std::span<const float> values);
  // Completes the last array and writes the directory.
  [[nodiscard]] Status finish();

 private:
  struct State;
  explicit NpzWriter(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace penstock

// A model on a CPU stream, ready to run. Test code: failures abort with their message.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "kernels/isa.h"
#include "model/sequence_runner.h"

namespace penstock {

struct LoadedModel {
  std::unique_ptr<Device> device;
  std::unique_ptr<Stream> stream;
  std::unique_ptr<Model> model;

  struct Options {
    DType dtype = DType::kF32;
    std::optional<Isa> isa = std::nullopt;
    int threads = 1;
    int64_t rows_max = 64;
  };
  LoadedModel(const std::string& dir, const Options& options) : device(make_cpu_device()) {
    stream = device->make_stream({.threads = options.threads, .isa = options.isa}).value();
    ModelOptions model_options;
    model_options.dtype = options.dtype;
    model_options.rows_max = options.rows_max;
    model_options.threads = options.threads;
    model_options.isa = options.isa;
    model = load_model(dir, model_options, *device).value();
  }
  SequenceRunner runner(KvDtype kv_dtype, int64_t chunk = 64, int64_t positions_max = 0) {
    return SequenceRunner::make(*model, *device, *stream,
                                {.kv_dtype = kv_dtype, .positions_max = positions_max, .chunk = chunk})
        .value();
  }
};

// Logits of every position, [tokens][vocab].
inline std::vector<std::vector<float>> all_logits(SequenceRunner& runner, std::span<const TokenId> tokens) {
  std::vector<std::vector<float>> rows;
  runner.reset();
  const Status status =
      runner.feed(tokens, SequenceRunner::Logits::kAll,
                  [&](int64_t, std::span<const float> row) { rows.emplace_back(row.begin(), row.end()); });
  CHECK(status.ok());
  return rows;
}

inline TokenId argmax(std::span<const float> row) {
  TokenId best = 0;
  for (TokenId i = 1; i < static_cast<TokenId>(row.size()); ++i) {
    if (row[static_cast<size_t>(i)] > row[static_cast<size_t>(best)]) best = i;
  }
  return best;
}

}  // namespace penstock

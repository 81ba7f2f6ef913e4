// Import: a GGUF file or a Hugging Face folder becomes a Hugging Face style folder that we and Transformers
// load: model.safetensors (one file, Hugging Face names, f32 or bf16), config.json, generation_config.json,
// tokenizer.json, tokenizer_config.json, and the chat template.
//
// Blocking; memory use is a few MB whatever the model's size. The destination appears whole under its name
// (written beside it and renamed) or not at all.
#pragma once

#include <cstdint>
#include <string>

#include "base/function_ref.h"
#include "base/result.h"
#include "kernels/dtype.h"

namespace penstock {

struct ImportOptions {
  DType dtype = DType::kBf16;  // kBf16 (rounded to nearest even) or kF32
};

struct ImportSummary {
  int64_t tensors = 0;
  int64_t bytes = 0;         // of model.safetensors
  std::string architecture;  // "LlamaForCausalLM"
};

// Called after each tensor, with bytes of model.safetensors written so far and in all.
using ImportProgress = FunctionRef<void(int64_t done, int64_t total)>;

// `destination` must not exist yet, or be an empty folder.
[[nodiscard]] Result<ImportSummary> import_model(const std::string& source, const std::string& destination,
                                                 const ImportOptions& options, ImportProgress progress = {});

}  // namespace penstock

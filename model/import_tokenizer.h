// tokenizer.json and tokenizer_config.json, rebuilt from a GGUF's metadata. Private to the room.
#pragma once

#include <string>

#include "base/result.h"
#include "model/gguf.h"

namespace penstock {

// Byte-level BPE only (tokenizer.ggml.model "gpt2"); the pre-tokenizer follows from tokenizer.ggml.pre.
[[nodiscard]] Result<std::string> tokenizer_json_from_gguf(const GgufFile& file);

// Carries the chat template, if the GGUF has one.
[[nodiscard]] Result<std::string> tokenizer_config_json_from_gguf(const GgufFile& file, int64_t context_max);

}  // namespace penstock

// The one model that a router serves, as far as text goes: name, limits, tokenizer, chat template.
//
// Owned by the router's thread (the tokenizer caches words).
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "base/result.h"
#include "router/api_error.h"
#include "router/request.h"
#include "text/model_text.h"
#include "text/tokenizer.h"

namespace penstock::router {

using PromptIds = std::variant<std::vector<TokenId>, ApiError>;

class ServedModel {
 public:
  // `context_max`: 0 for the model's own limit. Errors name the file and the field.
  static Result<ServedModel> load(const std::string& model_dir, std::string name, int64_t context_max);

  // For another thread.
  ServedModel clone() const;

  const std::string& name() const { return name_; }
  int64_t context_max() const { return context_max_; }
  int64_t vocab_size() const { return vocab_size_; }
  // Any of them ends a sequence: what config, generation_config and tokenizer_config name.
  const std::vector<TokenId>& eos_ids() const { return eos_ids_; }
  const Tokenizer& tokenizer() const { return tokenizer_; }

  // Special tokens come from the template alone, never from what a message says.
  PromptIds chat_ids(const std::vector<ChatMessage>& messages);
  // A text prompt is read as Hugging Face's tokenizer reads it: whoever writes the whole prompt may write
  // special tokens, and the post-processor's BOS is added.
  PromptIds prompt_ids(const Prompt& prompt);
  // The same of text alone, which may come to nothing; `add_special`: with what the post-processor adds.
  PromptIds text_ids(const std::string& text, bool add_special);
  // An error when one of them is no token of this model.
  std::optional<ApiError> check_ids(std::span<const TokenId> ids, const char* param) const;

 private:
  ServedModel(std::string name, Tokenizer tokenizer)
      : name_(std::move(name)), tokenizer_(std::move(tokenizer)) {}
  Status read_limits(const std::string& model_dir, int64_t context_max);
  PromptIds checked(std::vector<TokenId> ids, const char* param) const;

  std::string name_;
  int64_t context_max_ = 0;
  int64_t vocab_size_ = 0;
  std::vector<TokenId> eos_ids_;
  Tokenizer tokenizer_;
  std::optional<ModelChat> chat_;
};

}  // namespace penstock::router

// Regular expressions of pre-tokenizers, with the meaning that Oniguruma gives them in Hugging Face
// tokenizers.
//
// A Regex is immutable and may be shared by threads; each thread brings its own Scratch. PCRE2 stays in
// regex_pcre2.cc.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "text/rendered_text.h"

namespace penstock {

class Regex {
 public:
  class Scratch {
   public:
    // Backtracking steps of one match; a sane pattern needs a few per byte.
    static constexpr uint32_t kMatchLimit = 50'000'000;
    explicit Scratch(uint32_t match_limit = kMatchLimit);
    Scratch(Scratch&&) noexcept;
    Scratch& operator=(Scratch&&) noexcept;
    ~Scratch();

   private:
    friend class Regex;
    struct State;
    std::unique_ptr<State> state_;
  };

  // kInvalidArgument with the position of a syntax error; kUnsupported for what the two engines read
  // differently.
  static Result<Regex> compile(std::string_view pattern);
  // A pattern that matches `literal` and nothing else.
  static std::string quote(std::string_view literal);

  // The first match in `text` that begins at `from` or later. `text` is valid UTF-8, and `from` is the start
  // of a character. kResourceExhausted when the pattern backtracks without end.
  Result<std::optional<TextRange>> find(std::string_view text, size_t from, Scratch& scratch) const;

 private:
  struct Code;
  explicit Regex(std::shared_ptr<const Code> code) : code_(std::move(code)) {}
  std::shared_ptr<const Code> code_;
};

}  // namespace penstock

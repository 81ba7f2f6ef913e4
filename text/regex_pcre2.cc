#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "base/check.h"
#include "text/regex.h"

namespace penstock {
namespace {

constexpr size_t kJitStackStart = size_t{32} << 10, kJitStackMax = size_t{1} << 20;

std::string library_message(int code) {
  PCRE2_UCHAR buffer[256] = {};
  pcre2_get_error_message(code, buffer, sizeof(buffer));
  return reinterpret_cast<const char*>(buffer);
}

// Oniguruma's \s is Unicode's White_Space; PCRE2's adds U+180E. \h is a hexadecimal digit there, a blank
// here.
// `&&` in a class is an intersection there, two ampersands here.
Result<std::string> translate(std::string_view pattern) {
  std::string out;
  bool in_class = false;
  for (size_t i = 0; i < pattern.size(); ++i) {
    const char c = pattern[i];
    const char next = i + 1 < pattern.size() ? pattern[i + 1] : '\0';
    if (c == '\\' && next != '\0') {
      ++i;
      if (next == 'h' || next == 'H') {
        return fail(Error::kUnsupported, "regex uses \\h; write [0-9a-fA-F] instead");
      }
      if (next == 's' || next == 'S') {
        out += next == 's' ? "\\p{White_Space}" : "\\P{White_Space}";
      } else {
        out.append({c, next});
      }
      continue;
    }
    if (c == '[') in_class = true;
    if (c == ']') in_class = false;
    if (in_class && c == '&' && next == '&') {
      return fail(Error::kUnsupported, "regex uses an intersection (&&) in a character class");
    }
    out.push_back(c);
  }
  return out;
}

}  // namespace

struct Regex::Code {
  pcre2_code* code = nullptr;
  bool jit = false;
  Code() = default;
  Code(const Code&) = delete;
  Code& operator=(const Code&) = delete;
  ~Code() { pcre2_code_free(code); }
};

struct Regex::Scratch::State {
  pcre2_match_data* match = pcre2_match_data_create(1, nullptr);
  pcre2_match_context* context = pcre2_match_context_create(nullptr);
  pcre2_jit_stack* stack = pcre2_jit_stack_create(kJitStackStart, kJitStackMax, nullptr);
  explicit State(uint32_t match_limit) {
    CHECK(match != nullptr && context != nullptr && stack != nullptr);
    pcre2_jit_stack_assign(context, nullptr, stack);
    pcre2_set_match_limit(context, match_limit);
  }
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  ~State() {
    pcre2_match_data_free(match);
    pcre2_match_context_free(context);
    pcre2_jit_stack_free(stack);
  }
};

Regex::Scratch::Scratch(uint32_t match_limit) : state_(std::make_unique<State>(match_limit)) {}
Regex::Scratch::Scratch(Scratch&&) noexcept = default;
Regex::Scratch& Regex::Scratch::operator=(Scratch&&) noexcept = default;
Regex::Scratch::~Scratch() = default;

Result<Regex> Regex::compile(std::string_view pattern) {
  ASSIGN_OR_RETURN(const std::string translated, translate(pattern));
  auto code = std::make_shared<Code>();
  int error = 0;
  PCRE2_SIZE offset = 0;
  code->code = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(translated.data()), translated.size(),
                             PCRE2_UTF | PCRE2_UCP | PCRE2_NEVER_BACKSLASH_C, &error, &offset, nullptr);
  if (code->code == nullptr) {
    return fail(Error::kInvalidArgument, "regex '" + translated + "' at byte " + std::to_string(offset) +
                                             ": " + library_message(error));
  }
  code->jit = pcre2_jit_compile(code->code, PCRE2_JIT_COMPLETE) == 0;  // without: slower, same matches
  return Regex(std::move(code));
}

std::string Regex::quote(std::string_view literal) {
  std::string out;
  for (const char c : literal) {
    if (static_cast<unsigned char>(c) < 0x80 && std::isalnum(static_cast<unsigned char>(c)) == 0) {
      out.push_back('\\');
    }
    out.push_back(c);
  }
  return out;
}

Result<std::optional<TextRange>> Regex::find(std::string_view text, size_t from, Scratch& scratch) const {
  Scratch::State& state = *scratch.state_;
  const auto* subject = reinterpret_cast<PCRE2_SPTR>(text.data());
  const int rc = code_->jit
                     ? pcre2_jit_match(code_->code, subject, text.size(), from, 0, state.match, state.context)
                     : pcre2_match(code_->code, subject, text.size(), from, PCRE2_NO_UTF_CHECK, state.match,
                                   state.context);
  if (rc == PCRE2_ERROR_NOMATCH) return std::optional<TextRange>();
  if (rc < 0) {
    return fail(Error::kResourceExhausted, "the tokenizer's regex gave up at byte " + std::to_string(from) +
                                               " of the text: " + library_message(rc));
  }
  const PCRE2_SIZE* offsets = pcre2_get_ovector_pointer(state.match);
  return std::optional<TextRange>({offsets[0], offsets[1]});
}

}  // namespace penstock

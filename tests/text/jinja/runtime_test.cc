// Hostile templates: each asks for more time, memory or stack than there is, and ends with an error instead.
#include "text/jinja/runtime.h"

#include <malloc.h>

#include <fstream>

#include "tests/text/jinja/cases.h"

namespace penstock::jinja {
namespace {

constexpr int64_t kBytesMax = 16 << 20;

// Limits small enough that a template which escapes them would show.
RenderOptions tight() {
  RenderOptions options;
  options.steps_max = 1'000'000;
  options.bytes_max = kBytesMax;
  return options;
}

const char* const kEndless[] = {
    "{% for i in range(1000000000000) %}{% endfor %}",
    "{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}",
    "{% for i in range(0, 9223372036854775807, 9) %}x{% endfor %}",
    "{% for a in range(99) %}{% for b in range(99) %}{% for c in range(99) %}{% for d in range(99) %}"
    "{% if false %}{% endif %}{% endfor %}{% endfor %}{% endfor %}{% endfor %}",
    "{{ range(400000)|map('string')|list|sort|unique|join }}",
    "{% set x = range(3000)|list %}{{ x|select('in', x|reverse|list)|list|length }}",
    "{% set a = 'a' * 500000 %}{% for i in range(99999) %}{% if a ~ 'b' == a ~ 'c' %}{% endif %}{% endfor %}",
    "{% set a = 'a' * 500000 %}{% for i in range(9999) %}{{ a.count('b') }}{% endfor %}",
    "{% set a = 'a' * 500000 %}{% for i in range(9999) %}{{ ('b' ~ a) in a }}{% endfor %}",
    "{% set a = 'a' * 500000 %}{% for i in range(9999) %}{{ a[-1] }}{% endfor %}",
    "{% set a = 'a' * 500000 %}{% for i in range(9999) %}{{ a.strip() }}{{ a.isalpha() }}{% endfor %}",
    "{% set a = 'a' * 300000 %}{{ a.strip('b' * 300000 ~ 'a') }}",
    "{% set x = (1,) * 300000 %}{% for i in range(9999) %}{% if x == x[:] %}{% endif %}{% endfor %}",
    "{% set x = ('a',) * 300000 %}{% for i in range(9999) %}{{ 'b'.startswith(x) }}{% endfor %}",
};

const char* const kTooDeep[] = {
    "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}",
    "{% macro a() %}{{ b() }}{% endmacro %}{% macro b() %}{{ a() }}{% endmacro %}{{ a() }}",
    "{% macro m(x=m()) %}{% endmacro %}{{ m() }}",
    "{% macro m() %}{% call m() %}{{ caller() }}{% endcall %}{% endmacro %}{{ m() }}",
    "{% macro m() %}{{ [1]|map('string')|list ~ m() }}{% endmacro %}{{ m() }}",
    "{% for x in [1] recursive %}{{ loop([1]) }}{% endfor %}",
    "{% for x in [1] recursive %}{% for y in [1] recursive %}{{ loop([1]) }}{% endfor %}{% endfor %}",
    "{% set ns = namespace(x=[]) %}{% for i in range(100000) %}{% set ns.x = [ns.x] %}{% endfor %}{{ ns.x }}",
    "{% set ns = namespace(x={}) %}{% for i in range(100000) %}{% set ns.x = {1: ns.x} %}{% endfor %}",
    "{% set ns = namespace(x=[]) %}{% for i in range(100000) %}{% set ns.x = [ns.x.index] %}{% endfor %}",
};

const char* const kTooLarge[] = {
    "{{ 'a' * 1000000000000 }}",
    "{{ 'ab' * 9223372036854775807 }}",
    "{{ ([1] * 9223372036854775807)|length }}",
    "{{ ('a' * 1000000) * 1000000 }}",
    "{% set ns = namespace(s='a') %}{% for i in range(99) %}{% set ns.s = ns.s ~ ns.s %}{% endfor %}",
    "{% set ns = namespace(s='a') %}{% for i in range(99) %}{% set ns.s = ns.s + ns.s %}{% endfor %}",
    "{% set ns = namespace(s='a') %}{% for i in range(99) %}{% set ns.s = [ns.s, ns.s]|join %}{% endfor %}",
    "{% set ns = namespace(s='a') %}{% for i in range(99) %}{% set ns.s = ns.s|replace('a', 'aa') %}{% "
    "endfor %}",
    "{% set ns = namespace(s='a') %}{% for i in range(99) %}{% set x %}{{ ns.s }}{{ ns.s }}{% endset %}"
    "{% set ns.s = x %}{% endfor %}",
    "{% set ns = namespace(s=[1]) %}{% for i in range(99) %}{% set ns.s = ns.s + ns.s %}{% endfor %}",
    // Small in memory, exponential when walked.
    "{% set ns = namespace(s=[1]) %}{% for i in range(99) %}{% set ns.s = [ns.s, ns.s] %}{% endfor %}{{ ns.s "
    "}}",
    "{% set ns = namespace(s=[1]) %}{% for i in range(99) %}{% set ns.s = [ns.s, ns.s] %}{% endfor %}"
    "{{ ns.s|tojson }}",
    "{% set ns = namespace(s=[1]) %}{% for i in range(99) %}{% set ns.s = [ns.s, ns.s] %}{% endfor %}"
    "{{ ns.s == ns.s[:] + [] }}",
    "{% set ns = namespace(s=(1,)) %}{% for i in range(99) %}{% set ns.s = (ns.s, ns.s) %}{% endfor %}"
    "{{ {ns.s: 1} }}",
    "{% set ns = namespace(s={}) %}{% for i in range(99) %}{% set ns.s = {'a': ns.s, 'b': ns.s} %}{% endfor "
    "%}"
    "{{ ns.s|string|length }}",
    "{{ 'a'|indent(1000000000000, true) }}",
    "{{ ('\\n' * 10000)|indent(10000, true, true) }}",
    "{{ [1]|tojson(indent=1000000000000) }}",
    "{{ [1]|batch(1000000000000, 'x')|list }}",
    "{{ ('<' * 6000000)|escape }}",
    "{{ ('a' * 6000000)|list }}",
    "{{ ('a' * 6000000)[::-1] }}",
    "{{ ('a ' * 3000000).split() }}",
    "{{ ('a\\n' * 3000000).splitlines() }}",
    "{% set k = 'k' * 400000 %}{% set ns = namespace(l=[]) %}{% for i in range(99999) %}"
    "{% set ns.l = ns.l + [{k: 1, 'a': 1, 'b': 1, 'c': 1, 'd': 1, 'e': 1, 'f': 1, 'g': 1, 'h': 1}] %}"
    "{% endfor %}",
    "{% set k = 'k' * 100000 %}{% set ns = namespace(l=[]) %}{% for i in range(4000) %}"
    "{% set ns.l = ns.l + [[][k]] %}{% endfor %}",
    "{% set ns = namespace(l=[]) %}{% for i in range(99999) %}{% set ns.l = ns.l + ['a'.upper] %}{% endfor "
    "%}",
    "{% for i in range(400000) %}{% set x = namespace(a=1) %}{% endfor %}",
    "{% for i in range(400000) %}{% macro m() %}{% endmacro %}{% endfor %}",
    "{% for i in range(400000) %}abcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyz{% endfor %}",
    "{% for i in range(99999) %}{% for c in 'abcdefghijklmnopqrstuvwxyz' %}{% break %}{% endfor %}{% endfor "
    "%}",
};

void expect_exhausted(const char* source) {
  SCOPED_TRACE(std::string(source).substr(0, 160));
  const auto result = render(source, Value(Dict()), tight());
  ASSERT_FALSE(result.ok()) << result->size() << " bytes";
  EXPECT_EQ(result.code(), Error::kResourceExhausted) << result.message();
  EXPECT_NE(result.message().find("case: line "), std::string::npos) << result.message();
  EXPECT_LT(result.message().size(), 1000u);
}

TEST(Runtime, EndlessWorkIsAnError) {
  for (const char* source : kEndless) expect_exhausted(source);
}

TEST(Runtime, DeepRecursionIsAnError) {
  for (const char* source : kTooDeep) expect_exhausted(source);
}

TEST(Runtime, ALargeResultIsAnError) {
  for (const char* source : kTooLarge) expect_exhausted(source);
}

int64_t memory_kb(const std::string& field) {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with(field + ":")) return std::stoll(line.substr(field.size() + 1));
  }
  return -1;
}

// The limit is kept in fact, not in the books alone.
TEST(Runtime, TheLimitBoundsTheMemoryOfTheProcess) {
  malloc_trim(0);
  std::ofstream("/proc/self/clear_refs") << "5";  // the peak starts again from here
  const int64_t before = memory_kb("VmRSS");
  for (const char* source : kTooLarge) expect_exhausted(source);
#if defined(__SANITIZE_ADDRESS__)
  constexpr int64_t kQuarantine = int64_t{512} << 10;  // freed memory stays for a while
#else
  constexpr int64_t kQuarantine = 0;
#endif
  // Less than two limits when alone in its process; what the allocator keeps between templates comes on top.
  EXPECT_LT(memory_kb("VmHWM") - before, 4 * (kBytesMax >> 10) + kQuarantine);
}

// What a search costs is counted; what it does not cost is not: these are linear.
TEST(Runtime, LongTextsAreSearchedInLinearTime) {
  for (const char* source : {
           "{{ ('a' * 400000).rfind('a' * 200000) }}",
           "{{ ('a' * 400000).rfind('b' ~ 'a' * 200000) }}",
           "{{ ('a' * 400000).rsplit('b' ~ 'a' * 200000, 3)|length }}",
           "{{ ('a' * 400000).count('a' * 200000 ~ 'b') }}",
           "{{ ('a' * 400000).replace('a' * 200000 ~ 'b', '')|length }}",
           "{{ ('a' * 400000).split('a' * 200000 ~ 'b')|length }}",
       }) {
    EXPECT_TRUE(render(source, Value(Dict()), tight()).ok()) << source;
  }
}

// Three times a real context of a million characters passes with the limits as they are by default.
TEST(Runtime, APromptOfThreeMegabytesIsNoAttack) {
  const Value given =
      variables(R"({"messages": [{"role": "user", "content": ")" + std::string(3'000'000, 'x') + R"("}]})");
  const auto text = render(
      "{% for m in messages %}{% set c = m.content|trim %}{{ '<|im_start|>' ~ m.role ~ '\\n' ~ c ~ "
      "'<|im_end|>\\n' }}"
      "{% endfor %}",
      given);
  ASSERT_TRUE(text.ok()) << text.message();
  EXPECT_EQ(text->size(), 3'000'000u + 28);
}

TEST(Runtime, LimitsAreNamed) {
  const auto steps = render("{% for i in range(99999999) %}{% endfor %}", Value(Dict()), tight());
  EXPECT_NE(steps.message().find("more than 16777216 bytes"), std::string::npos) << steps.message();
  const auto depth = render("\n{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}", Value(Dict()), tight());
  EXPECT_NE(depth.message().find("line 2: the template needs more than 500 levels of nesting"),
            std::string::npos)
      << depth.message();
}

}  // namespace
}  // namespace penstock::jinja

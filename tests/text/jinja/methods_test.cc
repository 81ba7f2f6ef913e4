#include "text/jinja/methods.h"

#include "tests/text/jinja/cases.h"

namespace penstock::jinja {
namespace {

TEST(Methods, AsJinja2) { expect_cases("methods", 72); }

// As in jinja2's immutable sandbox: a template cannot change what it was given.
TEST(Methods, NothingIsChangedInPlace) {
  for (const char* source : {"{{ xs.append(1) }}", "{{ xs.pop() }}", "{{ xs.sort() }}", "{{ d.update({}) }}",
                             "{{ d.pop('a') }}", "{{ d.setdefault('b', 1) }}", "{{ d.clear() }}"}) {
    const auto result = render(source, variables(R"({"xs": [2, 1], "d": {"a": 1}})"));
    ASSERT_FALSE(result.ok()) << source;
    EXPECT_NE(result.message().find("SecurityError"), std::string::npos) << result.message();
  }
}

}  // namespace
}  // namespace penstock::jinja

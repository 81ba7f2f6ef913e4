#include "text/jinja/filters.h"

#include "tests/text/jinja/cases.h"

namespace penstock::jinja {
namespace {

TEST(Filters, AsJinja2) { expect_cases("filters", 147); }

TEST(Filters, AnUnknownOneIsNamedWhenItIsReached) {
  EXPECT_EQ(render("{% if false %}{{ 1|nosuch }}{% endif %}ok").value(), "ok");
  const auto result = render("{{ 1|nosuch }}");
  ASSERT_FALSE(result.ok());
  EXPECT_NE(result.message().find("no filter named 'nosuch'"), std::string::npos) << result.message();
}

TEST(Filters, ArgumentsAreChecked) {
  for (const char* source : {"{{ 'a'|upper(1) }}", "{{ 'a'|replace('b') }}", "{{ [1]|batch(0) }}",
                             "{{ 'x'|abs }}", "{{ [1]|join(separator=',') }}", "{{ 1|round(1, 'half') }}"}) {
    EXPECT_FALSE(render(source).ok()) << source;
  }
}

}  // namespace
}  // namespace penstock::jinja

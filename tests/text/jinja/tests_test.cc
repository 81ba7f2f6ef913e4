#include "text/jinja/tests.h"

#include "tests/text/jinja/cases.h"

namespace penstock::jinja {
namespace {

TEST(Tests, AsJinja2) { expect_cases("tests", 71); }

}  // namespace
}  // namespace penstock::jinja

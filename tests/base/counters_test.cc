#include "base/counters.h"

#include <gtest/gtest.h>

namespace penstock {
namespace {

TEST(Registry, RendersPrometheusText) {
  Registry registry;
  registry.counter("requests_total", "Requests.", {{"reason", "a\"b"}}).add(2);
  registry.gauge("running", "Now.").set(1.5);
  Histogram& h = registry.histogram("ttft_seconds", "Time.", {0.1, 1});
  h.observe(0.1);
  h.observe(0.5);
  h.observe(7);
  EXPECT_EQ(registry.render(),
            "# HELP requests_total Requests.\n# TYPE requests_total counter\n"
            "requests_total{reason=\"a\\\"b\"} 2\n"
            "# HELP running Now.\n# TYPE running gauge\nrunning 1.5\n"
            "# HELP ttft_seconds Time.\n# TYPE ttft_seconds histogram\n"
            "ttft_seconds_bucket{le=\"0.1\"} 1\nttft_seconds_bucket{le=\"1\"} 2\n"
            "ttft_seconds_bucket{le=\"+Inf\"} 3\nttft_seconds_sum 7.6\nttft_seconds_count 3\n");
}

TEST(Registry, SameNameAndLabelsIsOneInstrument) {
  Registry registry;
  EXPECT_EQ(&registry.counter("c", ""), &registry.counter("c", ""));
  EXPECT_NE(&registry.counter("c", "", {{"x", "1"}}), &registry.counter("c", "", {{"x", "2"}}));
}

}  // namespace
}  // namespace penstock

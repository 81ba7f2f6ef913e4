// Renders small templates, and holds them to what jinja2 made of them (tests/golden/text/jinja_cases.jsonl).
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "tests/text/golden.h"
#include "text/chat_template.h"

namespace penstock::jinja {

inline Value variables(const std::string& json) { return value_from_json(json).value(); }

// parse() and render() in one: a failure of either is the result.
inline Result<std::string> render(std::string_view source, const Value& given = Value(Dict()),
                                  const RenderOptions& options = {}) {
  const auto parsed = ChatTemplate::parse(source, "case");
  if (!parsed.ok()) return parsed.failure();
  auto rendered = parsed->render(given, options);
  if (!rendered.ok()) return rendered.failure();
  return std::move(rendered->text);
}

inline void expect_failure(const golden::Json& row, const Result<std::string>& result) {
  ASSERT_FALSE(result.ok()) << *result;
  const auto error = row.at("error").get<std::string>();
  if (error == "TemplateError") {
    EXPECT_EQ(result.message(), row.at("message").get<std::string>());
    return;
  }
  EXPECT_NE(result.message().find("line "), std::string::npos) << result.message();
  // jinja2 finds an unknown filter while it compiles; we when it is reached.
  const bool at_compile_time =
      error == "TemplateSyntaxError" || error == "SyntaxError" || error == "TemplateAssertionError";
  if (at_compile_time) return;
  // Python's own attributes are forbidden there and do not exist here.
  if (error == "SecurityError" && result.message().find("'__") != std::string::npos) return;
  EXPECT_NE(result.message().find(error), std::string::npos) << result.message() << " should be " << error;
}

inline void expect_cases(const std::string& group, size_t count) {
  auto rows = golden::lines("jinja_cases.jsonl");
  const Value given = variables(rows.front().at("variables").dump());
  rows.erase(rows.begin());
  size_t seen = 0;
  for (const golden::Json& row : rows) {
    if (row.at("group") != group) continue;
    ++seen;
    SCOPED_TRACE(row.at("template").dump());
    const auto result = render(row.at("template").get<std::string>(), given);
    if (row.contains("error")) {
      expect_failure(row, result);
    } else {
      ASSERT_TRUE(result.ok()) << result.message();
      EXPECT_EQ(*result, row.at("expected").get<std::string>());
    }
  }
  EXPECT_EQ(seen, count);
}

}  // namespace penstock::jinja

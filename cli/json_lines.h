// JSON lines in, JSON lines out: what the tools that answer line by line share.
//
// A function of two streams; keeps nothing.
#pragma once

#include <functional>
#include <iosfwd>
#include <nlohmann/json.hpp>
#include <string>

#include "base/result.h"

namespace penstock::cli {

using Json = nlohmann::ordered_json;  // members are printed in the order they were set

// Writes `answer(line)` for every line of `in`, in order, and {"error": message} where it fails. Blank lines
// are skipped. Answers appear as they are made, so that a program may talk to the tool over a pipe. A Failure
// when any line had no answer; it counts them and names the first.
[[nodiscard]] Result<int> answer_json_lines(std::istream& in, std::ostream& out,
                                            const std::function<Result<Json>(const std::string&)>& answer);

}  // namespace penstock::cli

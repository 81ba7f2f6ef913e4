#include "cli/json_lines.h"

#include <istream>
#include <ostream>

namespace penstock::cli {

Result<int> answer_json_lines(std::istream& in, std::ostream& out,
                              const std::function<Result<Json>(const std::string&)>& answer) {
  int64_t line_number = 0, refused = 0, first_refused = 0;
  for (std::string line; std::getline(in, line);) {
    ++line_number;
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    Result<Json> answered = answer(line);
    if (!answered.ok()) {
      if (refused++ == 0) first_refused = line_number;
      const std::string where = "line " + std::to_string(line_number) + ": ";
      answered = Json{{"error", where + answered.message()}};
    }
    // A message may quote input that is not UTF-8.
    out << answered->dump(-1, ' ', false, Json::error_handler_t::replace) << std::endl;
    if (!out) return fail(Error::kIo, "standard output is closed");
  }
  if (refused == 0) return 0;
  return fail(Error::kInvalidArgument, "standard input: " + std::to_string(refused) + " of " +
                                           std::to_string(line_number) + " lines had no answer, first line " +
                                           std::to_string(first_refused));
}

}  // namespace penstock::cli

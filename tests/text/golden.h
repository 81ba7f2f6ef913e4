// Reads the golden files of tests/golden/text. Test code: a file that is missing or broken aborts.
#pragma once

#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "base/check.h"
#include "base/ids.h"

namespace penstock::golden {

using Json = nlohmann::ordered_json;

inline std::string path(const std::string& name) {
  return std::string(PENSTOCK_SOURCE_DIR) + "/tests/golden/text/" + name;
}

inline std::string read(const std::string& file) {
  std::ifstream in(file, std::ios::binary);
  CHECK(in.good());
  std::ostringstream out;
  out << in.rdbuf();
  return out.str();
}

inline std::vector<Json> lines(const std::string& name) {
  std::istringstream in(read(path(name)));
  std::vector<Json> rows;
  for (std::string line; std::getline(in, line);) rows.push_back(Json::parse(line));
  CHECK(!rows.empty());
  return rows;
}

inline std::vector<TokenId> ids(const Json& row, const char* key) {
  return row.at(key).get<std::vector<TokenId>>();
}

}  // namespace penstock::golden

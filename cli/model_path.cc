#include "cli/model_path.h"

#include <cstdlib>

namespace penstock::cli {

std::string default_model_path() {
  const auto variable = [](const char* name) {
    const char* value = std::getenv(name);
    return std::string(value == nullptr ? "" : value);
  };
  if (const std::string model = variable("PENSTOCK_MODEL"); !model.empty()) return model;
  std::string cache = variable("XDG_CACHE_HOME");
  if (cache.empty()) cache = variable("HOME") + "/.cache";
  return cache + "/penstock/SmolLM2-135M-Instruct";
}

}  // namespace penstock::cli

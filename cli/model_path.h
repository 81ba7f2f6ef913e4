// Which model a command means when none is named.
#pragma once

#include <string>

namespace penstock::cli {

// PENSTOCK_MODEL, or the demo model where penstock.sh puts it.
[[nodiscard]] std::string default_model_path();

}  // namespace penstock::cli

#include "base/fault_point.h"

#ifdef PENSTOCK_FAULT_POINTS
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <string>
#include <thread>

namespace penstock {
namespace {

struct Armed {
  std::string name, action;
  int count = 1;
};

// Read once, from the environment of the process under test.
const Armed& armed() {
  static const Armed value = [] {
    Armed a;
    const char* text = std::getenv("PENSTOCK_FAULT");
    if (text == nullptr) return a;
    const std::string s = text;
    const auto first = s.find(':');
    const auto second = first == std::string::npos ? first : s.find(':', first + 1);
    a.name = s.substr(0, first);
    if (first != std::string::npos) a.action = s.substr(first + 1, second - first - 1);
    if (second != std::string::npos) a.count = std::atoi(s.c_str() + second + 1);
    return a;
  }();
  return value;
}

std::atomic<int> visits{0};

bool strikes(const char* name) { return armed().name == name && visits.fetch_add(1) + 1 == armed().count; }

}  // namespace

void visit_fault_point(const char* name) {
  if (!strikes(name)) return;
  const std::string& action = armed().action;
  if (action == "kill") ::kill(::getpid(), SIGKILL);
  if (action == "stop") ::kill(::getpid(), SIGSTOP);
  if (!action.empty() && action.find_first_not_of("0123456789") == std::string::npos) {
    std::this_thread::sleep_for(std::chrono::milliseconds(std::atoi(action.c_str())));
  }
}

bool fault_armed(const char* name, const char* action) { return armed().action == action && strikes(name); }

}  // namespace penstock
#endif

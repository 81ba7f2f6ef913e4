#include "router/json_fault.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <vector>

namespace penstock::router {
namespace {

constexpr size_t kDepthMax = 1024;    // as simdjson's
constexpr size_t kNameBytesMax = 64;  // of one member's name in a message

// Follows the document down to its first fault.
class FaultFinder final : public nlohmann::json_sax<nlohmann::json> {
 public:
  bool null() override { return value(); }
  bool boolean(bool) override { return value(); }
  bool number_integer(number_integer_t) override { return value(); }
  bool number_unsigned(number_unsigned_t) override { return value(); }
  bool number_float(number_float_t, const std::string& text) override {
    // An integer that fits no 64 bits arrives here.
    too_large_ = text.find_first_of(".eE") == std::string::npos;
    return !too_large_ && value();
  }
  bool string(string_t&) override { return value(); }
  bool binary(binary_t&) override { return value(); }
  bool start_object(size_t) override { return open(false); }
  bool start_array(size_t) override { return open(true); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }
  bool key(string_t& name) override {
    open_.back().name = name.substr(0, kNameBytesMax);
    return true;
  }
  bool parse_error(size_t position, const std::string&, const nlohmann::json::exception& error) override {
    constexpr int kNumberOutOfRange = 406;
    too_large_ = error.id == kNumberOutOfRange;
    position_ = position;
    return false;
  }

  // "messages[0].content"; empty at the top.
  std::string path() const {
    std::string path;
    for (const Open& level : open_) {
      if (level.is_array) {
        path += "[" + std::to_string(level.index) + "]";
      } else if (!level.name.empty()) {
        path += (path.empty() ? "" : ".") + level.name;
      }
    }
    return path;
  }
  bool too_large() const { return too_large_; }
  size_t position() const { return position_; }  // bytes read up to the fault; 0: none found

 private:
  struct Open {
    bool is_array = false;
    size_t index = 0;
    std::string name;
  };
  bool open(bool is_array) {
    if (open_.size() == kDepthMax) return false;
    open_.push_back({is_array, 0, ""});
    return true;
  }
  bool close() {
    open_.pop_back();
    return value();
  }
  bool value() {
    if (open_.empty()) return true;
    ++open_.back().index;
    open_.back().name.clear();
    return true;
  }

  std::vector<Open> open_;
  bool too_large_ = false;
  size_t position_ = 0;
};

std::string place_of(const std::string& body, size_t at) {
  const auto until = body.begin() + static_cast<std::ptrdiff_t>(at);
  const auto line = std::count(body.begin(), until, '\n') + 1;
  const size_t line_start = at == 0 ? 0 : body.rfind('\n', at - 1) + 1;  // npos + 1 is 0
  return "line " + std::to_string(line) + ", column " + std::to_string(at - line_start + 1);
}

}  // namespace

ApiError json_fault(const std::string& body, const std::string& reason) {
  FaultFinder finder;
  nlohmann::json::sax_parse(body, &finder);
  const std::string path = finder.path();
  if (finder.too_large() && !path.empty())
    return bad_field(path, path + " must be a number that 64 bits can hold.");
  if (finder.position() == 0) return broken_body("The body is not valid JSON: " + reason);
  const size_t at = std::min(finder.position() - 1, body.size());
  std::string message = "The body is not valid JSON at " + place_of(body, at);
  if (!path.empty()) message += ", in " + path;
  if (at == body.size()) {
    message += ": it ends too early.";
  } else if (body[at] >= 0x20 && body[at] < 0x7f) {
    message += std::string(": unexpected `") + body[at] + "`.";
  } else {
    message += ": a byte that may not stand there.";
  }
  return broken_body(message);
}

}  // namespace penstock::router

// The log facade: one line an event, `message key=value ...`, ids first. Only drivers and mains log.
//
// A Logger is passed in; copies share one sink and may be used from any thread. Nothing is formatted
// below the level. An event stays one line of UTF-8 whatever its values hold (base/printable.h). spdlog stays
// in log.cc.
#pragma once

#include <memory>
#include <sstream>
#include <string>
#include <string_view>

#include "base/result.h"

namespace penstock {

enum class LogLevel : int { kDebug, kInfo, kWarning, kError, kOff };

[[nodiscard]] Result<LogLevel> parse_log_level(std::string_view name);

class Logger {
 public:
  Logger();  // discards everything
  // Writes to stderr, every line prefixed with time, level and `name` (router, prefill-0 ...).
  static Logger to_stderr(const std::string& name, LogLevel level);

  bool enabled(LogLevel level) const { return level >= level_; }
  void write(LogLevel level, const std::string& line) const;

  template <typename... Fields>
  void debug(std::string_view message, const Fields&... key_values) const {
    emit(LogLevel::kDebug, message, key_values...);
  }
  template <typename... Fields>
  void info(std::string_view message, const Fields&... key_values) const {
    emit(LogLevel::kInfo, message, key_values...);
  }
  template <typename... Fields>
  void warn(std::string_view message, const Fields&... key_values) const {
    emit(LogLevel::kWarning, message, key_values...);
  }
  template <typename... Fields>
  void error(std::string_view message, const Fields&... key_values) const {
    emit(LogLevel::kError, message, key_values...);
  }

 private:
  struct Sink;
  template <typename... Fields>
  void emit(LogLevel level, std::string_view message, const Fields&... key_values) const {
    static_assert(sizeof...(Fields) % 2 == 0, "fields come as key, value, key, value ...");
    if (!enabled(level)) return;
    std::ostringstream out;
    out << message;
    append(out, key_values...);
    write(level, out.str());
  }
  static void append(std::ostringstream&) {}
  template <typename Value, typename... Rest>
  static void append(std::ostringstream& out, std::string_view key, const Value& value, const Rest&... rest) {
    out << ' ' << key << '=' << value;
    append(out, rest...);
  }

  std::shared_ptr<Sink> sink_;
  LogLevel level_ = LogLevel::kOff;
};

}  // namespace penstock

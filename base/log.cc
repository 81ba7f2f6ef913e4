#include "base/log.h"

#include <spdlog/logger.h>
#include <spdlog/sinks/stdout_sinks.h>

#include "base/printable.h"

namespace penstock {

struct Logger::Sink {
  spdlog::logger logger;
};

namespace {
spdlog::level::level_enum to_spdlog(LogLevel level) {
  switch (level) {
    case LogLevel::kDebug:
      return spdlog::level::debug;
    case LogLevel::kInfo:
      return spdlog::level::info;
    case LogLevel::kWarning:
      return spdlog::level::warn;
    case LogLevel::kError:
      return spdlog::level::err;
    case LogLevel::kOff:
      return spdlog::level::off;
  }
  return spdlog::level::off;
}
}  // namespace

Result<LogLevel> parse_log_level(std::string_view name) {
  if (name == "debug") return LogLevel::kDebug;
  if (name == "info") return LogLevel::kInfo;
  if (name == "warning") return LogLevel::kWarning;
  if (name == "error") return LogLevel::kError;
  if (name == "off") return LogLevel::kOff;
  return fail(Error::kInvalidArgument,
              "log level \"" + std::string(name) + "\": use debug, info, warning, error or off");
}

Logger::Logger() = default;

Logger Logger::to_stderr(const std::string& name, LogLevel level) {
  Logger result;
  result.level_ = level;
  result.sink_ =
      std::make_shared<Sink>(Sink{spdlog::logger(name, std::make_shared<spdlog::sinks::stderr_sink_mt>())});
  result.sink_->logger.set_level(to_spdlog(level));
  result.sink_->logger.flush_on(spdlog::level::debug);
  result.sink_->logger.set_pattern("%Y-%m-%dT%H:%M:%S.%e %L %n %v");
  return result;
}

void Logger::write(LogLevel level, const std::string& line) const {
  if (sink_ != nullptr) sink_->logger.log(to_spdlog(level), printable(line));
}

}  // namespace penstock

#include "base/result.h"

namespace penstock {

std::string_view error_name(Error code) {
  switch (code) {
    case Error::kInvalidArgument:
      return "invalid_argument";
    case Error::kNotFound:
      return "not_found";
    case Error::kCorrupt:
      return "corrupt";
    case Error::kUnsupported:
      return "unsupported";
    case Error::kIncompatible:
      return "incompatible";
    case Error::kResourceExhausted:
      return "resource_exhausted";
    case Error::kUnavailable:
      return "unavailable";
    case Error::kDeadlineExceeded:
      return "deadline_exceeded";
    case Error::kCancelled:
      return "cancelled";
    case Error::kStaleEpoch:
      return "stale_epoch";
    case Error::kIo:
      return "io";
    case Error::kInternal:
      return "internal";
  }
  return "unknown";
}

}  // namespace penstock

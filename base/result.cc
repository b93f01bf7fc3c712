// SPDX-License-Identifier: Apache-2.0
#include "base/result.h"

namespace tutti {

std::string_view ToString(ErrorCode code) {
  switch (code) {
    case ErrorCode::kNotFound:
      return "NotFound";
    case ErrorCode::kAlreadyExists:
      return "AlreadyExists";
    case ErrorCode::kConflict:
      return "Conflict";
    case ErrorCode::kExpired:
      return "Expired";
    case ErrorCode::kThrottled:
      return "Throttled";
    case ErrorCode::kUnavailable:
      return "Unavailable";
    case ErrorCode::kTimeout:
      return "Timeout";
    case ErrorCode::kCancelled:
      return "Cancelled";
    case ErrorCode::kForbidden:
      return "Forbidden";
    case ErrorCode::kInvalid:
      return "Invalid";
    case ErrorCode::kDecode:
      return "Decode";
    case ErrorCode::kInternal:
      return "Internal";
  }
  return "Internal";
}

Error Error::With(std::string_view context) const {
  Error out = *this;
  out.message = std::string(context) + ": " + message;
  return out;
}

}  // namespace tutti

// SPDX-License-Identifier: Apache-2.0
// Errors as values. Nothing throws across rooms: exceptions of third-party code are caught in the
// file that wraps it and turned into an Error there. The code decides the policy (retry, give up).
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include <tl/expected.hpp>

namespace tutti {

enum class ErrorCode {
  kNotFound,       // the object does not exist (HTTP 404)
  kAlreadyExists,  // create of an existing name (409 AlreadyExists)
  kConflict,       // stale resourceVersion or field ownership (409 Conflict)
  kExpired,        // watch or list position too old (410)
  kThrottled,      // 429, retry after `retry_after`
  kUnavailable,    // connection trouble, 5xx: the outcome of a write is unknown
  kTimeout,        // own deadline passed: the outcome of a write is unknown
  kCancelled,      // by us
  kForbidden,      // 401, 403
  kInvalid,        // the request or the input is wrong (400, 422); repeating it does not help
  kDecode,         // bytes that are not what they should be
  kInternal,       // anything else
};

[[nodiscard]] std::string_view ToString(ErrorCode code);

struct Error {
  ErrorCode code = ErrorCode::kInternal;
  std::string message;  // for a person; names the field or object and, where possible, the fix
  int http_status = 0;  // 0: no HTTP answer
  std::optional<std::chrono::milliseconds> retry_after;

  // The same error with "context: " before the message.
  [[nodiscard]] Error With(std::string_view context) const;
};

template <typename T>
using Result = tl::expected<T, Error>;
using Status = Result<void>;

[[nodiscard]] inline tl::unexpected<Error> Fail(ErrorCode code, std::string message) {
  return tl::unexpected<Error>(Error{code, std::move(message), 0, std::nullopt});
}
[[nodiscard]] inline tl::unexpected<Error> Fail(Error error) {
  return tl::unexpected<Error>(std::move(error));
}

#define TUTTI_CONCAT_(a, b) a##b
#define TUTTI_CONCAT(a, b) TUTTI_CONCAT_(a, b)

// TRY(expr): returns the error of a Status/Result from the enclosing function.
#define TRY(expr)                                         \
  do {                                                    \
    auto&& try_result_ = (expr);                          \
    if (!try_result_) {                                   \
      return tutti::Fail(std::move(try_result_.error())); \
    }                                                     \
  } while (false)

// TRY_ASSIGN(auto x, expr): x is the value, or the error is returned.
#define TRY_ASSIGN(lhs, expr) TRY_ASSIGN_(TUTTI_CONCAT(try_value_, __LINE__), lhs, expr)
#define TRY_ASSIGN_(tmp, lhs, expr)             \
  auto tmp = (expr);                            \
  if (!tmp) {                                   \
    return tutti::Fail(std::move(tmp.error())); \
  }                                             \
  lhs = std::move(*tmp)

}  // namespace tutti

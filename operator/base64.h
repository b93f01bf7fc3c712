// SPDX-License-Identifier: Apache-2.0
// Base64 (RFC 4648, with padding) as Secrets, caBundles and admission patches use it. Pure.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace tutti {

[[nodiscard]] std::string EncodeBase64(std::string_view bytes);
// Line breaks are skipped. kDecode for anything else that is not base64.
Result<std::string> DecodeBase64(std::string_view text);

}  // namespace tutti

// SPDX-License-Identifier: Apache-2.0
// What the commands that work on files share: reading them, and answering line by line.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "cli/objects.h"

namespace tutti {

// "-" is standard input. kInvalid and kDecode name the file.
Result<std::vector<cli::Document>> ReadInputFiles(const std::vector<std::string>& files);

// Answers every line of standard input on standard output, each before the next is read. False when
// an answer had a field `error`.
bool AnswerLines(const std::function<Json(std::string_view)>& answer);

}  // namespace tutti

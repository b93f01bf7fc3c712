// SPDX-License-Identifier: Apache-2.0
#include "operator/input_files.h"

#include <fstream>
#include <iostream>
#include <iterator>
#include <utility>

#include "operator/documents.h"

namespace tutti {

Result<std::vector<cli::Document>> ReadInputFiles(const std::vector<std::string>& files) {
  std::vector<cli::Document> out;
  for (const std::string& file : files) {
    const std::string name = file == "-" ? "standard input" : file;
    std::string text;
    if (file == "-") {
      text.assign(std::istreambuf_iterator<char>(std::cin), {});
    } else {
      std::ifstream in(file, std::ios::binary);
      text.assign(std::istreambuf_iterator<char>(in), {});
      if (!in) {
        return Fail(ErrorCode::kInvalid, name + ": can't be read");
      }
    }
    Result<std::vector<Json>> documents = ReadDocuments(text);
    if (!documents) {
      return Fail(documents.error().With(name));
    }
    const bool several = documents->size() > 1;
    for (size_t i = 0; i < documents->size(); ++i) {
      out.push_back({several ? name + ", document " + std::to_string(i + 1) : name,
                     std::move((*documents)[i])});
    }
  }
  return out;
}

bool AnswerLines(const std::function<Json(std::string_view)>& answer) {
  bool good = true;
  for (std::string line; std::getline(std::cin, line);) {
    if (line.empty()) {
      continue;
    }
    const Json out = answer(line);
    good = good && !out.Has("error");
    std::cout << out.Dump() << std::endl;  // one at a time: somebody waits for it
  }
  return good;
}

}  // namespace tutti

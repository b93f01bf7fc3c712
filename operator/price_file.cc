// SPDX-License-Identifier: Apache-2.0
#include "operator/price_file.h"

#include <fstream>
#include <iterator>
#include <vector>

#include "operator/documents.h"

namespace tutti {

Result<audit::Prices> ReadPrices(const std::string& file) {
  if (file.empty()) {
    return audit::Prices::Examples();
  }
  std::ifstream in(file, std::ios::binary);
  const std::string text(std::istreambuf_iterator<char>(in), {});
  if (!in && text.empty()) {
    return Fail(ErrorCode::kInvalid, "--prices " + file + ": can't be read");
  }
  const Result<std::vector<Json>> documents = ReadDocuments(text);
  if (!documents) {
    return Fail(documents.error().With("--prices " + file));
  }
  if (documents->size() != 1) {
    return Fail(ErrorCode::kInvalid, "--prices " + file + ": must hold one document");
  }
  Result<audit::Prices> prices = audit::Prices::FromJson(documents->front());
  if (!prices) {
    return Fail(prices.error().With("--prices " + file));
  }
  return prices;
}

}  // namespace tutti

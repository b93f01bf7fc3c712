// SPDX-License-Identifier: Apache-2.0
// FNV-1a, for telling texts and facts apart that were told before. The same on every machine.
#pragma once

#include <cstdint>
#include <string_view>

#include "engine/ids.h"

namespace tutti::engine {

class Hasher {
 public:
  explicit Hasher(uint64_t seed = 1469598103934665603ULL) : hash_(seed) {}

  void Mix(uint64_t value) {
    hash_ ^= value;
    hash_ *= 1099511628211ULL;
  }
  void Mix(std::string_view text) {
    for (const char c : text) {
      Mix(static_cast<uint64_t>(static_cast<unsigned char>(c)));
    }
  }
  void Mix(Amount amount) {
    Mix(static_cast<uint64_t>(amount));
    Mix(static_cast<uint64_t>(amount >> 64));
  }
  [[nodiscard]] uint64_t value() const { return hash_; }

 private:
  uint64_t hash_;
};

}  // namespace tutti::engine

// SPDX-License-Identifier: Apache-2.0
// Pods as rules of other pods see them: namespace, labels, and the required anti-affinity with
// which they keep others away. Equal ones are one object.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "api/core.h"
#include "engine/capacity.h"

namespace tutti::engine {

// What of a node's pods counts.
enum class Basis {
  kNow,        // pods and promises
  kBoundOnly,  // pods
  kEmpty,      // nothing
};

struct PodTag {
  std::string ns;
  api::StringMap labels;
  std::vector<api::PodAffinityTerm> anti_affinity;
};

// Pods of one tag on one node.
struct TagUse {
  const PodTag* tag = nullptr;
  int32_t bound = 0;
  int32_t promised = 0;
  int32_t leaving = 0;  // of the bound ones
  [[nodiscard]] int32_t Count(Basis basis) const {
    return basis == Basis::kEmpty ? 0 : bound + (basis == Basis::kNow ? promised : 0);
  }
  // Topology spread doesn't count pods that are being deleted.
  [[nodiscard]] int32_t CountStaying(Basis basis) const {
    return basis == Basis::kEmpty ? 0 : Count(basis) - leaving;
  }
};

class TagPool {
 public:
  // Null when `who` has no namespace.
  [[nodiscard]] const PodTag* Acquire(const PodIdentity& who, const api::PodShape& shape);
  void Release(const PodTag* tag);
  [[nodiscard]] size_t Size() const { return tags_.size(); }

 private:
  struct Entry {
    PodTag tag;
    int64_t refs = 0;
  };
  static std::string KeyOf(const PodTag& tag);
  std::map<std::string, Entry> tags_;
};

// Of a pod that is not there yet: known only when it has rules itself.
[[nodiscard]] PodIdentity IdentityOf(const api::PodShape& shape);

// Adds to the counts of `tag` (which may be null) and drops an entry that is empty.
void CountTag(std::vector<TagUse>& uses, const PodTag* tag, int32_t bound, int32_t promised,
              int32_t leaving);

}  // namespace tutti::engine

// SPDX-License-Identifier: Apache-2.0
// What a "no" of the capacity check rests on, so that the next answer looks only at the nodes that
// changed: per kind of pod, how many of them each node takes alone. As long as these are too few
// the gang has no place, whatever else there is to know. Numbers only; capacity.cc fills them in
// and asks (docs/engine.md, "Places").
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "api/core.h"
#include "api/dra.h"

namespace tutti::engine {

// Pods of one kind that one node takes alone, now and when it is empty; at most the gang's count.
struct AloneCount {
  static constexpr int64_t kMost = 65535;
  uint16_t now = 0;
  uint16_t empty = 0;
};

struct Refused {
  // Keeps what the key names by its address.
  std::vector<std::shared_ptr<const api::PodShape>> shapes;
  std::vector<std::shared_ptr<const api::ClaimSpec>> specs;  // of the claims that were counted
  uint64_t seen = 0;                                         // NodeMarks: older marks are in it
  std::vector<int64_t> wanted;                               // by kind
  std::vector<AloneCount> alone;                             // slots x kinds
  std::vector<int64_t> now;                                  // by kind: sums of these
  std::vector<int64_t> empty;

  // An arrangement of all pods on the empty cluster, by slot; only for gangs of several kinds of
  // which each fits there alone.
  struct Part {
    size_t slot = 0;
    size_t kind = 0;
    int64_t count = 0;
  };
  std::vector<Part> arrangement;

  [[nodiscard]] bool ShortNow() const { return Short(now); }
  [[nodiscard]] bool ShortWhenEmpty() const { return Short(empty); }
  void Set(size_t slot, size_t kind, AloneCount count);

 private:
  [[nodiscard]] bool Short(const std::vector<int64_t>& sums) const;
};

class FitMemory {
 public:
  // Of all that is remembered, in bytes.
  static constexpr size_t kLimit = 64 << 20;

  // Null: nothing is known. Valid until the next call.
  [[nodiscard]] Refused* Find(const std::string& key);
  void Forget(const std::string& key);
  // When it would be too much, what hasn't been asked for longest makes room; but not what was
  // asked since the others were last asked twice: of more gangs than can be remembered, asked in
  // turn, as many as possible are.
  void Keep(const std::string& key, Refused refused);
  [[nodiscard]] size_t Bytes() const { return bytes_; }

 private:
  struct Entry {
    std::string key;
    Refused refused;
    uint64_t asked = 0;
    size_t bytes = 0;
  };
  using Entries = std::list<Entry>;  // the one asked longest ago comes first

  Entries entries_;
  std::unordered_map<std::string, Entries::iterator> by_key_;  // looked up, never iterated
  uint64_t asks_ = 0;
  size_t bytes_ = 0;
};

}  // namespace tutti::engine

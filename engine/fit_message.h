// SPDX-License-Identifier: Apache-2.0
// The text that says why a gang has no place. Made in one place from counted facts; it holds only
// numbers that move when the answer moves, so that a pending message isn't rewritten for nothing.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

namespace tutti::engine {

// Nodes as the pods of one kind see them.
struct NodeCounts {
  int32_t matching = 0;  // name, selector and affinity; the rest are parts of these
  int32_t cordoned = 0;
  int32_t tainted = 0;
  int32_t too_small = 0;   // hold no such pod even when empty
  int32_t full = 0;        // hold none now
  int32_t port_taken = 0;  // room, but a host port is in use
  int32_t no_devices = 0;  // room, but not the devices
  int32_t no_volumes = 0;  // out of reach of the pods' volumes, or none is left there
  std::set<std::string> taints;
  [[nodiscard]] int32_t Usable() const { return matching - cordoned - tainted; }
};

struct ResourceFacts {
  std::string name;              // "pods" = the node's limit on pods
  int64_t request = 0;           // of one pod
  int64_t places = 0;            // pods that fit when only this resource counts
  int64_t largest = 0;           // what the largest usable node has when empty
  bool enough_in_total = false;  // the sum would do, the pieces are too small
};

// One kind of pod of the gang, counted either now or on the empty cluster.
struct KindFacts {
  std::string pod_sets;   // names, comma separated
  std::string selection;  // "zone=a, required node affinity"; "" selects every node
  int64_t count = 0;
  int64_t placed = 0;
  bool has_ports = false;
  std::string ports;
  NodeCounts nodes;
  std::vector<ResourceFacts> resources;  // requested ones, by name
  std::vector<std::string> holders;      // who has most of what is short, at most 3
  std::string volumes;                   // what ties the pods to some nodes; "" = nothing
  std::string devices;                   // which devices are short; "" = none, or none are needed
};

struct FitFacts {
  bool never = false;
  bool gave_up = false;          // the search ended without a proof
  bool alone_each_fits = false;  // every kind would fit by itself
  std::vector<KindFacts> kinds;
  size_t blocking = 0;               // the kind to explain
  std::vector<std::string> devices;  // by kind; filled before the kinds are
};

// The resource of this kind that is scarcest, null when none is short by itself.
[[nodiscard]] const ResourceFacts* ShortResource(const KindFacts& kind);

[[nodiscard]] std::string FitMessage(const FitFacts& facts);

}  // namespace tutti::engine

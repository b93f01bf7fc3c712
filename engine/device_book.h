// SPDX-License-Identifier: Apache-2.0
// Which devices are taken: by allocated claims, by promises, and by trials that are undone again.
// Counting as kube-scheduler's allocated state: a device is either taken as a whole or shared, with
// the capacity that each share consumes (KEP-5075); admin access takes nothing and never gets here.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "api/quantity.h"

namespace tutti::engine {

using Capacities = std::map<std::string, api::Quantity>;

// One device of one claim.
struct DeviceUse {
  int32_t id = -1;
  bool shared = false;
  Capacities consumed;  // of a shared device
  bool operator==(const DeviceUse&) const = default;
};
using DeviceUses = std::vector<DeviceUse>;

class DeviceBook {
 public:
  // Takes what is already taken, too: claims say what is, whether it should be or not.
  void Take(const DeviceUse& use);
  void Give(const DeviceUse& use);  // REQUIRES: it was taken

  // Claims that have the device as a whole; more than one is somebody's error.
  [[nodiscard]] int32_t Whole(int32_t id) const { return Find(id).whole; }
  [[nodiscard]] int32_t Shares(int32_t id) const { return Find(id).shares; }
  [[nodiscard]] bool Taken(int32_t id) const {
    const Entry& entry = Find(id);
    return entry.whole > 0 || entry.shares > 0;
  }
  // Sum over the shares; null when there is none.
  [[nodiscard]] const Capacities* Consumed(int32_t id) const { return Find(id).consumed.get(); }

  // Compares what is taken, by value.
  friend bool operator==(const DeviceBook& a, const DeviceBook& b);

 private:
  struct Entry {
    int32_t whole = 0;
    int32_t shares = 0;
    std::unique_ptr<Capacities> consumed;
  };
  [[nodiscard]] const Entry& Find(int32_t id) const {
    static const Entry kNothing;
    return static_cast<size_t>(id) < entries_.size() ? entries_[static_cast<size_t>(id)] : kNothing;
  }
  std::vector<Entry> entries_;  // by id
};

// Takes devices on trial. Everything that is still taken is given back at the end of its life.
class DeviceTrial {
 public:
  explicit DeviceTrial(DeviceBook& book) : book_(book) {}
  ~DeviceTrial() { Rollback(0); }
  DeviceTrial(const DeviceTrial&) = delete;
  DeviceTrial& operator=(const DeviceTrial&) = delete;

  void Take(const DeviceUses& uses);
  [[nodiscard]] size_t Mark() const { return taken_.size(); }
  // Gives back what was taken since the mark.
  void Rollback(size_t mark);
  [[nodiscard]] const DeviceBook& book() const { return book_; }

 private:
  DeviceBook& book_;
  std::vector<DeviceUse> taken_;
};

}  // namespace tutti::engine

// SPDX-License-Identifier: Apache-2.0
// Kubernetes objects out of JSON text of any size, one at a time: a List of 100,000 pods is never
// in memory as a whole. What is broken costs one object and a line that says so. Pure.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"

namespace tutti::audit {

class ObjectStream {
 public:
  using Take = std::function<void(Json object, const std::string& where)>;

  // `name` is that of the input, for messages.
  ObjectStream(std::string name, Take take) : name_(std::move(name)), take_(std::move(take)) {}

  // The next bytes: values after each other, each an object, a List of objects or an array of them.
  void Feed(std::string_view bytes);
  // After the last byte.
  void Finish();

  [[nodiscard]] size_t Objects() const { return objects_; }
  // What could not be read, a line each; of many equal ones the first few and a count.
  [[nodiscard]] std::vector<std::string> Problems() const;

 private:
  void Byte(char c);
  void EndOfList();
  void Emit(std::string_view text, const std::string& where);
  [[nodiscard]] std::string Where() const;
  void Problem(const std::string& text);

  std::string name_;
  Take take_;
  std::string capture_;  // the item, or the whole value outside of `items`
  std::string head_;     // what a List says beside its items
  std::string key_;      // the last string at depth 1
  int depth_ = 0;
  bool in_string_ = false;
  bool escaped_ = false;
  bool key_open_ = false;     // a string at depth 1 is being read into key_
  bool after_colon_ = false;  // at depth 1: what comes is a value
  bool in_items_ = false;     // inside the array `items` of a List, or a top-level array
  bool array_ = false;        // the top-level value is an array
  bool garbage_ = false;      // outside of any value: reported once
  int capture_depth_ = 0;     // depth outside of what is captured
  size_t value_ = 0;          // number of the top-level value
  size_t item_ = 0;
  size_t objects_ = 0;
  size_t broken_ = 0;
  std::vector<std::string> problems_;
};

}  // namespace tutti::audit

// SPDX-License-Identifier: Apache-2.0
// Kubernetes objects that a command was given: documents taken apart into objects, Lists into their
// items, with what a message needs to name each.
#pragma once

#include <functional>
#include <set>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/result.h"

namespace tutti::cli {

// One document of an input: an object, or a List of objects.
struct Document {
  std::string where;  // for messages: "cluster.yaml", "cluster.yaml, document 2"
  Json object;
};

struct InputObject {
  std::string where;
  std::string kind;
  std::string ns;  // "default" when a namespaced object names none; "" for other kinds
  std::string name;
  Json object;  // metadata.namespace is `ns`

  // "Job team/train", "Node n1".
  [[nodiscard]] std::string Title() const;
};

// Calls `take` for every object, in the order of the input, and stops at its first error, which
// gets the object's place and title where it doesn't name it. kInvalid: not an object, no kind, no
// name.
Status ForEachObject(const std::vector<Document>& documents,
                     const std::function<Status(const InputObject&)>& take);

// Refuses the second object of one kind and name.
class OnlyOnce {
 public:
  Status Check(const InputObject& object);

 private:
  std::set<std::string> seen_;
};

// "1 Job", "2 Jobs".
[[nodiscard]] std::string Count(size_t count, std::string_view what);

}  // namespace tutti::cli

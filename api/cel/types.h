// SPDX-License-Identifier: Apache-2.0
// Types of the checker. Nodes are immutable and live as long as the program (built-in) or the
// check.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

namespace tutti::api::cel {

enum class TypeKind : uint8_t {
  kDyn,
  kAny,
  kError,
  kNull,
  kBool,
  kInt,
  kUint,
  kDouble,
  kString,
  kBytes,
  kTimestamp,
  kDuration,
  kList,
  kMap,
  kOptional,
  kType,
  kStruct,  // by name
  kOpaque,  // by name, without parameters
  kVariable,
};

struct TypeNode {
  TypeKind kind = TypeKind::kDyn;
  std::string_view name;  // kStruct, kOpaque: a literal
  uint32_t variable = 0;  // kVariable
  std::vector<const TypeNode*> parameters;
  uint32_t weight = 1;  // nodes of the tree; saturates
};

namespace types {
extern const TypeNode kDyn;
extern const TypeNode kAny;
extern const TypeNode kError;
extern const TypeNode kNull;
extern const TypeNode kBool;
extern const TypeNode kInt;
extern const TypeNode kUint;
extern const TypeNode kDouble;
extern const TypeNode kString;
extern const TypeNode kBytes;
extern const TypeNode kTimestamp;
extern const TypeNode kDuration;
extern const TypeNode kType;
extern const TypeNode kQuantity;
extern const TypeNode kSemver;
extern const TypeNode kUrl;
extern const TypeNode kFormat;
extern const TypeNode kIp;
extern const TypeNode kCidr;
extern const TypeNode kDevice;
// Of the authorizer library: its functions exist, but nothing makes such a value.
extern const TypeNode kAuthorizer;
extern const TypeNode kPathCheck;
extern const TypeNode kGroupCheck;
extern const TypeNode kResourceCheck;
extern const TypeNode kDecision;
}  // namespace types

// Owns the types that one check (or the table of functions) makes.
class TypePool {
 public:
  const TypeNode* List(const TypeNode* element);
  const TypeNode* Map(const TypeNode* key, const TypeNode* value);
  const TypeNode* Optional(const TypeNode* value);
  const TypeNode* TypeOf(const TypeNode* type);
  const TypeNode* Variable(uint32_t id);
  const TypeNode* Make(TypeKind kind, std::vector<const TypeNode*> parameters);

 private:
  std::deque<TypeNode> nodes_;
};

[[nodiscard]] std::string ToString(const TypeNode& type);
// The same kind, name and parameters.
[[nodiscard]] bool SameType(const TypeNode& a, const TypeNode& b, bool same_variables);

}  // namespace tutti::api::cel

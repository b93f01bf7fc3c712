// SPDX-License-Identifier: Apache-2.0
#include "api/cel/types.h"

#include <algorithm>
#include <utility>

namespace tutti::api::cel {
namespace {

TypeNode Plain(TypeKind kind, std::string_view name) {
  TypeNode out;
  out.kind = kind;
  out.name = name;
  return out;
}

}  // namespace

namespace types {
const TypeNode kDyn = Plain(TypeKind::kDyn, "dyn");
const TypeNode kAny = Plain(TypeKind::kAny, "any");
const TypeNode kError = Plain(TypeKind::kError, "error");
const TypeNode kNull = Plain(TypeKind::kNull, "null");
const TypeNode kBool = Plain(TypeKind::kBool, "bool");
const TypeNode kInt = Plain(TypeKind::kInt, "int");
const TypeNode kUint = Plain(TypeKind::kUint, "uint");
const TypeNode kDouble = Plain(TypeKind::kDouble, "double");
const TypeNode kString = Plain(TypeKind::kString, "string");
const TypeNode kBytes = Plain(TypeKind::kBytes, "bytes");
const TypeNode kTimestamp = Plain(TypeKind::kTimestamp, "timestamp");
const TypeNode kDuration = Plain(TypeKind::kDuration, "duration");
const TypeNode kType = Plain(TypeKind::kType, "type");
const TypeNode kQuantity = Plain(TypeKind::kStruct, "kubernetes.Quantity");
const TypeNode kSemver = Plain(TypeKind::kStruct, "kubernetes.Semver");
const TypeNode kUrl = Plain(TypeKind::kStruct, "kubernetes.URL");
const TypeNode kFormat = Plain(TypeKind::kStruct, "kubernetes.NamedFormat");
const TypeNode kIp = Plain(TypeKind::kOpaque, "net.IP");
const TypeNode kCidr = Plain(TypeKind::kOpaque, "net.CIDR");
const TypeNode kDevice = Plain(TypeKind::kStruct, "kubernetes.DRADevice");
const TypeNode kAuthorizer = Plain(TypeKind::kStruct, "kubernetes.authorization.Authorizer");
const TypeNode kPathCheck = Plain(TypeKind::kStruct, "kubernetes.authorization.PathCheck");
const TypeNode kGroupCheck = Plain(TypeKind::kStruct, "kubernetes.authorization.GroupCheck");
const TypeNode kResourceCheck = Plain(TypeKind::kStruct, "kubernetes.authorization.ResourceCheck");
const TypeNode kDecision = Plain(TypeKind::kStruct, "kubernetes.authorization.Decision");
}  // namespace types

const TypeNode* TypePool::Make(TypeKind kind, std::vector<const TypeNode*> parameters) {
  TypeNode node;
  node.kind = kind;
  uint64_t weight = 1;
  for (const TypeNode* parameter : parameters) {
    weight += parameter->weight;
  }
  node.weight = static_cast<uint32_t>(std::min<uint64_t>(weight, UINT32_MAX));
  node.parameters = std::move(parameters);
  return &nodes_.emplace_back(std::move(node));
}

const TypeNode* TypePool::List(const TypeNode* element) {
  return Make(TypeKind::kList, {element});
}

const TypeNode* TypePool::Map(const TypeNode* key, const TypeNode* value) {
  return Make(TypeKind::kMap, {key, value});
}

const TypeNode* TypePool::Optional(const TypeNode* value) {
  return Make(TypeKind::kOptional, {value});
}

const TypeNode* TypePool::TypeOf(const TypeNode* type) {
  return Make(TypeKind::kType, {type});
}

const TypeNode* TypePool::Variable(uint32_t id) {
  TypeNode node;
  node.kind = TypeKind::kVariable;
  node.variable = id;
  return &nodes_.emplace_back(std::move(node));
}

std::string ToString(const TypeNode& type) {
  switch (type.kind) {
    case TypeKind::kVariable:
      return "_";
    case TypeKind::kList:
      return "list(" + ToString(*type.parameters[0]) + ")";
    case TypeKind::kMap:
      return "map(" + ToString(*type.parameters[0]) + ", " + ToString(*type.parameters[1]) + ")";
    case TypeKind::kOptional:
      return "optional(" + ToString(*type.parameters[0]) + ")";
    case TypeKind::kType:
      return type.parameters.empty() ? "type" : "type(" + ToString(*type.parameters[0]) + ")";
    default:
      return std::string(type.name);
  }
}

bool SameType(const TypeNode& a, const TypeNode& b, bool same_variables) {
  if (&a == &b) {
    return true;
  }
  if (a.kind != b.kind || a.name != b.name || a.parameters.size() != b.parameters.size() ||
      a.weight != b.weight ||
      (same_variables && a.kind == TypeKind::kVariable && a.variable != b.variable)) {
    return false;
  }
  for (size_t i = 0; i < a.parameters.size(); ++i) {
    if (!SameType(*a.parameters[i], *b.parameters[i], same_variables)) {
      return false;
    }
  }
  return true;
}

}  // namespace tutti::api::cel

// SPDX-License-Identifier: Apache-2.0
#include "audit/object_stream.h"

#include <array>
#include <utility>

#include "base/json_lenient.h"

namespace tutti::audit {
namespace {

constexpr size_t kShownProblems = 3;
constexpr std::string_view kSpace = " \t\r\n";

constexpr std::array<bool, 256> Among(std::string_view characters) {
  std::array<bool, 256> out{};
  for (const char c : characters) {
    out[static_cast<unsigned char>(c)] = true;
  }
  return out;
}
constexpr std::array<bool, 256> kEndsString = Among("\"\\");
constexpr std::array<bool, 256> kBrackets = Among("\"{}[]");

}  // namespace

// Inside an item only strings and brackets matter, and most bytes are copied in runs.
void ObjectStream::Feed(std::string_view bytes) {
  size_t at = 0;
  while (at < bytes.size()) {
    if (capture_depth_ > 0 || (depth_ > 0 && in_string_)) {
      // To the next byte that could change the state.
      const auto& stops = in_string_ ? kEndsString : kBrackets;
      size_t end = at;
      while (end < bytes.size() && !stops[static_cast<unsigned char>(bytes[end])]) {
        ++end;
      }
      if (!escaped_ && !key_open_ && end > at) {
        (in_items_ ? capture_ : head_).append(bytes.substr(at, end - at));
        at = end;
        continue;
      }
    }
    Byte(bytes[at++]);
  }
}

void ObjectStream::Byte(char c) {
  if (depth_ == 0) {
    if (c == '{' || c == '[') {
      ++value_;
      item_ = 0;
      array_ = c == '[';
      in_items_ = array_;
      head_ = array_ ? "" : "{";
      depth_ = 1;
      after_colon_ = false;
      garbage_ = false;
    } else if (kSpace.find(c) == std::string_view::npos && !garbage_) {
      garbage_ = true;
      Problem("there is something that is not JSON after value " + std::to_string(value_));
    }
    return;
  }
  std::string& out = in_items_ ? capture_ : head_;
  const bool outside = in_items_ && capture_depth_ == 0;  // between the items
  if (in_string_) {
    if (!outside) {
      out += c;
    }
    if (escaped_) {
      escaped_ = false;
    } else if (c == '\\') {
      escaped_ = true;
    } else if (c == '"') {
      in_string_ = false;
      key_open_ = false;
    } else if (key_open_) {
      key_ += c;
    }
    return;
  }
  switch (c) {
    case '"':
      in_string_ = true;
      if (depth_ == 1 && !in_items_ && !after_colon_) {
        key_open_ = true;
        key_.clear();
      }
      break;
    case ':':
      after_colon_ = after_colon_ || depth_ == 1;
      break;
    case ',':
      if (depth_ == 1) {
        after_colon_ = false;
      }
      break;
    case '{':
    case '[':
      if (depth_ == 1 && !in_items_ && c == '[' && key_ == "items") {
        in_items_ = true;
        capture_.clear();
        head_ += "[]";
        ++depth_;
        return;
      }
      ++depth_;
      if (outside) {
        capture_depth_ = depth_;
        capture_.assign(1, c);
        return;
      }
      break;
    case '}':
    case ']':
      --depth_;
      if (in_items_ && capture_depth_ > 0 && depth_ < capture_depth_) {
        capture_ += c;
        capture_depth_ = 0;
        ++item_;
        Emit(capture_, Where());
        return;
      }
      if (outside) {  // the end of the items
        in_items_ = false;
        if (array_) {
          depth_ = 0;
        }
        return;
      }
      if (depth_ == 0) {
        head_ += c;
        EndOfList();
        return;
      }
      break;
    default:
      break;
  }
  if (!outside) {
    out += c;
  }
}

// The end of a top-level object: a List's items have gone already, anything else is an object.
void ObjectStream::EndOfList() {
  if (item_ == 0) {
    Emit(head_, value_ > 1 ? name_ + ", document " + std::to_string(value_) : name_);
  }
  head_.clear();
}

void ObjectStream::Emit(std::string_view text, const std::string& where) {
  Result<Json> object = ParseLenient(text);
  if (!object || !object->IsObject()) {
    Problem(where + " can't be read" + (object ? "" : " (" + object.error().message + ")") +
            " and is left out");
    return;
  }
  const std::string& kind = (*object)["kind"].AsString();
  if (object->Has("items") && kind.ends_with("List")) {
    return;  // an empty List
  }
  // The items of a typed list (PodList) need not say their kind; the list says it before them.
  if (kind.empty()) {
    const size_t list = head_.find("List\"");
    const size_t begin = list == std::string::npos ? list : head_.rfind('"', list);
    if (begin == std::string::npos || list == begin + 1) {
      Problem(where + " has no kind and is left out");
      return;
    }
    object->Set("kind", head_.substr(begin + 1, list - begin - 1));
  }
  if ((*object)["metadata"]["name"].AsString().empty()) {
    Problem(where + " (" + (*object)["kind"].AsString() + ") has no metadata.name and is left out");
    return;
  }
  ++objects_;
  take_(std::move(*object), where);
}

std::string ObjectStream::Where() const {
  return name_ + (value_ > 1 ? ", document " + std::to_string(value_) : "") + ": items[" +
         std::to_string(item_ - 1) + "]";
}

void ObjectStream::Finish() {
  if (depth_ > 0) {
    Problem("it ends in the middle" +
            (in_items_ ? " of items[" + std::to_string(item_) + "]" : std::string()) +
            ": it was cut off, and what came after is missing");
  } else if (value_ == 0 && !garbage_) {
    Problem("it is empty");
  }
  depth_ = 0;
}

void ObjectStream::Problem(const std::string& text) {
  ++broken_;
  if (problems_.size() < kShownProblems) {
    problems_.push_back(text.starts_with(name_) ? text : name_ + ": " + text);
  }
}

std::vector<std::string> ObjectStream::Problems() const {
  std::vector<std::string> out = problems_;
  if (broken_ > out.size()) {
    out.push_back(name_ + ": and " + std::to_string(broken_ - out.size()) + " more like these");
  }
  return out;
}

}  // namespace tutti::audit

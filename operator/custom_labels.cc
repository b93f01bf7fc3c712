// SPDX-License-Identifier: Apache-2.0
#include "operator/custom_labels.h"

#include <algorithm>

namespace tutti {
namespace {

// Kueue's word for a value that is not in trackedValues.
constexpr const char* kUntracked = "kueue.x-k8s.io/_UNTRACKED_VALUE_";

const std::string& LabelKeyOf(const CustomLabel& label) {
  return label.label_key.empty() ? label.name : label.label_key;
}

}  // namespace

bool CustomLabels::Has(Source source) const {
  return std::any_of(labels_.begin(), labels_.end(),
                     [source](const CustomLabel& label) { return label.source == source; });
}

std::vector<std::string> CustomLabels::NamesOf(Source source) const {
  std::vector<std::string> names;
  for (const CustomLabel& label : labels_) {
    if (label.source == source) {
      names.push_back("custom_" + label.name);
    }
  }
  return names;
}

std::vector<std::string> CustomLabels::ValuesOf(Source source, const api::ObjectMeta& meta) const {
  std::vector<std::string> values;
  for (const CustomLabel& label : labels_) {
    if (label.source != source) {
      continue;
    }
    std::string value(label.annotation_key.empty() ? meta.Label(LabelKeyOf(label))
                                                   : meta.Annotation(label.annotation_key));
    const auto& tracked = label.tracked_values;
    if (!tracked.empty() && std::find(tracked.begin(), tracked.end(), value) == tracked.end()) {
      value = kUntracked;
    }
    values.push_back(std::move(value));
  }
  return values;
}

std::vector<std::string> CustomLabels::WorkloadLabelKeys() const {
  std::vector<std::string> keys;
  for (const CustomLabel& label : labels_) {
    if (label.source == Source::kWorkload && label.annotation_key.empty()) {
      keys.push_back(LabelKeyOf(label));
    }
  }
  return keys;
}

std::vector<std::string> CustomLabels::WorkloadAnnotationKeys() const {
  std::vector<std::string> keys;
  for (const CustomLabel& label : labels_) {
    if (label.source == Source::kWorkload && !label.annotation_key.empty()) {
      keys.push_back(label.annotation_key);
    }
  }
  return keys;
}

}  // namespace tutti

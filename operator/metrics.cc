// SPDX-License-Identifier: Apache-2.0
#include "operator/metrics.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <fstream>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <sstream>

#include <dirent.h>
#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>
#include <sys/resource.h>
#include <unistd.h>

#include "operator/metrics_text.h"

namespace tutti {
namespace {

// One series, of the type its family has.
struct Series {
  prometheus::Counter* counter = nullptr;
  prometheus::Gauge* gauge = nullptr;
  prometheus::Histogram* histogram = nullptr;
};

struct Family {
  prometheus::Family<prometheus::Counter>* counters = nullptr;
  prometheus::Family<prometheus::Gauge>* gauges = nullptr;
  prometheus::Family<prometheus::Histogram>* histograms = nullptr;
  // From the configuration; names of what follows the table's labels and the role.
  std::optional<CustomLabel::Source> source;
  std::vector<std::string> custom;
  std::vector<std::string> of_workloads;
  // Label values: the table's, of workloads, the role, custom ones. Finding a series here is
  // cheaper than asking the family again.
  std::map<std::vector<std::string>, Series> series;
};

double Read(const Series& series) {
  if (series.counter != nullptr) {
    return series.counter->Value();
  }
  return series.gauge != nullptr ? series.gauge->Value() : 0;
}

void Drop(Family* family, const Series& series) {
  if (series.counter != nullptr) {
    family->counters->Remove(series.counter);
  } else if (series.gauge != nullptr) {
    family->gauges->Remove(series.gauge);
  } else {
    family->histograms->Remove(series.histogram);
  }
}

constexpr std::string_view kKueuePrefix = "kueue_";

// The kind of object whose custom labels a metric carries.
std::optional<CustomLabel::Source> SourceOf(const MetricInfo& info) {
  using Source = CustomLabel::Source;
  if (info.name.substr(0, kKueuePrefix.size()) != kKueuePrefix) {
    return std::nullopt;
  }
  const auto has = [&info](std::string_view label) {
    return std::find(info.labels.begin(), info.labels.end(), label) != info.labels.end();
  };
  if (has("namespace")) {
    return Source::kLocalQueue;
  }
  if (has("cluster_queue") || has("preempting_cluster_queue")) {
    return Source::kClusterQueue;
  }
  return has("cohort") ? std::optional(Source::kCohort) : std::nullopt;
}

// Of the series with these label values.
std::string ObjectOf(const MetricInfo& info, const std::vector<std::string>& values) {
  std::string cohort;
  for (size_t i = 0; i < info.labels.size(); ++i) {
    if (info.labels[i] == "namespace") {
      return values[i] + "/" + values[i - 1];  // the name comes before it
    }
    if (info.labels[i] == "cluster_queue" || info.labels[i] == "preempting_cluster_queue") {
      return values[i];
    }
    if (info.labels[i] == "cohort") {
      cohort = values[i];
    }
  }
  return cohort;
}

struct ProcessNumbers {
  double cpu_seconds = 0;
  double resident = 0;
  double virtual_bytes = 0;
  double open_fds = 0;
  double max_fds = 0;
  double start_time = 0;
};

ProcessNumbers ReadProcess() {
  ProcessNumbers numbers;
  const double ticks = static_cast<double>(sysconf(_SC_CLK_TCK));
  std::ifstream stat_file("/proc/self/stat");
  std::string line;
  std::getline(stat_file, line);
  // The name of the program is in parentheses and may hold spaces: count from the last one.
  std::istringstream fields(line.substr(line.rfind(')') + 1));
  std::vector<std::string> values;
  for (std::string field; fields >> field;) {
    values.push_back(field);
  }
  if (values.size() > 21 && ticks > 0) {
    numbers.cpu_seconds = (std::stod(values[11]) + std::stod(values[12])) / ticks;
    numbers.virtual_bytes = std::stod(values[20]);
    numbers.resident = std::stod(values[21]) * static_cast<double>(sysconf(_SC_PAGESIZE));
    double boot = 0;
    std::ifstream kernel("/proc/stat");
    for (std::string entry; std::getline(kernel, entry);) {
      if (entry.rfind("btime ", 0) == 0) {
        boot = std::stod(entry.substr(6));
      }
    }
    numbers.start_time = boot + std::stod(values[19]) / ticks;
  }
  if (DIR* directory = opendir("/proc/self/fd")) {
    while (readdir(directory) != nullptr) {  // NOLINT(concurrency-mt-unsafe): own handle
      numbers.open_fds += 1;
    }
    closedir(directory);
    numbers.open_fds -= 3;  // ".", ".." and the directory itself
  }
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
    numbers.max_fds = static_cast<double>(limit.rlim_cur);
  }
  return numbers;
}

}  // namespace

struct Metrics::Impl {
  std::mutex mutex;
  prometheus::Registry registry;
  std::vector<Family> families;
  std::string role = "standalone";
  std::map<CustomLabel::Source, std::map<std::string, std::vector<std::string>>> custom;

  void Bug() {
    if (Series* series = Find(Metric::kLogBugs, {}, MetricType::kCounter)) {
      series->counter->Increment();
    }
  }

  std::vector<std::string> KeyOf(const MetricInfo& info, const Labels& labels) const {
    std::vector<std::string> key;
    key.reserve(labels.size() + 1);
    for (const std::string_view label : labels) {
      key.emplace_back(label);
    }
    if (info.has_role) {
      key.push_back(role);
    }
    const Family& family = families[static_cast<size_t>(info.id)];
    if (!family.custom.empty()) {
      const auto& known = custom.at(*family.source);
      const auto values = known.find(ObjectOf(info, key));
      for (size_t i = 0; i < family.custom.size(); ++i) {
        key.push_back(values != known.end() ? values->second[i] : "");
      }
    }
    return key;
  }

  // Null on a wrong use. REQUIRES: mutex held.
  Series* Find(Metric metric, const Labels& labels, MetricType type) {
    const MetricInfo& info = InfoOf(metric);
    Family& family = families[static_cast<size_t>(metric)];
    if (info.type != type || info.labels.size() + family.of_workloads.size() != labels.size()) {
      Bug();
      return nullptr;
    }
    auto key = KeyOf(info, labels);
    const auto found = family.series.find(key);
    if (found != family.series.end()) {
      return &found->second;
    }
    std::map<std::string, std::string> pairs;
    size_t at = 0;
    for (const std::string_view name : info.labels) {
      pairs.emplace(name, key[at++]);
    }
    for (const std::string& name : family.of_workloads) {
      pairs.emplace(name, key[at++]);
    }
    if (info.has_role) {
      pairs.emplace("replica_role", key[at++]);
    }
    for (const std::string& name : family.custom) {
      pairs.emplace(name, key[at++]);
    }
    Series series;
    if (family.counters != nullptr) {
      series.counter = &family.counters->Add(pairs);
    } else if (family.gauges != nullptr) {
      series.gauge = &family.gauges->Add(pairs);
    } else {
      series.histogram = &family.histograms->Add(pairs, info.buckets);
    }
    return &family.series.emplace(std::move(key), series).first->second;
  }

  // REQUIRES: mutex held.
  void RemoveIf(
      const std::function<bool(const MetricInfo&, const std::vector<std::string>&)>& match) {
    for (size_t i = 0; i < families.size(); ++i) {
      Family& family = families[i];
      const MetricInfo& info = MetricTable()[i];
      for (auto it = family.series.begin(); it != family.series.end();) {
        if (match(info, it->first)) {
          Drop(&family, it->second);
          it = family.series.erase(it);
        } else {
          ++it;
        }
      }
    }
  }
};

Metrics::Metrics() : impl_(std::make_unique<Impl>()) {
  for (const MetricInfo& info : MetricTable()) {
    Family family;
    const std::string name(info.name);
    const std::string help(info.help);
    switch (info.type) {
      case MetricType::kCounter:
        family.counters =
            &prometheus::BuildCounter().Name(name).Help(help).Register(impl_->registry);
        break;
      case MetricType::kGauge:
        family.gauges = &prometheus::BuildGauge().Name(name).Help(help).Register(impl_->registry);
        break;
      case MetricType::kHistogram:
        family.histograms =
            &prometheus::BuildHistogram().Name(name).Help(help).Register(impl_->registry);
        break;
    }
    impl_->families.push_back(std::move(family));
  }
}

Metrics::~Metrics() = default;

void Metrics::Add(Metric counter, const Labels& labels, double by) {
  const std::scoped_lock lock(impl_->mutex);
  if (Series* series = impl_->Find(counter, labels, MetricType::kCounter)) {
    series->counter->Increment(by);
  }
}

void Metrics::Set(Metric gauge, const Labels& labels, double value) {
  const std::scoped_lock lock(impl_->mutex);
  if (Series* series = impl_->Find(gauge, labels, MetricType::kGauge)) {
    series->gauge->Set(value);
  }
}

void Metrics::Observe(Metric histogram, const Labels& labels, double value) {
  const std::scoped_lock lock(impl_->mutex);
  if (Series* series = impl_->Find(histogram, labels, MetricType::kHistogram)) {
    series->histogram->Observe(value);
  }
}

double Metrics::ValueForTest(Metric metric, const Labels& labels) const {
  const std::scoped_lock lock(impl_->mutex);
  const Family& family = impl_->families[static_cast<size_t>(metric)];
  const auto found = family.series.find(impl_->KeyOf(InfoOf(metric), labels));
  return found == family.series.end() ? 0 : Read(found->second);
}

void Metrics::UseCustomLabels(const CustomLabels& labels) {
  const std::scoped_lock lock(impl_->mutex);
  for (size_t i = 0; i < impl_->families.size(); ++i) {
    Family& family = impl_->families[i];
    family.source = SourceOf(MetricTable()[i]);
    if (family.source.has_value()) {
      family.custom = labels.NamesOf(*family.source);
      impl_->custom[*family.source];
    }
  }
  impl_->families[static_cast<size_t>(Metric::kAdmittedActiveWorkloads)].of_workloads =
      labels.NamesOf(CustomLabel::Source::kWorkload);
}

void Metrics::SetCustomValues(CustomLabel::Source source, const std::string& object,
                              std::vector<std::string> values) {
  const std::scoped_lock lock(impl_->mutex);
  auto& known = impl_->custom[source];
  const auto [entry, fresh] = known.emplace(object, values);
  if (!fresh && entry->second == values) {
    return;
  }
  entry->second = std::move(values);
  impl_->RemoveIf([&](const MetricInfo& info, const std::vector<std::string>& key) {
    return info.type == MetricType::kGauge &&
           impl_->families[static_cast<size_t>(info.id)].source == source &&
           ObjectOf(info, key) == object;
  });
}

bool Metrics::SplitByWorkload(Metric metric) const {
  const std::scoped_lock lock(impl_->mutex);
  return !impl_->families[static_cast<size_t>(metric)].of_workloads.empty();
}

void Metrics::Remove(Metric metric, const Labels& labels) {
  const std::scoped_lock lock(impl_->mutex);
  Family& family = impl_->families[static_cast<size_t>(metric)];
  const auto found = family.series.find(impl_->KeyOf(InfoOf(metric), labels));
  if (found != family.series.end()) {
    Drop(&family, found->second);
    family.series.erase(found);
  }
}

void Metrics::Clear(Metric metric) {
  const std::scoped_lock lock(impl_->mutex);
  impl_->RemoveIf([metric](const MetricInfo& info, const std::vector<std::string>& /*values*/) {
    return info.id == metric;
  });
}

void Metrics::RemoveClusterQueue(std::string_view name) {
  const std::scoped_lock lock(impl_->mutex);
  impl_->RemoveIf([name](const MetricInfo& info, const std::vector<std::string>& values) {
    for (size_t i = 0; i < info.labels.size(); ++i) {
      if (info.labels[i] == "cluster_queue") {
        return values[i] == name;
      }
    }
    return false;
  });
}

void Metrics::RemoveLocalQueue(const api::ObjectKey& key) {
  const std::scoped_lock lock(impl_->mutex);
  impl_->RemoveIf([&key](const MetricInfo& info, const std::vector<std::string>& values) {
    return info.labels.size() >= 2 && info.labels[0] == "name" && info.labels[1] == "namespace" &&
           values[0] == key.name && values[1] == key.ns;
  });
}

void Metrics::RemoveCohort(std::string_view name) {
  const std::scoped_lock lock(impl_->mutex);
  impl_->RemoveIf([name](const MetricInfo& info, const std::vector<std::string>& values) {
    return !info.labels.empty() && info.labels[0] == "cohort" && values[0] == name &&
           (info.labels.size() < 2 || info.labels[1] != "cluster_queue");
  });
}

void Metrics::SetRole(std::string_view role) {
  const std::scoped_lock lock(impl_->mutex);
  if (impl_->role == role) {
    return;
  }
  impl_->role = std::string(role);
  impl_->RemoveIf([&](const MetricInfo& info, const std::vector<std::string>& values) {
    const size_t at =
        info.labels.size() + impl_->families[static_cast<size_t>(info.id)].of_workloads.size();
    return info.has_role && info.type == MetricType::kGauge && values[at] != role;
  });
}

std::string Metrics::Render() {
  const ProcessNumbers process = ReadProcess();
  const double cpu_before = ValueForTest(Metric::kProcessCpu);
  if (process.cpu_seconds > cpu_before) {
    Add(Metric::kProcessCpu, {}, process.cpu_seconds - cpu_before);
  }
  Set(Metric::kProcessResident, process.resident);
  Set(Metric::kProcessVirtual, process.virtual_bytes);
  Set(Metric::kProcessOpenFds, process.open_fds);
  Set(Metric::kProcessMaxFds, process.max_fds);
  Set(Metric::kProcessStartTime, process.start_time);
  const std::scoped_lock lock(impl_->mutex);
  return MetricsText(impl_->registry.Collect());
}

}  // namespace tutti

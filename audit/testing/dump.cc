// SPDX-License-Identifier: Apache-2.0
#include "audit/testing/dump.h"

#include <algorithm>
#include <cstdio>
#include <utility>

namespace tutti::audit::planted {
namespace {

constexpr int64_t kStart = 1'796'100'000;  // 2026-12-01
constexpr int64_t kNow = kStart + 86'400;
constexpr int64_t kMilliPerHour[] = {2'345, 4'119};  // of nodes a100 and h100, thousandths

// Reproducible on every platform, unlike the standard distributions.
class Dice {
 public:
  explicit Dice(uint64_t seed) : state_(seed * 2 + 1) {}
  int64_t Below(int64_t bound) {
    state_ ^= state_ << 13;
    state_ ^= state_ >> 7;
    state_ ^= state_ << 17;
    return static_cast<int64_t>((state_ >> 11) % static_cast<uint64_t>(bound));
  }
  int64_t Between(int64_t low, int64_t high) { return low + Below(high - low + 1); }

 private:
  uint64_t state_;
};

// Days since 1970 to a date (Howard Hinnant's algorithm), so that no code is shared with base/time.
std::string Rfc3339(int64_t seconds) {
  const int64_t days = seconds / 86'400;
  const int64_t z = days + 719'468;
  const int64_t era = z / 146'097;
  const int64_t doe = z - era * 146'097;
  const int64_t yoe = (doe - doe / 1460 + doe / 36'524 - doe / 146'096) / 365;
  const int64_t doy = doe - (365 * yoe + yoe / 4 - yoe / 100);
  const int64_t mp = (5 * doy + 2) / 153;
  const int64_t day = doy - (153 * mp + 2) / 5 + 1;
  const int64_t month = mp < 10 ? mp + 3 : mp - 9;
  const int64_t year = yoe + era * 400 + (month <= 2 ? 1 : 0);
  const int64_t rest = seconds % 86'400;
  char out[40];
  std::snprintf(out, sizeof(out), "%04d-%02d-%02dT%02d:%02d:%02dZ", static_cast<int>(year),
                static_cast<int>(month), static_cast<int>(day), static_cast<int>(rest / 3600),
                static_cast<int>(rest / 60 % 60), static_cast<int>(rest % 60));
  return out;
}

enum class Shape { kWhole, kPlanted, kOngoing, kEdge, kGone, kHeld, kQueue, kSingle, kLost };

class Writer {
 public:
  Writer(const DumpOptions& options, const std::function<void(std::string_view)>& write)
      : options_(options), write_(write), dice_(options.seed) {
    for (int i = 0; i < options.padding / 64; ++i) {
      padding_ += (i == 0 ? "" : ",") + std::string(R"({"name":"VARIABLE_)") + std::to_string(i) +
                  R"(","value":"something that a training job wants to know"})";
    }
  }

  DumpTruth Run() {
    write_("{\n\"apiVersion\":\"v1\",\"items\":[");
    for (int i = 0; i < options_.nodes; ++i) {
      Node(i);
    }
    for (int i = 0; i < options_.jobs; ++i) {
      Job(i);
    }
    Item(
        R"({"apiVersion":"coordination.k8s.io/v1","kind":"Lease","metadata":{"name":"node-0","namespace":"kube-node-lease"},"spec":{"renewTime":")" +
        Rfc3339(kNow) + R"("}})");
    write_("],\n\"kind\":\"List\",\"metadata\":{\"resourceVersion\":\"\"}}\n");
    truth_.at = Rfc3339(kNow);
    std::sort(truth_.planted.begin(), truth_.planted.end(), [](const Planted& a, const Planted& b) {
      return std::pair(a.ns, a.job) < std::pair(b.ns, b.job);
    });
    return std::move(truth_);
  }

 private:
  void Item(const std::string& text) {
    write_(first_ ? "\n" : ",\n");
    first_ = false;
    write_(text);
  }

  [[nodiscard]] static bool Better(int node) { return node % 3 == 0; }

  void Node(int i) {
    Item(
        R"({"apiVersion":"v1","kind":"Node","metadata":{"name":"node-)" + std::to_string(i) +
        R"(","creationTimestamp":")" + Rfc3339(kStart - 1000) +
        R"(","labels":{"kubernetes.io/hostname":"node-)" + std::to_string(i) +
        R"(","nvidia.com/gpu.product":")" +
        (Better(i) ? "NVIDIA-H100-80GB-HBM3" : "NVIDIA-A100-SXM4-80GB") +
        R"("}},"spec":{},"status":{"allocatable":{"cpu":"128","memory":"1000Gi","pods":"110","nvidia.com/gpu":"8"},"conditions":[{"type":"Ready","status":"True"}]}})");
  }

  // The i-th of all jobs, spread so that the planted ones lie among the others.
  [[nodiscard]] Shape ShapeOf(int i) const {
    const int64_t before = static_cast<int64_t>(i) * options_.planted / options_.jobs;
    const int64_t after = static_cast<int64_t>(i + 1) * options_.planted / options_.jobs;
    if (after > before) {
      return after % 5 == 0 ? Shape::kOngoing : Shape::kPlanted;
    }
    switch (i % 23) {
      case 1:
        return Shape::kEdge;
      case 5:
        return Shape::kGone;
      case 7:
        return Shape::kHeld;
      case 11:
        return Shape::kQueue;
      case 13:
        return Shape::kSingle;
      case 17:
        return Shape::kLost;
      default:
        return Shape::kWhole;
    }
  }

  void Job(int i) {
    const Shape shape = ShapeOf(i);
    const std::string ns = "team-" + std::to_string(dice_.Below(7));
    const std::string name = "train-" + std::to_string(i);
    const int size = shape == Shape::kSingle
                         ? 1
                         : (options_.pods_per_job > 0 ? options_.pods_per_job
                                                      : static_cast<int>(dice_.Between(2, 16)));
    const int gpus = 1 << dice_.Below(4);
    const int64_t created = kStart + dice_.Below(40'000);
    const int64_t begin = created + dice_.Between(1, 600);
    const bool running = shape == Shape::kOngoing || dice_.Below(4) == 0;
    const bool held = shape == Shape::kHeld;
    const bool finished = !held && !running;
    // When each pod got its node; 0: it has none.
    std::vector<int64_t> bound(static_cast<size_t>(size), begin);
    int64_t whole = begin;
    if (shape == Shape::kPlanted || shape == Shape::kOngoing) {
      const auto early = static_cast<size_t>(dice_.Between(1, size - 1));
      whole = shape == Shape::kOngoing ? kNow : begin + dice_.Between(11, 9'000);
      for (size_t pod = 1; pod < bound.size(); ++pod) {
        bound[pod] = pod < early ? begin + dice_.Below(whole - begin)
                                 : (shape == Shape::kOngoing ? 0 : whole);
      }
      if (shape == Shape::kPlanted) {
        for (size_t pod = early; pod + 1 < bound.size(); ++pod) {
          bound[pod] = begin + dice_.Below(whole - begin + 1);
        }
      }
      Count(ns, name, bound, whole, gpus, shape == Shape::kOngoing);
    } else if (shape == Shape::kEdge) {  // exactly the tolerance: no partial start
      bound.back() = begin + 10;
    } else {
      for (size_t pod = 1; pod < bound.size(); ++pod) {
        bound[pod] = begin + dice_.Below(8);
      }
    }
    const int64_t end = whole + dice_.Between(600, 30'000);
    JobObject(shape, ns, name, size, gpus, created, finished ? end : 0, held);
    if (held || (shape == Shape::kGone && finished)) {
      return;
    }
    for (size_t pod = 0; pod < bound.size(); ++pod) {
      // A lost member of a running job, and the one in its place half an hour later.
      if (shape == Shape::kLost && running && pod == 0 && size > 1) {
        Pod(ns, name, "-0-lost", NodeFor(), gpus, created, bound[0], begin + 3'000, false);
        Pod(ns, name, "-0", NodeFor(), gpus, begin + 3'000, begin + 4'800, 0, true);
        continue;
      }
      Pod(ns, name, "-" + std::to_string(pod), bound[pod] == 0 ? -1 : PlannedNode(pod), gpus,
          created, bound[pod], finished ? end : 0, true);
    }
  }

  // Pods of planted gangs alternate between the two kinds of nodes; see Count.
  int PlannedNode(size_t pod) {
    const int group = static_cast<int>(dice_.Below(std::max(options_.nodes / 3, 1))) * 3;
    return std::min(group + static_cast<int>(pod % 2), options_.nodes - 1);
  }
  int NodeFor() { return static_cast<int>(dice_.Below(options_.nodes)); }

  void Count(const std::string& ns, const std::string& name, const std::vector<int64_t>& bound,
             int64_t whole, int gpus, bool ongoing) {
    Planted planted{ns, name, 0, 0, 0, ongoing};
    int64_t first = whole;
    int64_t milli = 0;  // thousandths x seconds per hour
    for (size_t pod = 0; pod < bound.size(); ++pod) {
      if (bound[pod] == 0) {
        continue;
      }
      first = std::min(first, bound[pod]);
      const int64_t held = (whole - bound[pod]) * gpus;
      planted.device_seconds += held;
      milli += held * kMilliPerHour[pod % 2 == 0 ? 1 : 0];
    }
    planted.seconds = whole - first;
    planted.cents = (milli + 18'000) / 36'000;
    truth_.device_seconds += planted.device_seconds;
    truth_.planted.push_back(std::move(planted));
  }

  void JobObject(Shape shape, const std::string& ns, const std::string& name, int size, int gpus,
                 int64_t created, int64_t end, bool held) {
    const bool queue = shape == Shape::kQueue;
    std::string status;
    if (end > 0) {
      status = R"("succeeded":)" + std::to_string(size) +
               R"(,"conditions":[{"type":"Complete","status":"True","lastTransitionTime":")" +
               Rfc3339(end) + R"("}])";
    }
    Item(R"({"apiVersion":"batch/v1","kind":"Job","metadata":{"name":")" + name +
         R"(","namespace":")" + ns + R"(","creationTimestamp":")" + Rfc3339(created) +
         R"("},"spec":{"parallelism":)" + std::to_string(size) + R"(,"completions":)" +
         std::to_string(queue ? size * 10 : size) + R"(,"suspend":)" + (held ? "true" : "false") +
         R"(,"template":{"spec":{"restartPolicy":"Never","containers":[)" + Container(gpus) +
         R"(]}}},"status":{)" + status + "}}");
  }

  [[nodiscard]] std::string Container(int gpus) const {
    return R"({"name":"main","image":"registry.example.com/team/train:v17","env":[)" + padding_ +
           R"(],"resources":{"requests":{"cpu":")" + std::to_string(gpus * 4) +
           R"(","memory":"32Gi"},"limits":{"nvidia.com/gpu":")" + std::to_string(gpus) + R"("}}})";
  }

  void Pod(const std::string& ns, const std::string& job, const std::string& suffix, int node,
           int gpus, int64_t created, int64_t bound, int64_t end, bool succeeded) {
    std::string status =
        R"("phase":"Pending","conditions":[{"type":"PodScheduled","status":"False","reason":"Unschedulable","lastTransitionTime":")" +
        Rfc3339(created) + R"("}])";
    if (node >= 0) {
      const std::string state =
          end > 0 ? R"("terminated":{"exitCode":0,"startedAt":")" + Rfc3339(bound + 2) +
                        R"(","finishedAt":")" + Rfc3339(end) + R"("})"
                  : R"("running":{"startedAt":")" + Rfc3339(bound + 2) + R"("})";
      status = std::string(R"("phase":")") +
               (end == 0 ? "Running" : (succeeded ? "Succeeded" : "Failed")) +
               R"(","startTime":")" + Rfc3339(bound + 1) +
               R"(","conditions":[{"type":"PodScheduled","status":"True","lastTransitionTime":")" +
               Rfc3339(bound) + R"("}],"containerStatuses":[{"name":"main","state":{)" + state +
               "}}]";
    }
    Item(R"({"apiVersion":"v1","kind":"Pod","metadata":{"name":")" + job + suffix +
         R"(","namespace":")" + ns + R"(","uid":"uid-)" + ns + job + suffix +
         R"(","creationTimestamp":")" + Rfc3339(created) +
         R"(","labels":{"batch.kubernetes.io/job-name":")" + job +
         R"("},"ownerReferences":[{"apiVersion":"batch/v1","kind":"Job","name":")" + job +
         R"(","uid":"u","controller":true}]},"spec":{)" +
         (node >= 0 ? R"("nodeName":"node-)" + std::to_string(node) + R"(",)" : std::string()) +
         R"("containers":[)" + Container(gpus) + R"(]},"status":{)" + status + "}}");
  }

  const DumpOptions& options_;
  const std::function<void(std::string_view)>& write_;
  Dice dice_;
  std::string padding_;
  bool first_ = true;
  DumpTruth truth_;
};

}  // namespace

std::string_view PriceFile() {
  return R"({"currency":"EUR","prices":[{"resource":"nvidia.com/gpu","perHour":"2.345"},
    {"resource":"nvidia.com/gpu","nodeLabels":{"nvidia.com/gpu.product":"NVIDIA-H100-80GB-HBM3"},"perHour":"4.119"}]})";
}

DumpTruth WriteDump(const DumpOptions& options,
                    const std::function<void(std::string_view)>& write) {
  return Writer(options, write).Run();
}

}  // namespace tutti::audit::planted

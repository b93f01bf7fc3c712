// SPDX-License-Identifier: Apache-2.0
#include "cli/fit.h"

#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <utility>

#include "api/batch.h"
#include "api/kueue.h"
#include "cli/cluster_input.h"

namespace tutti::cli {
namespace {

// A gang as the input has it, before its pods' shapes can be made (they need the LimitRanges).
struct Wanted {
  InputObject object;
  struct PodSet {
    std::string name;
    int32_t count = 0;
    std::string path;  // of the template, for messages
    Json pod_template;
  };
  std::vector<PodSet> pod_sets;
};

class Reader {
 public:
  Status Add(const InputObject& object) {
    const std::string& kind = object.kind;
    if (!ClusterInput::Knows(kind) && kind != "Job" && kind != "Workload") {
      ++other_kinds_[kind];
      return {};
    }
    TRY(once_.Check(object));
    if (kind == "Job") {
      return AddJob(object);
    }
    return kind == "Workload" ? AddWorkload(object) : cluster_.Add(object);
  }

  Result<FitReport> Answer() {
    if (wanted_.empty()) {
      return Fail(ErrorCode::kInvalid, "no Job and no Workload to place" + Hints());
    }
    FitReport report;
    std::set<std::string> ids;
    cluster_.Finish();
    for (const Wanted& wanted : wanted_) {
      const InputObject& object = wanted.object;
      engine::Gang gang;
      gang.id = object.ns + "/" + object.name;
      if (!ids.insert(gang.id).second) {
        gang.id += " (" + object.kind + ")";  // a Job and a Workload of one name
      }
      FitAnswer answer;
      answer.gang = object.Title();
      for (const Wanted::PodSet& pod_set : wanted.pod_sets) {
        auto shape = cluster_.Shape(object.ns, pod_set.path, pod_set.pod_template);
        if (!shape) {
          return Fail(shape.error().With(object.where + ": " + object.Title()));
        }
        engine::GangPodSet part;
        part.name = pod_set.name;
        part.count = pod_set.count;
        part.shape = std::move(*shape);
        gang.pod_sets.push_back(std::move(part));
        answer.pod_sets.push_back({pod_set.name, pod_set.count});
      }
      answer.fit = capacity_->Check(gang);
      if (answer.fit.kind == engine::FitKind::kFits ||
          answer.fit.kind == engine::FitKind::kUndecided) {
        capacity_->Reserve(gang, answer.fit.placement);
      }
      report.answers.push_back(std::move(answer));
    }
    report.notes = Notes();
    return report;
  }

 private:
  Status AddJob(const InputObject& object) {
    TRY_ASSIGN(const api::Job job, api::JobFromJson(object.object));
    if (job.Finished() || job.active > 0 || job.GangSize() == 0) {
      ++started_jobs_;
      return {};
    }
    TRY_ASSIGN(const Json pod_template, Json::Parse(job.template_json));
    cluster_.UseNamespace(object.ns);
    wanted_.push_back(
        {object,
         {{"main", job.GangSize(), "spec.template", TemplateOfJob(object.object, pod_template)}}});
    return {};
  }

  Status AddWorkload(const InputObject& object) {
    TRY_ASSIGN(const api::Workload workload, api::WorkloadFromJson(object.object));
    if (workload.meta.Controller() != nullptr) {
      ++owned_workloads_;  // its Job says the same
      return {};
    }
    cluster_.UseNamespace(object.ns);
    Wanted wanted{object, {}};
    for (size_t i = 0; i < workload.pod_sets.size(); ++i) {
      const api::PodSet& pod_set = workload.pod_sets[i];
      TRY_ASSIGN(Json pod_template, Json::Parse(pod_set.template_json));
      wanted.pod_sets.push_back({pod_set.name, pod_set.count,
                                 "spec.podSets[" + std::to_string(i) + "].template",
                                 std::move(pod_template)});
    }
    wanted_.push_back(std::move(wanted));
    return {};
  }

  [[nodiscard]] std::vector<std::string> Notes() const {
    std::vector<std::string> notes;
    if (cluster_.Nodes() == 0) {
      notes.emplace_back("no Node in the input");
    }
    if (started_jobs_ > 0) {
      notes.push_back(Count(started_jobs_, "Job") + " left out: finished, or with active pods");
    }
    if (owned_workloads_ > 0) {
      notes.push_back(Count(owned_workloads_, "Workload") + " left out: made from another object");
    }
    for (std::string& note : cluster_.Notes()) {
      notes.push_back(std::move(note));
    }
    for (const auto& [kind, count] : other_kinds_) {
      notes.push_back(kind + " is not looked at: " + Count(count, "object"));
    }
    return notes;
  }

  [[nodiscard]] std::string Hints() const {
    std::string out;
    for (const std::string& note : Notes()) {
      out += (out.empty() ? " (" : "; ") + note;
    }
    return out.empty() ? out : out + ")";
  }

  std::unique_ptr<engine::Capacity> capacity_ = engine::MakeCapacity();
  ClusterInput cluster_{*capacity_};
  OnlyOnce once_;
  std::vector<Wanted> wanted_;
  std::map<std::string, size_t> other_kinds_;
  size_t started_jobs_ = 0;
  size_t owned_workloads_ = 0;
};

// The messages of the other kinds say all that the verdict does.
std::string Summary(const engine::FitResult& fit) {
  switch (fit.kind) {
    case engine::FitKind::kFits:
      return "fits";
    case engine::FitKind::kNotNow:
    case engine::FitKind::kNever:
      return "does not fit: " + fit.message;
    case engine::FitKind::kUndecided:
      return fit.message;
  }
  return "";
}

}  // namespace

bool FitReport::AllFit() const {
  return std::all_of(answers.begin(), answers.end(), [](const FitAnswer& answer) {
    return answer.fit.kind == engine::FitKind::kFits;
  });
}

Result<FitReport> Fit(const std::vector<Document>& documents) {
  Reader reader;
  TRY(ForEachObject(documents, [&](const InputObject& object) { return reader.Add(object); }));
  return reader.Answer();
}

std::string_view VerdictName(engine::FitKind kind) {
  switch (kind) {
    case engine::FitKind::kFits:
      return "Fits";
    case engine::FitKind::kNotNow:
      return "NotNow";
    case engine::FitKind::kNever:
      return "Never";
    case engine::FitKind::kUndecided:
      return "Undecided";
  }
  return "";
}

std::string ToText(const FitReport& report) {
  std::string out;
  for (const FitAnswer& answer : report.answers) {
    out += answer.gang + ": " + Summary(answer.fit) + '\n';
    for (size_t i = 0; i < answer.pod_sets.size(); ++i) {
      std::string nodes;
      for (const engine::PlacementSlot& slot : answer.fit.placement) {
        if (slot.pod_set == i) {
          nodes += (nodes.empty() ? "" : ", ") + slot.node;
          if (slot.count > 1) {
            nodes += " x " + std::to_string(slot.count);
          }
        }
      }
      if (!nodes.empty()) {
        const auto count = static_cast<size_t>(answer.pod_sets[i].count);
        out += "  " + answer.pod_sets[i].name + " (" + Count(count, "pod") + "): " + nodes + '\n';
      }
    }
  }
  for (const std::string& note : report.notes) {
    out += "note: " + note + '\n';
  }
  return out;
}

Json ToJson(const FitReport& report) {
  Json answers = Json::Arr();
  for (const FitAnswer& answer : report.answers) {
    int64_t pods = 0;
    for (const FitPodSet& pod_set : answer.pod_sets) {
      pods += pod_set.count;
    }
    Json placement = Json::Arr();
    for (const engine::PlacementSlot& slot : answer.fit.placement) {
      placement.Push(Json::Obj({{"podSet", answer.pod_sets[slot.pod_set].name},
                                {"node", slot.node},
                                {"count", static_cast<int64_t>(slot.count)}}));
    }
    answers.Push(Json::Obj({{"gang", answer.gang},
                            {"verdict", VerdictName(answer.fit.kind)},
                            {"message", answer.fit.message},
                            {"pods", pods},
                            {"placement", std::move(placement)}}));
  }
  Json notes = Json::Arr();
  for (const std::string& note : report.notes) {
    notes.Push(note);
  }
  return Json::Obj({{"answers", std::move(answers)}, {"notes", std::move(notes)}});
}

Json FitLine(std::string_view line) {
  const Result<Json> parsed = Json::Parse(line);
  if (!parsed) {
    return Json::Obj({{"id", nullptr}, {"error", parsed.error().message}});
  }
  const Json& id = (*parsed)["id"];
  if (!(*parsed)["items"].IsArray()) {
    return Json::Obj({{"id", id}, {"error", "items: must be an array of objects"}});
  }
  std::vector<Document> documents;
  const Json::Array& items = (*parsed)["items"].AsArray();
  documents.reserve(items.size());
  for (size_t i = 0; i < items.size(); ++i) {
    documents.push_back({"items[" + std::to_string(i) + "]", items[i]});
  }
  const Result<FitReport> report = Fit(documents);
  if (!report) {
    return Json::Obj({{"id", id}, {"error", report.error().message}});
  }
  Json out = ToJson(*report);
  out.MutableObject().insert(out.MutableObject().begin(), {"id", id});
  return out;
}

}  // namespace tutti::cli

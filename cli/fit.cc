// SPDX-License-Identifier: Apache-2.0
#include "cli/fit.h"

#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <utility>

#include "api/batch.h"
#include "api/core.h"
#include "api/dra.h"
#include "api/kueue.h"
#include "api/pod_requests.h"
#include "api/pod_rules.h"

namespace tutti::cli {
namespace {

constexpr std::string_view kDefaultNamespace = "default";
constexpr std::string_view kDevicesVersion = "resource.k8s.io/v1";

bool OfDevices(std::string_view kind) {
  return kind == "ResourceSlice" || kind == "DeviceClass" || kind == "ResourceClaim" ||
         kind == "ResourceClaimTemplate";
}
constexpr std::string_view kNamespaceName = "kubernetes.io/metadata.name";
constexpr std::string_view kJobName = "batch.kubernetes.io/job-name";

// A gang as the input has it, before its pods' shapes can be made (they need the LimitRanges).
struct Wanted {
  std::string where;
  std::string kind;  // Job, Workload
  std::string ns;
  std::string name;
  struct PodSet {
    std::string name;
    int32_t count = 0;
    std::string path;  // of the template, for messages
    Json pod_template;
  };
  std::vector<PodSet> pod_sets;

  [[nodiscard]] std::string Title() const { return kind + " " + ns + "/" + name; }
};

// "1 Job", "2 Jobs".
std::string Count(size_t count, std::string_view what) {
  return std::to_string(count) + " " + std::string(what) + (count == 1 ? "" : "s");
}

Result<Json> ParseTemplate(const std::string& text) {
  return Json::Parse(text);
}

// With metadata.namespace, which rules of pods about each other need.
Json WithNamespace(const Json& object, const std::string& ns) {
  Json out = object;
  Json metadata = object["metadata"];
  metadata.Set("namespace", ns);
  out.Set("metadata", std::move(metadata));
  return out;
}

// With the label that the API server gives the pods of a Job.
void AddJobName(const std::string& job, Json& pod_template) {
  Json metadata = pod_template["metadata"].IsObject() ? pod_template["metadata"] : Json::Obj({});
  Json labels = metadata["labels"].IsObject() ? metadata["labels"] : Json::Obj({});
  labels.Set(kJobName, job);
  metadata.Set("labels", std::move(labels));
  pod_template.Set("metadata", std::move(metadata));
}

bool ByNamespaceLabels(const api::PodShape& shape) {
  const auto selects = [](const api::PodAffinityTerm& term) {
    return !term.namespace_selector.requirements.empty();
  };
  return shape.rules &&
         (std::any_of(shape.rules->affinity.begin(), shape.rules->affinity.end(), selects) ||
          std::any_of(shape.rules->anti_affinity.begin(), shape.rules->anti_affinity.end(),
                      selects));
}

class Reader {
 public:
  // The input is the whole cluster: what is not in it does not exist.
  Reader() { capacity_->SetDevicesKnown(true); }

  Status Add(const FitDocument& document) {
    const Json& object = document.object;
    const std::string& kind = object["kind"].AsString();
    if (kind.empty()) {
      return Fail(ErrorCode::kInvalid, document.where + ": kind is missing");
    }
    if (object.Has("items") && kind.ends_with("List")) {
      // The items of a typed list (NodeList) need not say their kind.
      const std::string item_kind = kind.substr(0, kind.size() - 4);
      for (size_t i = 0; i < object["items"].AsArray().size(); ++i) {
        FitDocument item{document.where + ": items[" + std::to_string(i) + "]",
                         object["items"].AsArray()[i]};
        if (!item.object.IsObject()) {
          return Fail(ErrorCode::kInvalid, item.where + ": must be an object");
        }
        if (!item_kind.empty() && item.object["kind"].AsString().empty()) {
          item.object.Set("kind", item_kind);
        }
        TRY(Add(item));
      }
      return {};
    }
    return AddObject(document.where, kind, object);
  }

  Result<FitReport> Answer() {
    if (wanted_.empty()) {
      return Fail(ErrorCode::kInvalid, "no Job and no Workload to place" + Hints());
    }
    FitReport report;
    std::set<std::string> ids;
    for (const std::string& ns : used_namespaces_) {
      if (!namespaces_.contains(ns)) {
        capacity_->SetNamespace(ns, {{std::string(kNamespaceName), ns}});
      }
    }
    for (const Wanted& wanted : wanted_) {
      engine::Gang gang;
      gang.id = wanted.ns + "/" + wanted.name;
      if (!ids.insert(gang.id).second) {
        gang.id += " (" + wanted.kind + ")";  // a Job and a Workload of one name
      }
      FitAnswer answer;
      answer.gang = wanted.Title();
      for (const Wanted::PodSet& pod_set : wanted.pod_sets) {
        TRY_ASSIGN(engine::GangPodSet part, PodSetOf(wanted, pod_set));
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
  Status AddObject(const std::string& where, const std::string& kind, const Json& object) {
    const Json& metadata = object["metadata"];
    const std::string& name = metadata["name"].AsString();
    const std::string title = where + ": " + kind + (name.empty() ? "" : " " + name);
    if (name.empty()) {
      return Fail(ErrorCode::kInvalid, title + ": metadata.name is missing");
    }
    const bool looked_at = kind == "Node" || kind == "Namespace" || kind == "Pod" ||
                           kind == "LimitRange" || kind == "RuntimeClass" || kind == "Job" ||
                           kind == "Workload" || OfDevices(kind);
    if (!looked_at) {
      ++other_kinds_[kind];
      return {};
    }
    const std::string& version = object["apiVersion"].AsString();
    if (OfDevices(kind) && !version.empty() && version != kDevicesVersion) {
      return Fail(ErrorCode::kInvalid, title + ": apiVersion must be " +
                                           std::string(kDevicesVersion) + ", is " + version);
    }
    const bool namespaced = kind != "Node" && kind != "Namespace" && kind != "RuntimeClass" &&
                            kind != "ResourceSlice" && kind != "DeviceClass";
    std::string ns = metadata["namespace"].AsString();
    if (namespaced && ns.empty()) {
      ns = kDefaultNamespace;
    }
    const std::string key = kind + " " + (namespaced ? ns + "/" : "") + name;
    if (!seen_.insert(key).second) {
      return Fail(ErrorCode::kInvalid, where + ": " + key + " is in the input twice");
    }
    if (namespaced) {
      used_namespaces_.insert(ns);
    }
    const Status added = AddKnown(where, kind, ns, object);
    if (!added) {
      // The decoders name the object and the field.
      const bool named = added.error().message.find(name) != std::string::npos;
      return Fail(added.error().With(named ? where : title));
    }
    return {};
  }

  Status AddKnown(const std::string& where, const std::string& kind, const std::string& ns,
                  const Json& object) {
    if (kind == "Node") {
      TRY_ASSIGN(const api::Node node, api::NodeFromJson(object));
      capacity_->SetNode(node);
      ++nodes_;
    } else if (kind == "Namespace") {
      const std::string& name = object["metadata"]["name"].AsString();
      api::StringMap labels = api::StringMapFromJson(object["metadata"]["labels"]);
      labels[std::string(kNamespaceName)] = name;  // the API server's
      capacity_->SetNamespace(name, labels);
      namespaces_.insert(name);
    } else if (kind == "Pod") {
      TRY_ASSIGN(const api::Pod pod, api::PodFromJson(WithNamespace(object, ns)));
      AddPod(ns, pod);
    } else if (kind == "LimitRange") {
      TRY_ASSIGN(api::LimitRange range, api::LimitRangeFromJson(object));
      std::string name = range.meta.name;
      limit_ranges_[ns][std::move(name)] = std::move(range);
    } else if (kind == "RuntimeClass") {
      TRY_ASSIGN(api::RuntimeClass runtime_class, api::RuntimeClassFromJson(object));
      std::string name = runtime_class.meta.name;
      runtime_classes_[std::move(name)] = std::move(runtime_class);
    } else if (kind == "Job") {
      TRY(AddJob(where, ns, object));
    } else if (OfDevices(kind)) {
      TRY(AddOfDevices(kind, ns, object));
    } else {
      TRY(AddWorkload(where, ns, object));
    }
    return {};
  }

  Status AddOfDevices(const std::string& kind, const std::string& ns, const Json& object) {
    if (kind == "ResourceSlice") {
      TRY_ASSIGN(api::ResourceSlice slice, api::ResourceSliceFromJson(object));
      capacity_->SetResourceSlice(std::make_shared<const api::ResourceSlice>(std::move(slice)));
    } else if (kind == "DeviceClass") {
      TRY_ASSIGN(const api::DeviceClass device_class, api::DeviceClassFromJson(object));
      capacity_->SetDeviceClass(device_class);
    } else if (kind == "ResourceClaimTemplate") {
      TRY_ASSIGN(api::ResourceClaimTemplate claim_template,
                 api::ResourceClaimTemplateFromJson(object));
      claim_template.meta.ns = ns;
      capacity_->SetResourceClaimTemplate(claim_template);
    } else {
      TRY_ASSIGN(api::ResourceClaim claim, api::ResourceClaimFromJson(object));
      claim.meta.ns = ns;
      // What it holds counts as it is. None belongs to a gang that is asked about: those have no
      // pods yet.
      capacity_->SetResourceClaim(claim, /*gang=*/"", /*pod_set=*/"");
      claims_.insert(claim.meta.Key());
      if (const api::OwnerReference* owner = claim.meta.Controller();
          owner != nullptr && owner->kind == "Pod") {
        generated_.insert({ns + "/" + owner->name,
                           std::string(claim.meta.Annotation(api::kPodClaimNameAnnotation))});
      }
    }
    return {};
  }

  void AddPod(const std::string& ns, const api::Pod& pod) {
    if (pod.node_name.empty()) {
      ++unbound_pods_;
      return;
    }
    if (pod.Terminal()) {
      return;  // holds nothing
    }
    by_namespace_labels_ |= ByNamespaceLabels(*pod.shape);
    capacity_->SetPod("Pod " + ns + "/" + pod.meta.name, pod.node_name, pod.shape, /*gang=*/"",
                      /*pod_set=*/"",
                      {ns, api::RuleLabels(pod.meta.labels), pod.meta.deleted.has_value()});
    if (!pod.shape->claims.empty()) {
      users_.push_back({ns, pod.meta.name, pod.shape});
    }
  }

  // Pods on nodes with a claim that the input doesn't have: what it holds counts as free.
  [[nodiscard]] size_t PodsWithoutClaims() const {
    return static_cast<size_t>(std::count_if(users_.begin(), users_.end(), [&](const User& user) {
      const auto& claims = user.shape->claims;
      return std::any_of(claims.begin(), claims.end(), [&](const api::PodClaim& claim) {
        return claim.claim.empty() ? !generated_.contains({user.ns + "/" + user.pod, claim.name})
                                   : !claims_.contains({user.ns, claim.claim});
      });
    }));
  }

  Status AddJob(const std::string& where, const std::string& ns, const Json& object) {
    TRY_ASSIGN(const api::Job job, api::JobFromJson(object));
    if (job.Finished() || job.active > 0 || job.GangSize() == 0) {
      ++started_jobs_;
      return {};
    }
    TRY_ASSIGN(Json pod_template, ParseTemplate(job.template_json));
    if (!object["spec"]["manualSelector"].AsBool()) {
      AddJobName(job.meta.name, pod_template);
    }
    wanted_.push_back({where,
                       "Job",
                       ns,
                       job.meta.name,
                       {{"main", job.GangSize(), "spec.template", std::move(pod_template)}}});
    return {};
  }

  Status AddWorkload(const std::string& where, const std::string& ns, const Json& object) {
    TRY_ASSIGN(const api::Workload workload, api::WorkloadFromJson(object));
    if (workload.meta.Controller() != nullptr) {
      ++owned_workloads_;  // its Job says the same
      return {};
    }
    Wanted wanted{where, "Workload", ns, workload.meta.name, {}};
    for (size_t i = 0; i < workload.pod_sets.size(); ++i) {
      const api::PodSet& pod_set = workload.pod_sets[i];
      TRY_ASSIGN(Json pod_template, ParseTemplate(pod_set.template_json));
      wanted.pod_sets.push_back({pod_set.name, pod_set.count,
                                 "spec.podSets[" + std::to_string(i) + "].template",
                                 std::move(pod_template)});
    }
    wanted_.push_back(std::move(wanted));
    return {};
  }

  Result<engine::GangPodSet> PodSetOf(const Wanted& wanted, const Wanted::PodSet& pod_set) {
    api::PodContext context;
    context.path = pod_set.path;
    context.ns = wanted.ns;
    if (const auto ranges = limit_ranges_.find(wanted.ns); ranges != limit_ranges_.end()) {
      for (const auto& [name, range] : ranges->second) {
        context.limit_ranges.push_back(&range);
      }
    }
    const std::string& runtime_class = pod_set.pod_template["spec"]["runtimeClassName"].AsString();
    if (const auto found = runtime_classes_.find(runtime_class); found != runtime_classes_.end()) {
      context.runtime_class = &found->second;
    } else if (!runtime_class.empty()) {
      unknown_runtime_classes_.insert(runtime_class);
    }
    const auto invalid = [&](const std::string& message) {
      return Fail(ErrorCode::kInvalid, wanted.where + ": " + wanted.Title() + ": " + message);
    };
    Result<api::PodShape> shape = api::ShapeOf(pod_set.pod_template, context);
    if (!shape) {
      return invalid(shape.error().message);
    }
    const std::vector<std::string> violations = api::CheckLimits(pod_set.pod_template, context);
    if (!violations.empty()) {
      return invalid(violations.front());
    }
    engine::GangPodSet part;
    part.name = pod_set.name;
    part.count = pod_set.count;
    by_namespace_labels_ |= ByNamespaceLabels(*shape);
    part.shape = api::InternShape(std::move(*shape));
    return part;
  }

  [[nodiscard]] std::vector<std::string> Notes() const {
    std::vector<std::string> notes;
    if (nodes_ == 0) {
      notes.emplace_back("no Node in the input");
    }
    if (started_jobs_ > 0) {
      notes.push_back(Count(started_jobs_, "Job") + " left out: finished, or with active pods");
    }
    if (owned_workloads_ > 0) {
      notes.push_back(Count(owned_workloads_, "Workload") + " left out: made from another object");
    }
    if (unbound_pods_ > 0) {
      notes.push_back(Count(unbound_pods_, "Pod") +
                      " without a node left out: they may take places first");
    }
    if (const size_t pods = PodsWithoutClaims(); pods > 0) {
      notes.push_back(Count(pods, "Pod") +
                      " with a ResourceClaim that is not in the input: its devices count as free");
    }
    for (const std::string& name : unknown_runtime_classes_) {
      notes.push_back("RuntimeClass " + name + " is not in the input: no overhead counted");
    }
    if (by_namespace_labels_) {
      for (const std::string& ns : used_namespaces_) {
        if (!namespaces_.contains(ns)) {
          notes.push_back("Namespace " + ns + " is not in the input: no labels but its name");
        }
      }
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
  std::map<std::string, std::map<std::string, api::LimitRange>> limit_ranges_;  // namespace, name
  std::map<std::string, api::RuntimeClass> runtime_classes_;
  struct User {
    std::string ns;
    std::string pod;
    std::shared_ptr<const api::PodShape> shape;
  };
  std::vector<User> users_;  // pods on nodes with claims
  std::set<api::ObjectKey> claims_;
  std::set<std::pair<std::string, std::string>> generated_;  // pod (ns/name), its claim's name
  std::vector<Wanted> wanted_;
  std::set<std::string> seen_;
  std::set<std::string> unknown_runtime_classes_;
  std::set<std::string> used_namespaces_;  // by pods and gangs
  std::set<std::string> namespaces_;       // in the input
  bool by_namespace_labels_ = false;       // some rule about other pods looks at them
  std::map<std::string, size_t> other_kinds_;
  size_t nodes_ = 0;
  size_t started_jobs_ = 0;
  size_t owned_workloads_ = 0;
  size_t unbound_pods_ = 0;
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

Result<FitReport> Fit(const std::vector<FitDocument>& documents) {
  Reader reader;
  for (const FitDocument& document : documents) {
    if (!document.object.IsObject()) {
      return Fail(ErrorCode::kInvalid, document.where + ": must be an object");
    }
    TRY(reader.Add(document));
  }
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
  std::vector<FitDocument> documents;
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

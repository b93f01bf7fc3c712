// SPDX-License-Identifier: Apache-2.0
#include "operator/gang_probe.h"

#include <algorithm>
#include <utility>

#include "api/meta.h"
#include "api/request.h"
#include "base/names.h"
#include "reconciler/gang.h"

namespace tutti {
namespace {

using State = reconciler::GangFinding::State;

constexpr std::string_view kGroup = "tutti-gang-probe";
constexpr std::string_view kMember = "tutti-gang-probe-member";
constexpr std::string_view kFree = "tutti-gang-probe-free";

const Json* FindCondition(const Json& object, std::string_view type) {
  for (const Json& condition : object["status"]["conditions"].AsArray()) {
    if (condition["type"].AsString() == type) {
      return &condition;
    }
  }
  return nullptr;
}

bool Gone(const Result<Json>& answer) {
  return !answer && answer.error().code == ErrorCode::kNotFound;
}

// The scheduler has tried to place it. A pod that its gang holds back gets no condition at all.
bool LookedAt(const Json& pod) {
  return FindCondition(pod, "PodScheduled") != nullptr ||
         !pod["spec"]["nodeName"].AsString().empty();
}

}  // namespace

struct GangProbe::Impl : std::enable_shared_from_this<GangProbe::Impl> {
  std::string ns;
  reconciler::GangApi api = reconciler::GangApi::kNone;
  Dependencies with;
  std::function<void(const reconciler::GangFinding&)> proved;
  std::function<void(const std::string&)> kept;
  bool running = false;
  bool told = false;
  bool stripped = false;
  uint64_t generation = 0;  // of the probe; answers to an older one are dropped
  Time began = kNoTime;     // the present step
  Time free_seen = kNoTime;
  Time member_seen = kNoTime;

  using Then = std::function<void(Result<Json>)>;

  // Answers arrive on I/O threads and are dropped when the probe is gone.
  kube::JsonCallback OnLoop(Then then) {
    return [weak = weak_from_this(), loop = with.loop, of = generation,
            then = std::move(then)](Result<Json> answer) mutable {
      loop->Post([weak, of, then = std::move(then), answer = std::move(answer)]() mutable {
        const auto self = weak.lock();
        if (self != nullptr && self->running && self->generation == of) {
          then(std::move(answer));
        }
      });
    };
  }
  void Later(Duration wait, void (Impl::*step)()) {
    with.loop->PostAt(with.loop->Now() + wait, [weak = weak_from_this(), of = generation, step] {
      const auto self = weak.lock();
      if (self != nullptr && self->running && self->generation == of) {
        ((*self).*step)();
      }
    });
  }
  void Send(const api::WriteRequest& write, Then then) {
    if (!with.may_write()) {
      running = false;
      return;
    }
    with.client->Do(write, OnLoop(std::move(then)));
  }
  void Get(const api::Resource& resource, std::string_view name, Then then) {
    with.client->Get(resource, {ns, std::string(name)}, OnLoop(std::move(then)));
  }
  static api::Resource Pods() { return api::ResourceOf(api::Kind::kPod); }
  [[nodiscard]] api::Resource Groups() const { return reconciler::PodGroupResource(api); }

  [[nodiscard]] api::WriteRequest Request(api::Verb verb, api::Resource resource,
                                          std::string_view name) const {
    api::WriteRequest write;
    write.verb = verb;
    write.resource = std::move(resource);
    write.key = {ns, std::string(name)};
    write.field_manager = names::kUpdateManager;
    return write;
  }

  [[nodiscard]] api::WriteRequest CreateGroup() const {
    api::WriteRequest write = Request(api::Verb::kCreate, Groups(), kGroup);
    write.body = Json::Obj(
        {{"apiVersion", write.resource.ApiVersion()},
         {"kind", write.resource.kind},
         {"metadata", Json::Obj({{"name", kGroup}, {"namespace", ns}})},
         {"spec",
          Json::Obj({{"schedulingPolicy", Json::Obj({{"gang", Json::Obj({{"minCount", 2}})}})}})}});
    return write;
  }

  // Fits the strictest pod security standard and any quota, and can't be run: it asks for nodes
  // that have a label and don't have it.
  [[nodiscard]] api::WriteRequest CreatePod(std::string_view name, bool in_group) const {
    api::WriteRequest write = Request(api::Verb::kCreate, Pods(), name);
    Json metadata = Json::Obj({{"name", name}, {"namespace", ns}});
    if (in_group) {
      metadata.Set("labels", Json::Obj({{std::string(names::kPodGroupLabel), kGroup}}));
    }
    const Json amounts = Json::Obj({{"cpu", "1m"}, {"memory", "1Mi"}});
    const auto has = [](const char* op) {
      return Json::Obj({{"key", "kubernetes.io/hostname"}, {"operator", op}});
    };
    Json no_node = Json::Obj(
        {{"nodeAffinity",
          Json::Obj(
              {{"requiredDuringSchedulingIgnoredDuringExecution",
                Json::Obj({{"nodeSelectorTerms",
                            Json::Arr({Json::Obj(
                                {{"matchExpressions",
                                  Json::Arr({has("Exists"), has("DoesNotExist")})}})})}})}})}});
    Json container =
        Json::Obj({{"name", "never-started"},
                   {"image", "tutti.dev/never-started"},
                   {"imagePullPolicy", "Never"},
                   {"resources", Json::Obj({{"requests", amounts}, {"limits", amounts}})},
                   {"securityContext",
                    Json::Obj({{"allowPrivilegeEscalation", false},
                               {"capabilities", Json::Obj({{"drop", Json::Arr({"ALL"})}})}})}});
    write.body = Json::Obj(
        {{"apiVersion", "v1"},
         {"kind", "Pod"},
         {"metadata", std::move(metadata)},
         {"spec",
          Json::Obj({{"restartPolicy", "Never"},
                     {"terminationGracePeriodSeconds", 0},
                     {"automountServiceAccountToken", false},
                     {"enableServiceLinks", false},
                     {"securityContext",
                      Json::Obj({{"runAsNonRoot", true},
                                 {"runAsUser", 65534},
                                 {"seccompProfile", Json::Obj({{"type", "RuntimeDefault"}})}})},
                     {"affinity", std::move(no_node)},
                     {"containers", Json::Arr({std::move(container)})}})}});
    return write;
  }

  // --- the steps ---

  void Begin() {
    began = with.loop->Now();
    Delete([this] { AwaitEmpty(); });
  }

  // The three objects, in an order that frees the group; what is absent is fine.
  void Delete(std::function<void()> then) {
    api::WriteRequest pod = Request(api::Verb::kDelete, Pods(), kMember);
    pod.body = Json::Obj({{"gracePeriodSeconds", 0}});
    api::WriteRequest other = pod;
    other.key.name = kFree;
    Send(pod, [this, other, then = std::move(then)](const Result<Json>&) mutable {
      Send(other, [this, then = std::move(then)](const Result<Json>&) mutable {
        Send(Request(api::Verb::kDelete, Groups(), kGroup),
             [then = std::move(then)](const Result<Json>&) { then(); });
      });
    });
  }

  void AwaitEmpty() {
    Get(Pods(), kMember, [this](const Result<Json>& member) {
      Get(Pods(), kFree, [this, gone = Gone(member)](const Result<Json>& free) {
        Get(Groups(), kGroup, [this, gone = gone && Gone(free)](const Result<Json>& group) {
          if (gone && Gone(group)) {
            if (told) {
              running = false;
            } else {
              Make();
            }
            return;
          }
          if (group && gone && !stripped && with.loop->Now() - began >= kGroupGrace) {
            Strip();
            return;
          }
          if (with.loop->Now() - began >= kPatience) {
            Finish({State::kUnproven,
                    "the pods of an earlier probe in namespace " + ns + " don't go away"});
            running = false;
            return;
          }
          Later(kPoll, &Impl::AwaitEmpty);
        });
      });
    });
  }

  void Strip() {
    stripped = true;
    if (kept) {
      kept("PodGroup " + std::string(kGroup) +
           " was not let go after its last pod: the feature gate GenericWorkload is off in "
           "kube-controller-manager; Tutti takes the finalizers off itself");
    }
    began = with.loop->Now();
    Send(reconciler::StripGroup(api, {ns, std::string(kGroup)}),
         [this](const Result<Json>&) { AwaitEmpty(); });
  }

  void Make() {
    began = with.loop->Now();
    free_seen = kNoTime;
    Send(CreateGroup(), [this](const Result<Json>& group) {
      if (!group) {
        Finish(
            {State::kUnproven, "the probe's PodGroup can't be created: " + group.error().message});
        CleanUp();
        return;
      }
      MakeMember();
    });
  }

  void MakeMember() {
    Send(CreatePod(kMember, /*in_group=*/true), [this](const Result<Json>& pod) {
      const std::string& group =
          pod ? (*pod)["spec"]["schedulingGroup"]["podGroupName"].AsString() : "";
      if (pod && group == kGroup) {
        MakeFree();
        return;
      }
      if (with.loop->Now() - began < kPolicyPatience) {
        Send(Request(api::Verb::kDelete, Pods(), kMember),
             [this](const Result<Json>&) { Later(kPoll, &Impl::MakeMember); });
        return;
      }
      if (pod) {
        Finish({State::kDoesNotGate,
                "pods are not put into their group: the policy tutti-pod-joins-group does not "
                "act, or the feature gate GenericWorkload is off in kube-apiserver"});
      } else if (pod.error().message.find("spec.schedulingGroup") != std::string::npos) {
        Finish({State::kDoesNotGate,
                "kube-apiserver drops spec.schedulingGroup of pods (feature gate GenericWorkload), "
                "or the policy tutti-pod-joins-group does not act: " +
                    pod.error().message});
      } else {
        Finish({State::kUnproven, "the probe's pod can't be created in namespace " + ns + ": " +
                                      pod.error().message});
      }
      CleanUp();
    });
  }

  void MakeFree() {
    Send(CreatePod(kFree, /*in_group=*/false), [this](const Result<Json>& pod) {
      if (!pod) {
        Finish({State::kUnproven, "the probe's pod can't be created in namespace " + ns + ": " +
                                      pod.error().message});
        CleanUp();
        return;
      }
      began = with.loop->Now();
      Look();
    });
  }

  void Look() {
    Get(Pods(), kFree, [this](const Result<Json>& free) {
      if (free && LookedAt(*free) && free_seen == kNoTime) {
        free_seen = with.loop->Now();
      }
      Get(Pods(), kMember, [this](const Result<Json>& member) {
        if (member && LookedAt(*member)) {
          member_seen = with.loop->Now();
          Blame();
          return;
        }
        const Time now = with.loop->Now();
        if (member && free_seen != kNoTime && now - free_seen >= kSettle) {
          Finish({State::kGates,
                  "kube-scheduler holds a pod back that is alone in its "
                  "gang"});
          CleanUp();
          return;
        }
        if (Gone(member) || now - began >= kPatience) {
          Finish({State::kUnproven,
                  !Gone(member)
                      ? "kube-scheduler has not looked at the probe's pods in namespace " + ns +
                            ": is it running?"
                      : "the probe's pod is gone: " + member.error().message});
          CleanUp();
          return;
        }
        Later(kPoll, &Impl::Look);
      });
    });
  }

  // The scheduler writes a condition of the group exactly where it knows of groups, and in a write
  // of its own: it may come after that of the pod.
  void Blame() {
    if (api == reconciler::GangApi::kV1Beta1) {
      FinishUngated("GenericWorkload");  // the only gate there
      return;
    }
    Get(Groups(), kGroup, [this](const Result<Json>& group) {
      if (group && !(*group)["status"]["conditions"].AsArray().empty()) {
        FinishUngated("GangScheduling");
      } else if (with.loop->Now() - member_seen >= kSettle) {
        FinishUngated("GenericWorkload");
      } else {
        Later(kPoll, &Impl::Blame);
      }
    });
  }

  void FinishUngated(std::string_view gate) {
    Finish(
        {State::kDoesNotGate, "kube-scheduler places pods of a gang one by one: the feature gate " +
                                  std::string(gate) + " is off in it"});
    CleanUp();
  }

  void Finish(const reconciler::GangFinding& proof) {
    if (!std::exchange(told, true)) {
      proved(proof);
    }
  }

  void CleanUp() {
    began = with.loop->Now();
    Delete([this] { AwaitEmpty(); });
  }
};

GangProbe::GangProbe(std::string ns, reconciler::GangApi api, Dependencies dependencies)
    : impl_(std::make_shared<Impl>()) {
  impl_->ns = std::move(ns);
  impl_->api = api;
  impl_->with = dependencies;
}
GangProbe::~GangProbe() = default;

void GangProbe::Start(std::function<void(const reconciler::GangFinding&)> proved,
                      std::function<void(const std::string&)> kept) {
  ++impl_->generation;
  impl_->proved = std::move(proved);
  impl_->kept = std::move(kept);
  impl_->running = true;
  impl_->told = false;
  impl_->stripped = false;
  impl_->Begin();
}

bool GangProbe::Running() const {
  return impl_->running;
}

}  // namespace tutti

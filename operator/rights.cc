// SPDX-License-Identifier: Apache-2.0
#include "operator/rights.h"

#include <memory>
#include <utility>

#include "api/request.h"
#include "base/json.h"

namespace tutti {
namespace {

struct Search : std::enable_shared_from_this<Search> {
  kube::Client* client = nullptr;
  std::vector<Right> wanted;  // the next one last
  std::function<void(Result<std::optional<Right>>)> done;

  void AskNext() {
    if (wanted.empty()) {
      done(std::optional<Right>());
      return;
    }
    const Right& right = wanted.back();
    api::WriteRequest review;
    review.verb = api::Verb::kCreate;
    review.resource = {"authorization.k8s.io", "v1", "selfsubjectaccessreviews",
                       "SelfSubjectAccessReview", false};
    review.body = Json::Obj(
        {{"apiVersion", "authorization.k8s.io/v1"},
         {"kind", "SelfSubjectAccessReview"},
         {"spec", Json::Obj({{"resourceAttributes", Json::Obj({{"group", right.resource.group},
                                                               {"resource", right.resource.plural},
                                                               {"verb", right.verb}})}})}});
    client->Do(review,
               [self = shared_from_this()](const Result<Json>& answer) { self->Take(answer); });
  }

  void Take(const Result<Json>& answer) {
    const bool refused = !answer && (answer.error().code == ErrorCode::kForbidden ||
                                     answer.error().code == ErrorCode::kNotFound ||
                                     answer.error().code == ErrorCode::kInvalid);
    if (!answer && !refused) {
      done(Fail(answer.error().With("SelfSubjectAccessReview")));
      return;
    }
    if (refused || !(*answer)["status"]["allowed"].AsBool()) {
      done(std::optional<Right>(std::move(wanted.back())));
      return;
    }
    wanted.pop_back();
    AskNext();
  }
};

}  // namespace

std::vector<Right> RightsForVolumes() {
  std::vector<Right> out;
  for (const api::Kind kind : {api::Kind::kPersistentVolumeClaim, api::Kind::kPersistentVolume,
                               api::Kind::kStorageClass, api::Kind::kCsiNode, api::Kind::kCsiDriver,
                               api::Kind::kCsiStorageCapacity, api::Kind::kVolumeAttachment}) {
    for (const char* verb : {"list", "watch"}) {
      out.push_back({api::ResourceOf(kind), verb});
    }
  }
  return out;
}

void FindMissingRight(kube::Client& client, std::vector<Right> wanted,
                      std::function<void(Result<std::optional<Right>>)> done) {
  auto search = std::make_shared<Search>();
  search->client = &client;
  search->wanted.assign(std::make_move_iterator(wanted.rbegin()),
                        std::make_move_iterator(wanted.rend()));
  search->done = std::move(done);
  search->AskNext();
}

}  // namespace tutti

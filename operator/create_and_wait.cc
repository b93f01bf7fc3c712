// SPDX-License-Identifier: Apache-2.0
#include "operator/create_and_wait.h"

#include <chrono>
#include <future>
#include <memory>
#include <utility>

namespace tutti {
namespace {

constexpr std::chrono::milliseconds kReviewLimit{5000};

}  // namespace

Result<Json> CreateAndWait(kube::Client& client, const api::Resource& resource, Json body) {
  api::WriteRequest request;
  request.verb = api::Verb::kCreate;
  request.resource = resource;
  request.body = std::move(body);
  const auto answer = std::make_shared<std::promise<Result<Json>>>();
  auto future = answer->get_future();
  client.Do(
      request, [answer](Result<Json> result) { answer->set_value(std::move(result)); },
      kReviewLimit);
  // The client has its own deadline; this one is for a client that is closed meanwhile.
  if (future.wait_for(2 * kReviewLimit) != std::future_status::ready) {
    return Fail(ErrorCode::kTimeout, "no answer");
  }
  return future.get();
}

}  // namespace tutti

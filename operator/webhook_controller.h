// SPDX-License-Identifier: Apache-2.0
// Runs the webhook server where a webhook configuration of ours exists or a
// CustomResourceDefinition asks for conversion by us: looks for these and the Secret, follows
// webhook_certs.h's plan, serves what the Secret holds. Every replica serves; only the acting one
// writes. Lives on the loop thread; I/O answers are posted to it.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "kube/client.h"
#include "kube/executor.h"
#include "kube/loop.h"
#include "operator/config.h"
#include "operator/metrics.h"
#include "operator/visibility.h"
#include "reconciler/world.h"

namespace tutti {

class WebhookController {
 public:
  struct Dependencies {
    kube::Loop* loop = nullptr;
    kube::Client* client = nullptr;
    kube::Executor* executor = nullptr;
    Metrics* metrics = nullptr;
    std::function<bool()> may_write;  // asked on the loop
    visibility::Lookup pending;       // called on the visibility server's threads
  };

  WebhookController(const Config& config, Dependencies dependencies);
  ~WebhookController();  // stops the servers
  WebhookController(const WebhookController&) = delete;
  WebhookController& operator=(const WebhookController&) = delete;

  void Start();
  // Whether pods with our label are put into spec.schedulingGroup.
  void SetPodGroups(bool served);
  // What the rules need to know of other objects; looks at all of them.
  void SetWorld(const reconciler::World& world);
  // SetWorld would change nothing.
  [[nodiscard]] bool Knows(const reconciler::World& world) const;
  // 0 while nothing is served.
  [[nodiscard]] uint16_t port() const;
  [[nodiscard]] uint16_t visibility_port() const;
  // From any thread. "" = nobody calls us, or it is served and trusted; otherwise
  // what is missing, for the readiness probe.
  [[nodiscard]] std::string NotReady() const;

 private:
  struct Impl;
  std::shared_ptr<Impl> impl_;
};

}  // namespace tutti

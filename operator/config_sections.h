// SPDX-License-Identifier: Apache-2.0
// The sections of Kueue's Configuration, read into Config. Parts of config.cc; pure. `v1beta1`: the
// document is of that version, which has some fields and defaults of its own.
#pragma once

#include "operator/config.h"
#include "operator/config_reader.h"

namespace tutti {

// webhook, metrics, health, leaderElection, controller, tls, certificates, client, visibility
void ReadManager(Section* root, bool v1beta1, Config* config);
// Which jobs and resources are managed, and how: selectors, integrations, resources, waiting for
// pods, fair sharing, MultiKueue, retention. REQUIRES: the gates have been read.
void ReadJobs(Section* root, bool v1beta1, Config* config);
// Refuses what this version doesn't do and notes what has no effect. The one place to change when a
// feature arrives.
void CheckBuilt(Section* root, Config* config);

// A LabelSelector with strict fields. Keeps `*out` when absent.
void ReadSelector(Section* parent, std::string_view field, api::LabelSelector* out);

}  // namespace tutti

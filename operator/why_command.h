// SPDX-License-Identifier: Apache-2.0
// `tutti why`: reads dumps or a cluster, with GET requests only, asks why/answer.h, prints.
#pragma once

#include <string>
#include <vector>

namespace tutti {

struct WhyFlags {
  std::string target;               // "job/train"
  std::vector<std::string> inputs;  // files and folders, "-" for standard input; none: a cluster
  std::string kubeconfig;
  std::string context;
  std::string ns = "default";
  std::string config;  // the controller's configuration file; "" = its defaults
  std::string at;      // of a dump
  bool quota_only = false;
  int trials = 400;
  std::string output = "text";
  int width = 0;  // columns; 0: of the terminal
};

// The exit code: 0 with an answer, whatever it says; 2 without one.
int RunWhy(const WhyFlags& flags);

}  // namespace tutti

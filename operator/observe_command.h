// SPDX-License-Identifier: Apache-2.0
// `tutti observe`: what mode Observe has noted in its ledger: how many decisions of the live
// controller were foreseen, and the others one by one.
#pragma once

#include <string>

namespace tutti {

struct ObserveFlags {
  std::string ledger = "/var/lib/tutti/ledger.db";
  int last = 1000;
  std::string output = "text";
  int width = 0;  // columns; 0: of the terminal
};

// The exit code: 0, or 2: no ledger, or one that can't be read.
int RunObserve(const ObserveFlags& flags);

}  // namespace tutti

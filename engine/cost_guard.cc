// SPDX-License-Identifier: Apache-2.0
// Fixed work of the engine, for counting instructions: times differ from run to run and from
// machine to machine, instructions hardly. `cost_guard NAME` does one piece; only what happens in
// Measured* counts. tools/cost_guard.py runs them and compares with testdata/costs.txt.
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "engine/testing/scale.h"

namespace tutti::engine {
namespace {

using testing::Name;
using testing::Scale;

#define TUTTI_MEASURED [[gnu::noinline, gnu::used]]

// 5,000 workloads in 10 queues are admitted.
TUTTI_MEASURED size_t MeasuredAdmissions(Scale& scale) {
  return scale.engine().RunPass(kNoTime).admitted.size();
}

bool Admissions() {
  Scale scale;
  for (int64_t i = 0; i < 10; ++i) {
    scale.AddQueue(testing::Queue(Name(i), "", int64_t{1} << 50));
  }
  for (int64_t number = 0; number < 5000; ++number) {
    scale.engine().SetPending(scale.Workload(number, Name(number % 10)));
  }
  return MeasuredAdmissions(scale) == 5000;
}

// 500 workloads arrive in 100 full queues, are told why they wait, and go.
TUTTI_MEASURED bool MeasuredArrivals(Scale& scale, const std::vector<WorkloadInput>& inputs) {
  bool waits = true;
  for (const WorkloadInput& input : inputs) {
    scale.engine().SetPending(input);
    waits = scale.engine().RunPass(kNoTime).admitted.empty() && waits;
    scale.engine().Remove(input.id);
  }
  return waits;
}

bool Arrivals() {
  const std::unique_ptr<Scale> scale = testing::Full(100, 5000);
  std::vector<WorkloadInput> inputs;
  for (int64_t number = 10000; number < 10500; ++number) {
    inputs.push_back(scale->Workload(number, Name(number % 100)));
  }
  return MeasuredArrivals(*scale, inputs);
}

// 500 workloads end in 100 queues, the next one of each is admitted.
TUTTI_MEASURED size_t MeasuredEnds(Scale& scale) {
  size_t admitted = 0;
  for (int64_t number = 0; number < 500; ++number) {
    scale.engine().Remove(Scale::Id(number));
    admitted += scale.engine().RunPass(kNoTime).admitted.size();
  }
  return admitted;
}

bool Ends() {
  const std::unique_ptr<Scale> scale = testing::Full(100, 5000);
  return MeasuredEnds(*scale) == 500;
}

// Ten times somebody wants back what 800 others borrow.
TUTTI_MEASURED size_t MeasuredPreemption(Scale& scale, const std::vector<WorkloadInput>& inputs) {
  size_t victims = 0;
  for (const WorkloadInput& input : inputs) {
    scale.engine().SetPending(input);
    const PassResult result = scale.engine().RunPass(kNoTime);
    scale.engine().Remove(input.id);
    for (const PreemptDecision& victim : result.preempted) {
      scale.engine().MarkEvicting(victim.id, false);
    }
    victims += result.preempted.size();
  }
  return victims;
}

bool Preemption() {
  const std::unique_ptr<Scale> scale = testing::Lent(800);
  if (scale == nullptr) {
    return false;
  }
  std::vector<WorkloadInput> inputs;
  for (int64_t number = 10000; number < 10010; ++number) {
    inputs.push_back(scale->Workload(number, "lender", 100));
    inputs.back().pod_sets[0].count = 3;
  }
  return MeasuredPreemption(*scale, inputs) >= 10;
}

// Twenty times one of 200 queues with fair sharing gets a free place.
TUTTI_MEASURED size_t MeasuredFairSharing(Scale& scale, const std::vector<std::string>& running) {
  size_t admitted = 0;
  for (size_t i = 0; i < 20; ++i) {
    scale.engine().Remove(running[i]);
    admitted += scale.engine().RunPass(kNoTime).admitted.size();
  }
  return admitted;
}

bool FairShares() {
  std::vector<std::string> running;
  const std::unique_ptr<Scale> scale = testing::Shared(200, running);
  return running.size() > 20 && MeasuredFairSharing(*scale, running) > 0;
}

}  // namespace
}  // namespace tutti::engine

int main(int argc, char** argv) {
  const std::string_view name = argc == 2 ? argv[1] : "";
  bool (*work)() = name == "admissions"     ? tutti::engine::Admissions
                   : name == "arrivals"     ? tutti::engine::Arrivals
                   : name == "ends"         ? tutti::engine::Ends
                   : name == "preemption"   ? tutti::engine::Preemption
                   : name == "fair-sharing" ? tutti::engine::FairShares
                                            : nullptr;
  if (work == nullptr) {
    return 2;  // unknown
  }
  return work() ? 0 : 1;
}

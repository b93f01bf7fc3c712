// SPDX-License-Identifier: Apache-2.0
// audit_dump JOBS PODS_PER_JOB NODES PADDING: a made-up dump on standard output, to measure with.
#include <cstdio>
#include <cstdlib>

#include "audit/testing/dump.h"

int main(int argc, char** argv) {
  if (argc != 5) {
    std::fprintf(stderr, "usage: audit_dump JOBS PODS_PER_JOB NODES PADDING\n");
    return 2;
  }
  tutti::audit::planted::DumpOptions options;
  options.jobs = std::atoi(argv[1]);
  options.pods_per_job = std::atoi(argv[2]);
  options.nodes = std::atoi(argv[3]);
  options.padding = std::atoi(argv[4]);
  const auto truth = tutti::audit::planted::WriteDump(
      options, [](std::string_view text) { std::fwrite(text.data(), 1, text.size(), stdout); });
  std::fprintf(stderr, "%zu planted, %lld device-seconds\n", truth.planted.size(),
               static_cast<long long>(truth.device_seconds));
  return 0;
}

// SPDX-License-Identifier: Apache-2.0
#include "kube/token_source.h"

#include <algorithm>
#include <fstream>
#include <iterator>
#include <utility>

#include "base/log.h"

namespace tutti::kube {
namespace {

using SteadyClock = std::chrono::steady_clock;
constexpr auto kTokenAge = std::chrono::minutes(1);

}  // namespace

std::string TokenSource::Get() {
  const std::lock_guard lock(mutex_);
  if (!file_.empty() && SteadyClock::now() >= stale_at_) {
    std::ifstream in(file_);
    std::string text{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
    while (!text.empty() && (text.back() == '\n' || text.back() == '\r' || text.back() == ' ')) {
      text.pop_back();
    }
    if (!text.empty()) {
      token_ = std::move(text);
    } else {
      log::Warn("token file can't be read", {{"file", file_}});
    }
    stale_at_ = SteadyClock::now() + kTokenAge;
  }
  return token_;
}

void TokenSource::OnUnauthorized() {
  const std::lock_guard lock(mutex_);
  stale_at_ = std::min(stale_at_, SteadyClock::now() + std::chrono::seconds(1));
}

}  // namespace tutti::kube

// SPDX-License-Identifier: Apache-2.0
#include "operator/event_writer.h"

#include <optional>
#include <utility>

#include "base/log.h"

namespace tutti {
namespace {

kube::EventOptions OptionsFor(std::string instance) {
  kube::EventOptions options;
  options.instance = std::move(instance);
  return options;
}

void TellFailure(const kube::WriteOutcome& outcome) {
  if (outcome.result) {
    return;
  }
  const ErrorCode code = outcome.result.error().code;
  const bool refused = code == ErrorCode::kInvalid || code == ErrorCode::kForbidden;
  log::Write(refused ? log::Level::kWarn : log::Level::kDebug, "event not written",
             {{"error", outcome.result.error().message}});
}

}  // namespace

EventWriter::EventWriter(kube::Loop& loop, kube::Executor& executor, Metrics& metrics,
                         std::string instance)
    : loop_(loop),
      metrics_(metrics),
      recorder_(OptionsFor(std::move(instance)),
                [&executor](const std::string& key, api::WriteRequest request) {
                  executor.Submit(key, {std::move(request)}, 0, TellFailure,
                                  kube::WritePriority::kBackground);
                }) {}

void EventWriter::Carry(const reconciler::Output& output) {
  const Time now = loop_.Now();
  for (const reconciler::Effect& effect : output.effects) {
    if (!effect.tells) {
      recorder_.GiveWay(now);
    }
  }
  for (const reconciler::EventRecord& event : output.events) {
    recorder_.Record(
        {event.api_version, event.kind, event.object.ns, event.object.name, event.uid, ""},
        event.warning ? "Warning" : "Normal", event.reason, event.message, now, event.any_message);
  }
  Pump();
}

void EventWriter::Pump() {
  const std::optional<Time> next = recorder_.Pump(loop_.Now());
  if (next.has_value() && !pump_planned_) {
    pump_planned_ = true;
    loop_.PostAt(*next, [this] {
      pump_planned_ = false;
      Pump();
    });
  }
}

void EventWriter::Housekeeping() {
  recorder_.Flush(loop_.Now());
  const auto count = [&](std::string_view outcome, uint64_t now, uint64_t& seen) {
    metrics_.Add(Metric::kEvents, {outcome}, static_cast<double>(now - seen));
    seen = now;
  };
  count("written", recorder_.Written(), seen_.written);
  count("coalesced", recorder_.Coalesced(), seen_.coalesced);
  count("dropped", recorder_.Dropped(), seen_.dropped);
  metrics_.Set(Metric::kToTell, {"events"}, static_cast<double>(recorder_.Waiting()));
}

}  // namespace tutti

// SPDX-License-Identifier: Apache-2.0
#include "operator/why_command.h"

#include <chrono>
#include <cstdio>
#include <map>
#include <string_view>
#include <utility>

#include "base/names.h"
#include "cli/objects.h"
#include "operator/bridge.h"
#include "operator/config.h"
#include "operator/conversion.h"
#include "operator/dumps.h"
#include "operator/read_cluster.h"
#include "operator/suggest.h"
#include "operator/terminal.h"
#include "why/answer.h"

namespace tutti {
namespace {

constexpr int kExitBadInput = 2;

Result<reconciler::Options> OptionsFor(const WhyFlags& flags) {
  TRY_ASSIGN(const Config config, LoadConfig(flags.config, {}));
  reconciler::Options options = ToOptions(config, {});
  if (flags.quota_only) {
    options.capacity = reconciler::CapacityChoice::kOff;
  }
  // Nothing is taken back while one looks.
  options.wait_for_pods_ready.enabled = false;
  return options;
}

// Objects into the state; what can't be used becomes a note, many alike one note.
class Intake {
 public:
  explicit Intake(why::State& state) : state_(state) {}

  void Take(const Json& object) {
    if (!why::State::Knows(object)) {
      return;
    }
    Json current = object;
    const std::string& version = object["apiVersion"].AsString();
    if (version.starts_with(names::kKueueGroup) && version != names::kKueueVersion) {
      if (const Status converted = conversion::Convert(&current, names::kKueueVersion);
          !converted) {
        Problem(object, converted.error().message);
        return;
      }
      current.Set("apiVersion", names::kKueueVersion);
    }
    if (const Status taken = state_.Take(current); !taken) {
      Problem(object, taken.error().message);
    }
  }
  void Note(std::string text) { notes_.push_back(std::move(text)); }

  std::vector<std::string> Notes() {
    for (auto& [kind, problem] : problems_) {
      notes_.push_back(cli::Count(problem.first, kind) + " left out: " + problem.second);
    }
    if (state_.Assumed() > 0) {
      notes_.push_back(cli::Count(state_.Assumed(), "namespace") +
                       " not in the input: taken to have no label but the name");
    }
    if (state_.Names("Node").empty()) {
      notes_.emplace_back("no Node in the input: quota alone decides");
    }
    return std::move(notes_);
  }

 private:
  void Problem(const Json& object, const std::string& text) {
    auto& [count, first] = problems_[object["kind"].AsString()];
    if (++count == 1) {
      first = text;
    }
  }

  why::State& state_;
  std::map<std::string, std::pair<size_t, std::string>> problems_;
  std::vector<std::string> notes_;
};

std::string Suggestion(const why::State& state, const why::Target& target) {
  for (const api::ObjectKey& key : state.Names(target.object)) {
    if (key.name == target.key.name) {
      return "; namespace " + key.ns + " has one (-n " + key.ns + ")";
    }
  }
  const std::vector<std::string> names = why::Candidates(state, target);
  const std::vector<std::string_view> known(names.begin(), names.end());
  std::string text = DidYouMean(target.key.name, known);
  if (text.empty() && known.empty() && !target.key.ns.empty()) {
    text = "; there is none in namespace " + target.key.ns + " (-n names another one)";
  }
  return text;
}

Result<why::Answer> Make(const WhyFlags& flags) {
  TRY_ASSIGN(const why::Target target, why::ParseTarget(flags.target, flags.ns));
  TRY_ASSIGN(reconciler::Options options, OptionsFor(flags));
  std::optional<Time> now;
  if (!flags.at.empty()) {
    const Result<Time> at = ParseTime(flags.at);
    if (!at) {
      return Fail(ErrorCode::kInvalid,
                  "--at: must be a time such as 2026-12-01T12:00:00Z, is \"" + flags.at + "\"");
    }
    now = *at;
  }
  why::State state(std::move(options));
  Intake intake(state);
  const ObjectSink sink = {[&](const Json& object, const std::string&) { intake.Take(object); },
                           [&](std::string text) { intake.Note(std::move(text)); }};
  std::string source;
  if (flags.inputs.empty()) {
    TRY_ASSIGN(source, ReadCluster({.user_agent = "tutti-why",
                                    .kubeconfig = flags.kubeconfig,
                                    .context = flags.context,
                                    .fallback_ns = flags.ns,
                                    .for_decisions = true},
                                   sink));
    if (!now) {
      now = std::chrono::floor<std::chrono::seconds>(std::chrono::system_clock::now());
    }
  } else {
    TRY(ReadDumps(flags.inputs, sink));
    for (const std::string& input : flags.inputs) {
      source += (source.empty() ? "" : ", ") + (input == "-" ? "standard input" : input);
    }
  }
  state.Finish();
  const why::SearchLimits limits{static_cast<size_t>(flags.trials)};
  Result<why::Answer> answer = why::Explain(state, target, now.value_or(state.Newest()), limits);
  if (!answer) {
    std::string text = answer.error().message + Suggestion(state, target);
    for (const std::string& note : intake.Notes()) {
      text += "\n  note: " + note;
    }
    return Fail(answer.error().code, std::move(text));
  }
  answer->source = std::move(source);
  for (std::string& note : intake.Notes()) {
    answer->notes.push_back(std::move(note));
  }
  return answer;
}

}  // namespace

int RunWhy(const WhyFlags& flags) {
  const Result<why::Answer> answer = Make(flags);
  if (!answer) {
    std::fprintf(stderr, "tutti why: %s\n", answer.error().message.c_str());
    return kExitBadInput;
  }
  const std::string text = flags.output == "json"
                               ? why::ToJson(*answer).Dump() + "\n"
                               : why::ToText(*answer, TerminalWidth(flags.width));
  std::fputs(text.c_str(), stdout);
  return 0;
}

}  // namespace tutti

// SPDX-License-Identifier: Apache-2.0
#include "operator/audit_command.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <utility>

#include <sys/ioctl.h>
#include <unistd.h>

#include "audit/object_stream.h"
#include "audit/propose.h"
#include "audit/report.h"
#include "audit/yaml_text.h"
#include "operator/audit_cluster.h"
#include "operator/documents.h"

namespace tutti {
namespace {

constexpr int kExitBadInput = 2;
constexpr size_t kPiece = 1 << 20;
constexpr int kNarrow = 80;
constexpr int kWide = 120;
constexpr std::string_view kSpace = " \t\r\n";

constexpr std::string_view kHowToDump =
    R"(# Everything that an audit looks at, as files. Only reads; needs kubectl and jq.
# jq takes out what may be secret and is not needed: environment, commands, images, annotations that repeat
# the whole object. Names of jobs, namespaces and nodes stay, since the report names them.
mkdir -p dump
redact='del(.. | .env?, .envFrom?, .command?, .args?, .image?, .imageID?, .managedFields?,
  ."kubectl.kubernetes.io/last-applied-configuration"?)'
kubectl get nodes,pods,jobs.batch,limitranges,runtimeclasses -A -o json | jq -c "$redact" > dump/core.json
kubectl get leases -n kube-node-lease -o json > dump/clock.json   # tells the time of the dump

# What of these there is; errors of the others don't matter:
kubectl get workloads.kueue.x-k8s.io,clusterqueues.kueue.x-k8s.io,localqueues.kueue.x-k8s.io,resourceflavors.kueue.x-k8s.io -A -o json | jq -c "$redact" > dump/kueue.json
kubectl get podgroups.scheduling.k8s.io -A -o json > dump/podgroups.json
kubectl get jobsets.jobset.x-k8s.io -A -o json | jq -c "$redact" > dump/jobsets.json
kubectl get jobs.batch.volcano.sh,podgroups.scheduling.volcano.sh -A -o json | jq -c "$redact" > dump/volcano.json
kubectl get resourceslices,deviceclasses,resourceclaims,resourceclaimtemplates -A -o json > dump/devices.json
kubectl get pvc,pv,storageclasses,csinodes,csidrivers -A -o json > dump/volumes.json

tutti audit dump
)";

// A stream of bytes, piece by piece; YAML as a whole, since it is small.
void ReadStream(std::istream& in, const std::string& name, audit::Collector& collector,
                size_t& objects) {
  const auto take = [&](const Json& object, const std::string& where) {
    collector.Take(object, where);
  };
  std::string piece(kPiece, '\0');
  audit::ObjectStream stream(name, take);
  bool first = true;
  while (in) {
    in.read(piece.data(), static_cast<std::streamsize>(piece.size()));
    const std::string_view bytes(piece.data(), static_cast<size_t>(in.gcount()));
    const size_t begin = bytes.find_first_not_of(kSpace);
    if (first && begin != std::string_view::npos && bytes[begin] != '{' && bytes[begin] != '[') {
      std::string text(bytes);
      text.append(std::istreambuf_iterator<char>(in), {});
      Result<std::vector<Json>> documents = ReadDocuments(text);
      if (!documents) {
        collector.Note(name + " is left out: it is neither JSON nor YAML that can be read (" +
                       documents.error().message + ")");
        return;
      }
      for (const Json& document : *documents) {
        stream.Feed(document.Dump());
      }
    } else {
      stream.Feed(bytes);
    }
    first = false;
  }
  stream.Finish();
  objects += stream.Objects();
  for (std::string& problem : stream.Problems()) {
    collector.Note(std::move(problem));
  }
}

Result<std::vector<std::string>> FilesOf(const std::vector<std::string>& inputs) {
  std::vector<std::string> out;
  for (const std::string& input : inputs) {
    std::error_code error;
    if (input == "-" || !std::filesystem::is_directory(input, error)) {
      out.push_back(input);
      continue;
    }
    std::vector<std::string> found;
    for (const auto& entry : std::filesystem::directory_iterator(input, error)) {
      const std::string extension = entry.path().extension();
      if (extension == ".json" || extension == ".yaml" || extension == ".yml") {
        found.push_back(entry.path());
      }
    }
    if (found.empty()) {
      return Fail(ErrorCode::kInvalid, input + ": no file *.json, *.yaml or *.yml in it");
    }
    std::sort(found.begin(), found.end());
    out.insert(out.end(), found.begin(), found.end());
  }
  return out;
}

Status ReadFiles(const std::vector<std::string>& inputs, audit::Collector& collector) {
  TRY_ASSIGN(const std::vector<std::string> files, FilesOf(inputs));
  size_t objects = 0;
  for (const std::string& file : files) {
    if (file == "-") {
      ReadStream(std::cin, "standard input", collector, objects);
      continue;
    }
    std::ifstream in(file, std::ios::binary);
    if (!in) {
      return Fail(ErrorCode::kInvalid, file + ": can't be read");
    }
    ReadStream(in, file, collector, objects);
  }
  if (objects == 0) {
    return Fail(ErrorCode::kInvalid,
                "no object could be read; `tutti audit --how-to-dump` says how to make the files");
  }
  return {};
}

Result<audit::Prices> ReadPrices(const std::string& file) {
  if (file.empty()) {
    return audit::Prices::Examples();
  }
  std::ifstream in(file, std::ios::binary);
  const std::string text(std::istreambuf_iterator<char>(in), {});
  if (!in && text.empty()) {
    return Fail(ErrorCode::kInvalid, "--prices " + file + ": can't be read");
  }
  const Result<std::vector<Json>> documents = ReadDocuments(text);
  if (!documents) {
    return Fail(documents.error().With("--prices " + file));
  }
  if (documents->size() != 1) {
    return Fail(ErrorCode::kInvalid, "--prices " + file + ": must hold one document");
  }
  Result<audit::Prices> prices = audit::Prices::FromJson(documents->front());
  if (!prices) {
    return Fail(prices.error().With("--prices " + file));
  }
  return prices;
}

Status WriteFile(const std::string& path, const std::string& text) {
  std::ofstream out(path, std::ios::binary);
  out << text;
  out.close();
  if (!out) {
    return Fail(ErrorCode::kInvalid, path + ": can't be written");
  }
  return {};
}

// The proposed files, and what they change as one diff beside them. Into an empty or new folder
// only, so that nobody's work is overwritten.
Status WriteProposal(const std::string& folder, const audit::Audit& report) {
  namespace fs = std::filesystem;
  std::error_code error;
  fs::create_directories(folder, error);
  if (error || !fs::is_empty(folder, error) || error) {
    return Fail(ErrorCode::kInvalid, "--propose " + folder + ": must be a new or an empty folder");
  }
  std::string diff;
  const std::vector<audit::ProposedFile> files = audit::Propose(report);
  for (const audit::ProposedFile& file : files) {
    const fs::path path = fs::path(folder) / file.path;
    fs::create_directories(path.parent_path(), error);
    TRY(WriteFile(path.string(), file.after));
    diff += audit::UnifiedDiff(file.path, file.before, file.after);
  }
  TRY(WriteFile((fs::path(folder) / "changes.diff").string(), diff));
  std::fprintf(stderr, "%s in %s, what they change in changes.diff; nothing was applied\n",
               cli::Count(files.size(), "manifest").c_str(), folder.c_str());
  return {};
}

size_t Width(int wanted) {
  if (wanted > 0) {
    return static_cast<size_t>(wanted);
  }
  winsize size{};
  if (isatty(STDOUT_FILENO) != 0 && ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 &&
      size.ws_col > 0) {
    return static_cast<size_t>(std::min<int>(size.ws_col, kWide));
  }
  return kNarrow;
}

Result<audit::Audit> Make(const AuditFlags& flags) {
  audit::HistoryOptions options;
  options.count_loose = flags.count_work_queues;
  const Result<Duration> tolerance = ParseDuration(flags.tolerance);
  if (!tolerance || *tolerance < Duration::zero()) {
    return Fail(ErrorCode::kInvalid,
                "--tolerance: must be a duration such as 10s, is \"" + flags.tolerance + "\"");
  }
  options.tolerance = *tolerance;
  audit::CollectOptions collect;
  collect.keep_manifests = !flags.propose.empty();
  if (!flags.at.empty()) {
    const Result<Time> at = ParseTime(flags.at);
    if (!at) {
      return Fail(ErrorCode::kInvalid,
                  "--at: must be a time such as 2026-12-01T12:00:00Z, is \"" + flags.at + "\"");
    }
    collect.now = *at;
  }
  TRY_ASSIGN(audit::Prices prices, ReadPrices(flags.prices));
  std::string source;
  if (flags.inputs.empty() && !collect.now) {
    collect.now = std::chrono::floor<std::chrono::seconds>(std::chrono::system_clock::now());
  }
  audit::Collector collector(collect);
  if (flags.inputs.empty()) {
    TRY_ASSIGN(source, AuditCluster({flags.kubeconfig, flags.context, flags.ns}, collector));
  } else {
    TRY(ReadFiles(flags.inputs, collector));
    for (const std::string& input : flags.inputs) {
      source += (source.empty() ? "" : ", ") + (input == "-" ? "standard input" : input);
    }
  }
  return audit::MakeAudit(std::move(source), collector.Finish(), std::move(prices), options);
}

Status Run(const AuditFlags& flags) {
  TRY_ASSIGN(const audit::Audit report, Make(flags));
  const std::string text = flags.output == "json"   ? audit::ToJson(report).Dump() + "\n"
                           : flags.output == "html" ? audit::ToHtml(report)
                                                    : audit::ToText(report, Width(flags.width));
  std::fputs(text.c_str(), stdout);
  if (!flags.html.empty()) {
    TRY(WriteFile(flags.html, audit::ToHtml(report)));
    std::fprintf(stderr, "the page is in %s\n", flags.html.c_str());
  }
  if (!flags.propose.empty()) {
    TRY(WriteProposal(flags.propose, report));
  }
  return {};
}

}  // namespace

int RunAudit(const AuditFlags& flags) {
  if (flags.how_to_dump) {
    std::fwrite(kHowToDump.data(), 1, kHowToDump.size(), stdout);
    return 0;
  }
  if (const Status run = Run(flags); !run) {
    std::fprintf(stderr, "tutti audit: %s\n", run.error().message.c_str());
    return kExitBadInput;
  }
  return 0;
}

}  // namespace tutti

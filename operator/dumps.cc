// SPDX-License-Identifier: Apache-2.0
#include "operator/dumps.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <utility>

#include "audit/object_stream.h"
#include "operator/documents.h"

namespace tutti {
namespace {

constexpr size_t kPiece = 1 << 20;
constexpr std::string_view kSpace = " \t\r\n";

constexpr std::string_view kCommands =
    R"(# Everything that `tutti audit` and `tutti why` look at, as files. Only reads; needs kubectl and jq.
# jq takes out what may be secret and is not needed: environment, commands, images, annotations that repeat
# the whole object. Names of jobs, namespaces and nodes stay, since the report names them.
mkdir -p dump
redact='del(.. | .env?, .envFrom?, .command?, .args?, .image?, .imageID?, .managedFields?,
  ."kubectl.kubernetes.io/last-applied-configuration"?)'
kubectl get nodes,namespaces,pods,jobs.batch,statefulsets.apps,limitranges,runtimeclasses,priorityclasses -A -o json | jq -c "$redact" > dump/core.json
kubectl get leases -n kube-node-lease -o json > dump/clock.json   # tells the time of the dump

# What of these there is; errors of the others don't matter:
kubectl get workloads.kueue.x-k8s.io,clusterqueues.kueue.x-k8s.io,localqueues.kueue.x-k8s.io,resourceflavors.kueue.x-k8s.io,cohorts.kueue.x-k8s.io,workloadpriorityclasses.kueue.x-k8s.io,admissionchecks.kueue.x-k8s.io -A -o json | jq -c "$redact" > dump/kueue.json
kubectl get podgroups.scheduling.k8s.io -A -o json > dump/podgroups.json
kubectl get jobsets.jobset.x-k8s.io -A -o json | jq -c "$redact" > dump/jobsets.json
kubectl get jobs.batch.volcano.sh,podgroups.scheduling.volcano.sh -A -o json | jq -c "$redact" > dump/volcano.json
kubectl get resourceslices,deviceclasses,resourceclaims,resourceclaimtemplates -A -o json > dump/devices.json
kubectl get pvc,pv,storageclasses,csinodes,csidrivers -A -o json > dump/volumes.json

tutti audit dump
tutti why job/NAME -n NAMESPACE dump
)";

// A stream of bytes, piece by piece; YAML as a whole, since it is small.
void ReadStream(std::istream& in, const std::string& name, const ObjectSink& sink,
                size_t& objects) {
  std::string piece(kPiece, '\0');
  audit::ObjectStream stream(name, sink.take);
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
        sink.note(name + " is left out: it is neither JSON nor YAML that can be read (" +
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
    sink.note(std::move(problem));
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

}  // namespace

std::string_view HowToDump() {
  return kCommands;
}

Status ReadDumps(const std::vector<std::string>& inputs, const ObjectSink& sink) {
  TRY_ASSIGN(const std::vector<std::string> files, FilesOf(inputs));
  size_t objects = 0;
  for (const std::string& file : files) {
    if (file == "-") {
      ReadStream(std::cin, "standard input", sink, objects);
      continue;
    }
    std::ifstream in(file, std::ios::binary);
    if (!in) {
      return Fail(ErrorCode::kInvalid, file + ": can't be read");
    }
    ReadStream(in, file, sink, objects);
  }
  if (objects == 0) {
    return Fail(ErrorCode::kInvalid,
                "no object could be read; `tutti audit --how-to-dump` says how to make the files");
  }
  return {};
}

}  // namespace tutti

#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Measures Tutti side by side with Kueue v0.19.2 and writes docs/performance.md:
#
#   ./bench.sh scheduler [--config baseline|large-scale] [--sides kueue,kueue-unlimited,tutti,floor] [--runs N]
#                        Kueue's own scheduler benchmark, sides in turn; default: baseline, kueue,tutti,floor, 3
#   ./bench.sh deepqueue [--sides kueue-unlimited,tutti] [--runs N]
#                        the same runner on 120 tenants with deep queues and fair sharing; default: both, 1
#   ./bench.sh jobs [--runs N]
#                        5,000 Jobs at once on a whole control plane, plain and with Tutti, by 50 and by 1,000
#                        clients; default: 1
#   ./bench.sh engine    Google Benchmark of the engine and of the controller, no API server
#   ./bench.sh report    the page from the runs so far
#
# Does all set-up, as test.sh. Leave the machine alone meanwhile: with others at work on it the figures
# mean nothing. A run is added to bench/results when it has ended well.
# TUTTI_BIN  the operator under test (default build/release/tutti, built first)
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
usage() { sed -n '4,19p' bench.sh | sed 's/^# \{0,1\}//'; }

what=${1:-}
shift || true
config=baseline sides=kueue,tutti,floor runs=3
[[ $what != jobs ]] || runs=1
[[ $what != deepqueue ]] || { config=deepqueue sides=kueue-unlimited,tutti runs=1; }
while (($#)); do
  case $1 in
    --config | --sides | --runs)
      (($# > 1)) || { echo "bench.sh: $1 needs a value" >&2; exit 2; }
      printf -v "${1#--}" %s "$2"
      shift
      ;;
    *)
      echo "bench.sh: unknown option $1" >&2
      usage >&2
      exit 2
      ;;
  esac
  shift
done
case $what in
  scheduler | deepqueue | jobs | engine | report) ;;
  *)
    usage >&2
    exit 2
    ;;
esac

# shellcheck source=tools/setup.sh
source tools/setup.sh
export CGO_ENABLED=0 GOTOOLCHAIN=local
out=$PWD/build/bench
data=$PWD/bench/results/scheduler.jsonl
engine=$PWD/bench/results/engine.jsonl
jobs=$PWD/bench/results/jobs.jsonl
mkdir -p "$out/bin" "$(dirname "$data")"

commit=$(git rev-parse --short HEAD)
[[ -z $(git status --porcelain -- . ':!bench/results' ':!docs/performance.md') ]] || commit+=-dirty
machine="$(nproc) cores, $(sed -n 's/^model name.*: //p' /proc/cpuinfo | head -n 1), $(awk '/MemTotal/ {printf "%.0f GiB", $2 / 1048576}' /proc/meminfo), Linux $(uname -r)"

build_tutti() {
  cmake -S . -B build/release -G Ninja -DCMAKE_BUILD_TYPE=Release >"$out/build.log"
  nice ninja -C build/release "$@" >>"$out/build.log" || {
    tail -n 40 "$out/build.log" >&2
    exit 1
  }
}

report_page() {
  (cd bench && go run ./report page --data "$data" --jobs "$jobs" --engine "$engine" --notes results/notes.md) >"$out/performance.md"
  (cd bench && go run ./report plot --engine "$engine") >"$out/performance-growth.svg"
  mv "$out/performance.md" "$out/performance-growth.svg" docs/
  echo "wrote docs/performance.md and docs/performance-growth.svg"
}

scheduler() {
  local tools module dir side n file crds=$PWD/crds
  [[ ${TUTTI_BIN:-} ]] || build_tutti tutti
  tools=$(e2e/tools/build.sh controlplane)
  echo "Compiling Kueue's runner and ours (some minutes the first time) …"
  (
    cd bench
    for tool in runner minimalkueue; do
      go build -trimpath -o "$out/bin/$tool" "sigs.k8s.io/kueue/test/performance/scheduler/$tool"
    done
    go build -trimpath -o "$out/bin/" ./launch ./floor ./kueue ./report
  )
  module=$(cd bench && go list -m -f '{{.Dir}}' sigs.k8s.io/kueue)
  file=$module/test/performance/scheduler/configs/$config/generator.yaml
  if [[ -f bench/configs/$config.yaml ]]; then
    file=$PWD/bench/configs/$config.yaml
  elif [[ ! -f $file ]]; then
    echo "bench.sh: neither we nor Kueue have a configuration '$config'" >&2
    exit 2
  fi
  mkdir -p "$out/assets"
  for tool in etcd kube-apiserver kubectl; do
    ln -sfn "$tools/$tool" "$out/assets/$tool"
  done
  # Kueue's configurations are without fair sharing, ours is with it.
  local fair=
  [[ $config != deepqueue ]] || fair=1
  for ((n = 1; n <= runs; n++)); do
    for side in ${sides//,/ }; do
      dir=$out/$config-$side-$n
      rm -rf "$dir"
      mkdir -p "$dir"
      echo "$(date +%H:%M:%S)  $config, $side, run $n of $runs …"
      case $side in
        kueue) program=$out/bin/minimalkueue ;;
        tutti) program=${TUTTI_BIN:-$PWD/build/release/tutti} ;;
        kueue-unlimited) program=$out/bin/kueue ;;
        floor) program=$out/bin/floor ;;
        *)
          echo "bench.sh: unknown side '$side': use kueue, kueue-unlimited, tutti, floor" >&2
          exit 2
          ;;
      esac
      # The API server that the runner starts is the one of the assets, for all sides. PROJECT_DIR: its helpers want one.
      if ! PROJECT_DIR=$module/config KUBEBUILDER_ASSETS=$out/assets BENCH_SIDE=$side BENCH_PROGRAM=$program BENCH_FAIR=$fair "$out/bin/runner" --o "$dir" --crds "$crds" \
        --generatorConfig "$file" --timeout 25m \
        --minimalKueue "$out/bin/launch" --withLogs --withLogsLevel 0 --logToFile >"$dir/runner.log" 2>&1; then
        echo "bench.sh: the run failed; the end of $dir/runner.log and of the program's:" >&2
        tail -n 15 "$dir/runner.log" "$dir"/launch.err.log >&2
        exit 1
      fi
      "$out/bin/report" add --dir "$dir" --config "$config" --crds lean --commit "$commit" --machine "$machine" --data "$data"
    done
  done
  report_page
}

burst() {
  local n clients side
  [[ ${TUTTI_BIN:-} ]] || build_tutti tutti
  TUTTI_CONTROLPLANE=$(e2e/tools/build.sh controlplane) TUTTI_KWOK=$(e2e/tools/build.sh kwok) TUTTI_HELM=$(e2e/tools/build.sh helm)
  export TUTTI_CONTROLPLANE TUTTI_KWOK TUTTI_HELM TUTTI_REPO=$PWD TUTTI_BIN=${TUTTI_BIN:-$PWD/build/release/tutti}
  echo "Compiling the burst …"
  (cd e2e && go build -trimpath -o "$out/bin/burst" ./burst)
  (cd bench && go build -trimpath -o "$out/bin/" ./report)
  for ((n = 1; n <= runs; n++)); do
    for clients in 50 1000; do
      for side in bare tutti; do
        echo "$(date +%H:%M:%S)  $side, $clients clients, run $n of $runs …"
        "$out/bin/burst" --side "$side" --submitters "$clients" >"$out/burst.json"
        "$out/bin/report" add-jobs --file "$out/burst.json" --commit "$commit" --machine "$machine" --jobs "$jobs"
      done
    done
  done
  report_page
}

case $what in
  scheduler | deepqueue) scheduler ;;
  jobs) burst ;;
  engine)
    build_tutti scale_bench crowd_bench
    build/release/engine/scale_bench --benchmark_out="$out/engine.json" --benchmark_out_format=json
    build/release/reconciler/crowd_bench --benchmark_out="$out/crowd.json" --benchmark_out_format=json
    (cd bench && go run ./report add-engine --file "$out/engine.json,$out/crowd.json" --commit "$commit" --machine "$machine" --engine "$engine")
    report_page
    ;;
  report) report_page ;;
esac

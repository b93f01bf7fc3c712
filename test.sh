#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# ./test.sh [unit|e2e [PATTERN]|conformance [SUITE]|all] [--long]
#
#   unit           checks of the tree, C++ unit tests, chart tests, Go unit tests
#   e2e [PATTERN]  tests on a real control plane; PATTERN is a regular expression on test names
#   conformance [SUITE]  Kueue's own specs (e2e/conformance); SUITE as in suites.txt, e.g. webhook/core
#   all            unit, e2e and the specs of webhook/core and scheduler; the default, and what CI runs
#   --long         full sizes, and in the unit part also the sanitizer builds and clang-tidy
#
# TUTTI_K8S_MINOR is the Kubernetes minor of the control plane (default 1.36).
#
# Does all set-up: missing packages (as root), Go, the build, the control plane's binaries. Writes to
# build/ in the tree and to ${TUTTI_CACHE:-${XDG_CACHE_HOME:-~/.cache}/tutti}; logs to build/test-logs.
# Ends with the counts over all suites and exit code 0 if nothing failed. Minutes per suite:
# docs/testing.md.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

usage() { sed -n '4,17p' test.sh | sed 's/^# \{0,1\}//'; }

tier=all pattern=. long=
positional=()
for arg in "$@"; do
  case $arg in
    --long) long=1 ;;
    -h | --help)
      usage
      exit
      ;;
    -*)
      echo "test.sh: unknown option $arg" >&2
      usage >&2
      exit 2
      ;;
    *) positional+=("$arg") ;;
  esac
done
((${#positional[@]} > 0)) && tier=${positional[0]}
if [[ $tier == e2e && ${#positional[@]} -eq 2 ]]; then
  pattern=${positional[1]}
elif [[ $tier == conformance ]]; then
  suites=("${positional[@]:1}")
elif ((${#positional[@]} > 1)); then
  echo "test.sh: too many arguments; only e2e and conformance take a name" >&2
  usage >&2
  exit 2
fi
case $tier in
  unit | e2e | conformance | all) ;;
  *)
    echo "test.sh: unknown tier '$tier'" >&2
    usage >&2
    exit 2
    ;;
esac

build=${TUTTI_BUILD:-$PWD/build/release}
logs=$PWD/build/test-logs
results=$logs/results.jsonl
rm -rf "$logs"
mkdir -p "$logs"
: >"$results"
begin=$SECONDS
rc=0

clock() { printf '%dm%02ds' $(($1 / 60)) $(($1 % 60)); }

# step NAME: a heading with the time since the start.
step() { printf '\n== %s  [%s]\n' "$1" "$(clock $((SECONDS - begin)))"; }

# timed NAME LOG COMMAND…: a long command, quiet, a line a minute; shows the log's end if it fails.
timed() {
  local what=$1 log=$2 start=$SECONDS pid said=0 status=0
  shift 2
  set -m # a process group of its own, to be ended as a whole
  "$@" >"$log" 2>&1 </dev/null &
  pid=$!
  set +m
  # shellcheck disable=SC2064
  trap "kill -- -$pid 2>/dev/null; exit 130" INT TERM
  while kill -0 "$pid" 2>/dev/null; do
    sleep 0.2
    if ((SECONDS - start - said >= 30)); then
      said=$((SECONDS - start))
      echo "  $what … $(clock $said)  $(tail -n 1 "$log" | tr '\r' '\n' | tail -n 1 | cut -c1-70)"
    fi
  done
  wait "$pid" || status=$?
  trap - INT TERM
  if ((status)); then
    echo "  $what: FAILED after $(clock $((SECONDS - start))); the end of $log:"
    tail -n 40 "$log" | sed 's/^/    | /'
  else
    echo "  $what: $(clock $((SECONDS - start)))"
  fi
  return $status
}

# build_step NAME LOG COMMAND…: as timed; a failure is a failed test.
build_step() {
  local status=0
  timed "$@" || status=$?
  if ((status)); then
    python3 tools/runner.py "$results" failed "$1" "$2" || true
    rc=1
  fi
  return $status
}

check() {
  local name=$1
  shift
  python3 tools/runner.py "$results" check "$name" "$logs/$name.log" -- "$@" || rc=1
}

finish() {
  printf '\nTime: %s\n' "$(clock $((SECONDS - begin)))"
  python3 tools/runner.py "$results" summary || rc=1
  exit $rc
}

compile() { # DIRECTORY PRESET-VALUES…
  local directory=$1
  shift
  cmake -S . -B "$directory" -G Ninja "$@" && nice ninja -C "$directory"
}

step "Set-up"
# shellcheck source=tools/setup.sh
source tools/setup.sh || {
  echo "test.sh: set-up failed" >&2
  exit 1
}
echo "  tools are there"
commit=$(git rev-parse --short HEAD 2>/dev/null || echo none)
echo "  commit $commit, $(nproc) cores, logs in $logs"

if [[ $tier != e2e && $tier != conformance ]]; then
  step "Checks"
  check includes python3 tools/check_includes.py
  check format bash tools/check_format.sh
  check repository bash tools/check_repo.sh
fi

step "Build (release)"
built=1
build_step "C++ build" "$logs/build.log" compile "$build" -DCMAKE_BUILD_TYPE=Release || built=

if [[ $tier != e2e && $tier != conformance ]]; then
  if [[ $built ]]; then
    step "Unit tests (C++)"
    mkdir -p "$logs/unit"
    python3 tools/runner.py "$results" gtest "$build" "$logs/unit" || rc=1
    check costs python3 tools/cost_guard.py "$build/engine/cost_guard"
  fi
fi

if [[ $tier != e2e && $tier != conformance && $long && $built ]]; then
  step "Sanitizers and clang-tidy (long)"
  for kind in asan tsan; do
    sanitize=address,undefined
    [[ $kind == tsan ]] && sanitize=thread
    if build_step "$kind build" "$logs/build-$kind.log" compile "build/$kind" \
      -DCMAKE_BUILD_TYPE=Debug -DTUTTI_SANITIZE=$sanitize; then
      mkdir -p "$logs/$kind"
      python3 tools/runner.py "$results" gtest "build/$kind" "$logs/$kind" || rc=1
    fi
  done
  check tidy bash tools/tidy.sh --all "$build"
fi

# After the C++ build, never beside it: both want every core and much memory.
step "Test programs (Go)"
tools_ok=1
wanted=(controlplane kwok helm ${long:+jobset})
[[ $tier == unit ]] && wanted=(helm)
[[ $tier == conformance ]] && wanted=(controlplane)
for tool in "${wanted[@]}"; do
  build_step "$tool" "$logs/tool-$tool.log" e2e/tools/build.sh "$tool" || tools_ok=
done

counted() { # SUITE COMMAND…
  local suite=$1
  shift
  python3 tools/runner.py "$results" counted "$suite" "$logs/$suite.log" -- "$@" || rc=1
}
export TUTTI_E2E_LOGS=$logs/e2e
export TUTTI_BIN=${TUTTI_BIN:-$(ls -t "$build"/tutti "$build"/operator/tutti 2>/dev/null | head -n 1 || true)}

if [[ $tier != e2e && $tier != conformance && $tools_ok ]]; then
  step "Chart tests"
  counted chart charts/test.sh
  step "Unit tests (Go)"
  counted go-unit e2e/run.sh --unit
fi

[[ $tier == all ]] && suites=(webhook/core scheduler)
if [[ $tier == conformance || $tier == all ]] && [[ $built && $tools_ok ]]; then
  step "Kueue's own specs: ${suites[*]:-all}"
  counted conformance e2e/conformance/run.sh "${suites[@]}"
fi

if [[ $tier != unit && $tier != conformance && $built && $tools_ok ]]; then
  step "End-to-end tests on Kubernetes ${TUTTI_K8S_MINOR:-1.36}: $pattern"
  counted e2e e2e/run.sh ${long:+--long} --suite "$pattern"
fi

finish

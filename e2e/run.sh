#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Runs the end-to-end tests on a real control plane:
#
#   e2e/run.sh [--long] [--unit|--suite] [PATTERN]      PATTERN as for go test -run, e.g. GangChurn
#
# --unit runs only what needs no cluster, --suite only what does; default: both.
#
# TUTTI_BIN        the operator under test (default build/release/tutti)
# TUTTI_K8S_MINOR  Kubernetes minor (default 1.36)
# TUTTI_E2E_LOGS   where logs of failed tests are kept (default e2e-logs in the cache)
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
export TUTTI_REPO=${TUTTI_REPO:-$(dirname "$here")}
export TUTTI_CACHE=${TUTTI_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/tutti}
export TUTTI_E2E_LOGS=${TUTTI_E2E_LOGS:-$TUTTI_CACHE/e2e-logs}
# The flags of build.sh: packages that both need are compiled once.
export CGO_ENABLED=0 GOTOOLCHAIN=local

pattern=.
packages=./... # with a pattern: the suite alone
timeout=60m
part=all
while (($#)); do
  case $1 in
    --long)
      export TUTTI_E2E_LONG=1
      timeout=10h
      ;;
    --unit | --suite) part=${1#--} ;;
    -*)
      echo "run.sh: unknown option $1 (usage: e2e/run.sh [--long] [--unit|--suite] [PATTERN])" >&2
      exit 2
      ;;
    *)
      pattern=$1
      packages=./suite/...
      ;;
  esac
  shift
done

if [[ $part != unit ]]; then
  TUTTI_CONTROLPLANE=$("$here/tools/build.sh" controlplane)
  TUTTI_KWOK=$("$here/tools/build.sh" kwok)
  TUTTI_HELM=$("$here/tools/build.sh" helm)
  export TUTTI_CONTROLPLANE TUTTI_KWOK TUTTI_HELM
fi

mkdir -p "$TUTTI_E2E_LOGS" "$TUTTI_CACHE/bin"
log=$TUTTI_E2E_LOGS/run-$(date +%Y%m%d-%H%M%S)-$$.log
cd "$here"
echo "Compiling the tests (a minute or two the first time) …"
begin=$SECONDS
report=$(mktemp -d)
trap 'rm -rf "$report"' EXIT
go build -trimpath -o "$report/report" ./report
# The modules of their own with kube-scheduler and Kueue's scheduler in them, if a test of theirs is asked for.
wanted() { # DIRECTORY: one of its tests has a name that matches the pattern
  [[ $part != unit ]] && sed -nE 's/^func (Test[A-Za-z0-9]*)\(.*/\1/p' "$here/$1"/*_test.go | grep -Eq -- "${pattern%%/*}"
}
modules=()
for module in agreement differential; do
  if wanted "$module"; then modules+=("$module"); fi
done
case $part in
  unit) mapfile -t packages < <(go list ./... | grep -v '/suite$') ;;
  suite) packages=(./suite) ;;
  all) packages=(./...) ;;
esac
run_tests() { # GO-TEST-FLAGS…
  local status=0
  go test -trimpath "$@" "${packages[@]}" || status=1
  if [[ $part == unit ]]; then
    (cd conformance && go test -trimpath "$@" ./...) || status=1
    (cd ../bench && go test -trimpath "$@" ./report) || status=1
  fi
  for module in "${modules[@]}"; do
    # differential/ calls an unexported method of the scheduler: the linker must let it.
    (cd "$module" && go test -trimpath -ldflags=-checklinkname=0 "$@" .) || status=1
  done
  return $status
}
run_tests -run '^$' >/dev/null || true # compile; errors are shown below
echo "Compiled in $((SECONDS - begin)) s. Running '$pattern':"

# An interrupt goes to go test as well; it stops the clusters, and the report still counts.
trap : INT
rc=0
run_tests -json -count=1 -p 1 -timeout "$timeout" -run "$pattern" | "$report/report" "$log" || rc=1
if ((rc == 0)); then rm -f "$log"; fi
exit "$rc"

#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Runs Kueue's own integration specs against Tutti:
#
#   e2e/conformance/run.sh [--child tutti|kueue] [--focus REGEX] [--report] [SUITE…]
#
# SUITE is a folder below test/integration/singlecluster, e.g. webhook/core; default: the suites of
# suites.txt. --child kueue runs Kueue's own packages as the child: what fails then can't be run
# against any other process. --focus runs only specs whose name matches. --report writes
# docs/conformance.md from the results kept so far.
#
# TUTTI_BIN    the operator under test (default build/release/tutti)
# TUTTI_CACHE  default ${XDG_CACHE_HOME:-~/.cache}/tutti; the copy, binaries and results are in
#              conformance/ below it
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
repo=$(cd "$here/../.." && pwd)
cache=${TUTTI_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/tutti}
export TUTTI_CACHE=$cache CGO_ENABLED=0 GOTOOLCHAIN=local
unset PROJECT_DIR

child=tutti focus='' table='' suites=()
while (($#)); do
  case $1 in
    --child) child=$2 && shift ;;
    --focus) focus=$2 && shift ;;
    --report) table=1 ;;
    -*)
      sed -n '4,15p' "$0" | sed 's/^# \{0,1\}//' >&2
      exit 2
      ;;
    *) suites+=("$1") ;;
  esac
  shift
done
if ((${#suites[@]} == 0)) && [[ ! $table ]]; then
  mapfile -t suites < <(grep -v '^#' "$here/suites.txt" | cut -d' ' -f1)
fi

# One copy per state of the overlay, the tool and the CRDs.
key=$(cd "$here" && {
  cat go.mod go.sum
  find _overlay kueuecopy ../../crds/two-versions ../../crds/gen -type f \( -name '*.go' -o -name '*.yaml' -o -name '*.py' \) | LC_ALL=C sort | while IFS= read -r f; do
    echo "$f"
    cat "$f"
  done
} | sha256sum | cut -c1-12)
copy=$cache/conformance/copy-$key
mkdir -p "$cache/conformance/bin"
if [[ ! -d $copy ]]; then
  work=$(mktemp -d "$cache/conformance/.copy.XXXXXX")
  trap 'rm -rf "$work"' EXIT
  python3 "$repo/crds/gen/gen.py" --for-webhooks "$work/crds"
  mkdir "$work/copy"
  (cd "$here" && go run ./kueuecopy --overlay _overlay --crds "$work/crds" --out "$work/copy")
  find "$cache/conformance" -maxdepth 1 -name 'copy-*' -mmin +600 -exec rm -rf {} +
  mv -T "$work/copy" "$copy" 2>/dev/null || [[ -d $copy ]] # another run may have been first
  rm -rf "$work"
  trap - EXIT
fi

# compile OUTPUT PACKAGE COMMAND…: in the copy; binaries are named after it.
compile() {
  local output=$1 package=$2 begin=$SECONDS
  shift 2
  [[ -x $output ]] && return
  (cd "$copy" && nice "$@" -trimpath -o "$output.tmp" "$package")
  mv "$output.tmp" "$output"
  echo "  compiled $(basename "$output") in $((SECONDS - begin)) s"
}
bin=$cache/conformance/bin
report=$bin/report-$$
trap 'rm -f "$report"' EXIT
(cd "$here" && go build -trimpath -o "$report" ./report)

if ((${#suites[@]})); then
  tools=$("$repo/e2e/tools/build.sh" controlplane)
  assets=$cache/conformance/assets
  mkdir -p "$assets"
  for tool in etcd kube-apiserver kubectl; do
    ln -sfn "$tools/$tool" "$assets/$tool"
  done
  export KUBEBUILDER_ASSETS=$assets
  case $child in
    tutti) TUTTI_CONFORMANCE_CHILD=${TUTTI_BIN:-$repo/build/release/tutti} ;;
    kueue)
      TUTTI_CONFORMANCE_CHILD=$bin/kueuechild-$key
      compile "$TUTTI_CONFORMANCE_CHILD" ./cmd/kueuechild go build
      ;;
    *)
      echo "run.sh: --child is tutti or kueue, not '$child'" >&2
      exit 2
      ;;
  esac
  export TUTTI_CONFORMANCE_CHILD
fi

failed=0 passed=0 unknown=0 skipped=0
for suite in "${suites[@]}"; do
  [[ -d $copy/test/integration/singlecluster/$suite ]] || {
    echo "run.sh: no suite '$suite'" >&2
    exit 2
  }
  name=${suite//\//-}
  program=$bin/$name-$key.test
  compile "$program" "./test/integration/singlecluster/$suite" go test -c
  if [[ $suite == kueuectl ]]; then
    mkdir -p "$bin/kueue-$key"
    compile "$bin/kueue-$key/kubectl-kueue" ./cmd/kueuectl go build
    export KUEUE_BIN=$bin/kueue-$key
  fi
  results=$cache/conformance/results/$child
  export TUTTI_CONFORMANCE_LOGS=$cache/conformance/logs/$child/$name
  rm -rf "$TUTTI_CONFORMANCE_LOGS"
  mkdir -p "$results" "$TUTTI_CONFORMANCE_LOGS"
  json=$results/$name.json
  [[ $focus ]] && json=$TUTTI_CONFORMANCE_LOGS/report.json
  begin=$SECONDS
  (cd "$copy/test/integration/singlecluster/$suite" && "$program" -test.timeout=3h -ginkgo.timeout=3h -ginkgo.no-color \
    -ginkgo.focus="$focus" -ginkgo.json-report="$json" >"$TUTTI_CONFORMANCE_LOGS/output.log" 2>&1) || true
  "$report" count --suite "$suite" --results "$json" --reasons "$here/reasons.txt" --log "$TUTTI_CONFORMANCE_LOGS/output.log" \
    --seconds $((SECONDS - begin)) >"$TUTTI_CONFORMANCE_LOGS/counts" || failed=1
  grep -v '^[0-9]* passed, ' "$TUTTI_CONFORMANCE_LOGS/counts"
  read -r p _ f _ s _ < <(tail -n 1 "$TUTTI_CONFORMANCE_LOGS/counts")
  passed=$((passed + p)) unknown=$((unknown + f)) skipped=$((skipped + s))
done

if [[ $table ]]; then
  "$report" table --results "$cache/conformance/results" --suites "$here/suites.txt" --reasons "$here/reasons.txt" >"$repo/docs/conformance.md"
  echo "wrote docs/conformance.md"
fi
if ((${#suites[@]})); then
  echo "$passed passed, $unknown failed, $skipped skipped"
fi
exit $failed

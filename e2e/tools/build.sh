#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Builds the pinned third-party programs that the tests and the demo run, into a cache outside the
# tree, and prints the directory of each on standard output (progress goes to standard error).
#
#   e2e/tools/build.sh [controlplane|kwok|helm|kueuectl|autoscaler|jobset|all]   default: all (controlplane, kwok, helm, jobset)
#   e2e/tools/build.sh --path NAME                       print where it is or would be, build nothing
#
# TUTTI_CACHE      where to put them (default ${XDG_CACHE_HOME:-$HOME/.cache}/tutti)
# TUTTI_K8S_MINOR  Kubernetes minor of the control plane (default 1.36; others: minor.sh)
#
# A directory is named after a hash of go.mod, go.sum and the sources, is filled under a temporary
# name and then renamed: it is whole or absent.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cache=${TUTTI_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/tutti}/tools
minor=${TUTTI_K8S_MINOR:-1.36}
recipe=1 # part of the key: raise it when flags below change what is built

say() { printf '%s\n' "$*" >&2; }
die() {
  say "build.sh: $*"
  exit 1
}

# source_dir NAME: the Go module that pins NAME.
source_dir() {
  case $1 in
    controlplane)
      if [[ $minor == 1.36 ]]; then
        echo "$here/controlplane"
      else
        echo "$here/controlplane-$minor"
      fi
      ;;
    kwok | helm | kueuectl | autoscaler | jobset) echo "$here/$1" ;;
    *) die "unknown tool '$1': use controlplane, kwok, helm, kueuectl, autoscaler, jobset or all" ;;
  esac
}

# target_dir NAME: the cache directory for NAME's present sources.
target_dir() {
  local dir hash
  dir=$(source_dir "$1")
  [[ -f $dir/go.mod ]] || die "$dir has no go.mod: make it with '$here/minor.sh $minor'"
  hash=$(cd "$dir" && {
    echo "recipe $recipe $(uname -m)"
    find . -type f \( -name '*.go' -o -name go.mod -o -name go.sum \) | LC_ALL=C sort |
      while IFS= read -r f; do
        echo "$f"
        cat "$f"
      done
  } | sha256sum | cut -c1-16)
  echo "$cache/$(basename "$dir")-$hash"
}

# pinned MODULE DIR: the version of MODULE in DIR/go.mod.
pinned() { awk -v m="$1" '$1=="require" && $2==m {print $3; exit} $1==m && $2!="=>" {print $2; exit}' "$2/go.mod"; }

# crds MODULE DIR TARGET: copies a module's CustomResourceDefinitions, checked against go.sum.
crds() {
  local source
  source=$(GOTOOLCHAIN=local go mod download -json "$1" | sed -n 's/^\t"Dir": "\(.*\)",$/\1/p')
  [[ $source ]] || die "no module $1"
  mkdir "$3/crds"
  cp "$source/$2"/*.yaml "$3/crds"
  chmod -R u+w "$3/crds"
}

clock() { printf '%dm%02ds' $(($1 / 60)) $(($1 % 60)); }

# compile LABEL OUTPUT PACKAGE LDFLAGS: one go build, with the elapsed time shown.
compile() {
  local label=$1 output=$2 package=$3 ldflags=$4 start=$SECONDS pid rc=0 last=0 now log
  log=$output.log
  CGO_ENABLED=0 GOTOOLCHAIN=local nice go build -trimpath -ldflags "-s -w $ldflags" -o "$output" "$package" \
    >"$log" 2>&1 &
  pid=$!
  trap 'kill "$pid" 2>/dev/null || true; wait "$pid" 2>/dev/null || true; exit 130' INT TERM
  if [[ ! -t 2 ]]; then say "  $label …"; fi
  while kill -0 "$pid" 2>/dev/null; do
    sleep 0.5
    now=$((SECONDS - start))
    if [[ -t 2 ]]; then
      printf '\r  %-26s %s ' "$label" "$(clock "$now")" >&2
    elif ((now - last >= 60)); then
      last=$now
      say "  $label … $(clock "$now")"
    fi
  done
  wait "$pid" || rc=$?
  trap - INT TERM
  [[ -t 2 ]] && printf '\r' >&2
  if ((rc != 0)); then
    say "  $label: go build failed after $(clock $((SECONDS - start))):"
    grep -v '^go: downloading' "$log" | tail -n 40 >&2
    exit 1
  fi
  rm -f "$log"
  say "$(printf '  %-26s %s  %s' "$label" "$(clock $((SECONDS - start)))" "$(du -h "$output" | cut -f1)")"
}

build() {
  local name=$1 dir target tmp version major_minor
  dir=$(source_dir "$name")
  target=$(target_dir "$name")
  if [[ -d $target ]]; then
    echo "$target"
    return
  fi
  mkdir -p "$cache"
  # One heavy build at a time on this machine's cache.
  exec 9>"$cache/.lock"
  flock 9
  if [[ -d $target ]]; then
    exec 9>&-
    echo "$target"
    return
  fi
  command -v go >/dev/null || die "no Go tool chain in PATH: run tools/setup.sh"
  tmp=$(mktemp -d "$cache/.build-$name.XXXXXX")
  # shellcheck disable=SC2064
  trap "rm -rf '$tmp'" EXIT
  cd "$dir"
  case $name in
    controlplane)
      version=$(pinned k8s.io/kubernetes "$dir")
      major_minor=${version#v}
      local x=k8s.io/component-base/version
      local stamp="-X $x.gitVersion=$version -X $x.gitMajor=${major_minor%%.*}"
      stamp+=" -X $x.gitMinor=$(cut -d. -f2 <<<"$major_minor") -X $x.gitTreeState=clean"
      say "Kubernetes $version, etcd $(pinned go.etcd.io/etcd/server/v3 "$dir") (about 10 minutes on 2 cores the first time):"
      compile etcd "$tmp/etcd" ./etcd ""
      local c
      for c in kube-apiserver kube-controller-manager kube-scheduler kubectl; do
        compile "$c" "$tmp/$c" "k8s.io/kubernetes/cmd/$c" "$stamp"
      done
      ;;
    kwok)
      version=$(pinned sigs.k8s.io/kwok "$dir")
      say "kwok $version:"
      compile kwok "$tmp/kwok" sigs.k8s.io/kwok/cmd/kwok "-X sigs.k8s.io/kwok/pkg/consts.Version=$version"
      ;;
    helm)
      version=$(pinned helm.sh/helm/v3 "$dir")
      say "helm $version:"
      compile helm "$tmp/helm" helm.sh/helm/v3/cmd/helm "-X helm.sh/helm/v3/internal/version.version=$version"
      ;;
    kueuectl)
      version=$(pinned sigs.k8s.io/kueue "$dir")
      say "kubectl-kueue $version:"
      compile kubectl-kueue "$tmp/kubectl-kueue" sigs.k8s.io/kueue/cmd/kueuectl "-X sigs.k8s.io/kueue/pkg/version.GitVersion=$version"
      ;;
    jobset)
      version=$(pinned sigs.k8s.io/jobset "$dir")
      say "JobSet $version:"
      compile jobset "$tmp/jobset" sigs.k8s.io/jobset ""
      crds sigs.k8s.io/jobset config/components/crd/bases "$tmp"
      ;;
    autoscaler) crds k8s.io/autoscaler/cluster-autoscaler/apis config/crd "$tmp" ;;
  esac
  chmod 0755 "$tmp"
  mv -T "$tmp" "$target"
  trap - EXIT
  exec 9>&-
  cd "$here"
  echo "$target"
}

if [[ ${1:-} == --path ]]; then
  target_dir "${2:?--path needs a tool name}"
  exit
fi
case ${1:-all} in
  all) for t in controlplane kwok helm jobset; do build "$t"; done ;;
  *) for t in "$@"; do build "$t"; done ;;
esac

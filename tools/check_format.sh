#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Checks that the C++ files are as clang-format 16 and the Go files as gofmt would write them.
# --fix writes them that way.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

fix=
[[ ${1:-} == --fix ]] && fix=1
rc=0

# files PATTERN…: those that git knows or would add and that exist.
files() {
  git ls-files --cached --others --exclude-standard "$@" | sort -u | while read -r f; do
    if [[ -f $f ]]; then echo "$f"; fi
  done
}

mapfile -t cpp < <(files '*.h' '*.cc')
if ((${#cpp[@]})); then
  if [[ $fix ]]; then
    clang-format-16 -i "${cpp[@]}"
  else
    bad=$({ printf '%s\n' "${cpp[@]}" | xargs -P "$(nproc)" -n 20 clang-format-16 --dry-run -Werror 2>&1 || true; } |
      sed -n 's/^\([^:]*\):\([0-9]*\):.*clang-format-violations.*/\1:\2/p' |
      sort -t: -k1,1 -k2,2n | awk -F: '!($1 in first) {first[$1]=$2; order[++n]=$1} {count[$1]++}
        END {for (i=1;i<=n;i++) print order[i] ":" first[order[i]] ": not formatted (" count[order[i]] " places)"}')
    if [[ $bad ]]; then
      echo "$bad"
      rc=1
    fi
  fi
fi

mapfile -t go < <(files '*.go')
if ((${#go[@]})) && command -v gofmt >/dev/null; then
  if [[ $fix ]]; then
    gofmt -w "${go[@]}"
  else
    bad=$(gofmt -l "${go[@]}")
    if [[ $bad ]]; then
      while read -r f; do echo "$f:1: not formatted"; done <<<"$bad"
      rc=1
    fi
  fi
fi

if ((rc)); then
  echo "check_format: run tools/check_format.sh --fix" >&2
else
  echo "check_format: ${#cpp[@]} C++ and ${#go[@]} Go files, no findings"
fi
exit $rc

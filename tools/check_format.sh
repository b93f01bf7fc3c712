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
    # One short line per file: several at once don't mix up in the pipe.
    bad=$(printf '%s\n' "${cpp[@]}" | xargs -P "$(nproc)" -I{} sh -c \
      'clang-format-16 --dry-run -Werror "{}" >/dev/null 2>&1 || echo "{}:1: not formatted"' | sort)
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

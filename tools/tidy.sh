#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# clang-tidy 16 with the short, fatal list of .clang-tidy.
#
#   tools/tidy.sh [--all] [BUILD_DIR]     default: files changed since the last commit, build/release
#   tools/tidy.sh --since COMMIT          files changed since COMMIT
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

build=build/release since=HEAD all=
while (($#)); do
  case $1 in
    --all) all=1 ;;
    --since)
      since=${2:?--since needs a commit}
      shift
      ;;
    -h | --help)
      sed -n '4,8p' "$0" | sed 's/^# \{0,1\}//'
      exit
      ;;
    -*)
      echo "tidy.sh: unknown option $1 (see --help)" >&2
      exit 2
      ;;
    *) build=$1 ;;
  esac
  shift
done
if [[ ! -f $build/compile_commands.json ]]; then
  echo "tidy.sh: $build/compile_commands.json is missing: run 'cmake --preset release' first" >&2
  exit 2
fi
if [[ $all ]]; then
  mapfile -t wanted < <(git ls-files '*.cc')
else
  mapfile -t wanted < <({ git diff --name-only "$since" -- '*.cc'; git ls-files --others --exclude-standard '*.cc'; } | sort -u)
fi
# Only what this build compiles.
mapfile -t files < <(for f in "${wanted[@]}"; do grep -q "/$f\"" "$build/compile_commands.json" && echo "$f"; done || true)
if ((${#files[@]} == 0)); then
  echo "tidy: nothing to check"
  exit 0
fi
echo "tidy: ${#files[@]} files"
printf '%s\n' "${files[@]}" | nice xargs -P "$(nproc)" -n 1 clang-tidy-16 -p "$build" --quiet --warnings-as-errors='*' \
  --extra-arg=-Wno-unknown-warning-option 2> >(grep -vE '^[0-9]+ warnings? generated|^Suppressed|^Use -header' >&2 || true)
echo "tidy: no findings"

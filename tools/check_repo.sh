#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Rules for the tree as a whole: size of source files, licence lines, no paths of one machine, no
# marks of unfinished work, a README in each room, no large or binary files.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

max_lines=800
findings=0
report() {
  echo "$1"
  findings=$((findings + 1))
}
files() {
  git ls-files --cached --others --exclude-standard "$@" | sort -u | while read -r f; do
    if [[ -f $f ]]; then echo "$f"; fi
  done
}

mapfile -t sources < <(files '*.h' '*.cc' '*.go' '*.py' '*.sh' '*.cmake' '*CMakeLists.txt' test.sh .ci/run)
mapfile -t all < <(files)

while read -r lines name; do
  [[ $name == total || $lines -le $max_lines ]] || report "$name:$max_lines: $lines lines, at most $max_lines: split it by concept"
done < <(wc -l "${sources[@]}")

# The licence line is the first one, or follows the interpreter line.
for f in "${sources[@]}"; do
  head -n 2 "$f" | grep -q 'SPDX-License-Identifier: Apache-2.0' ||
    report "$f:1: the line 'SPDX-License-Identifier: Apache-2.0' is missing at the top"
done

# The patterns are written so that they don't match themselves.
while IFS= read -r hit; do report "$hit  <- path of one machine"; done < <(
  grep -nIE '(^|[^A-Za-z0-9_./$}{-])/(wor[k]|far[m]|roo[t])/' "${all[@]}" 2>/dev/null | cut -c1-160 || true)
while IFS= read -r hit; do report "$hit  <- unfinished work: finish it or list it in docs/status.md"; done < <(
  grep -nE '\b(TOD[O]|FIXM[E]|XX[X])\b' "${sources[@]}" | cut -c1-160 || true)

while read -r room; do
  if [[ -d $room && ! -f $room/README.md ]]; then report "$room/: README.md is missing"; fi
done < <(sed -n 's/^\([a-z]*\):.*/\1/p' cmake/rooms.txt)

for f in "${all[@]}"; do
  size=$(stat -c %s "$f")
  if ((size > 1500000)); then report "$f: $size bytes: large files don't belong in the tree"; fi
done

for f in test.sh quickstart.sh .ci/run; do
  if [[ -e $f && ! -x $f ]]; then report "$f: not executable"; fi
done

if ((findings)); then
  echo "check_repo: $findings findings" >&2
  exit 1
fi
echo "check_repo: ${#all[@]} files, no findings"

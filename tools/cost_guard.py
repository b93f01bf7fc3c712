#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares the engine's instruction counts for fixed work (engine/cost_guard.cc) with engine/testdata/costs.txt.

    tools/cost_guard.py PROGRAM             fails when one differs by more than 5 %
    tools/cost_guard.py PROGRAM --update    writes the counts of now

The counts are those of a Release build with the compiler of Debian 12. A change that is meant, for the better or the
worse, comes with the new counts in the same commit.
"""

import pathlib
import re
import subprocess
import sys

ALLOWED = 0.05
WORK = ["admissions", "arrivals", "ends", "preemption", "fair-sharing"]
BASELINE = pathlib.Path(__file__).resolve().parent.parent / "engine/testdata/costs.txt"


def count(program, work):
    """Instructions inside of the functions that measure."""
    run = subprocess.run(
        ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null", "--collect-atstart=no",
         "--toggle-collect=tutti::engine::*::Measured*", program, work],
        capture_output=True, text=True, check=False)
    collected = re.search(r"Collected : (\d+)", run.stderr)
    if run.returncode != 0 or not collected or collected[1] == "0":
        sys.exit(f"cost_guard: {work} was not counted (exit code {run.returncode}):\n{run.stderr[-2000:]}")
    return int(collected[1])


def main(arguments):
    if not arguments or arguments[1:] not in ([], ["--update"]):
        sys.exit(__doc__)
    counts = {work: count(arguments[0], work) for work in WORK}
    if arguments[1:]:
        BASELINE.write_text("# Instructions; written by tools/cost_guard.py PROGRAM --update\n"
                            + "".join(f"{work} {n}\n" for work, n in counts.items()))
        return 0
    known = dict(line.split() for line in BASELINE.read_text().splitlines() if not line.startswith("#"))
    failed = 0
    for work, now in counts.items():
        if work not in known:
            print(f"{work}: {now:,} instructions, and {BASELINE.name} has no such line: run with --update")
            failed = 1
            continue
        before = int(known[work])
        print(f"{work}: {now:,} instructions, {100 * (now - before) / before:+.1f} %")
        if abs(now - before) > ALLOWED * before:
            print(f"  more than {100 * ALLOWED:.0f} % from {before:,}; when it is meant, run tools/cost_guard.py with --update "
                  "and say why in the commit")
            failed = 1
    return failed


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

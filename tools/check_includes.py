#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks who includes what.

- A room's files may include headers of their own room and of the rooms named in cmake/rooms.txt.
- A third-party header may be included only in the files named in cmake/third_party.txt.
- engine/ is pure: no threads, locks, files, streams, clocks, logs or randomness of the system.

Prints one line per finding, FILE:LINE: what, and the way out; exits 1 if there is any.
"""
import fnmatch
import pathlib
import re
import subprocess
import sys

INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')

IMPURE_HEADERS = {
    "thread", "mutex", "shared_mutex", "condition_variable", "future", "semaphore", "latch",
    "barrier", "stop_token", "atomic", "fstream", "iostream", "filesystem", "random", "syncstream",
    "cstdio", "ctime", "stdio.h", "time.h", "unistd.h", "fcntl.h", "pthread.h", "base/log.h",
}
IMPURE_CODE = re.compile(
    r"\b(system_clock|steady_clock|high_resolution_clock)::now\b|\bgetenv\s*\(|\bstd::time\s*\("
    r"|\brandom_device\b|\bstd::rand\b|\bstd::(cout|cerr|clog)\b|\bthread_local\b")


def read_rules(path):
    rules = {}
    for line in path.read_text().splitlines():
        line = line.split("#", 1)[0].strip()
        if line:
            name, _, rest = line.partition(":")
            rules[name.strip()] = rest.split()
    return rules


def tracked_files(root):
    """Sources that git knows or would add: a file forgotten in a commit is checked as well."""
    out = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "*.h", "*.cc"],
        cwd=root, check=True, capture_output=True, text=True).stdout
    return sorted(p for p in set(out.splitlines()) if (root / p).is_file())


def may_include_third_party(path, globs):
    # "*_bench.cc" names the file in any room, "kube/*.cc" files of that room.
    return any(fnmatch.fnmatch(path if "/" in g else path.rsplit("/", 1)[-1], g) for g in globs)


def check_include(path, kind, header, rooms, third_party):
    room = path.split("/", 1)[0]
    is_test = path.endswith("_test.cc")
    if room == "engine" and not is_test and header in IMPURE_HEADERS:
        return f"engine/ is pure and may not include {header}: pass the value in instead"
    if header.startswith(("gtest/", "gmock/")):
        # What several tests share is in a directory called testing/.
        if is_test or "/testing/" in path:
            return None
        return f"{header} outside a test and outside a testing/ directory"
    for prefix, globs in third_party.items():
        if header.startswith(prefix):
            if may_include_third_party(path, globs):
                return None
            allowed = " ".join(globs) or "no file"
            return f"{header} may be included only in {allowed} (cmake/third_party.txt)"
    if kind == "<":
        return None
    if "/" not in header:
        return f'include "{header}" from the repository root, as "{room}/{header}"'
    other = header.split("/", 1)[0]
    if other not in rooms:
        return f"{header}: {other} is not a room of cmake/rooms.txt"
    if other != room and other not in rooms[room]:
        return f"{room}/ may not include {header}: it may use {' '.join(rooms[room]) or 'no room'}"
    return None


def main():
    root = pathlib.Path(__file__).resolve().parent.parent
    rooms = read_rules(root / "cmake" / "rooms.txt")
    third_party = read_rules(root / "cmake" / "third_party.txt")
    findings = []
    count = 0
    for path in tracked_files(root):
        room = path.split("/", 1)[0]
        if room not in rooms:
            findings.append(f"{path}:1: {room} is not a room of cmake/rooms.txt: add it with what it may use")
            continue
        count += 1
        for number, line in enumerate((root / path).read_text().splitlines(), 1):
            match = INCLUDE.match(line)
            if match:
                problem = check_include(path, match[1], match[2], rooms, third_party)
                if problem:
                    findings.append(f"{path}:{number}: {problem}")
            elif room == "engine" and not path.endswith(("_test.cc", "_bench.cc")):
                code = line.split("//", 1)[0]
                match = IMPURE_CODE.search(code)
                if match:
                    findings.append(f"{path}:{number}: engine/ is pure and may not use {match[0].strip()}")
    for finding in findings:
        print(finding)
    if findings:
        print(f"check_includes: {len(findings)} findings in {count} files", file=sys.stderr)
        return 1
    print(f"check_includes: {count} files, no findings")
    return 0


if __name__ == "__main__":
    sys.exit(main())

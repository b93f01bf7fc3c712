#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs test programs for test.sh and keeps the counts.

  runner.py RESULTS check NAME LOG -- COMMAND…    one command is one test: exit 0 passes
  runner.py RESULTS failed NAME LOG               something that failed already, e.g. a build
  runner.py RESULTS gtest BUILD LOGDIR            every GoogleTest program that ctest knows
  runner.py RESULTS counted SUITE LOG -- COMMAND… a runner of its own, which lists failed tests as
                                                  "failed: NAME" or "FAIL  NAME", then why in
                                                  indented lines, and ends with
                                                  "N passed, N failed[, N skipped]"
  runner.py RESULTS summary                       failed tests with their logs, then the counts

RESULTS is a file of JSON lines, one per suite. A program that crashes, or prints no result, is a
failed test; so is a suite in which nothing ran.
"""
import concurrent.futures
import json
import os
import pathlib
import re
import subprocess
import sys
import time

GTEST_TIMEOUT_SECONDS = 600
COUNTS = re.compile(r"(\d+) passed, (\d+) failed(?:, (\d+) skipped)?$")
FAILED = re.compile(r"(?:failed: |FAIL {2,})(\S.*)")


def show(text):
    print(text, flush=True)


def record(results, suite, passed, failed, skipped, seconds):
    """failed: list of (name, log) or (name, log, lines that say why)."""
    line = {"suite": suite, "passed": passed, "failed": failed, "skipped": skipped, "seconds": round(seconds, 1)}
    with open(results, "a") as out:
        out.write(json.dumps(line) + "\n")
    show(f"  {suite}: {passed} passed, {len(failed)} failed, {skipped} skipped ({seconds:.1f} s)")


def tail(path, lines):
    try:
        text = pathlib.Path(path).read_text(errors="replace").rstrip().splitlines()
    except OSError:
        return
    for line in text[-lines:]:
        show("    | " + line)


def run_check(results, name, log, command):
    start = time.monotonic()
    with open(log, "w") as out:
        rc = subprocess.run(command, stdout=out, stderr=subprocess.STDOUT).returncode
    failed = [] if rc == 0 else [(name, log)]
    record(results, name, 1 - len(failed), failed, 0, time.monotonic() - start)
    if failed:
        tail(log, 20)
    return rc == 0


def gtest_programs(build):
    out = subprocess.run(["ctest", "--test-dir", build, "--show-only=json-v1"], check=True,
                         capture_output=True, text=True).stdout
    return [(t["name"], t["command"]) for t in json.loads(out)["tests"] if t.get("command")]


def run_gtest(name, command, logdir):
    log = str(pathlib.Path(logdir) / f"{name}.log")
    report = pathlib.Path(logdir) / f"{name}.json"
    report.unlink(missing_ok=True)
    start = time.monotonic()
    with open(log, "w") as out:
        try:
            rc = subprocess.run(command + [f"--gtest_output=json:{report}", "--gtest_color=no"], stdout=out,
                                stderr=subprocess.STDOUT, timeout=GTEST_TIMEOUT_SECONDS).returncode
        except subprocess.TimeoutExpired:
            out.write(f"\nstopped after {GTEST_TIMEOUT_SECONDS} s\n")
            rc = -1
        except OSError as error:
            out.write(f"can't be started: {error}\n")
            rc = 127
    seconds = time.monotonic() - start
    passed, skipped, failed = 0, 0, []
    try:
        suites = json.loads(report.read_text())["testsuites"]
    except (OSError, ValueError, KeyError):
        suites = []
    for suite in suites:
        for test in suite.get("testsuite", []):
            if test.get("failures"):
                failed.append((f"{name}: {suite['name']}.{test['name']}", log))
            elif test.get("result") == "SKIPPED" or test.get("status") == "NOTRUN":
                skipped += 1
            else:
                passed += 1
    if rc != 0 and not failed:
        failed.append((f"{name}: ended with exit code {rc}" + last_started(log), log))
    elif not suites and rc == 0:
        failed.append((f"{name}: ran no test", log))
    return name, passed, failed, skipped, seconds, log


def last_started(log):
    started = re.findall(r"^\[ RUN      \] (\S+)", pathlib.Path(log).read_text(errors="replace"), re.M)
    return f" in {started[-1]}" if started else ""


def run_all_gtests(results, build, logdir):
    ok = True
    with concurrent.futures.ThreadPoolExecutor(max_workers=min(2, os.cpu_count() or 1)) as pool:
        futures = [pool.submit(run_gtest, name, command, logdir) for name, command in gtest_programs(build)]
        for future in futures:
            name, passed, failed, skipped, seconds, log = future.result()
            record(results, name, passed, failed, skipped, seconds)
            if failed:
                tail(log, 30)
                ok = False
    if not futures:
        show("  no unit test program found: is the build complete?")
        record(results, "unit", 0, [("unit: no test program", build)], 0, 0)
        return False
    return ok


def run_counted(results, suite, log, command):
    """A command that reports its own tests and closes with their counts."""
    start = time.monotonic()
    counts, failed, names = None, [], []  # names: (name, lines that say why)
    with open(log, "w") as out:
        child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace")
        for line in child.stdout:
            out.write(line)
            out.flush()
            text = line.rstrip()
            match = COUNTS.search(text)
            if match:
                counts = (int(match[1]), int(match[2]), int(match[3] or 0))
                continue
            match = FAILED.match(text)
            if match:
                names.append((match[1], []))
            elif names and text.startswith("        "):
                names[-1][1].append(text.strip())
            if not text.startswith("ok  "):
                show("  " + text)
        rc = child.wait()
    passed, bad, skipped = counts or (0, 0, 0)
    for name, why in names[:bad]:
        failed.append((f"{suite}: {name}", log, why[:5]))
    failed += [(f"{suite}: a test without a name", log)] * (bad - len(failed))
    if not failed and (rc != 0 or passed + skipped == 0):
        failed.append((f"{suite}: ended with exit code {rc}" if rc else f"{suite}: ran no test", log))
    record(results, suite, passed, failed, skipped, time.monotonic() - start)
    return not failed


def summary(results):
    rows = [json.loads(line) for line in pathlib.Path(results).read_text().splitlines()]
    failed = [f for row in rows for f in row["failed"]]
    if failed:
        show("\nFailed:")
        for name, log, *why in failed:
            show("\n".join([f"  {name}"] + [f"      {line}" for line in (why[0] if why else [])] + [f"      log: {log}"]))
    passed = sum(row["passed"] for row in rows)
    skipped = sum(row["skipped"] for row in rows)
    show("")
    show(f"{passed} passed, {len(failed)} failed, {skipped} skipped")
    return not failed and passed > 0


def main(argv):
    if len(argv) < 3:
        sys.exit(__doc__)
    results, what, rest = argv[1], argv[2], argv[3:]
    command = []
    if "--" in rest:
        split = rest.index("--")
        rest, command = rest[:split], rest[split + 1:]
    if what == "check":
        ok = run_check(results, rest[0], rest[1], command)
    elif what == "failed":
        record(results, rest[0], 0, [(rest[0], rest[1])], 0, 0)
        ok = False
    elif what == "gtest":
        ok = run_all_gtests(results, rest[0], rest[1])
    elif what == "counted":
        ok = run_counted(results, rest[0], rest[1], command)
    elif what == "summary":
        ok = summary(results)
    else:
        sys.exit(__doc__)
    sys.exit(0 if ok else 1)


if __name__ == "__main__":
    main(sys.argv)

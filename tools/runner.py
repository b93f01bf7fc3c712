#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs test programs for test.sh and keeps the counts.

  runner.py RESULTS check NAME LOG -- COMMAND…    one command is one test: exit 0 passes
  runner.py RESULTS gtest BUILD LOGDIR            every GoogleTest program that ctest knows
  runner.py RESULTS go SUITE LOGDIR -- COMMAND…   a `go test -json …` command
  runner.py RESULTS summary                       failed tests with their logs, then the counts

RESULTS is a file of JSON lines, one per suite. A program that crashes, or prints no result, is a
failed test; so is a suite in which nothing ran.
"""
import collections
import concurrent.futures
import json
import os
import pathlib
import re
import subprocess
import sys
import time

GTEST_TIMEOUT_SECONDS = 600


def show(text):
    print(text, flush=True)


def record(results, suite, passed, failed, skipped, seconds):
    """failed: list of (name, log)."""
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


def run_go(results, suite, logdir, command):
    """Shows each top-level test as it ends; the output of each goes to a log of its own."""
    start = time.monotonic()
    logs = {}
    state = {}
    output = collections.defaultdict(str)
    broken = set()
    path = pathlib.Path(logdir)
    path.mkdir(parents=True, exist_ok=True)

    def write(name, text):
        if name not in logs:
            logs[name] = open(path / (re.sub(r"[^A-Za-z0-9_.-]", "_", name) + ".log"), "w")
        logs[name].write(text)
        logs[name].flush()

    child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace")
    for line in child.stdout:
        try:
            event = json.loads(line)
            action = event["Action"]
        except (ValueError, KeyError, TypeError):
            write("build", line)
            continue
        test = event.get("Test", "")
        top = test.split("/", 1)[0]
        if action in ("output", "build-output"):
            write(top or "build", event.get("Output", ""))
            output[test] += event.get("Output", "")
        elif action == "run" and test and "/" not in test:
            show(f"  {test} …")
        elif action in ("pass", "fail", "skip") and test:
            # A test with subtests counts by its subtests; its own verdict counts if they all passed.
            state[test] = (action, event.get("Elapsed", 0.0))
            if "/" not in test:
                word = {"pass": "ok", "fail": "FAILED", "skip": "skipped"}[action]
                show(f"  {test}: {word} ({event.get('Elapsed', 0.0):.1f} s)")
                if action == "fail":
                    tail(logs[top].name, 40)
        elif action == "fail":
            broken.add(event.get("Package") or event.get("ImportPath") or suite)
    rc = child.wait()
    for log in logs.values():
        log.close()
    parents = {name.rsplit("/", 1)[0] for name in state if "/" in name}
    passed, skipped, failed = 0, 0, []
    for name, (action, _) in sorted(state.items()):
        if name in parents:
            children_failed = any(n.startswith(name + "/") and a == "fail" for n, (a, _) in state.items())
            if action != "fail" or children_failed:
                continue
        if action == "fail":
            failed.append((f"{suite}: {name}", logs[name.split('/', 1)[0]].name))
        elif action == "skip":
            skipped += 1
        else:
            passed += 1
    if rc != 0 and not failed:
        where = logs["build"].name if "build" in logs else str(path)
        failed.append((f"{suite}: {' '.join(sorted(broken)) or 'go test'} ended with exit code {rc}", where))
        tail(where, 40)
    if not state and rc == 0:
        failed.append((f"{suite}: no test matched", str(path)))
    record(results, suite, passed, failed, skipped, time.monotonic() - start)
    return not failed


def summary(results):
    rows = [json.loads(line) for line in pathlib.Path(results).read_text().splitlines()]
    failed = [f for row in rows for f in row["failed"]]
    if failed:
        show("\nFailed:")
        for name, log in failed:
            show(f"  {name}\n      log: {log}")
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
    elif what == "gtest":
        ok = run_all_gtests(results, rest[0], rest[1])
    elif what == "go":
        ok = run_go(results, rest[0], rest[1], command)
    elif what == "summary":
        ok = summary(results)
    else:
        sys.exit(__doc__)
    sys.exit(0 if ok else 1)


if __name__ == "__main__":
    main(sys.argv)

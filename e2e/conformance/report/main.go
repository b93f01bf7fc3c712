// SPDX-License-Identifier: Apache-2.0

// report reads Ginkgo's JSON reports of the conformance suites:
//
//	report count --suite S --results FILE --reasons FILE --log FILE --seconds N   one suite, as text
//	report table --results DIR --suites FILE --reasons FILE                       docs/conformance.md
package main

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// spec is one entry of a report.
type spec struct {
	ContainerHierarchyTexts []string
	LeafNodeType            string
	LeafNodeText            string
	State                   string
	Failure                 struct {
		Message             string
		FailureNodeLocation struct{ FileName string }
	}
}

func (s spec) name() string {
	return strings.Join(append(append([]string{}, s.ContainerHierarchyTexts...), s.LeafNodeText), " ")
}

func (s spec) failed() bool {
	switch s.State {
	case "failed", "panicked", "timedout", "interrupted", "aborted":
		return true
	}
	return false
}

// reason is a line of reasons.txt.
type reason struct {
	notApplicable bool
	suite, name   string
	text          string
}

// result of one suite.
type result struct {
	passed        int
	failed        []spec
	notApplicable []spec // whether they failed or not
	notRun        int    // left out, or the run ended before
	broken        string // the suite itself did not come up
}

func (r result) total() int { return r.passed + len(r.failed) + len(r.notApplicable) + r.notRun }

func main() {
	if len(os.Args) < 2 {
		fmt.Fprintln(os.Stderr, "usage: report count|table …")
		os.Exit(2)
	}
	flags := flag.NewFlagSet(os.Args[1], flag.ExitOnError)
	suite := flags.String("suite", "", "")
	results := flags.String("results", "", "")
	suites := flags.String("suites", "", "")
	reasonFile := flags.String("reasons", "", "")
	log := flags.String("log", "", "")
	seconds := flags.Int("seconds", 0, "")
	_ = flags.Parse(os.Args[2:])
	reasons, err := readReasons(*reasonFile)
	if err == nil {
		if os.Args[1] == "table" {
			err = table(*results, *suites, reasons)
		} else {
			err = count(*suite, *results, *log, *seconds, reasons)
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "report:", err)
		os.Exit(1)
	}
}

func count(suite, file, log string, seconds int, reasons []reason) error {
	r, err := read(suite, file, reasons)
	if err != nil {
		fmt.Printf("FAIL  %s\n    no results (%v); see %s\n0 passed, 1 failed, 0 skipped\n", suite, err, log)
		os.Exit(1)
	}
	known := 0
	for _, s := range r.failed {
		if explain(suite, s, reasons).text != "" {
			known++
			continue
		}
		fmt.Printf("FAIL  %s: %s\n    %s\n", suite, s.name(), firstLines(s.Failure.Message, 3))
	}
	failed := len(r.failed) - known
	if r.broken != "" {
		failed++
		fmt.Printf("FAIL  %s\n    %s\n", suite, firstLines(r.broken, 3))
	}
	if failed > 0 {
		fmt.Printf("    see %s\n", log)
	}
	fmt.Printf("%s: %d failures with a known reason, %d not applicable, %d s\n", suite, known, len(r.notApplicable), seconds)
	fmt.Printf("%d passed, %d failed, %d skipped\n", r.passed, failed, known+len(r.notApplicable))
	if failed > 0 {
		os.Exit(1)
	}
	return nil
}

func read(suite, file string, reasons []reason) (result, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return result{}, err
	}
	var reports []struct{ SpecReports []spec }
	if err := json.Unmarshal(text, &reports); err != nil {
		return result{}, err
	}
	var r result
	for _, report := range reports {
		for _, s := range report.SpecReports {
			switch {
			case s.LeafNodeType != "It":
				if s.failed() {
					r.broken = s.LeafNodeType + ": " + s.Failure.Message
				}
			case s.State == "skipped" || s.State == "pending":
				r.notRun++
			case explain(suite, s, reasons).notApplicable:
				r.notApplicable = append(r.notApplicable, s)
			case s.failed():
				r.failed = append(r.failed, s)
			default:
				r.passed++
			}
		}
	}
	return r, nil
}

func explain(suite string, s spec, reasons []reason) reason {
	for _, known := range reasons {
		if known.suite == suite && strings.Contains(s.name(), known.name) {
			return known
		}
	}
	return reason{}
}

func readReasons(file string) ([]reason, error) {
	handle, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer handle.Close()
	var reasons []reason
	lines := bufio.NewScanner(handle)
	for number := 1; lines.Scan(); number++ {
		line := strings.TrimSpace(lines.Text())
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		kind, rest, _ := strings.Cut(line, " ")
		parts := strings.SplitN(rest, ": ", 3)
		if len(parts) != 3 || (kind != "n/a" && kind != "fails") {
			return nil, fmt.Errorf("%s:%d: must read 'n/a|fails SUITE: NAME: reason'", file, number)
		}
		reasons = append(reasons, reason{kind == "n/a", parts[0], parts[1], parts[2]})
	}
	return reasons, lines.Err()
}

var blanks = regexp.MustCompile(`\s+`)

func firstLines(text string, n int) string {
	lines := strings.SplitN(strings.TrimSpace(text), "\n", n+1)
	if len(lines) > n {
		lines = lines[:n]
	}
	return strings.TrimSpace(blanks.ReplaceAllString(strings.Join(lines, " "), " "))
}

func table(dir, suiteFile string, reasons []reason) error {
	text, err := os.ReadFile(suiteFile)
	if err != nil {
		return err
	}
	var suites []string
	for line := range strings.Lines(string(text)) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
			suites = append(suites, line)
		}
	}
	fmt.Print(`# Kueue's own specs

The integration specs of Kueue v0.19.2 (` + "`test/integration/singlecluster`" + `), unmodified, with Tutti as the manager:
` + "`./test.sh conformance [SUITE…]`" + `, how: [e2e/conformance](../e2e/conformance/README.md). This page is made by
` + "`e2e/conformance/run.sh --report`" + ` from the last results of each suite.

"Not applicable": the spec needs Kueue inside the test's own process. "With Kueue": passed when the
same harness runs Kueue's own packages as the separate process.

| Suite | Specs | Passed | Failed | Not applicable | Not run | With Kueue |
|---|---|---|---|---|---|---|
`)
	var failures, others strings.Builder
	var sum result
	passed := 0
	for _, suite := range suites {
		name := strings.ReplaceAll(suite, "/", "-") + ".json"
		r, err := read(suite, filepath.Join(dir, "tutti", name), reasons)
		if err != nil {
			fmt.Printf("| %s | not run yet | | | | | |\n", suite)
			continue
		}
		with := "not run"
		if k, err := read(suite, filepath.Join(dir, "kueue", name), nil); err == nil {
			with = fmt.Sprint(k.passed, " of ", k.total())
		}
		fmt.Printf("| %s | %d | %d | %d | %d | %d | %s |\n", suite, r.total(), r.passed, len(r.failed), len(r.notApplicable), r.notRun, with)
		passed += r.passed
		sum.notRun += r.notRun
		sum.failed = append(sum.failed, r.failed...)
		sum.notApplicable = append(sum.notApplicable, r.notApplicable...)
		list(&failures, suite, r.failed, reasons)
		list(&others, suite, r.notApplicable, reasons)
	}
	sum.passed = passed
	fmt.Printf("| **all** | %d | %d | %d | %d | %d | |\n", sum.total(), passed, len(sum.failed), len(sum.notApplicable), sum.notRun)
	fmt.Printf("\n## Failing\n%s\n## Not applicable\n%s", orNone(failures.String()), orNone(others.String()))
	return nil
}

func orNone(text string) string {
	if text == "" {
		return "\nNone.\n"
	}
	return text
}

func list(out *strings.Builder, suite string, specs []spec, reasons []reason) {
	if len(specs) == 0 {
		return
	}
	fmt.Fprintf(out, "\n### %s\n\n", suite)
	for _, s := range specs {
		why := explain(suite, s, reasons).text
		if why == "" {
			why = firstLines(s.Failure.Message, 2)
			if len(why) > 160 {
				why = why[:160] + "…"
			}
			why = "`" + strings.ReplaceAll(why, "`", "'") + "`"
		}
		fmt.Fprintf(out, "- %s: %s\n", s.name(), why)
	}
}

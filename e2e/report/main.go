// SPDX-License-Identifier: Apache-2.0

// report reads `go test -json` on standard input, shows progress in a few lines, writes the whole
// output to a file and closes with the counts. Exit status 1 if a test failed or none ran.
//
// Lines that a test logs with the prefix "progress:" or "result:" are shown as they come.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/signal"
	"regexp"
	"strings"
)

type event struct {
	Action, Package, Test, Output string
	ImportPath                    string
	Elapsed                       float64
}

type test struct {
	pkg      string
	name     string
	output   []string
	children int
	action   string // pass, fail, skip, or "" while it runs
}

type runner struct {
	out     io.Writer
	full    io.Writer
	logPath string
	tests   map[string]*test
	order   []string
	builds  []string
	failed  []*test
	counts  map[string]int
	broken  []string // packages that failed without a failing test
	loose   map[string][]string
}

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: go test -json … | report LOGFILE")
		os.Exit(2)
	}
	signal.Ignore(os.Interrupt) // the tests stop, and what they did is still counted
	file, err := os.Create(os.Args[1])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	r := newRunner(os.Stdout, file, os.Args[1])
	err = r.read(os.Stdin)
	ok := r.close()
	if closeErr := file.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	if !ok || err != nil {
		os.Exit(1)
	}
}

func newRunner(out, full io.Writer, logPath string) *runner {
	return &runner{
		out: out, full: full, logPath: logPath,
		tests: map[string]*test{}, counts: map[string]int{}, loose: map[string][]string{},
	}
}

func (r *runner) read(in io.Reader) error {
	scanner := bufio.NewScanner(in)
	scanner.Buffer(nil, 16<<20)
	for scanner.Scan() {
		var e event
		if err := json.Unmarshal(scanner.Bytes(), &e); err != nil {
			// Not JSON: go itself complains.
			fmt.Fprintln(r.out, scanner.Text())
			continue
		}
		if _, err := io.WriteString(r.full, e.Output); err != nil {
			return err
		}
		r.take(e)
	}
	return scanner.Err()
}

// whyLines of a failed test are told again at the end.
const whyLines = 3

var shown = regexp.MustCompile(`^\s*(?:[\w.-]+\.go:\d+: )?((?:progress|result): .*)\n?$`)

func (r *runner) take(e event) {
	if e.Test == "" {
		switch e.Action {
		case "build-output":
			r.builds = append(r.builds, e.Output)
		case "output":
			r.loose[e.Package] = append(r.loose[e.Package], e.Output)
		case "fail":
			for _, t := range r.failed {
				if t.pkg == e.Package {
					return
				}
			}
			r.broken = append(r.broken, e.Package)
		}
		return
	}
	key := e.Package + "." + e.Test
	t := r.tests[key]
	if t == nil {
		t = &test{pkg: e.Package, name: e.Test}
		r.tests[key] = t
		r.order = append(r.order, key)
		if slash := strings.LastIndexByte(e.Test, '/'); slash >= 0 {
			if parent := r.tests[e.Package+"."+e.Test[:slash]]; parent != nil {
				parent.children++
			}
		} else if strings.HasSuffix(e.Package, "/suite") {
			fmt.Fprintf(r.out, "  …     %s\n", e.Test)
		}
	}
	switch e.Action {
	case "output":
		t.output = append(t.output, e.Output)
		if match := shown.FindStringSubmatch(e.Output); match != nil {
			fmt.Fprintf(r.out, "        %s\n", match[1])
		}
	case "pass", "fail", "skip":
		t.action = e.Action
		mark := map[string]string{"pass": "ok  ", "fail": "FAIL", "skip": "skip"}[e.Action]
		fmt.Fprintf(r.out, "  %s  %s (%.1f s)\n", mark, e.Test, e.Elapsed)
		if e.Action == "fail" {
			r.failed = append(r.failed, t)
			for _, line := range said(t.output) {
				fmt.Fprintf(r.out, "        %s\n", line)
			}
		}
	}
}

// said is what a test itself has written, without go test's frame.
func said(output []string) []string {
	var out []string
	for _, line := range output {
		if trimmed := strings.TrimSpace(line); trimmed != "" && !strings.HasPrefix(trimmed, "===") && !strings.HasPrefix(trimmed, "---") {
			out = append(out, strings.TrimRight(line, "\n"))
		}
	}
	return out
}

// close prints the counts; a test with parts counts only if it failed by itself.
func (r *runner) close() bool {
	for _, key := range r.order {
		t := r.tests[key]
		switch {
		case t.action == "":
			// Its process died: a panic, a time-out, or an interrupt.
			t.action = "fail"
			r.failed = append(r.failed, t)
			r.counts["fail"]++
		case t.children > 0 && (t.action != "fail" || r.partFailed(t)):
		default:
			r.counts[t.action]++
		}
	}
	for _, line := range r.builds {
		fmt.Fprint(r.out, line)
	}
	for _, name := range r.broken {
		fmt.Fprintf(r.out, "  FAIL  %s\n", name)
		for _, line := range r.loose[name] {
			fmt.Fprintf(r.out, "        %s\n", strings.TrimRight(line, "\n"))
		}
		if r.counts["fail"] == 0 {
			r.counts["fail"]++
		}
	}
	for _, t := range r.failed {
		if t.children > 0 && r.partFailed(t) {
			continue
		}
		fmt.Fprintf(r.out, "failed: %s\n", t.name)
		for i, line := range said(t.output) {
			if i == whyLines {
				break
			}
			fmt.Fprintf(r.out, "        %.300s\n", strings.TrimSpace(line))
		}
		for name := t.name; ; name = name[:strings.LastIndexByte(name, '/')] {
			if around := r.tests[t.pkg+"."+name]; around != nil {
				for _, line := range around.output {
					if _, path, found := strings.Cut(line, "logs: "); found {
						fmt.Fprintf(r.out, "        component logs: %s\n", strings.TrimSpace(path))
					}
				}
			}
			if !strings.Contains(name, "/") {
				break
			}
		}
	}
	if len(r.failed)+len(r.broken) > 0 {
		fmt.Fprintf(r.out, "full output: %s\n", r.logPath)
	}
	fmt.Fprintf(r.out, "%d passed, %d failed, %d skipped\n", r.counts["pass"], r.counts["fail"], r.counts["skip"])
	if r.counts["pass"]+r.counts["fail"]+r.counts["skip"] == 0 {
		fmt.Fprintln(r.out, "no test ran: does the pattern match one?")
		return false
	}
	return r.counts["fail"] == 0
}

func (r *runner) partFailed(whole *test) bool {
	for _, t := range r.failed {
		if t.pkg == whole.pkg && strings.HasPrefix(t.name, whole.name+"/") {
			return true
		}
	}
	return false
}

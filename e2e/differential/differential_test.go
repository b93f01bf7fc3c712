// SPDX-License-Identifier: Apache-2.0

// KueueAgreement: with quota alone, Tutti decides as Kueue's scheduler does.
//
// Reproduce cases with TUTTI_DIFFERENTIAL_SEED=N,M (and the name of the test): they are run alone, made smaller
// as long as the difference stays, and said with the state of both sides after every step.

package differential

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

func TestKueueAgreement(t *testing.T) { run(t, 300, 2000, Options{}) }

// In which order the shares let workloads in; nobody is preempted.
func TestKueueAgreementFairSharing(t *testing.T) { run(t, 150, 2000, Options{FairSharing: true}) }

// Who has to give way as well.
func TestKueueAgreementPreemption(t *testing.T) { run(t, 200, 2000, Options{Preemption: true}) }

// Shares decide who has to give way.
func TestKueueAgreementFairPreemption(t *testing.T) {
	run(t, 100, 2000, Options{Preemption: true, FairSharing: true})
}

func run(t *testing.T, short, long int, options Options) {
	s := start(t)
	count := short
	if os.Getenv("TUTTI_E2E_LONG") != "" {
		count = long
	}
	if text := os.Getenv("TUTTI_DIFFERENTIAL_CASES"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil {
			t.Fatalf("TUTTI_DIFFERENTIAL_CASES: %v", err)
		}
		count = n
	}
	var seeds []uint64
	named := os.Getenv("TUTTI_DIFFERENTIAL_SEED")
	for text := range strings.SplitSeq(named, ",") {
		if text == "" {
			continue
		}
		seed, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			t.Fatalf("TUTTI_DIFFERENTIAL_SEED: %v", err)
		}
		seeds = append(seeds, seed)
	}
	for seed := uint64(1); named == "" && seed <= uint64(count); seed++ {
		seeds = append(seeds, seed)
	}
	begin := time.Now()
	tally := map[string][]uint64{}
	admitted, preempted, waiting := 0, 0, 0
	for _, seed := range seeds {
		c := generate(seed, options)
		result, err := compare(t.Context(), s, c)
		if err != nil {
			t.Fatalf("seed %d: %v\n%s", seed, err, c)
		}
		tally[result.verdict] = append(tally[result.verdict], seed)
		for _, o := range result.kueue {
			admitted += len(o.Holding)
			waiting += len(o.Waiting)
			preempted += len(o.Preempted)
		}
		if isDifferent(result.verdict) {
			t.Errorf("seed %d: %s, step %d\n%s", seed, result.verdict, result.step, result.text)
		}
		if named != "" {
			t.Log(explain(t, s, c, result))
		}
	}
	t.Logf("result: %d cases in %v; holding %d, waiting %d, preempted %d, over all steps\n%s", len(seeds),
		time.Since(begin).Round(time.Second), admitted, waiting, preempted, describeTally(tally))
	if named == "" && (admitted < 5*count || waiting < 3*count || (options.Preemption && preempted < count/4)) {
		t.Error("the cases are too easy to tell anything")
	}
}

// explain makes a case with a difference smaller and says what both sides do.
func explain(t *testing.T, s *simulator, c *Case, result comparison) string {
	if result.verdict != agree {
		c = shrink(c, func(c *Case) bool {
			smaller, err := compare(t.Context(), s, c)
			return err == nil && smaller.verdict == result.verdict
		})
		var err error
		if result, err = compare(t.Context(), s, c); err != nil {
			t.Fatal(err)
		}
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n%s, step %d\n%s", c, result.verdict, result.step, result.text)
	for i := range min(len(result.tutti), len(result.kueue)) {
		fmt.Fprintf(&b, "after step %d\n  Tutti:\n%s  Kueue:\n%s", i, describeOutcome(result.tutti[i]), describeOutcome(result.kueue[i]))
	}
	b.WriteString("Kueue's cycles:\n")
	if _, err := playKueue(t.Context(), c, quickEvictions, func(format string, args ...any) { fmt.Fprintf(&b, format, args...) }); err != nil {
		fmt.Fprintln(&b, err)
	}
	return b.String()
}

func describeOutcome(o Outcome) string {
	var b strings.Builder
	for _, name := range sortedKeys(o.Holding) {
		fmt.Fprintf(&b, "    %s holds %s\n", name, o.Holding[name])
	}
	for _, name := range sortedKeys(o.Waiting) {
		fmt.Fprintf(&b, "    %s waits: %s\n", name, o.Waiting[name])
	}
	for _, name := range sortedKeys(o.Preempted) {
		fmt.Fprintf(&b, "    %s gave way: %v\n", name, o.Preempted[name])
	}
	return b.String()
}

func describeTally(tally map[string][]uint64) string {
	var b strings.Builder
	for _, verdict := range sortedKeys(tally) {
		seeds := tally[verdict]
		fmt.Fprintf(&b, "  %6d  %s", len(seeds), verdict)
		if verdict != agree {
			fmt.Fprintf(&b, ": seeds %v", seeds[:min(len(seeds), 30)])
		}
		b.WriteByte('\n')
	}
	return b.String()
}

func start(t *testing.T) *simulator {
	t.Helper()
	binary := os.Getenv("TUTTI_BIN")
	if binary == "" {
		binary = filepath.Join("..", "..", "build", "release", "tutti")
	}
	s, err := startSimulator(binary)
	if err != nil {
		t.Fatalf("%v (TUTTI_BIN names the binary)", err)
	}
	t.Cleanup(func() {
		if err := s.close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// A seed is the same case on every machine.
func TestGenerateIsPure(t *testing.T) {
	for seed := uint64(1); seed < 50; seed++ {
		options := Options{Preemption: true, FairSharing: true, PartialAdmission: true}
		if a, b := generate(seed, options).String(), generate(seed, options).String(); a != b {
			t.Fatalf("seed %d:\n%s\nand\n%s", seed, a, b)
		}
	}
}

// The names of workloads are unique; what ends has arrived before.
func TestGenerateMakesSense(t *testing.T) {
	for seed := uint64(1); seed < 200; seed++ {
		var known []string
		for _, s := range generate(seed, Options{}).Steps {
			for _, name := range s.End {
				if !slices.Contains(known, name) {
					t.Fatalf("seed %d: %s ends and never came", seed, name)
				}
			}
			for _, w := range s.Arrive {
				if slices.Contains(known, w.Name) {
					t.Fatalf("seed %d: two of name %s", seed, w.Name)
				}
				known = append(known, w.Name)
			}
		}
	}
}

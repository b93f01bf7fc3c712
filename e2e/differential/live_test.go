// SPDX-License-Identifier: Apache-2.0

// KueueAgreementLive: a sample of KueueAgreement through a real API server, played to the operator: the same
// workloads get the same flavors in the same order, and the same ones give way.

package differential

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"tutti.dev/e2e/cluster"
)

func TestKueueAgreementLive(t *testing.T) {
	t.Run("without preemption", func(t *testing.T) { runLive(t, 20, Options{}) })
	t.Run("preemption", func(t *testing.T) { runLive(t, 15, Options{Preemption: true}) })
	t.Run("fair sharing", func(t *testing.T) { runLive(t, 5, Options{FairSharing: true}) })
}

// runLive plays `count` cases at once, each with names of its own, those that both schedulers decide alike in memory:
// the others are KueueAgreement's.
func runLive(t *testing.T, count int, options Options) {
	const patience = 20 * time.Second
	s := start(t)
	cases := map[*Case][]Outcome{}
	for seed := uint64(1); len(cases) < count; seed++ {
		c := generate(seed, options).oneByOne().named(fmt.Sprintf("s%d-", seed))
		if len(c.Steps) < 8 || len(c.Steps) > 30 {
			continue
		}
		result, err := compare(t.Context(), s, c)
		if err != nil {
			t.Fatal(err)
		}
		if result.verdict == agree {
			cases[c] = result.kueue
		}
	}
	c := cluster.ForTest(t, cluster.Options{NoKwok: true})
	if err := c.InstallTutti(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	config := map[string]any{}
	if options.FairSharing {
		config["fairSharing"] = map[string]any{"preemptionStrategies": []any{"LessThanOrEqualToFinalShare", "LessThanInitialShare"}}
	}
	if _, err := c.StartTutti(t.Context(), cluster.TuttiOptions{
		Config: config, Tutti: map[string]any{"capacity": map[string]any{"mode": "Off"}, "nativeGang": "Off"},
	}); err != nil {
		t.Fatal(err)
	}
	api, err := newClient(c.Config)
	if err != nil {
		t.Fatal(err)
	}
	admitted, preempted := 0, 0
	var all sync.WaitGroup
	for one, expected := range cases {
		for _, o := range expected {
			admitted += len(o.Holding)
			preempted += len(o.Preempted)
		}
		all.Go(func() {
			difference, err := playLive(t.Context(), api, one, expected, patience)
			if err != nil {
				t.Errorf("seed %d: %v\n%s", one.Seed, err, one)
			} else if difference != "" {
				t.Errorf("seed %d: %s\n%s", one.Seed, difference, one)
			}
		})
	}
	all.Wait()
	t.Logf("result: %d cases; holding %d, preempted %d, over all steps", count, admitted, preempted)
	if admitted < 10*count || options.Preemption && preempted < count/3 {
		t.Error("the cases are too easy to tell anything")
	}
}

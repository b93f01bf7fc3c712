// SPDX-License-Identifier: Apache-2.0

package differential

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"tutti.dev/e2e/jsonlines"
)

// Outcome is the state after a step.
type Outcome struct {
	Holding   map[string]Admission
	Preempted map[string][]string // in this step, by victim: the reasons, sorted
	For       map[string]bool     // in this step: those for whom others gave way; Kueue's side doesn't fill it
	Waiting   map[string]string   // why; not compared
}

// Admission of one workload.
type Admission struct {
	ClusterQueue string   `json:"clusterQueue"`
	PodSets      []PodSet `json:"podSets"`
}

// PodSet as it was admitted.
type PodSet struct {
	Name    string            `json:"name"`
	Count   int32             `json:"count"`
	Flavors map[string]string `json:"flavors"` // by resource
}

func (a Admission) String() string {
	var b strings.Builder
	b.WriteString(a.ClusterQueue)
	for _, p := range a.PodSets {
		fmt.Fprintf(&b, " %s:%d", p.Name, p.Count)
		for _, resource := range sortedKeys(p.Flavors) {
			fmt.Fprintf(&b, " %s=%s", resource, p.Flavors[resource])
		}
	}
	return b.String()
}

// simulator is a running `tutti simulate --batch`. Not safe for concurrent use.
type simulator struct{ program *jsonlines.Program }

func startSimulator(binary string) (*simulator, error) {
	program, err := jsonlines.Start(binary, "simulate", "--batch")
	return &simulator{program}, err
}

func (s *simulator) close() error { return s.program.Close() }

// play plays the case to Tutti's engine.
func (s *simulator) play(c *Case) ([]Outcome, error) {
	var reply struct {
		Steps []struct {
			Admitted []struct {
				Workload string `json:"workload"`
				Admission
			} `json:"admitted"`
			Preempted []struct {
				Victim    string `json:"victim"`
				Preemptor string `json:"preemptor"`
				Reason    string `json:"reason"`
			} `json:"preempted"`
			Pending []struct {
				Workload string `json:"workload"`
				Message  string `json:"message"`
			} `json:"pending"`
		} `json:"steps"`
	}
	if err := s.program.Ask(c.Seed, c.batchLine(), &reply); err != nil {
		return nil, err
	}
	nameOf := func(id string) string { return strings.TrimPrefix(id, namespace+"/") }
	// A workload may come and go several times in a step: its last admission stands unless each was taken back.
	var outcomes []Outcome
	holding := map[string]Admission{}
	for i, step := range reply.Steps {
		out := Outcome{Preempted: map[string][]string{}, For: map[string]bool{}, Waiting: map[string]string{}}
		times := map[string]int{}
		for _, name := range c.Steps[i].End {
			delete(holding, name)
		}
		for name := range holding {
			times[name] = 1
		}
		for _, a := range step.Admitted {
			times[nameOf(a.Workload)]++
			holding[nameOf(a.Workload)] = a.Admission
		}
		for _, p := range step.Preempted {
			victim := nameOf(p.Victim)
			out.Preempted[victim] = append(out.Preempted[victim], p.Reason)
			out.For[nameOf(p.Preemptor)] = true
			if times[victim]--; times[victim] == 0 {
				delete(holding, victim)
			}
		}
		out.Holding = maps.Clone(holding)
		for _, reasons := range out.Preempted {
			slices.Sort(reasons)
		}
		for _, p := range step.Pending {
			out.Waiting[nameOf(p.Workload)] = p.Message
		}
		outcomes = append(outcomes, out)
	}
	return outcomes, nil
}

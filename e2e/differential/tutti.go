// SPDX-License-Identifier: Apache-2.0

package differential

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"
)

// Outcome is the state after a step.
type Outcome struct {
	Holding   map[string]Admission
	Preempted map[string][]string // in this step, by victim: the reasons, sorted
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
type simulator struct {
	command *exec.Cmd
	in      io.WriteCloser
	out     *bufio.Reader
	encoder *json.Encoder
}

func startSimulator(binary string) (*simulator, error) {
	command := exec.Command(binary, "simulate", "--batch")
	command.Stderr = os.Stderr
	in, err := command.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := command.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := command.Start(); err != nil {
		return nil, err
	}
	return &simulator{command: command, in: in, out: bufio.NewReaderSize(out, 1<<20), encoder: json.NewEncoder(in)}, nil
}

func (s *simulator) close() error { return errors.Join(s.in.Close(), s.command.Wait()) }

// play plays the case to Tutti's engine.
func (s *simulator) play(c *Case) ([]Outcome, error) {
	if err := s.encoder.Encode(c.batchLine()); err != nil {
		return nil, fmt.Errorf("tutti simulate: %w", err)
	}
	line, err := s.out.ReadBytes('\n')
	if err != nil {
		return nil, fmt.Errorf("tutti simulate gave no answer: %w", err)
	}
	var reply struct {
		ID    uint64 `json:"id"`
		Error string `json:"error"`
		Steps []struct {
			Admitted []struct {
				Workload string `json:"workload"`
				Admission
			} `json:"admitted"`
			Preempted []struct {
				Victim string `json:"victim"`
				Reason string `json:"reason"`
			} `json:"preempted"`
			Pending []struct {
				Workload string `json:"workload"`
				Message  string `json:"message"`
			} `json:"pending"`
		} `json:"steps"`
	}
	if err := json.Unmarshal(line, &reply); err != nil {
		return nil, fmt.Errorf("tutti simulate answered %q: %w", line, err)
	}
	switch {
	case reply.Error != "":
		return nil, errors.New("tutti simulate: " + reply.Error)
	case reply.ID != c.Seed:
		return nil, fmt.Errorf("tutti simulate answered another case: %s", line)
	}
	nameOf := func(id string) string { return strings.TrimPrefix(id, namespace+"/") }
	// A workload may come and go several times in a step: its last admission stands unless each was taken back.
	var outcomes []Outcome
	holding := map[string]Admission{}
	for i, step := range reply.Steps {
		out := Outcome{Preempted: map[string][]string{}, Waiting: map[string]string{}}
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

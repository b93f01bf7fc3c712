// SPDX-License-Identifier: Apache-2.0

package randomcase

import (
	"fmt"

	"tutti.dev/e2e/jsonlines"
)

// Answer of `tutti fit` for one gang.
type Answer struct {
	Gang      string `json:"gang"`
	Verdict   string `json:"verdict"` // Fits, NotNow, Never, Undecided
	Message   string `json:"message"`
	Placement []Slot `json:"placement"`
}

// Fits says whether the answer is yes; No whether it is no. Undecided is neither.
func (a Answer) Fits() bool { return a.Verdict == "Fits" }

// No says whether the answer is no.
func (a Answer) No() bool { return a.Verdict == "NotNow" || a.Verdict == "Never" }

// Fitter is a running `tutti fit --batch`. Not safe for concurrent use.
type Fitter struct{ program *jsonlines.Program }

// StartFitter starts the program.
func StartFitter(binary string) (*Fitter, error) {
	program, err := jsonlines.Start(binary, "fit", "--batch")
	return &Fitter{program}, err
}

// Ask about one case.
func (f *Fitter) Ask(c *Case) (Answer, error) {
	var reply struct {
		Answers []Answer `json:"answers"`
	}
	if err := f.program.Ask(c.Seed, map[string]any{"items": c.Items()}, &reply); err != nil {
		return Answer{}, err
	}
	if len(reply.Answers) != 1 {
		return Answer{}, fmt.Errorf("tutti fit gave %d answers", len(reply.Answers))
	}
	return reply.Answers[0], nil
}

// Close ends the program.
func (f *Fitter) Close() error { return f.program.Close() }

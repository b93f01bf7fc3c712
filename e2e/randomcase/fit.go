// SPDX-License-Identifier: Apache-2.0

package randomcase

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
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
type Fitter struct {
	command *exec.Cmd
	in      io.WriteCloser
	out     *bufio.Reader
	encoder *json.Encoder
}

// StartFitter starts the program.
func StartFitter(binary string) (*Fitter, error) {
	command := exec.Command(binary, "fit", "--batch")
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
	return &Fitter{command: command, in: in, out: bufio.NewReaderSize(out, 1<<20), encoder: json.NewEncoder(in)}, nil
}

// Ask about one case.
func (f *Fitter) Ask(c *Case) (Answer, error) {
	if err := f.encoder.Encode(map[string]any{"id": c.Seed, "items": c.Items()}); err != nil {
		return Answer{}, fmt.Errorf("tutti fit: %w", err)
	}
	line, err := f.out.ReadBytes('\n')
	if err != nil {
		return Answer{}, fmt.Errorf("tutti fit gave no answer: %w", err)
	}
	var reply struct {
		ID      uint64   `json:"id"`
		Error   string   `json:"error"`
		Answers []Answer `json:"answers"`
	}
	if err := json.Unmarshal(line, &reply); err != nil {
		return Answer{}, fmt.Errorf("tutti fit answered %q: %w", line, err)
	}
	if reply.Error != "" {
		return Answer{}, errors.New("tutti fit: " + reply.Error)
	}
	if reply.ID != c.Seed || len(reply.Answers) != 1 {
		return Answer{}, fmt.Errorf("tutti fit answered another question: %s", line)
	}
	return reply.Answers[0], nil
}

// Close ends the program.
func (f *Fitter) Close() error {
	return errors.Join(f.in.Close(), f.command.Wait())
}

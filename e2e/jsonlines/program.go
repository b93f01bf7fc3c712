// SPDX-License-Identifier: Apache-2.0

// Package jsonlines asks a running program one question after the other, a line of JSON each, answered by a line.
package jsonlines

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
)

// Program that runs. Not safe for concurrent use.
type Program struct {
	name    string
	command *exec.Cmd
	in      io.WriteCloser
	out     *bufio.Reader
	encoder *json.Encoder
}

// Start starts it; what it writes to its standard error is shown.
func Start(binary string, args ...string) (*Program, error) {
	command := exec.Command(binary, args...)
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
	name := strings.Join(append([]string{"tutti"}, args...), " ")
	return &Program{name: name, command: command, in: in, out: bufio.NewReaderSize(out, 1<<20), encoder: json.NewEncoder(in)}, nil
}

// Ask sends the question with this id, which must have the answer's, and decodes the answer.
// The program's own error becomes one.
func (p *Program) Ask(id uint64, question map[string]any, answer any) error {
	question["id"] = id
	if err := p.encoder.Encode(question); err != nil {
		return fmt.Errorf("%s: %w", p.name, err)
	}
	line, err := p.out.ReadBytes('\n')
	if err != nil {
		return fmt.Errorf("%s gave no answer: %w", p.name, err)
	}
	var head struct {
		ID    uint64 `json:"id"`
		Error string `json:"error"`
	}
	if err := json.Unmarshal(line, &head); err != nil {
		return fmt.Errorf("%s answered %q: %w", p.name, line, err)
	}
	switch {
	case head.Error != "":
		return errors.New(p.name + ": " + head.Error)
	case head.ID != id:
		return fmt.Errorf("%s answered another question: %s", p.name, line)
	}
	if err := json.Unmarshal(line, answer); err != nil {
		return fmt.Errorf("%s answered %q: %w", p.name, line, err)
	}
	return nil
}

// Close ends it.
func (p *Program) Close() error { return errors.Join(p.in.Close(), p.command.Wait()) }

// SPDX-License-Identifier: Apache-2.0

// Drawing: frames that replace each other on a terminal, plain lines elsewhere.

package main

import (
	"fmt"
	"os"
	"strings"
	"time"
	"unicode/utf8"

	"golang.org/x/term"
)

type screen struct {
	out      *os.File
	terminal bool
	drawn    int // lines of the frame on the screen
	title    string
	lastLine time.Time
}

func newScreen(out *os.File) *screen {
	s := &screen{out: out, terminal: term.IsTerminal(int(out.Fd())) && os.Getenv("TERM") != "dumb"}
	if s.terminal {
		fmt.Fprint(out, "\x1b[?25l") // hide the cursor
	}
	return s
}

func (s *screen) close() {
	if s.terminal {
		fmt.Fprint(s.out, "\x1b[?25h")
	}
}

func (s *screen) width() int {
	if s.terminal {
		if width, _, err := term.GetSize(int(s.out.Fd())); err == nil && width > 0 {
			return width
		}
	}
	return 100
}

func (s *screen) height() int {
	if s.terminal {
		if _, height, err := term.GetSize(int(s.out.Fd())); err == nil && height > 0 {
			return height
		}
	}
	return 1000
}

// clear takes the present frame away.
func (s *screen) clear() {
	if s.drawn > 0 {
		fmt.Fprintf(s.out, "\x1b[%dA\x1b[J", s.drawn)
		s.drawn = 0
	}
}

// say prints text that stays.
func (s *screen) say(text string) {
	s.clear()
	fmt.Fprintln(s.out, strings.TrimRight(text, "\n"))
}

// begin announces a step.
func (s *screen) begin(title string) {
	s.title = title
	if !s.terminal {
		fmt.Fprintln(s.out, title)
	}
	s.lastLine = time.Now()
}

// progress shows that the step goes on.
func (s *screen) progress(elapsed time.Duration) {
	if s.terminal {
		s.draw([]string{fmt.Sprintf("%s … %.0f s", s.title, elapsed.Seconds())})
	} else if time.Since(s.lastLine) > 20*time.Second {
		s.lastLine = time.Now()
		fmt.Fprintf(s.out, "  … %.0f s\n", elapsed.Seconds())
	}
}

// frame draws lines on a terminal; elsewhere it prints the short form every five seconds.
func (s *screen) frame(lines []string, short string) {
	if s.terminal {
		s.draw(lines)
	} else if time.Since(s.lastLine) >= 5*time.Second {
		s.lastLine = time.Now()
		fmt.Fprintln(s.out, short)
	}
}

func (s *screen) draw(lines []string) {
	if most := s.height() - 1; len(lines) > most {
		lines = lines[:most]
	}
	s.clear()
	width := s.width()
	var b strings.Builder
	for _, line := range lines {
		b.WriteString(clip(line, width))
		b.WriteString("\x1b[0m\n")
	}
	fmt.Fprint(s.out, b.String())
	s.drawn = len(lines)
}

// clip cuts a line to a width on the screen; escape sequences have none.
func clip(line string, width int) string {
	var b strings.Builder
	seen := 0
	for i := 0; i < len(line); {
		if line[i] == '\x1b' {
			end := i + 1
			for end < len(line) && line[end] != 'm' {
				end++
			}
			end = min(end+1, len(line))
			b.WriteString(line[i:end])
			i = end
			continue
		}
		_, size := utf8.DecodeRuneInString(line[i:])
		if seen == width {
			break
		}
		b.WriteString(line[i : i+size])
		seen++
		i += size
	}
	return b.String()
}

// wrap breaks a text at spaces into lines of a width, at most so many; later lines are indented.
func wrap(text string, width int, indent string, most int) []string {
	var lines []string
	for len(lines) < most-1 && utf8.RuneCountInString(text) > width {
		cut := strings.LastIndexByte(clip(text, width), ' ')
		if cut <= len(indent) {
			break
		}
		lines = append(lines, text[:cut])
		text = indent + text[cut+1:]
	}
	return append(lines, text)
}

// bar is a bar of cells, part of them full.
func bar(value, most float64, cells int) string {
	full := 0
	if most > 0 {
		full = min(cells, max(0, int(value/most*float64(cells)+0.5)))
	}
	return strings.Repeat("█", full) + strings.Repeat("░", cells-full)
}

// SPDX-License-Identifier: Apache-2.0

// Prometheus text, as far as tests need it: samples by name and labels.

package cluster

import (
	"fmt"
	"strconv"
	"strings"
)

// Sample is one line of a metrics page.
type Sample struct {
	Name   string
	Labels map[string]string
	Value  float64
}

// Metrics is a whole page.
type Metrics []Sample

// ParseMetrics reads the text format.
func ParseMetrics(text string) (Metrics, error) {
	var all Metrics
	for _, line := range strings.Split(text, "\n") {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		sample, err := parseSample(line)
		if err != nil {
			return nil, fmt.Errorf("metrics line %q: %w", line, err)
		}
		all = append(all, sample)
	}
	return all, nil
}

func parseSample(line string) (Sample, error) {
	s := Sample{Labels: map[string]string{}}
	end := strings.IndexAny(line, "{ ")
	if end < 0 {
		return s, fmt.Errorf("no value")
	}
	s.Name, line = line[:end], line[end:]
	if line[0] == '{' {
		line = line[1:]
		for {
			line = strings.TrimLeft(line, ", ")
			if line == "" {
				return s, fmt.Errorf("labels don't end")
			}
			if line[0] == '}' {
				line = line[1:]
				break
			}
			name, rest, found := strings.Cut(line, "=")
			if !found {
				return s, fmt.Errorf("label without value")
			}
			quoted, err := strconv.QuotedPrefix(rest)
			if err != nil {
				return s, err
			}
			value, err := strconv.Unquote(quoted)
			if err != nil {
				return s, err
			}
			s.Labels[strings.TrimSpace(name)] = value
			line = rest[len(quoted):]
		}
	}
	fields := strings.Fields(line)
	if len(fields) == 0 {
		return s, fmt.Errorf("no value")
	}
	value, err := strconv.ParseFloat(fields[0], 64)
	s.Value = value
	return s, err
}

// Sum adds the samples of that name whose labels include those given.
func (m Metrics) Sum(name string, labels map[string]string) float64 {
	sum := 0.0
	for _, s := range m {
		if s.Name != name {
			continue
		}
		matches := true
		for key, value := range labels {
			matches = matches && s.Labels[key] == value
		}
		if matches {
			sum += s.Value
		}
	}
	return sum
}

// Has tells whether any sample has that name.
func (m Metrics) Has(name string) bool {
	for _, s := range m {
		if s.Name == name {
			return true
		}
	}
	return false
}

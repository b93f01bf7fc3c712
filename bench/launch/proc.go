// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// Linux's unit of CPU times in /proc, whatever the kernel's own tick is.
const ticksPerSecond = 100

// stat is the part of /proc/PID/stat after the program's name, which may hold anything.
func stat(pid int) (name string, fields []string, err error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return "", nil, err
	}
	open, shut := bytes.IndexByte(text, '('), bytes.LastIndexByte(text, ')')
	if open < 0 || shut < open {
		return "", nil, fmt.Errorf("/proc/%d/stat: no name in %q", pid, text)
	}
	fields = strings.Fields(string(text[shut+1:]))
	if len(fields) < 13 {
		return "", nil, fmt.Errorf("/proc/%d/stat: %d fields", pid, len(fields))
	}
	return string(text[open+1 : shut]), fields, nil
}

// cpuSeconds is user and system time of a process so far.
func cpuSeconds(pid int) (float64, error) {
	_, fields, err := stat(pid)
	if err != nil {
		return 0, err
	}
	user, err1 := strconv.ParseFloat(fields[11], 64)
	system, err2 := strconv.ParseFloat(fields[12], 64)
	if err1 != nil || err2 != nil {
		return 0, fmt.Errorf("/proc/%d/stat: times %q and %q", pid, fields[11], fields[12])
	}
	return (user + system) / ticksPerSecond, nil
}

// peakKiB is the most memory that a process has had resident.
func peakKiB(pid int) (int64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(text)) {
		if rest, found := strings.CutPrefix(line, "VmHWM:"); found {
			return strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 10, 64)
		}
	}
	return 0, fmt.Errorf("/proc/%d/status has no VmHWM", pid)
}

// childNamed is the one child of `parent` whose program has that name.
func childNamed(parent int, name string) (int, error) {
	found := 0
	entries, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		return 0, err
	}
	for _, entry := range entries {
		pid, err := strconv.Atoi(filepath.Base(entry))
		if err != nil {
			continue
		}
		program, fields, err := stat(pid)
		if err != nil || program != name || fields[1] != strconv.Itoa(parent) {
			continue // also: it has ended meanwhile
		}
		if found != 0 {
			return 0, fmt.Errorf("process %d has two children named %s", parent, name)
		}
		found = pid
	}
	if found == 0 {
		return 0, fmt.Errorf("process %d has no child named %s", parent, name)
	}
	return found, nil
}

func parseMetrics(text []byte) (reading, error) {
	parser := expfmt.NewTextParser(model.LegacyValidation)
	families, err := parser.TextToMetricFamilies(bytes.NewReader(text))
	if err != nil {
		return reading{}, fmt.Errorf("metrics of the API server: %w", err)
	}
	r := reading{requests: map[string]float64{}}
	cpu, requests := families["process_cpu_seconds_total"], families["apiserver_request_total"]
	if cpu == nil || requests == nil {
		return reading{}, fmt.Errorf("metrics of the API server: process_cpu_seconds_total or apiserver_request_total is missing")
	}
	r.apiServer = cpu.GetMetric()[0].GetCounter().GetValue()
	for _, metric := range requests.GetMetric() {
		r.requests[requestName(metric)] += metric.GetCounter().GetValue()
	}
	return r, nil
}

// requestName is "VERB resource" or "VERB resource/subresource".
func requestName(metric *dto.Metric) string {
	label := map[string]string{}
	for _, pair := range metric.GetLabel() {
		label[pair.GetName()] = pair.GetValue()
	}
	name := label["verb"] + " " + label["resource"]
	if sub := label["subresource"]; sub != "" {
		name += "/" + sub
	}
	return name
}

// SPDX-License-Identifier: Apache-2.0

// Package tuttichild runs the manager under test as a child process. What a suite's set-up functions
// ask for is recorded as a Configuration and given to the child at its start.
package tuttichild

import (
	"encoding/json"
	"fmt"
	"sync"
)

var (
	mu     sync.Mutex
	record Record
	// PassThrough is set in the program that runs Kueue's own packages as the child: there the
	// constructors do their work.
	PassThrough bool
)

// Record is what the set-up functions asked for.
type Record struct {
	Configuration map[string]any
	Frameworks    []string
	Core          bool // the controllers of queues and workloads
	Scheduler     bool
	PodsReady     bool            // the job reconcilers watch readiness
	Gates         map[string]bool // those that differ from their defaults
}

// Begin forgets what was recorded before, gates apart: they are global.
func Begin() {
	mu.Lock()
	defer mu.Unlock()
	record = Record{Configuration: map[string]any{}, Gates: record.Gates}
}

// Set records a value at a path of the Configuration.
func Set(value any, path ...string) {
	plain, err := toPlain(value)
	if err != nil {
		panic(fmt.Sprintf("recording %v: %v", path, err))
	}
	mu.Lock()
	defer mu.Unlock()
	at := record.Configuration
	if at == nil {
		return // outside of a set-up function
	}
	for _, key := range path[:len(path)-1] {
		next, ok := at[key].(map[string]any)
		if !ok {
			next = map[string]any{}
			at[key] = next
		}
		at = next
	}
	at[path[len(path)-1]] = plain
}

// Base records a whole Configuration below what has been set one by one.
func Base(configuration any) {
	plain, err := toPlain(configuration)
	if err != nil {
		panic(fmt.Sprintf("recording the Configuration: %v", err))
	}
	mu.Lock()
	defer mu.Unlock()
	if base, ok := plain.(map[string]any); ok && record.Configuration != nil {
		record.Configuration = merge(base, record.Configuration)
	}
	record.Core = true
}

// UsePodsReady records that the job reconcilers watch whether pods become ready.
func UsePodsReady() {
	mu.Lock()
	defer mu.Unlock()
	record.PodsReady = true
}

// UseScheduler records that the set-up function started one.
func UseScheduler() {
	mu.Lock()
	defer mu.Unlock()
	record.Scheduler = true
}

// UseFramework records an enabled integration.
func UseFramework(name string) {
	mu.Lock()
	defer mu.Unlock()
	for _, known := range record.Frameworks {
		if known == name {
			return
		}
	}
	record.Frameworks = append(record.Frameworks, name)
}

// UseGates records the gates that differ from their defaults; a running child is started again when
// they differ from those it has.
func UseGates(gates map[string]bool) {
	mu.Lock()
	record.Gates = gates
	child := running
	mu.Unlock()
	if child != nil {
		child.applyGates(gates)
	}
}

func toPlain(value any) (any, error) {
	text, err := json.Marshal(value)
	if err != nil {
		return nil, err
	}
	var plain any
	return plain, json.Unmarshal(text, &plain)
}

// merge lays b over a.
func merge(a, b map[string]any) map[string]any {
	out := map[string]any{}
	for key, value := range a {
		out[key] = value
	}
	for key, value := range b {
		below, isMap := value.(map[string]any)
		above, hasMap := out[key].(map[string]any)
		if isMap && hasMap {
			out[key] = merge(above, below)
		} else {
			out[key] = value
		}
	}
	return out
}

// SPDX-License-Identifier: Apache-2.0

// GatesOff: the same tests on a cluster that doesn't serve PodGroups, as most managed ones. What is
// promised there is in docs/guarantees.md; the bodies know which of it is weaker. In CI those whose
// writes or promises differ most; with --long all.

package suite

import "testing"

func TestGatesOff(t *testing.T) {
	for _, test := range []struct {
		name     string
		body     func(t *testing.T, gatesOff bool)
		longOnly bool
	}{
		{"GangChurn", runGangChurn, false},
		{"CrashAnywhere", runCrashAnywhere, true},
		{"UnfitHeld", runUnfitHeld, true},
		{"WakeUp", runWakeUp, false},
		{"OrderAndLimits", runOrderAndLimits, false},
		{"BadInput", runBadInput, false},
	} {
		if long() || !test.longOnly {
			t.Run(test.name, func(t *testing.T) { test.body(t, true) })
		}
	}
}

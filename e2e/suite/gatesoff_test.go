// SPDX-License-Identifier: Apache-2.0

// GatesOff: the same tests on a cluster that doesn't serve PodGroups, as most managed ones. What is
// promised there is in docs/guarantees.md; the bodies know which of it is weaker.

package suite

import "testing"

func TestGatesOff(t *testing.T) {
	for _, test := range []struct {
		name string
		body func(t *testing.T, gatesOff bool)
	}{
		{"GangChurn", runGangChurn},
		{"CrashAnywhere", runCrashAnywhere},
		{"UnfitHeld", runUnfitHeld},
		{"WakeUp", runWakeUp},
		{"OrderAndLimits", runOrderAndLimits},
		{"BadInput", runBadInput},
	} {
		t.Run(test.name, func(t *testing.T) { test.body(t, true) })
	}
}

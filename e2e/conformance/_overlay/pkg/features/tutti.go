// SPDX-License-Identifier: Apache-2.0

package features

import (
	"testing"

	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/component-base/featuregate"

	"sigs.k8s.io/kueue/internal/tuttichild"
)

var defaultGates map[string]bool

// After the module's own init functions, which register the gates: Go takes files by name.
func init() { defaultGates = enabledGates() }

func enabledGates() map[string]bool {
	gates := map[string]bool{}
	for name := range defaultVersionedFeatureGates {
		gates[string(name)] = utilfeature.DefaultFeatureGate.Enabled(name)
	}
	return gates
}

// Gates that a program is refused with when the other one is off. Specs set the two one after the
// other; Kueue looks at that in its configuration file only.
var needs = map[featuregate.Feature]featuregate.Feature{
	UnadmittedWorkloadsExplicitStatus: UnadmittedWorkloadsObservability,
}

func tellChild() {
	for gate, other := range needs {
		if utilfeature.DefaultFeatureGate.Enabled(gate) && !utilfeature.DefaultFeatureGate.Enabled(other) {
			return // the change that follows tells of both
		}
	}
	changed := map[string]bool{}
	for name, enabled := range enabledGates() {
		if enabled != defaultGates[name] {
			changed[name] = enabled
		}
	}
	tuttichild.UseGates(changed)
}

// SetFeatureGateDuringTest also tells the manager under test, now and when the gate goes back.
func SetFeatureGateDuringTest(tb testing.TB, f featuregate.Feature, value bool) {
	tb.Cleanup(tellChild)
	setFeatureGateDuringTestHere(tb, f, value)
	tellChild()
}

// SetFeatureGatesDuringTest is the same for several gates.
func SetFeatureGatesDuringTest(tb testing.TB, gates map[featuregate.Feature]bool) {
	tb.Cleanup(tellChild)
	setFeatureGatesDuringTestHere(tb, gates)
	tellChild()
}

// SPDX-License-Identifier: Apache-2.0

// What differs between Kubernetes minors: the gates and API versions that switch native gang
// scheduling on.

package cluster

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// DefaultMinor is the Kubernetes minor that CI tests on.
const DefaultMinor = "1.36"

type minorFacts struct {
	gates     []string // native gang scheduling
	podGroups string   // its API version, scheduling.k8s.io/…
	always    []string // runtime-config in any case
	// Gates and API versions without which the admission policies aren't served.
	policyGates, policyRuntime []string
}

var minors = map[string]minorFacts{
	"1.34": {
		always:        []string{"resource.k8s.io/v1alpha3=true"},
		policyGates:   []string{"MutatingAdmissionPolicy"},
		policyRuntime: []string{"admissionregistration.k8s.io/v1beta1=true"},
	},
	"1.35": {
		always:        []string{"resource.k8s.io/v1alpha3=true"},
		policyGates:   []string{"MutatingAdmissionPolicy"},
		policyRuntime: []string{"admissionregistration.k8s.io/v1beta1=true"},
	},
	"1.36": {
		gates:     []string{"GenericWorkload", "GangScheduling", "DRAWorkloadResourceClaims"},
		podGroups: "v1alpha2",
		always:    []string{"resource.k8s.io/v1beta2=true", "resource.k8s.io/v1alpha3=true"},
	},
	"1.37": {
		gates:     []string{"GenericWorkload", "DRAWorkloadResourceClaims"},
		podGroups: "v1beta1",
	},
}

// MinorFromEnv is TUTTI_K8S_MINOR or the default.
func MinorFromEnv() string {
	if minor := os.Getenv("TUTTI_K8S_MINOR"); minor != "" {
		return minor
	}
	return DefaultMinor
}

// PodGroups is the resource of native gangs in this cluster; false if it isn't served.
func (c *Cluster) PodGroups() (schema.GroupVersionResource, bool) {
	version := minors[c.Minor].podGroups
	resource := schema.GroupVersionResource{Group: "scheduling.k8s.io", Version: version, Resource: "podgroups"}
	return resource, version != "" && !c.GatesOff
}

// GangGates are the gates of native gangs in this minor, all set to the same; empty if it has none.
func (c *Cluster) GangGates(on bool) map[string]bool {
	gates := map[string]bool{}
	for _, gate := range minors[c.Minor].gates {
		gates[gate] = on
	}
	return gates
}

// componentFlags are the gates of all components and --runtime-config for these options.
func componentFlags(o Options) (gates map[string]bool, runtimeConfig string, err error) {
	facts, known := minors[o.Minor]
	if !known {
		return nil, "", fmt.Errorf("Kubernetes minor %q: known are %s", o.Minor,
			strings.Join(slices.Sorted(maps.Keys(minors)), ", "))
	}
	set := map[string]bool{}
	for _, gate := range facts.policyGates {
		set[gate] = true
	}
	apis := slices.Concat(facts.always, facts.policyRuntime)
	if !o.GatesOff {
		for _, gate := range facts.gates {
			set[gate] = true
		}
		if facts.podGroups != "" {
			apis = append(apis, "scheduling.k8s.io/"+facts.podGroups+"=true")
		}
	}
	maps.Copy(set, o.FeatureGates)
	apis = append(apis, o.RuntimeConfig...)
	return set, strings.Join(apis, ","), nil
}

// gateArgs is --feature-gates of one component, whose own gates are laid over those of all.
func (c *Cluster) gateArgs(own map[string]bool) []string {
	set := maps.Clone(c.gates)
	maps.Copy(set, own)
	var list []string
	for _, name := range slices.Sorted(maps.Keys(set)) {
		list = append(list, fmt.Sprintf("%s=%t", name, set[name]))
	}
	if len(list) == 0 {
		return nil
	}
	return []string{"--feature-gates=" + strings.Join(list, ",")}
}

// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"errors"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// markPolicies are one policy of each sort, on ConfigMaps of these names alone.
const (
	refusedMark  = "policy-mark-refused"
	mutatedMark  = "policy-mark-mutated"
	markPolicies = `
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: policy-mark}
spec:
  matchConstraints:
    resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [configmaps], resourceNames: [policy-mark-refused]}]
  validations: [{expression: "false", message: the policies are in force}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: policy-mark}
spec: {policyName: policy-mark, validationActions: [Deny]}
---
apiVersion: MUTATING
kind: MutatingAdmissionPolicy
metadata: {name: policy-mark}
spec:
  matchConstraints:
    resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [configmaps], resourceNames: [policy-mark-mutated]}]
  reinvocationPolicy: Never
  mutations:
  - patchType: ApplyConfiguration
    applyConfiguration: {expression: "Object{data: {'in': 'force'}}"}
---
apiVersion: MUTATING
kind: MutatingAdmissionPolicyBinding
metadata: {name: policy-mark}
spec: {policyName: policy-mark}
`
)

// waitForPolicies returns when the API server acts on every policy that was stored before the call. It
// takes policies up a moment after they are stored, in the order in which they were stored, and all of
// one sort at once: when it acts on a policy and a binding stored now, it acts on those before.
func (c *Cluster) waitForPolicies(ctx context.Context, mutatingAPI string) error {
	marks, err := ParseManifests([]byte(strings.ReplaceAll(markPolicies, "MUTATING", mutatingAPI)))
	if err != nil {
		return err
	}
	if err := c.Apply(ctx, marks...); err != nil {
		return err
	}
	for _, name := range []string{refusedMark, mutatedMark} {
		err := Eventually(ctx, 30*time.Second, "the API server to act on the policies ("+name+")", func(ctx context.Context) (bool, error) {
			probe := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}}
			stored, err := c.Kube.CoreV1().ConfigMaps("default").Create(ctx, probe, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
			if name == refusedMark {
				return err != nil && strings.Contains(err.Error(), "the policies are in force"), nil
			}
			return err == nil && stored.Data["in"] == "force", err
		})
		if err != nil {
			return err
		}
	}
	var errs []error
	for _, mark := range marks {
		client, err := c.Resource(mark)
		if err == nil {
			err = client.Delete(ctx, mark.GetName(), metav1.DeleteOptions{})
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// SPDX-License-Identifier: Apache-2.0

// Provisioning: jobs whose nodes an autoscaler makes on request, on a real control plane with the cluster
// autoscaler's CRD; the test answers in its place. The CRD is installed while Tutti runs.

package suite

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"tutti.dev/e2e/cluster"
)

const provisioningQueues = `
apiVersion: kueue.x-k8s.io/v1beta2
kind: ResourceFlavor
metadata: {name: made}
spec: {nodeLabels: {pool: made}}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: ProvisioningRequestConfig
metadata: {name: config}
spec:
  provisioningClassName: check-capacity.autoscaling.x-k8s.io
  parameters: {detail: from-config}
  retryStrategy: {backoffLimitCount: 1, backoffBaseSeconds: 2}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: AdmissionCheck
metadata: {name: prov}
spec:
  controllerName: kueue.x-k8s.io/provisioning-request
  parameters: {apiGroup: kueue.x-k8s.io, kind: ProvisioningRequestConfig, name: config}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: ClusterQueue
metadata: {name: team}
spec:
  namespaceSelector: {}
  admissionChecksStrategy: {admissionChecks: [{name: prov}]}
  resourceGroups:
  - coveredResources: [cpu]
    flavors:
    - name: made
      resources:
      - {name: cpu, nominalQuota: 8}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: LocalQueue
metadata: {name: lq, namespace: team}
spec: {clusterQueue: team}
`

var (
	provisioningRequests = schema.GroupVersionResource{Group: "autoscaling.x-k8s.io", Version: "v1", Resource: "provisioningrequests"}
	podTemplates         = schema.GroupVersionResource{Version: "v1", Resource: "podtemplates"}
)

type provisioning struct{ *cluster.Cluster }

func TestProvisioning(t *testing.T) {
	c, tutti := startTeam(t, false, cluster.NodeSpec{Count: 1, CPU: "8"}, provisioningQueues, cluster.TuttiOptions{})
	h := &provisioning{c}
	h.waitForCheck(t, "False", "ProvisioningRequestNotServed")
	crds, err := cluster.ToolPath("autoscaler", "crds/autoscaling.x-k8s.io_provisioningrequests.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if err := c.ApplyFile(t.Context(), crds); err != nil {
		t.Fatal(err)
	}
	h.waitForCheck(t, "True", "Active")

	t.Run("a failed attempt is followed by another", func(t *testing.T) {
		j := teamJob("gang", 4, "1", "1s")
		j.Annotations = map[string]string{"provreq.kueue.x-k8s.io/ValidUntilSeconds": "600"}
		createJob(t, c, j)
		first := h.waitForRequest(t, "gang", 1)
		parameters, _, _ := unstructured.NestedStringMap(first.Object, "spec", "parameters")
		if parameters["detail"] != "from-config" || parameters["ValidUntilSeconds"] != "600" {
			t.Errorf("parameters %v", parameters)
		}
		h.waitForTemplate(t, first)
		h.say(t, first, "Failed", "no capacity")
		second := h.waitForRequest(t, "gang", 2)
		// Killed before the answer: the next life finds its request.
		tutti.Kill9()
		if err := tutti.Launch(); err != nil {
			t.Fatal(err)
		}
		if _, err := c.AddNodes(t.Context(), cluster.NodeSpec{Count: 1, Prefix: "made", CPU: "8", Labels: map[string]string{"pool": "made"}}); err != nil {
			t.Fatal(err)
		}
		h.say(t, second, "Provisioned", "made")
		eventually(t, 30*time.Second, "the gang to start", func(ctx context.Context) (bool, error) {
			j, err := c.Kube.BatchV1().Jobs("team").Get(ctx, "gang", metav1.GetOptions{})
			if err != nil {
				return false, err
			}
			consumes := j.Spec.Template.Annotations["autoscaling.x-k8s.io/consume-provisioning-request"]
			return expect(!isSuspended(j) && consumes == second.GetName() && j.Spec.Template.Spec.NodeSelector["pool"] == "made",
				"suspended %v, consumes %q, %v", isSuspended(j), consumes, j.Spec.Template.Spec.NodeSelector)
		})
		waitForJob(t, c, "gang", batchv1.JobComplete)
		waitForNone(t, c, provisioningRequests, "")
		waitForNone(t, c, podTemplates, "")
	})

	t.Run("revoked capacity stops the job", func(t *testing.T) {
		createJob(t, c, teamJob("revoked", 2, "1", ""))
		request := h.waitForRequest(t, "revoked", 1)
		h.say(t, request, "Provisioned", "made")
		eventually(t, 30*time.Second, "the job to run", func(ctx context.Context) (bool, error) {
			j, err := c.Kube.BatchV1().Jobs("team").Get(ctx, "revoked", metav1.GetOptions{})
			if err != nil {
				return false, err
			}
			return expect(j.Status.Active == 2, "%d active", j.Status.Active)
		})
		h.say(t, request, "CapacityRevoked", "the nodes are needed elsewhere")
		eventually(t, 30*time.Second, "the job to be stopped", func(ctx context.Context) (bool, error) {
			workload, err := workloadOf(ctx, c, "team", "revoked")
			if err != nil {
				return false, err
			}
			_, why, _ := condition(workload, "Evicted")
			quota, _, _ := condition(workload, "QuotaReserved")
			return expect(why == "DeactivatedDueToAdmissionCheck" && quota == "False", "evicted %q, quota %q", why, quota)
		})
		waitForNone(t, c, provisioningRequests, "")
	})
}

func (h *provisioning) waitForCheck(t *testing.T, status, reason string) {
	t.Helper()
	eventually(t, 90*time.Second, "the check to be "+reason, func(ctx context.Context) (bool, error) {
		check, err := h.Dynamic.Resource(admissionChecks).Get(ctx, "prov", metav1.GetOptions{})
		if err != nil {
			return false, err
		}
		have, why, message := condition(check, "Active")
		return expect(have == status && why == reason, "%s, %s: %s", have, why, message)
	})
}

// waitForRequest waits for the attempt of that number for a job, the only one.
func (h *provisioning) waitForRequest(t *testing.T, job string, attempt int) *unstructured.Unstructured {
	t.Helper()
	var found *unstructured.Unstructured
	eventually(t, 40*time.Second, fmt.Sprintf("request %d of %s", attempt, job), func(ctx context.Context) (bool, error) {
		list, err := h.Dynamic.Resource(provisioningRequests).Namespace("team").List(ctx, metav1.ListOptions{})
		if err != nil {
			return false, err
		}
		var names []string
		for i := range list.Items {
			name := list.Items[i].GetName()
			names = append(names, name)
			if strings.HasPrefix(name, "job-"+job+"-") && strings.HasSuffix(name, fmt.Sprintf("-prov-%d", attempt)) {
				found = &list.Items[i]
			}
		}
		return expect(found != nil && len(names) == 1, "%v", names)
	})
	return found
}

// waitForTemplate waits until the request owns its PodTemplate, which is as the pods will be.
func (h *provisioning) waitForTemplate(t *testing.T, request *unstructured.Unstructured) {
	t.Helper()
	eventually(t, 20*time.Second, "the template of "+request.GetName(), func(ctx context.Context) (bool, error) {
		made, err := h.Kube.CoreV1().PodTemplates("team").Get(ctx, "ppt-"+request.GetName()+"-main", metav1.GetOptions{})
		if err != nil {
			return false, err
		}
		owner := metav1.GetControllerOf(made)
		return expect(owner != nil && owner.UID == request.GetUID() && made.Template.Spec.NodeSelector["pool"] == "made",
			"owner %v, %v", owner, made.Template.Spec.NodeSelector)
	})
}

// say answers a request as an autoscaler would.
func (h *provisioning) say(t *testing.T, request *unstructured.Unstructured, kind, message string) {
	t.Helper()
	resource := h.Dynamic.Resource(provisioningRequests).Namespace("team")
	eventually(t, 20*time.Second, "to answer "+request.GetName(), func(ctx context.Context) (bool, error) {
		now, err := resource.Get(ctx, request.GetName(), metav1.GetOptions{})
		if err != nil {
			return false, err
		}
		conditions, _, _ := unstructured.NestedSlice(now.Object, "status", "conditions")
		conditions = append(conditions, map[string]any{
			"type": kind, "status": "True", "reason": kind, "message": message,
			"lastTransitionTime": metav1.Now().UTC().Format(time.RFC3339),
		})
		if err := unstructured.SetNestedSlice(now.Object, conditions, "status", "conditions"); err != nil {
			return false, err
		}
		_, err = resource.UpdateStatus(ctx, now, metav1.UpdateOptions{})
		return err == nil, err
	})
}

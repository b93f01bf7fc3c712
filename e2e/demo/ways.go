// SPDX-License-Identifier: Apache-2.0

// The three ways of running the same jobs on the same nodes, and the objects that each needs.

package main

import (
	"context"
	"fmt"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	schedulingv1alpha2 "k8s.io/api/scheduling/v1alpha2"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"tutti.dev/e2e/demo/count"
	"tutti.dev/e2e/demo/trace"
	"tutti.dev/e2e/demo/workload"
)

// Way is one of the three.
type Way string

// The ways, in the order in which they are run.
const (
	Plain  Way = "plain"
	Native Way = "native"
	Tutti  Way = "tutti"
)

var titles = map[Way]string{
	Plain:  "plain Jobs",
	Native: "native gangs",
	Tutti:  "with Tutti",
}

// ParseWays reads a list such as "plain,tutti".
func ParseWays(text string) ([]Way, error) {
	var ways []Way
	for _, part := range strings.Split(text, ",") {
		way := Way(strings.TrimSpace(part))
		if titles[way] == "" {
			return nil, fmt.Errorf("way %q: known are plain, native, tutti", part)
		}
		ways = append(ways, way)
	}
	return ways, nil
}

const (
	nodeCount   = 40
	gpusPerNode = 8
	cpuPerNode  = 64
	cpuPerGPU   = 4
	queueLabel  = "kueue.x-k8s.io/queue-name"
	queueName   = "jobs"      // the LocalQueue of each team
	steering    = "Preferred" // pods prefer the nodes that the capacity check planned for them
	flavorName  = "gpu-nodes"
)

// newJob is the manifest of one job. number makes the name of a native group unique.
func newJob(j trace.Job, way Way, number int) (*batchv1.Job, *schedulingv1alpha2.PodGroup) {
	pods := int32(j.Pods)
	grace, backoff := int64(1), int32(6)
	mode := batchv1.IndexedCompletion
	resources := corev1.ResourceList{
		count.GPU:          *resource.NewQuantity(int64(j.GPUs), resource.DecimalSI),
		corev1.ResourceCPU: *resource.NewQuantity(int64(j.GPUs*cpuPerGPU), resource.DecimalSI),
	}
	job := &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Namespace: j.Team, Name: j.Name},
		Spec: batchv1.JobSpec{
			Parallelism: &pods, Completions: &pods, CompletionMode: &mode, BackoffLimit: &backoff,
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{
					workload.RunsFor: j.Duration.String(),
					workload.Pods:    fmt.Sprint(j.Pods),
				}},
				Spec: corev1.PodSpec{
					RestartPolicy:                 corev1.RestartPolicyNever,
					TerminationGracePeriodSeconds: &grace,
					Containers: []corev1.Container{{
						Name: "train", Image: "example.org/train:1",
						Resources: corev1.ResourceRequirements{Requests: resources, Limits: resources},
					}},
				},
			},
		},
	}
	if j.Generate {
		job.Name, job.GenerateName = "", j.Name
	}
	switch {
	case way == Tutti:
		job.Labels = map[string]string{queueLabel: queueName}
	case way == Native && j.Gang():
		// What a user has to do by hand: invent a group name, create the group, name it in the pods.
		group := &schedulingv1alpha2.PodGroup{
			ObjectMeta: metav1.ObjectMeta{Namespace: j.Team, Name: fmt.Sprintf("group-%03d", number)},
			Spec: schedulingv1alpha2.PodGroupSpec{SchedulingPolicy: schedulingv1alpha2.PodGroupSchedulingPolicy{
				Gang: &schedulingv1alpha2.GangSchedulingPolicy{MinCount: pods},
			}},
		}
		job.Spec.Template.Spec.SchedulingGroup = &corev1.PodSchedulingGroup{PodGroupName: &group.Name}
		return job, group
	}
	return job, nil
}

// submit creates one job, and its group before it.
func submit(ctx context.Context, client kubernetes.Interface, j trace.Job, way Way, number int) error {
	job, group := newJob(j, way, number)
	if group != nil {
		if _, err := client.SchedulingV1alpha2().PodGroups(j.Team).Create(ctx, group, metav1.CreateOptions{}); err != nil {
			return fmt.Errorf("PodGroup of %s: %w", j.Name, err)
		}
	}
	if _, err := client.BatchV1().Jobs(j.Team).Create(ctx, job, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("Job %s/%s: %w", j.Team, j.Name, err)
	}
	return nil
}

// limits are what the counter holds against the GPUs in use: each team's, and each cohort's.
func limits(teams []trace.Team) []count.Limit {
	var out []count.Limit
	cohorts := map[string]*count.Limit{}
	var names []string
	for _, t := range teams {
		out = append(out, count.Limit{Name: "team " + t.Name, Namespaces: []string{t.Name}, GPUs: int64(t.Limit())})
		c := cohorts[t.Cohort]
		if c == nil {
			c = &count.Limit{Name: "cohort " + t.Cohort}
			cohorts[t.Cohort] = c
			names = append(names, t.Cohort)
		}
		c.Namespaces = append(c.Namespaces, t.Name)
		c.GPUs += int64(t.Quota)
	}
	for _, name := range names {
		if c := cohorts[name]; len(c.Namespaces) > 1 {
			out = append(out, *c)
		}
	}
	return out
}

// queueManifests are the quotas as an admin writes them.
func queueManifests(teams []trace.Team) string {
	var b strings.Builder
	fmt.Fprintf(&b, `apiVersion: kueue.x-k8s.io/v1beta2
kind: ResourceFlavor
metadata: {name: %s}
spec:
  nodeLabels: {demo.tutti.dev/pool: gpu}
`, flavorName)
	for _, t := range teams {
		borrow := ""
		if t.Cohort != "" {
			borrow = fmt.Sprintf(", borrowingLimit: %d", t.Borrowing)
		}
		fmt.Fprintf(&b, `---
apiVersion: kueue.x-k8s.io/v1beta2
kind: ClusterQueue
metadata: {name: %[1]s}
spec:
  cohortName: %[2]s
  queueingStrategy: BestEffortFIFO
  namespaceSelector: {}
  resourceGroups:
  - coveredResources: [nvidia.com/gpu, cpu]
    flavors:
    - name: %[3]s
      resources:
      - {name: nvidia.com/gpu, nominalQuota: %[4]d%[5]s}
      - {name: cpu, nominalQuota: %[6]d} # all there is: GPUs are what is scarce
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: LocalQueue
metadata: {name: %[7]s, namespace: %[1]s}
spec: {clusterQueue: %[1]s}
`, t.Name, t.Cohort, flavorName, t.Quota, borrow, nodeCount*cpuPerNode, queueName)
	}
	return b.String()
}

// SPDX-License-Identifier: Apache-2.0

// From API objects to what is counted.

package tally

import (
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
)

// GPUResource is the extended resource that is counted.
const GPUResource = corev1.ResourceName("nvidia.com/gpu")

// FromJob reads a Job.
func FromJob(in *batchv1.Job) Job {
	pods := int32(1)
	if in.Spec.Parallelism != nil {
		pods = *in.Spec.Parallelism
	}
	if in.Spec.Completions != nil {
		pods = min(pods, *in.Spec.Completions)
	}
	out := Job{Namespace: in.Namespace, Name: in.Name, Pods: int(pods)}
	for _, condition := range in.Status.Conditions {
		if condition.Status != corev1.ConditionTrue {
			continue
		}
		out.Complete = out.Complete || condition.Type == batchv1.JobComplete
		out.Failed = out.Failed || condition.Type == batchv1.JobFailed
	}
	return out
}

// FromPod reads a Pod; the Job is the one that its label names.
func FromPod(in *corev1.Pod) Pod {
	out := Pod{
		Namespace: in.Namespace, Name: in.Name, Job: in.Labels[batchv1.JobNameLabel],
		Bound:     in.Spec.NodeName != "",
		Running:   in.Status.Phase == corev1.PodRunning,
		Succeeded: in.Status.Phase == corev1.PodSucceeded,
		Failed:    in.Status.Phase == corev1.PodFailed,
		Deleting:  in.DeletionTimestamp != nil,
	}
	for i := range in.Spec.Containers {
		gpus := in.Spec.Containers[i].Resources.Requests[GPUResource]
		out.GPUs += int(gpus.Value())
	}
	return out
}

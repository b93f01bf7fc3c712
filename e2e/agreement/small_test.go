// SPDX-License-Identifier: Apache-2.0

package agreement

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"tutti.dev/e2e/randomcase"
)

// smallCase is two nodes of 4 cpu, one of which a pod takes, and a gang of 7 pods of 1 cpu.
func smallCase() *randomcase.Case {
	list := func(cpu string) corev1.ResourceList {
		return corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourcePods: resource.MustParse("20")}
	}
	c := &randomcase.Case{}
	for _, name := range []string{"a", "b"} {
		c.Nodes = append(c.Nodes, &corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelHostname: name}},
			Status:     corev1.NodeStatus{Allocatable: list("4")},
		})
	}
	container := func() []corev1.Container {
		return []corev1.Container{{Name: "main", Image: "example.org/work:1", Resources: corev1.ResourceRequirements{
			Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1")},
		}}}
	}
	c.Pods = []*corev1.Pod{{
		ObjectMeta: metav1.ObjectMeta{Name: "other", Namespace: "others", UID: "other"},
		Spec:       corev1.PodSpec{NodeName: "a", Containers: container()},
	}}
	c.PodSets = []randomcase.PodSet{{Name: "main", Count: 7, Template: corev1.PodTemplateSpec{
		Spec: corev1.PodSpec{RestartPolicy: corev1.RestartPolicyNever, Containers: container()},
	}}}
	return c
}

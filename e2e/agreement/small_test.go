// SPDX-License-Identifier: Apache-2.0

package agreement

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
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

// smallCaseOfDevices is smallCase with four devices on each node, one of which on node a is taken, and a
// gang of 3 pods with a claim of 2 devices each.
func smallCaseOfDevices() *randomcase.Case {
	c := smallCase()
	c.Pods = nil
	for _, node := range c.Nodes {
		slice := &resourcev1.ResourceSlice{
			ObjectMeta: metav1.ObjectMeta{Name: node.Name},
			Spec: resourcev1.ResourceSliceSpec{
				Driver: "gpu.example.com", NodeName: &node.Name,
				Pool: resourcev1.ResourcePool{Name: node.Name, Generation: 1, ResourceSliceCount: 1},
			},
		}
		for i := range 4 {
			slice.Spec.Devices = append(slice.Spec.Devices, resourcev1.Device{Name: fmt.Sprintf("gpu-%d", i)})
		}
		c.Devices.Slices = append(c.Devices.Slices, slice)
	}
	c.Devices.Classes = []*resourcev1.DeviceClass{{ObjectMeta: metav1.ObjectMeta{Name: "gpu"}}}
	request := resourcev1.ResourceClaimSpec{Devices: resourcev1.DeviceClaim{Requests: []resourcev1.DeviceRequest{{
		Name: "main", Exactly: &resourcev1.ExactDeviceRequest{
			DeviceClassName: "gpu", AllocationMode: resourcev1.DeviceAllocationModeExactCount, Count: 2,
		},
	}}}}
	c.Devices.Templates = []*resourcev1.ResourceClaimTemplate{{
		ObjectMeta: metav1.ObjectMeta{Name: "two", Namespace: randomcase.Namespace},
		Spec:       resourcev1.ResourceClaimTemplateSpec{Spec: request},
	}}
	c.Devices.Claims = []*resourcev1.ResourceClaim{{
		ObjectMeta: metav1.ObjectMeta{Name: "held", Namespace: "others", UID: "held"},
		Spec:       request,
		Status: resourcev1.ResourceClaimStatus{Allocation: &resourcev1.AllocationResult{
			Devices: resourcev1.DeviceAllocationResult{Results: []resourcev1.DeviceRequestAllocationResult{{
				Request: "main", Driver: "gpu.example.com", Pool: "a", Device: "gpu-1",
			}}},
		}},
	}}
	template := "two"
	c.PodSets[0].Count = 3
	c.PodSets[0].Template.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "gpus", ResourceClaimTemplateName: &template}}
	return c
}

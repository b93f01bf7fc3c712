// SPDX-License-Identifier: Apache-2.0

// Simulated nodes.

package cluster

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// NodeSpec describes nodes that are alike.
type NodeSpec struct {
	Count       int
	Prefix      string            // default "node"; names are <prefix>-<number>
	CPU         string            // default "32"
	Memory      string            // default "256Gi"
	Pods        string            // default "110"
	Extended    map[string]string // e.g. "nvidia.com/gpu": "8"
	Labels      map[string]string
	Annotations map[string]string
	Taints      []corev1.Taint
}

// AddNodes creates nodes that are Ready and carry exactly the given taints; it returns their names.
func (c *Cluster) AddNodes(ctx context.Context, spec NodeSpec) ([]string, error) {
	setDefault := func(field *string, value string) {
		if *field == "" {
			*field = value
		}
	}
	setDefault(&spec.Prefix, "node")
	setDefault(&spec.CPU, "32")
	setDefault(&spec.Memory, "256Gi")
	setDefault(&spec.Pods, "110")
	amounts := map[string]string{"cpu": spec.CPU, "memory": spec.Memory, "pods": spec.Pods, "ephemeral-storage": "1Ti"}
	maps.Copy(amounts, spec.Extended)
	capacity := corev1.ResourceList{}
	for name, amount := range amounts {
		quantity, err := resource.ParseQuantity(amount)
		if err != nil {
			return nil, fmt.Errorf("node capacity %s=%q: %w", name, amount, err)
		}
		capacity[corev1.ResourceName(name)] = quantity
	}

	names := make([]string, spec.Count)
	for i := range names {
		c.nodes++
		names[i] = fmt.Sprintf("%s-%03d", spec.Prefix, c.nodes)
	}
	errs := make([]error, spec.Count)
	var wg sync.WaitGroup
	slots := make(chan struct{}, 8)
	for i, name := range names {
		wg.Add(1)
		slots <- struct{}{}
		go func() {
			defer func() { <-slots; wg.Done() }()
			errs[i] = c.addNode(ctx, name, spec, capacity)
		}()
	}
	wg.Wait()
	for _, err := range errs {
		if err != nil {
			return nil, err
		}
	}
	return names, nil
}

func (c *Cluster) addNode(ctx context.Context, name string, spec NodeSpec, capacity corev1.ResourceList) error {
	labels := map[string]string{
		"kubernetes.io/hostname": name, "kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64",
	}
	maps.Copy(labels, spec.Labels)
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels, Annotations: spec.Annotations},
		Spec:       corev1.NodeSpec{Taints: spec.Taints},
		Status: corev1.NodeStatus{
			Phase:       corev1.NodeRunning,
			Capacity:    capacity,
			Allocatable: capacity,
			Addresses:   []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "127.0.0.1"}, {Type: corev1.NodeHostName, Address: name}},
			NodeInfo:    corev1.NodeSystemInfo{OperatingSystem: "linux", Architecture: "amd64", KubeletVersion: "v" + c.Minor + ".0"},
		},
	}
	return c.CreateNode(ctx, node)
}

// CreateNode creates a node as it is given, and Ready.
func (c *Cluster) CreateNode(ctx context.Context, node *corev1.Node) error {
	node = node.DeepCopy()
	now := metav1.Now()
	node.Status.Conditions = append(node.Status.Conditions, corev1.NodeCondition{
		Type: corev1.NodeReady, Status: corev1.ConditionTrue, Reason: "Simulated",
		LastHeartbeatTime: now, LastTransitionTime: now,
	})
	if _, err := c.Kube.CoreV1().Nodes().Create(ctx, node, metav1.CreateOptions{}); err != nil {
		return err
	}
	// Admission taints every new node as not ready; with the node life-cycle controller off nobody
	// else takes that away.
	return c.SetTaints(ctx, node.Name, node.Spec.Taints)
}

// SetTaints replaces a node's taints.
func (c *Cluster) SetTaints(ctx context.Context, node string, taints []corev1.Taint) error {
	return c.patchNode(ctx, node, map[string]any{"spec": map[string]any{"taints": taints}})
}

// Cordon marks a node (un)schedulable.
func (c *Cluster) Cordon(ctx context.Context, node string, cordoned bool) error {
	return c.patchNode(ctx, node, map[string]any{"spec": map[string]any{"unschedulable": cordoned}})
}

// SetCapacity changes one resource of a node's capacity and allocatable.
func (c *Cluster) SetCapacity(ctx context.Context, node, name, amount string) error {
	change := map[string]any{name: amount}
	body, err := json.Marshal(map[string]any{"status": map[string]any{"capacity": change, "allocatable": change}})
	if err != nil {
		return err
	}
	_, err = c.Kube.CoreV1().Nodes().Patch(ctx, node, types.MergePatchType, body, metav1.PatchOptions{}, "status")
	return err
}

// RemoveNode deletes a node and, as its kubelet is gone with it, its pods.
func (c *Cluster) RemoveNode(ctx context.Context, node string) error {
	if err := c.Kube.CoreV1().Nodes().Delete(ctx, node, metav1.DeleteOptions{}); err != nil {
		return err
	}
	pods, err := c.Kube.CoreV1().Pods("").List(ctx, metav1.ListOptions{FieldSelector: "spec.nodeName=" + node})
	if err != nil {
		return err
	}
	zero := int64(0)
	for _, pod := range pods.Items {
		err := c.Kube.CoreV1().Pods(pod.Namespace).Delete(ctx, pod.Name, metav1.DeleteOptions{GracePeriodSeconds: &zero})
		if err != nil && !IsNotFound(err) {
			return err
		}
	}
	return nil
}

func (c *Cluster) patchNode(ctx context.Context, node string, patch map[string]any) error {
	body, err := json.Marshal(patch)
	if err != nil {
		return err
	}
	_, err = c.Kube.CoreV1().Nodes().Patch(ctx, node, types.MergePatchType, body, metav1.PatchOptions{})
	return err
}

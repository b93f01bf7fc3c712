// SPDX-License-Identifier: Apache-2.0

// "demo hold": the process that keeps one cluster up. It starts the control plane and the nodes,
// installs Tutti for that way, plays the work inside the pods, writes where everything is to a state
// file, and ends at SIGTERM or an interrupt, taking everything with it.

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"tutti.dev/e2e/cluster"
	"tutti.dev/e2e/demo/trace"
	"tutti.dev/e2e/demo/workload"
)

// State is what others have to know of a cluster that is up.
type State struct {
	Way               Way    `json:"way"`
	PID               int    `json:"pid"` // of the holder
	Kubeconfig        string `json:"kubeconfig"`
	CounterKubeconfig string `json:"counterKubeconfig"`
	Kubectl           string `json:"kubectl"`
	Logs              string `json:"logs"`
	SchedulerPID      int    `json:"schedulerPID"`
	APIServerPID      int    `json:"apiServerPID"`
	TuttiPID          int    `json:"tuttiPID,omitempty"`
	TuttiURL          string `json:"tuttiURL,omitempty"`
	Error             string `json:"error,omitempty"`
}

// Write puts the state into place as a whole.
func (s State) Write(path string) error {
	text, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return err
	}
	if err := os.WriteFile(path+".new", append(text, '\n'), 0o600); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}

// ReadState reads a state file.
func ReadState(path string) (State, error) {
	var s State
	text, err := os.ReadFile(path)
	if err != nil {
		return s, err
	}
	if err := json.Unmarshal(text, &s); err != nil {
		return s, fmt.Errorf("%s: %w", path, err)
	}
	return s, nil
}

// hold brings the cluster of one way up and stays. The cluster package ends this process at SIGTERM
// or an interrupt, after stopping the cluster.
func hold(ctx context.Context, way Way, statePath string) error {
	fail := func(err error) error {
		_ = State{Way: way, PID: os.Getpid(), Error: err.Error()}.Write(statePath)
		return err
	}
	c, err := cluster.Start(ctx, cluster.Options{Name: "demo-" + string(way)})
	if err != nil {
		return fail(err)
	}
	state, err := prepare(ctx, c, way)
	if err != nil {
		_ = c.Stop(false)
		return fail(fmt.Errorf("%w (logs: %s)", err, c.LogDir))
	}
	if err := state.Write(statePath); err != nil {
		_ = c.Stop(false)
		return err
	}
	<-ctx.Done()
	return c.Stop(true)
}

func prepare(ctx context.Context, c *cluster.Cluster, way Way) (State, error) {
	state := State{
		Way: way, PID: os.Getpid(), Kubeconfig: c.Kubeconfig, Kubectl: c.Kubectl(), Logs: c.LogDir,
		SchedulerPID: c.Scheduler.PID(), APIServerPID: c.APIServer.PID(),
	}
	teams := trace.DefaultTeams()
	if _, err := c.AddNodes(ctx, cluster.NodeSpec{
		Count: nodeCount, Prefix: "gpu", CPU: fmt.Sprint(cpuPerNode), Memory: "512Gi",
		Extended: map[string]string{"nvidia.com/gpu": fmt.Sprint(gpusPerNode)},
		Labels:   map[string]string{"demo.tutti.dev/pool": "gpu"},
	}); err != nil {
		return state, fmt.Errorf("nodes: %w", err)
	}
	namespaces := []string{"counter"}
	for _, t := range teams {
		namespaces = append(namespaces, t.Name)
	}
	for _, name := range namespaces {
		namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
		if _, err := c.Kube.CoreV1().Namespaces().Create(ctx, namespace, metav1.CreateOptions{}); err != nil {
			return state, err
		}
	}
	var err error
	if state.CounterKubeconfig, err = counterAccount(ctx, c); err != nil {
		return state, fmt.Errorf("the counter's account: %w", err)
	}
	if way == Tutti {
		if err := c.InstallTutti(ctx, nil); err != nil {
			return state, fmt.Errorf("install Tutti: %w", err)
		}
		t, err := c.StartTutti(ctx, cluster.TuttiOptions{Tutti: map[string]any{"steering": steering}})
		if err != nil {
			return state, fmt.Errorf("start Tutti: %w", err)
		}
		state.TuttiPID, state.TuttiURL = t.PID(), t.HealthURL
		if err := c.ApplyYAML(ctx, queueManifests(teams)); err != nil {
			return state, fmt.Errorf("queues: %w", err)
		}
		example := filepath.Join(c.Dir, "gang.yaml")
		if err := os.WriteFile(example, []byte(exampleGang), 0o644); err != nil {
			return state, err
		}
	}
	// Pods are refused until their namespace has its ServiceAccount.
	for _, t := range teams {
		if err := cluster.Eventually(ctx, time.Minute, "the ServiceAccount of "+t.Name, func(ctx context.Context) (bool, error) {
			_, err := c.Kube.CoreV1().ServiceAccounts(t.Name).Get(ctx, "default", metav1.GetOptions{})
			if cluster.IsNotFound(err) {
				return false, nil
			}
			return err == nil, err
		}); err != nil {
			return state, err
		}
	}
	return state, workload.Run(ctx, c.Kube)
}

// counterAccount may read Jobs and Pods and nothing else.
func counterAccount(ctx context.Context, c *cluster.Cluster) (string, error) {
	meta := metav1.ObjectMeta{Name: "demo-counter", Namespace: "counter"}
	if _, err := c.Kube.CoreV1().ServiceAccounts("counter").Create(ctx, &corev1.ServiceAccount{ObjectMeta: meta}, metav1.CreateOptions{}); err != nil {
		return "", err
	}
	read := []string{"get", "list", "watch"}
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: meta.Name}, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{"batch"}, Resources: []string{"jobs"}, Verbs: read},
		{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: read},
	}}
	if _, err := c.Kube.RbacV1().ClusterRoles().Create(ctx, role, metav1.CreateOptions{}); err != nil {
		return "", err
	}
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: meta.Name},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: meta.Name},
		Subjects:   []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: meta.Namespace, Name: meta.Name}},
	}
	if _, err := c.Kube.RbacV1().ClusterRoleBindings().Create(ctx, binding, metav1.CreateOptions{}); err != nil {
		return "", err
	}
	token, err := c.ServiceAccountToken(ctx, meta.Namespace, meta.Name, 24*time.Hour)
	if err != nil {
		return "", err
	}
	return c.WriteKubeconfig("counter", c.URL, token)
}

// exampleGang is a job to try in a cluster that is kept: eight pods that run for 20 seconds.
const exampleGang = `apiVersion: batch/v1
kind: Job
metadata:
  generateName: mine-
  namespace: vision
  labels: {kueue.x-k8s.io/queue-name: jobs}
spec:
  parallelism: 8
  completions: 8
  completionMode: Indexed
  template:
    metadata:
      annotations: {demo.tutti.dev/runs-for: 20s, demo.tutti.dev/pods: "8"}
    spec:
      restartPolicy: Never
      containers:
      - name: train
        image: example.org/train:1
        resources:
          limits: {nvidia.com/gpu: 8, cpu: 32}
`

// SPDX-License-Identifier: Apache-2.0

// The harness itself: a real control plane, simulated nodes, no Tutti.

package suite

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"tutti.dev/e2e/cluster"
)

func TestHarnessRunsAJobAndAGang(t *testing.T) {
	ctx := t.Context()
	c, err := cluster.Start(ctx, cluster.Options{Name: t.Name()})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Stop(!t.Failed()) }()
	defer func() {
		if t.Failed() {
			t.Logf("logs: %s", c.LogDir)
		}
	}()
	t.Logf("API ready after %v, all ready after %v", c.APIReady.Round(10*time.Millisecond), c.Ready.Round(10*time.Millisecond))

	names, err := c.AddNodes(ctx, cluster.NodeSpec{Count: 5, CPU: "4", Extended: map[string]string{"nvidia.com/gpu": "8"}})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		node, err := c.Kube.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if len(node.Spec.Taints) != 0 {
			t.Errorf("node %s has taints %v", name, node.Spec.Taints)
		}
		if gpus := node.Status.Allocatable["nvidia.com/gpu"]; gpus.Value() != 8 {
			t.Errorf("node %s has %v GPUs", name, gpus.String())
		}
	}
	if err := c.CreateNamespace(ctx, "team", nil); err != nil {
		t.Fatal(err)
	}

	t.Run("a plain Job runs to completion", func(t *testing.T) {
		createJob(t, c, job("plain", 3, map[string]string{cluster.RunFor: "1s"}))
		waitForJob(t, c, "plain", batchv1.JobComplete)
	})

	t.Run("a Job whose pods fail is Failed", func(t *testing.T) {
		failing := job("failing", 1, map[string]string{cluster.FailAfter: "100ms"})
		none := int32(0)
		failing.Spec.BackoffLimit = &none
		createJob(t, c, failing)
		waitForJob(t, c, "failing", batchv1.JobFailed)
	})

	t.Run("a gang of 3 is bound together", func(t *testing.T) {
		before, err := c.SchedulingAttempts(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		groups, served := c.PodGroups()
		if !served {
			t.Skipf("Kubernetes %s has no native gangs", c.Minor)
		}
		if err := c.ApplyYAML(t.Context(), `
apiVersion: `+groups.GroupVersion().String()+`
kind: PodGroup
metadata: {name: gang, namespace: team}
spec: {schedulingPolicy: {gang: {minCount: 3}}}
`); err != nil {
			t.Fatal(err)
		}
		gang := job("gang", 3, nil)
		name := "gang"
		gang.Spec.Template.Spec.SchedulingGroup = &corev1.PodSchedulingGroup{PodGroupName: &name}
		createJob(t, c, gang)
		eventually(t, 20*time.Second, "3 running pods of the gang", func(ctx context.Context) (bool, error) {
			pods, err := c.Kube.CoreV1().Pods("team").List(ctx, metav1.ListOptions{LabelSelector: "batch.kubernetes.io/job-name=gang"})
			if err != nil {
				return false, err
			}
			running := 0
			for _, pod := range pods.Items {
				if pod.Spec.SchedulingGroup == nil || *pod.Spec.SchedulingGroup.PodGroupName != "gang" {
					return false, fmt.Errorf("pod %s is not in the group: is native gang scheduling on?", pod.Name)
				}
				if pod.Spec.NodeName != "" && pod.Status.Phase == corev1.PodRunning {
					running++
				}
			}
			return running == 3, nil
		})
		after, err := c.SchedulingAttempts(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if after <= before {
			t.Errorf("the scheduler's attempts went from %v to %v", before, after)
		}
	})

	t.Run("deleted pods end and go", func(t *testing.T) {
		policy := metav1.DeletePropagationForeground
		if err := c.Kube.BatchV1().Jobs("team").Delete(t.Context(), "gang", metav1.DeleteOptions{PropagationPolicy: &policy}); err != nil {
			t.Fatal(err)
		}
		eventually(t, 20*time.Second, "no pods of the gang", func(ctx context.Context) (bool, error) {
			pods, err := c.Kube.CoreV1().Pods("team").List(ctx, metav1.ListOptions{LabelSelector: "batch.kubernetes.io/job-name=gang"})
			return err == nil && len(pods.Items) == 0, err
		})
	})

	if t.Failed() {
		return
	}
	t.Run("nothing is left behind", func(t *testing.T) {
		var pids []int
		for _, p := range []*cluster.Process{c.Etcd, c.APIServer, c.Manager, c.Scheduler, c.Kwok} {
			used, err := p.CPU()
			if err != nil {
				t.Fatal(err)
			}
			memory, err := p.RSS()
			if err != nil {
				t.Fatal(err)
			}
			t.Logf("%-24s %5.1f s CPU %4d MB", p.Name, used.Seconds(), memory>>20)
			pids = append(pids, p.PID())
		}
		begin := time.Now()
		if err := c.Stop(true); err != nil {
			t.Fatal(err)
		}
		t.Logf("stopped in %v", time.Since(begin).Round(time.Millisecond))
		for _, pid := range pids {
			if err := syscall.Kill(pid, 0); !errors.Is(err, syscall.ESRCH) {
				t.Errorf("process %d is still there", pid)
			}
		}
		for _, path := range []string{c.Dir, c.LogDir} {
			if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("%s is still there", path)
			}
		}
		if children := children(t); len(children) != 0 {
			t.Errorf("child processes left: %v", children)
		}
	})
}

// children lists the command names of this process's children.
func children(t *testing.T) []string {
	t.Helper()
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, path := range stats {
		data, err := os.ReadFile(path)
		if err != nil {
			continue // it has just ended
		}
		text := string(data)
		end := strings.LastIndexByte(text, ')')
		fields := strings.Fields(text[end+1:])
		if parent, err := strconv.Atoi(fields[1]); err == nil && parent == os.Getpid() {
			names = append(names, text[strings.IndexByte(text, '(')+1:end])
		}
	}
	return names
}

func TestTwoClustersAtOnce(t *testing.T) {
	clusters := make([]*cluster.Cluster, 2)
	errs := make([]error, 2)
	done := make(chan struct{})
	for i := range clusters {
		go func() {
			defer func() { done <- struct{}{} }()
			clusters[i], errs[i] = cluster.Start(t.Context(), cluster.Options{
				Name: fmt.Sprintf("%s-%d", t.Name(), i), GatesOff: i == 1,
			})
		}()
	}
	for range clusters {
		<-done
	}
	for i, err := range errs {
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = clusters[i].Stop(!t.Failed()) }()
	}
	for i, c := range clusters {
		groups, expected := c.PodGroups()
		if groups.Version == "" {
			continue
		}
		_, err := c.Dynamic.Resource(groups).Namespace("default").List(t.Context(), metav1.ListOptions{})
		if served := err == nil; served != expected {
			t.Errorf("cluster %d: the PodGroup API is served: %t (%v)", i, served, err)
		}
		if err := c.CreateNamespace(t.Context(), fmt.Sprintf("only-in-%d", i), nil); err != nil {
			t.Error(err)
		}
	}
	if _, err := clusters[0].Kube.CoreV1().Namespaces().Get(t.Context(), "only-in-1", metav1.GetOptions{}); !cluster.IsNotFound(err) {
		t.Errorf("cluster 0 knows cluster 1's namespace: %v", err)
	}
}

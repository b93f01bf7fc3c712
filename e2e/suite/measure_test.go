// SPDX-License-Identifier: Apache-2.0

// Measure: partial starts while somebody watches, some of them of jobs that are gone at the end, against times that
// the test itself reads; what a stop and a start in between leave out; and that only reading requests arrive.

package suite

import (
	"bufio"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"tutti.dev/e2e/cluster"
)

type measured struct {
	WatchedSeconds, Created, Started, StartedPartially, PartialSeconds, Waiting int64
	WastedAtStarts, HeldWhole, Asked, Supply                                    struct{ DeviceSeconds int64 }
	Waits                                                                       *struct{ Jobs, LongestSeconds int64 }
}

// startMeasure watches until stop is called.
func startMeasure(t *testing.T, c *cluster.Cluster, ledger string) (stop func()) {
	t.Helper()
	measure := exec.CommandContext(t.Context(), tuttiBinary(t), "measure", "--ledger", ledger, "--kubeconfig", c.Kubeconfig, "--every", "1s")
	said, err := measure.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := measure.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(said)
	if !lines.Scan() {
		t.Fatal("tutti measure said nothing")
	}
	t.Log(lines.Text()) // it has listed everything
	return func() {
		t.Helper()
		if err := measure.Process.Signal(os.Interrupt); err != nil {
			t.Fatal(err)
		}
		for lines.Scan() {
			t.Log(lines.Text())
		}
		if err := measure.Wait(); err != nil {
			t.Fatal(err)
		}
	}
}

func TestMeasure(t *testing.T) {
	c := cluster.ForTest(t, cluster.Options{AuditPolicy: everyRequest})
	ctx := t.Context()
	if err := c.CreateNamespace(ctx, "team", nil); err != nil {
		t.Fatal(err)
	}
	addGPUNodes(t, c, "first", 2)
	ledger := filepath.Join(t.TempDir(), "ledger.db")
	stop := startMeasure(t, c, ledger)
	createJob(t, c, pluginGPUJob("late", 3))
	early := waitBound(t, c, "late", 2, 1)
	eventually(t, 30*time.Second, "the early pods to have waited", func(context.Context) (bool, error) {
		return time.Since(early[1]) > 5*time.Second, nil
	})
	addGPUNodes(t, c, "second", 1)
	late := waitBound(t, c, "late", 3, 0)
	eventually(t, 30*time.Second, "the whole job to have run", func(context.Context) (bool, error) {
		return time.Since(late[2]) > 2*time.Second, nil // the objects' times are whole seconds
	})
	background := metav1.DeletePropagationBackground
	if err := c.Kube.BatchV1().Jobs("team").Delete(ctx, "late", metav1.DeleteOptions{PropagationPolicy: &background}); err != nil {
		t.Fatal(err)
	}
	eventually(t, 60*time.Second, "the pods of the job to be gone", func(ctx context.Context) (bool, error) {
		pods, err := c.Kube.CoreV1().Pods("team").List(ctx, metav1.ListOptions{})
		return err == nil && len(pods.Items) == 0, err
	})
	stop()
	createJob(t, c, pluginGPUJob("unseen", 1))
	waitBound(t, c, "unseen", 1, 0)
	stop = startMeasure(t, c, ledger)
	createJob(t, c, pluginGPUJob("stuck", 3)) // beside the pod of the other one
	stuck := waitBound(t, c, "stuck", 2, 1)
	eventually(t, 30*time.Second, "the stuck pods to have waited", func(context.Context) (bool, error) {
		return time.Since(stuck[1]) > 4*time.Second, nil
	})
	stop()

	var report struct{ All measured }
	out, err := exec.CommandContext(ctx, tuttiBinary(t), "measure", "report", ledger, "--tolerance", "1s", "-o", "json").Output()
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(out, &report); err != nil {
		t.Fatal(err)
	}
	all := report.All
	if all.Started != 2 || all.StartedPartially != 2 || all.Created != 2 || all.Waiting != 1 {
		t.Errorf("%+v, want 2 jobs, both partially, one of them waiting", all)
	}
	wasted := 8 * int64(late[2].Sub(late[0]).Seconds()+late[2].Sub(late[1]).Seconds())
	ongoing := all.WastedAtStarts.DeviceSeconds - wasted
	if ongoing < 8*2*4 || ongoing > 8*2*40 {
		t.Errorf("wasted %d GPU-seconds, want %d of the first job and at least %d of the second", all.WastedAtStarts.DeviceSeconds, wasted, 8*2*4)
	}
	if all.Waits == nil || all.Waits.Jobs != 1 {
		t.Errorf("waits: %+v, want those of 1 job", all.Waits)
	}
	watches := 0
	for _, request := range requestsOf(t, c, "tutti-measure") {
		if request.Verb == "watch" {
			watches++
		} else if request.Verb != "list" {
			t.Errorf("%s %s: neither a list nor a watch", request.Verb, request.RequestURI)
		}
	}
	if watches < 6 {
		t.Errorf("%d watches in the audit log, want 6 or more", watches)
	}
}

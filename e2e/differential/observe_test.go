// SPDX-License-Identifier: Apache-2.0

// Observe: the operator in mode Observe beside Kueue's own controllers and scheduler, on a real API server: how many
// of their decisions it foresees, and that it writes nothing.

package differential

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"tutti.dev/e2e/cluster"
)

const everyRequest = `
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules: [{level: Metadata}]
`

// observed is what `tutti observe -o json` says.
type observed struct {
	Decisions, Foreseen int
	Differences         []struct{ Time, Kind, Namespace, Workload, ClusterQueue, Live, Tutti string }
}

func TestObserve(t *testing.T) {
	t.Run("quota", func(t *testing.T) { runObserve(t, 20, 150, Options{}) })
	t.Run("preemption", func(t *testing.T) { runObserve(t, 20, 150, Options{Preemption: true}) })
}

// runObserve plays random cases to Kueue, `count` or, in the long tier, `long` of them.
func runObserve(t *testing.T, count, long int, options Options) {
	const atOnce = 40
	if os.Getenv("TUTTI_E2E_LONG") != "" {
		count = long
	}
	ctx := t.Context()
	c := cluster.ForTest(t, cluster.Options{NoKwok: true, AuditPolicy: everyRequest})
	installForObserver(t, c)
	kueueDone := make(chan error, 1)
	kueueCtx, stopKueue := context.WithCancel(ctx)
	go func() { kueueDone <- runKueue(kueueCtx, c.Config, options.FairSharing) }()
	defer func() {
		stopKueue()
		if err := <-kueueDone; err != nil && !errors.Is(err, context.Canceled) {
			t.Errorf("Kueue: %v", err)
		}
	}()
	// As it would be installed beside Kueue: with the election that it must not take part in.
	tutti, err := c.StartTutti(ctx, cluster.TuttiOptions{
		Config: map[string]any{"leaderElection": map[string]any{"leaderElect": true}},
		Tutti:  map[string]any{"mode": "Observe"},
	})
	if err != nil {
		t.Fatal(err)
	}
	api, err := newClient(c.Config)
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	slots := make(chan struct{}, atOnce)
	settled, played := 0, 0
	var mutex sync.Mutex
	for seed := uint64(1); played < count; seed++ {
		one := generate(seed, options).oneByOne().named(fmt.Sprintf("s%d-", seed))
		if len(one.Steps) < 8 || len(one.Steps) > 30 {
			continue
		}
		expected, err := playKueue(ctx, one, quickEvictions, nil)
		if errors.Is(err, errNotSettled) || errors.Is(err, errSpinning) {
			continue // of no end with Kueue alone
		}
		if err != nil {
			t.Fatal(err)
		}
		played++
		slots <- struct{}{}
		all.Go(func() {
			defer func() { <-slots }()
			steps, err := playBeside(ctx, api, one, expected)
			if err != nil {
				t.Errorf("seed %d: %v\n%s", one.Seed, err, one)
			}
			mutex.Lock()
			settled += steps
			mutex.Unlock()
		})
	}
	all.Wait()
	if t.Failed() {
		return
	}
	result := observeResult(t, ctx, tutti)
	for _, d := range result.Differences {
		t.Logf("not foreseen: %s %s/%s in %s: %s; Tutti: %s", d.Kind, d.Namespace, d.Workload, d.ClusterQueue, d.Live, d.Tutti)
	}
	t.Logf("result: %d cases, %d steps that ended as expected; foreseen %d of %d decisions, %.2f %%", played, settled,
		result.Foreseen, result.Decisions, 100*float64(result.Foreseen)/float64(max(result.Decisions, 1)))
	if result.Decisions < 5*count {
		t.Errorf("only %d decisions: the cases are too easy to tell anything", result.Decisions)
	}
	if 100*result.Foreseen < 99*result.Decisions {
		t.Errorf("foreseen %d of %d decisions, want 99 %%", result.Foreseen, result.Decisions)
	}
	onlyReads(t, c)
}

// installForObserver installs the CRDs, and the chart's account with its rights; no policy and no webhook.
func installForObserver(t *testing.T, c *cluster.Cluster) {
	t.Helper()
	ctx := t.Context()
	repo, err := cluster.RepoDir()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.ApplyFile(ctx, filepath.Join(repo, "crds")); err != nil {
		t.Fatal(err)
	}
	text, err := cluster.RenderChart(ctx, nil, "--kube-version", "v"+c.Minor+".0")
	if err != nil {
		t.Fatal(err)
	}
	rendered, err := cluster.ParseManifests(text)
	if err != nil {
		t.Fatal(err)
	}
	objects := []*unstructured.Unstructured{{Object: map[string]any{
		"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": cluster.TuttiNamespace},
	}}}
	for _, object := range rendered {
		switch object.GetKind() {
		case "ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding":
			objects = append(objects, object)
		}
	}
	if err := c.Apply(ctx, objects...); err != nil {
		t.Fatal(err)
	}
}

// playBeside plays a case to whatever controller there is: a step is over when the state is as expected, or after a
// while, since it is Kueue's word that counts. It says how many steps ended as expected.
func playBeside(ctx context.Context, api client.Client, c *Case, expected []Outcome) (int, error) {
	const patience = 4 * time.Second
	l := &live{client: api, c: c}
	if err := l.install(ctx); err != nil {
		return 0, err
	}
	settled := 0
	for i, step := range c.Steps {
		l.gone = map[string][]string{}
		if err := l.happen(ctx, step); err != nil {
			return settled, fmt.Errorf("step %d: %w", i, err)
		}
		text, err := l.await(ctx, expected[i], patience)
		if err != nil {
			return settled, fmt.Errorf("step %d: %w", i, err)
		}
		if text == "" {
			settled++
		}
	}
	return settled, nil
}

func observeResult(t *testing.T, ctx context.Context, tutti *cluster.Tutti) observed {
	t.Helper()
	binary, err := cluster.TuttiBinary()
	if err != nil {
		t.Fatal(err)
	}
	if err := tutti.Stop(); err != nil { // the ledger is written to its end
		t.Error(err)
	}
	out, err := exec.CommandContext(ctx, binary, "observe", "-o", "json", "--last", "1000000", filepath.Join(tutti.Directory, "ledger.db")).Output()
	if err != nil {
		t.Fatal(err)
	}
	var result observed
	if err := json.Unmarshal(out, &result); err != nil {
		t.Fatal(err)
	}
	return result
}

// onlyReads: the observer's account has sent nothing but requests that read.
func onlyReads(t *testing.T, c *cluster.Cluster) {
	t.Helper()
	file, err := os.Open(filepath.Join(c.LogDir, "audit.log"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	requests := 0
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var event struct {
			Verb, RequestURI string
			User             struct{ Username string }
		}
		if err := json.Unmarshal(lines.Bytes(), &event); err != nil {
			t.Fatal(err)
		}
		if !strings.HasSuffix(event.User.Username, ":"+cluster.TuttiNamespace+":"+cluster.TuttiServiceAccount) {
			continue
		}
		requests++
		switch event.Verb {
		case "get", "list", "watch":
		default:
			t.Errorf("a write: %s %s", event.Verb, event.RequestURI)
		}
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	if requests < 10 {
		t.Errorf("%d requests of the observer in the audit log, want 10 or more", requests)
	}
}

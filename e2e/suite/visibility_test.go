// SPDX-License-Identifier: Apache-2.0

// The visibility API through the API server's aggregation layer: users see who waits where.

package suite

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"net/http"
	"os/exec"
	"strings"
	"testing"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"tutti.dev/e2e/cluster"
)

const visibilityRoot = "/apis/visibility.kueue.x-k8s.io/"

// pendingPlace is what a test reads of an item.
type pendingPlace struct {
	Metadata       metav1.ObjectMeta `json:"metadata"`
	LocalQueueName string            `json:"localQueueName"`
	Priority       int32             `json:"priority"`
	InClusterQueue int32             `json:"positionInClusterQueue"`
	InLocalQueue   int32             `json:"positionInLocalQueue"`
}

func pendingWorkloads(ctx context.Context, client rest.Interface, path string) ([]pendingPlace, error) {
	data, err := client.Get().RequestURI(visibilityRoot + path).DoRaw(ctx)
	if err != nil {
		return nil, err
	}
	var summary struct {
		Kind  string         `json:"kind"`
		Items []pendingPlace `json:"items"`
	}
	if err := json.Unmarshal(data, &summary); err != nil || summary.Kind != "PendingWorkloadsSummary" {
		return nil, fmt.Errorf("%w: %s", err, data)
	}
	return summary.Items, nil
}

func TestVisibility(t *testing.T) {
	ctx := t.Context()
	c := cluster.ForTest(t, cluster.Options{})
	installOn(t, c, map[string]any{"visibility": map[string]any{"enabled": true}}, cluster.NodeSpec{}, "")
	tutti, err := c.StartTutti(ctx, cluster.TuttiOptions{})
	if err != nil {
		t.Fatal(err)
	}
	queues := oneTeam + localQueue("other", "lq", "team")
	for i := range 4 {
		queues += priorityClass(fmt.Sprintf("class-%d", i), 40-10*i)
	}
	if err := c.ApplyYAML(ctx, queues); err != nil {
		t.Fatal(err)
	}
	// Each asks for more than the quota: all wait, in the order of the priorities.
	names := []string{}
	for i, namespace := range []string{"team", "other", "team", "team"} {
		j := teamJob(fmt.Sprintf("job-%d", i), 1, "5", "")
		j.Namespace = namespace
		j.Labels["kueue.x-k8s.io/priority-class"] = fmt.Sprintf("class-%d", i)
		createJob(t, c, j)
		eventually(t, 10*time.Second, "its Workload", func(ctx context.Context) (bool, error) {
			workload, err := workloadOf(ctx, c, namespace, j.Name)
			if err != nil || workload == nil {
				return false, err
			}
			names = append(names, namespace+"/"+workload.GetName())
			return true, nil
		})
	}
	admin := c.Kube.CoreV1().RESTClient()
	show := func(items []pendingPlace) string {
		var lines []string
		for _, item := range items {
			lines = append(lines, fmt.Sprintf("%s/%s %d %d", item.Metadata.Namespace, item.Metadata.Name, item.InClusterQueue, item.InLocalQueue))
		}
		return strings.Join(lines, ", ")
	}
	all := fmt.Sprintf("%s 0 0, %s 1 0, %s 2 1, %s 3 2", names[0], names[1], names[2], names[3])
	last := ""
	defer func() {
		if t.Failed() {
			t.Logf("the last answer: %s; expected: %s", last, all)
		}
	}()
	eventually(t, 30*time.Second, "the API server to pass requests on, and all four to wait", func(ctx context.Context) (bool, error) {
		items, err := pendingWorkloads(ctx, admin, "v1beta2/clusterqueues/team/pendingworkloads")
		if ctx.Err() == nil {
			last = fmt.Sprint(show(items), err)
		}
		return err == nil && show(items) == all, nil
	})

	t.Run("both versions, limit and offset", func(t *testing.T) {
		for _, version := range []string{"v1beta1", "v1beta2"} {
			for path, want := range map[string]string{
				"/clusterqueues/team/pendingworkloads":                         all,
				"/clusterqueues/team/pendingworkloads?limit=1&offset=2":        names[2] + " 2 1",
				"/namespaces/team/localqueues/lq/pendingworkloads?offset=1":    fmt.Sprintf("%s 2 1, %s 3 2", names[2], names[3]),
				"/namespaces/other/localqueues/lq/pendingworkloads":            names[1] + " 1 0",
				"/namespaces/other/localqueues/lq/pendingworkloads?offset=100": "",
			} {
				items, err := pendingWorkloads(ctx, admin, version+path)
				if err != nil || show(items) != want {
					t.Errorf("%s%s: %q, %v; want %q", version, path, show(items), err, want)
				}
			}
		}
	})
	t.Run("an unknown queue is not found", func(t *testing.T) {
		_, err := pendingWorkloads(ctx, admin, "v1beta2/clusterqueues/nope/pendingworkloads")
		if !cluster.IsNotFound(err) {
			t.Errorf("got %v", err)
		}
	})
	t.Run("users see what their roles allow", func(t *testing.T) {
		binding := &rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: "viewer", Namespace: "team"},
			RoleRef:    rbacv1.RoleRef{APIGroup: "rbac.authorization.k8s.io", Kind: "ClusterRole", Name: "view"},
			Subjects:   []rbacv1.Subject{{Kind: "ServiceAccount", Name: "default", Namespace: "team"}},
		}
		if _, err := c.Kube.RbacV1().RoleBindings("team").Create(ctx, binding, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		eventually(t, 20*time.Second, "the ServiceAccount", func(ctx context.Context) (bool, error) {
			_, err := c.Kube.CoreV1().ServiceAccounts("team").Get(ctx, "default", metav1.GetOptions{})
			return err == nil, nil
		})
		token, err := c.ServiceAccountToken(ctx, "team", "default", time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		kube, err := kubernetes.NewForConfig(c.TokenConfig(c.URL, token))
		if err != nil {
			t.Fatal(err)
		}
		viewer := kube.CoreV1().RESTClient()
		// The roles that are added to "view" are added by a controller.
		eventually(t, 20*time.Second, "the team's queue to be seen", func(ctx context.Context) (bool, error) {
			items, err := pendingWorkloads(ctx, viewer, "v1beta2/namespaces/team/localqueues/lq/pendingworkloads")
			return err == nil && len(items) == 3, nil
		})
		for _, path := range []string{"v1beta2/namespaces/other/localqueues/lq/pendingworkloads", "v1beta2/clusterqueues/team/pendingworkloads"} {
			if _, err := pendingWorkloads(ctx, viewer, path); !apierrors.IsForbidden(err) {
				t.Errorf("%s: %v", path, err)
			}
		}
	})
	t.Run("nobody is answered who doesn't come through the API server", func(t *testing.T) {
		client := &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, tutti.VisibilityURL+visibilityRoot+"v1beta2/clusterqueues/team/pendingworkloads", nil)
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("X-Remote-User", "system:admin")
		request.Header.Set("X-Remote-Group", "system:masters")
		response, err := client.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		if response.StatusCode != http.StatusUnauthorized {
			t.Errorf("got %s", response.Status)
		}
	})
	t.Run("kubectl shows it", func(t *testing.T) {
		out, err := exec.CommandContext(ctx, c.Kubectl(), "--kubeconfig", c.Kubeconfig, "get", "--raw",
			visibilityRoot+"v1beta2/clusterqueues/team/pendingworkloads?limit=1").CombinedOutput()
		if err != nil || !strings.Contains(string(out), names[0][len("team/"):]) {
			t.Errorf("%v: %s", err, out)
		}
	})
}

// SPDX-License-Identifier: Apache-2.0

// /metrics over HTTPS: the API server says who may read it.

package suite

import (
	"context"
	"crypto/tls"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"tutti.dev/e2e/cluster"
)

func TestMetricsAccess(t *testing.T) {
	ctx := t.Context()
	c, tutti := startTeam(t, false, cluster.NodeSpec{Count: 1}, oneTeam, cluster.TuttiOptions{})
	client := &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	read := func(token string) (int, string) {
		t.Helper()
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, tutti.MetricsURL, nil)
		if err != nil {
			t.Fatal(err)
		}
		if token != "" {
			request.Header.Set("Authorization", "Bearer "+token)
		}
		response, err := client.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		body, err := io.ReadAll(response.Body)
		if err != nil {
			t.Fatal(err)
		}
		return response.StatusCode, string(body)
	}
	// The two namespaces' default accounts: one is a reader.
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "reader"},
		RoleRef:    rbacv1.RoleRef{APIGroup: "rbac.authorization.k8s.io", Kind: "ClusterRole", Name: "tutti-metrics-reader"},
		Subjects:   []rbacv1.Subject{{Kind: "ServiceAccount", Name: "default", Namespace: "team"}},
	}
	if _, err := c.Kube.RbacV1().ClusterRoleBindings().Create(ctx, binding, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	tokens := map[string]string{}
	for _, namespace := range []string{"team", "other"} {
		eventually(t, 20*time.Second, "a token of "+namespace, func(ctx context.Context) (bool, error) {
			token, err := c.ServiceAccountToken(ctx, namespace, "default", time.Hour)
			tokens[namespace] = token
			return err == nil, nil
		})
	}
	// The API server takes the binding up a moment later.
	eventually(t, 30*time.Second, "the reader to read", func(context.Context) (bool, error) {
		code, body := read(tokens["team"])
		return code == http.StatusOK && strings.Contains(body, `kueue_cluster_queue_status{cluster_queue="team"`), nil
	})
	if code, _ := read(tokens["other"]); code != http.StatusForbidden {
		t.Errorf("an account without the right gets %d", code)
	}
	for _, token := range []string{"", "made-up"} {
		if code, _ := read(token); code != http.StatusUnauthorized {
			t.Errorf("token %q gets %d", token, code)
		}
	}
}

// SPDX-License-Identifier: Apache-2.0

// Doctor: what a cluster lacks, what happens instead, and the flags that change it.

package suite

import (
	"bytes"
	"errors"
	"os/exec"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"tutti.dev/e2e/cluster"
)

// doctor runs the command and returns its text and exit code.
func doctor(t *testing.T, c *cluster.Cluster, args ...string) (string, int) {
	t.Helper()
	binary, err := cluster.TuttiBinary()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), binary, append([]string{"doctor", "--kubeconfig", c.Kubeconfig}, args...)...)
	var out, problems bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &problems
	err = cmd.Run()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	if problems.Len() > 0 {
		t.Logf("%s", problems.String())
	}
	return out.String(), cmd.ProcessState.ExitCode()
}

func TestDoctor(t *testing.T) {
	says := func(t *testing.T, text string, want ...string) {
		t.Helper()
		for _, words := range want {
			if !strings.Contains(text, words) {
				t.Errorf("no %q in:\n%s", words, text)
			}
		}
	}
	t.Run("everything on", func(t *testing.T) {
		c := cluster.ForTest(t, cluster.Options{NoKwok: true})
		text, code := doctor(t, c)
		says(t, text, "problem  queue API", "kubectl apply --server-side -f crds/", "missing  holding Jobs")
		if code != 1 {
			t.Errorf("exit code %d before the installation, want 1", code)
		}
		if err := c.InstallTutti(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
		text, code = doctor(t, c)
		says(t, text, "ok       native gangs", "ok       holding Jobs", "ok       rights", "Nothing is missing.")
		if code != 0 {
			t.Errorf("exit code %d after it, want 0", code)
		}
		t.Logf("\n%s", text)
		if err := c.Kube.RbacV1().ClusterRoleBindings().Delete(t.Context(), "tutti-controller-manager", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		text, code = doctor(t, c)
		says(t, text, "problem  rights", "watch pods")
		if code != 1 {
			t.Errorf("exit code %d without rights, want 1", code)
		}
	})
	t.Run("gates off", func(t *testing.T) {
		c := cluster.ForTest(t, cluster.Options{NoKwok: true, GatesOff: true})
		if err := c.InstallTutti(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
		text, code := doctor(t, c)
		flags := "--runtime-config=scheduling.k8s.io/v1alpha2=true --feature-gates=GenericWorkload=true,GangScheduling=true"
		if c.Minor == "1.37" {
			flags = "--runtime-config=scheduling.k8s.io/v1beta1=true --feature-gates=GenericWorkload=true\n"
		}
		says(t, text, "missing  native gangs", "taken back", "kube-apiserver           "+flags, "ok       holding Jobs")
		if code != 1 {
			t.Errorf("exit code %d, want 1", code)
		}
		t.Logf("\n%s", text)
		text, _ = doctor(t, c, "-o", "json")
		says(t, text, `"area":"native gangs"`)
	})
	t.Run("no answer", func(t *testing.T) {
		c := cluster.ForTest(t, cluster.Options{NoKwok: true})
		if _, code := doctor(t, c, "--context", "nowhere"); code != 2 {
			t.Errorf("exit code %d, want 2", code)
		}
	})
}

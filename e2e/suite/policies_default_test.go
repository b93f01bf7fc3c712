// SPDX-License-Identifier: Apache-2.0

// The policies where others have a say as well: the default LocalQueue, other values of the chart,
// and a mutating webhook of somebody else.

package suite

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"tutti.dev/e2e/cluster"
)

func TestPoliciesGiveJobsTheDefaultQueue(t *testing.T) {
	c, p := installForPeople(t, cluster.Options{NoKwok: true}, nil)
	ctx := t.Context()
	users := p.user.BatchV1().Jobs("team")

	if created := mustCreate(t, users, job("before", 1, nil)); isSuspended(created) || created.Labels[queueLabel] != "" {
		t.Errorf("without a default queue: labels %v, suspended = %t", created.Labels, isSuspended(created))
	}
	if err := c.ApplyYAML(ctx, "{apiVersion: kueue.x-k8s.io/v1beta2, kind: LocalQueue, metadata: {name: default, namespace: team}, spec: {clusterQueue: c}}"); err != nil {
		t.Fatal(err)
	}
	eventually(t, 20*time.Second, "the default queue to be known", func(ctx context.Context) (bool, error) {
		probe, err := users.Create(ctx, job("probe", 1, nil), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return err == nil && probe.Labels[queueLabel] == "default", err
	})

	t.Run("a Job without a queue is labelled and held", func(t *testing.T) {
		created := mustCreate(t, users, job("labelled", 1, nil))
		if created.Labels[queueLabel] != "default" || !isSuspended(created) {
			t.Errorf("labels %v, suspended = %t", created.Labels, isSuspended(created))
		}
	})
	t.Run("a Job with a queue keeps it", func(t *testing.T) {
		if created := mustCreate(t, users, queued("own")); created.Labels[queueLabel] != "lq" {
			t.Errorf("labels %v", created.Labels)
		}
	})
	t.Run("a child of another controller is left alone", func(t *testing.T) {
		created := mustCreate(t, users, queued("child", ownedBy("jobset.x-k8s.io/v1alpha2", "JobSet"), func(j *batchv1.Job) { j.Labels = nil }))
		if created.Labels[queueLabel] != "" || isSuspended(created) {
			t.Errorf("labels %v, suspended = %t", created.Labels, isSuspended(created))
		}
	})
	t.Run("a Job of another namespace is left alone", func(t *testing.T) {
		other := job("other", 1, nil)
		other.Namespace = "default"
		created := mustCreate(t, c.Kube.BatchV1().Jobs("default"), other)
		if created.Labels[queueLabel] != "" || isSuspended(created) {
			t.Errorf("labels %v, suspended = %t", created.Labels, isSuspended(created))
		}
	})
	t.Run("the label can be changed, not removed", func(t *testing.T) {
		mustCreate(t, users, queued("stays"))
		eventually(t, 20*time.Second, "the refusal", func(ctx context.Context) (bool, error) {
			_, err := users.Patch(ctx, "stays", "application/merge-patch+json", []byte(`{"metadata":{"labels":{"`+queueLabel+`":null}}}`), metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}})
			return err != nil, nil
		})
		_, err := merge(ctx, users, "stays", `{"metadata":{"labels":{"`+queueLabel+`":null}}}`)
		refusedWith(t, err, "cannot be removed in a namespace with a default LocalQueue: set another queue")
		if _, err := merge(ctx, users, "stays", `{"metadata":{"labels":{"`+queueLabel+`":"other"}}}`); err != nil {
			t.Error(err)
		}
	})
	t.Run("Jobs are accepted when the CRD is gone", func(t *testing.T) {
		crd := manifest(t, "{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: localqueues.kueue.x-k8s.io}}")
		remove(t, c, crd)
		eventually(t, 20*time.Second, "the CRD to be gone", func(ctx context.Context) (bool, error) {
			resource, err := c.Resource(crd)
			if err != nil {
				return false, err
			}
			_, err = resource.Get(ctx, crd.GetName(), metav1.GetOptions{})
			return cluster.IsNotFound(err), nil
		})
		mustCreate(t, users, job("after", 1, nil))
	})
}

func TestPoliciesCanHoldJobsWithoutAQueue(t *testing.T) {
	c, p := installForPeople(t, cluster.Options{NoKwok: true}, map[string]any{
		"manageJobsWithoutQueueName":   true,
		"managedJobsNamespaceSelector": map[string]any{"matchLabels": map[string]any{"batch": "yes"}},
	})
	if err := c.CreateNamespace(t.Context(), "batch", map[string]string{"batch": "yes"}); err != nil {
		t.Fatal(err)
	}
	all := c.Kube.BatchV1().Jobs("batch")
	free := job("free", 1, nil)
	free.Namespace = "batch"
	eventually(t, 20*time.Second, "the policies", func(ctx context.Context) (bool, error) {
		probe, err := all.Create(ctx, free, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return err == nil && isSuspended(probe), err
	})
	mustCreate(t, all, free)
	if after, err := merge(t.Context(), all, "free", `{"spec":{"suspend":false}}`); err != nil || !isSuspended(after) {
		t.Errorf("resumed: %v", err)
	}
	if created := mustCreate(t, p.user.BatchV1().Jobs("team"), queued("queued")); isSuspended(created) {
		t.Error("a Job is held in a namespace that isn't selected")
	}
}

// meddler is a mutating webhook on Jobs that does what an annotation of the Job says.
func meddler(t *testing.T, c *cluster.Cluster, reinvocation admissionregistrationv1.ReinvocationPolicyType) {
	t.Helper()
	certificate, err := c.CA.ServerTLS("localhost")
	if err != nil {
		t.Fatal(err)
	}
	listener, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS12})
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{ReadHeaderTimeout: 10 * time.Second, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var review admissionv1.AdmissionReview
		var j batchv1.Job
		if err := errors.Join(json.NewDecoder(r.Body).Decode(&review), json.Unmarshal(review.Request.Object.Raw, &j)); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		kind := admissionv1.PatchTypeJSONPatch
		review.Response = &admissionv1.AdmissionResponse{UID: review.Request.UID, Allowed: true}
		if patch := j.Annotations["example.com/patch"]; patch != "" {
			review.Response.Patch, review.Response.PatchType = []byte(patch), &kind
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(review)
	})}
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(func() { _ = server.Close() })

	url := "https://" + net.JoinHostPort("localhost", portOf(t, listener)) + "/"
	fail, none := admissionregistrationv1.Fail, admissionregistrationv1.SideEffectClassNone
	configuration := &admissionregistrationv1.MutatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: "meddler"},
		Webhooks: []admissionregistrationv1.MutatingWebhook{{
			Name: "meddler.example.com", FailurePolicy: &fail, SideEffects: &none, ReinvocationPolicy: &reinvocation,
			AdmissionReviewVersions: []string{"v1"},
			ClientConfig:            admissionregistrationv1.WebhookClientConfig{URL: &url, CABundle: c.CA.CAPEM},
			Rules: []admissionregistrationv1.RuleWithOperations{{
				Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create, admissionregistrationv1.Update},
				Rule:       admissionregistrationv1.Rule{APIGroups: []string{"batch"}, APIVersions: []string{"v1"}, Resources: []string{"jobs"}},
			}},
		}},
	}
	configurations := c.Kube.AdmissionregistrationV1().MutatingWebhookConfigurations()
	if _, err := configurations.Create(t.Context(), configuration, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := configurations.Delete(ctx, "meddler", metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
	})
}

func portOf(t *testing.T, listener net.Listener) string {
	t.Helper()
	_, port, err := net.SplitHostPort(listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	return port
}

func TestPoliciesHoldBesideAForeignMutatingWebhook(t *testing.T) {
	for _, labels := range []bool{false, true} {
		t.Run(fmt.Sprintf("labelsFromWebhooks: %t", labels), func(t *testing.T) { holdBesideAWebhook(t, labels) })
	}
}

func holdBesideAWebhook(t *testing.T, labelsFromWebhooks bool) {
	c, p := installForPeople(t, cluster.Options{NoKwok: true}, map[string]any{
		"policies": map[string]any{"labelsFromWebhooks": labelsFromWebhooks},
	})
	users := p.user.BatchV1().Jobs("team")
	const (
		resumes = `[{"op":"add","path":"/spec/suspend","value":false}]`
		queues  = `[{"op":"add","path":"/metadata/labels","value":{"kueue.x-k8s.io/queue-name":"lq"}}]`
		marks   = `[{"op":"add","path":"/metadata/labels/example.com~1seen","value":"yes"}]`
	)
	for _, mode := range []admissionregistrationv1.ReinvocationPolicyType{admissionregistrationv1.NeverReinvocationPolicy, admissionregistrationv1.IfNeededReinvocationPolicy} {
		t.Run(string(mode), func(t *testing.T) {
			meddler(t, c, mode)
			seen := queued("", note("example.com/patch", marks))
			seen.GenerateName = "probe-"
			eventually(t, 20*time.Second, "the webhook", func(ctx context.Context) (bool, error) {
				probe, err := users.Create(ctx, seen, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
				return err == nil && probe.Labels["example.com/seen"] == "yes" && isSuspended(probe), err
			})

			named := func(prefix string, j *batchv1.Job) *batchv1.Job {
				j.Name, j.GenerateName = "", prefix
				return j
			}
			t.Run("that puts the Job into a queue", func(t *testing.T) {
				into := named("put-", queued("", note("example.com/patch", queues), func(j *batchv1.Job) { j.Labels = nil }))
				created, err := users.Create(t.Context(), into, metav1.CreateOptions{})
				if !labelsFromWebhooks {
					refusedWith(t, err, "set the chart's policies.labelsFromWebhooks: true")
					return
				}
				if err != nil {
					t.Fatal(err)
				}
				if created.Labels[queueLabel] != "lq" || !isSuspended(created) {
					t.Errorf("labels %v, suspended = %t", created.Labels, isSuspended(created))
				}
			})
			t.Run("that resumes the Job at creation", func(t *testing.T) {
				created, err := users.Create(t.Context(), named("resume-", queued("", note("example.com/patch", resumes))), metav1.CreateOptions{})
				switch {
				case mode == admissionregistrationv1.IfNeededReinvocationPolicy: // it has the last word
					refusedWith(t, err, "another mutating webhook or policy has resumed it")
				case err != nil:
					t.Error(err)
				case !isSuspended(created):
					t.Error("a queued Job was created running")
				}
			})
			t.Run("that resumes the Job later", func(t *testing.T) {
				held := mustCreate(t, users, named("later-", queued("")))
				_, err := merge(t.Context(), users, held.Name, `{"metadata":{"annotations":{"example.com/patch":`+quoted(resumes)+`}}}`)
				refusedWith(t, err, "only the queue controller may resume it")
			})
		})
	}
}

func quoted(text string) string {
	out, _ := json.Marshal(text)
	return string(out)
}

// SPDX-License-Identifier: Apache-2.0

// The chart's policies on Jobs and pods, on a real API server, without the operator.

package suite

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	batchclient "k8s.io/client-go/kubernetes/typed/batch/v1"

	"tutti.dev/e2e/cluster"
)

const (
	queueLabel = "kueue.x-k8s.io/queue-name"
	groupLabel = "tutti.dev/pod-group"
)

// people are the clients of an ordinary user of the namespace team, and of the operator.
type people struct{ user, operator kubernetes.Interface }

func installForPeople(t *testing.T, o cluster.Options, values map[string]any) (*cluster.Cluster, people) {
	t.Helper()
	ctx := t.Context()
	c := cluster.ForTest(t, o)
	if err := c.InstallTutti(ctx, values); err != nil {
		t.Fatal(err)
	}
	if err := c.CreateNamespace(ctx, "team", nil); err != nil {
		t.Fatal(err)
	}
	binding := &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "alice", Namespace: "team"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "edit"},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: "alice"}},
	}
	if _, err := c.Kube.RbacV1().RoleBindings("team").Create(ctx, binding, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	var p people
	var err error
	if p.user, err = kubernetes.NewForConfig(c.UserConfig("alice", "devs")); err != nil {
		t.Fatal(err)
	}
	token, err := c.ServiceAccountToken(ctx, cluster.TuttiNamespace, cluster.TuttiServiceAccount, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	if p.operator, err = kubernetes.NewForConfig(c.TokenConfig(c.URL, token)); err != nil {
		t.Fatal(err)
	}
	return c, p
}

// queued is a Job for queue lq.
func queued(name string, change ...func(*batchv1.Job)) *batchv1.Job {
	j := job(name, 2, nil)
	j.Labels = map[string]string{queueLabel: "lq"}
	for _, f := range change {
		f(j)
	}
	return j
}

func label(key, value string) func(*batchv1.Job) {
	return func(j *batchv1.Job) { j.Labels[key] = value }
}

func note(key, value string) func(*batchv1.Job) {
	return func(j *batchv1.Job) {
		if j.Annotations == nil {
			j.Annotations = map[string]string{}
		}
		j.Annotations[key] = value
	}
}

func suspended(value bool) func(*batchv1.Job) {
	return func(j *batchv1.Job) { j.Spec.Suspend = &value }
}

func ownedBy(apiVersion, kind string) func(*batchv1.Job) {
	return func(j *batchv1.Job) {
		yes := true
		j.OwnerReferences = []metav1.OwnerReference{{APIVersion: apiVersion, Kind: kind, Name: "owner", UID: "1-2-3", Controller: &yes}}
	}
}

func isSuspended(j *batchv1.Job) bool { return j.Spec.Suspend != nil && *j.Spec.Suspend }

func mustCreate(t *testing.T, jobs batchclient.JobInterface, j *batchv1.Job) *batchv1.Job {
	t.Helper()
	created, err := jobs.Create(t.Context(), j, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return created
}

// merge sends a merge patch.
func merge(ctx context.Context, jobs batchclient.JobInterface, name, patch string) (*batchv1.Job, error) {
	return jobs.Patch(ctx, name, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
}

func refusedWith(t *testing.T, err error, words string) {
	t.Helper()
	if err == nil {
		t.Errorf("accepted, want a refusal with %q", words)
	} else if !strings.Contains(err.Error(), words) {
		t.Errorf("refused with other words than %q: %v", words, err)
	}
}

func TestPolicies(t *testing.T) {
	c, p := installForPeople(t, cluster.Options{NoKwok: true}, nil)
	t.Run("hold queued Jobs", func(t *testing.T) { holdQueuedJobs(t, c, p) })
	t.Run("refuse bad labels of Jobs", func(t *testing.T) { refuseBadLabels(t, p) })
	t.Run("put pods into their group", func(t *testing.T) { putPodsIntoTheirGroup(t, c, p) })
}

func holdQueuedJobs(t *testing.T, c *cluster.Cluster, p people) {
	ctx := t.Context()
	users := p.user.BatchV1().Jobs("team")

	t.Run("at creation", func(t *testing.T) {
		for _, test := range []struct {
			name      string
			namespace string
			job       *batchv1.Job
			held      bool
		}{
			{"with a queue", "team", queued("a"), true},
			{"with a queue and suspend: false", "team", queued("b", suspended(false)), true},
			{"with a queue and a generated name", "team", queued("", func(j *batchv1.Job) { j.GenerateName = "g-" }), true},
			{"with a queue and an owner that isn't a controller", "team", queued("c", ownedBy("v1", "ConfigMap"), func(j *batchv1.Job) { j.OwnerReferences[0].Controller = nil }), true},
			{"of a CronJob", "team", queued("d", ownedBy("batch/v1", "CronJob")), true},
			{"of another controller", "team", queued("e", ownedBy("jobset.x-k8s.io/v1alpha2", "JobSet")), false},
			{"without a queue", "team", job("f", 1, nil), false},
			{"with other labels", "team", queued("g", func(j *batchv1.Job) { j.Labels = map[string]string{"a": "b"} }), false},
			{"in kube-system", "kube-system", queued("h"), false},
			{"in the operator's namespace", cluster.TuttiNamespace, queued("i"), false},
		} {
			t.Run(test.name, func(t *testing.T) {
				test.job.Namespace = test.namespace
				jobs := users
				if test.namespace != "team" {
					jobs = c.Kube.BatchV1().Jobs(test.namespace)
				}
				if created := mustCreate(t, jobs, test.job); isSuspended(created) != test.held {
					t.Errorf("suspended = %t, want %t", isSuspended(created), test.held)
				}
			})
		}
	})

	t.Run("a user's attempt to resume succeeds and changes nothing", func(t *testing.T) {
		mustCreate(t, users, queued("held"))
		apply := func(suspend bool) func(context.Context) (*batchv1.Job, error) {
			return func(ctx context.Context) (*batchv1.Job, error) {
				j := queued("held", suspended(suspend))
				j.APIVersion, j.Kind = "batch/v1", "Job"
				text, err := json.Marshal(j)
				if err != nil {
					return nil, err
				}
				force := true
				return users.Patch(ctx, "held", types.ApplyPatchType, text, metav1.PatchOptions{FieldManager: "gitops", Force: &force})
			}
		}
		for _, attempt := range []struct {
			name string
			do   func(context.Context) (*batchv1.Job, error)
		}{
			{"merge patch", func(ctx context.Context) (*batchv1.Job, error) {
				return merge(ctx, users, "held", `{"spec":{"suspend":false}}`)
			}},
			{"merge patch that removes suspend", func(ctx context.Context) (*batchv1.Job, error) {
				return merge(ctx, users, "held", `{"spec":{"suspend":null}}`)
			}},
			{"forced server-side apply of suspend: false", apply(false)},
			{"forced server-side apply of suspend: true", apply(true)},
			{"put", func(ctx context.Context) (*batchv1.Job, error) {
				j, err := users.Get(ctx, "held", metav1.GetOptions{})
				if err != nil {
					return nil, err
				}
				suspended(false)(j)
				return users.Update(ctx, j, metav1.UpdateOptions{})
			}},
			{"resume and leave the queue in one patch", func(ctx context.Context) (*batchv1.Job, error) {
				return merge(ctx, users, "held", `{"metadata":{"labels":{"`+queueLabel+`":null}},"spec":{"suspend":false}}`)
			}},
		} {
			t.Run(attempt.name, func(t *testing.T) {
				after, err := attempt.do(t.Context())
				if err != nil {
					t.Fatalf("the request failed: %v", err)
				}
				if !isSuspended(after) {
					t.Error("the Job isn't held any more")
				}
			})
		}
	})

	t.Run("a Job that joins a queue and resumes in one patch is held", func(t *testing.T) {
		mustCreate(t, users, queued("joins", suspended(true), func(j *batchv1.Job) { j.Labels = nil }))
		after, err := merge(ctx, users, "joins", `{"metadata":{"labels":{"`+queueLabel+`":"lq"}},"spec":{"suspend":false}}`)
		if err != nil {
			t.Fatal(err)
		}
		if !isSuspended(after) {
			t.Error("not held")
		}
	})

	t.Run("a held Job can't be given to a controller", func(t *testing.T) {
		mustCreate(t, users, queued("given"))
		_, err := merge(ctx, users, "given", `{"metadata":{"ownerReferences":[{"apiVersion":"v1","kind":"ConfigMap","name":"x","uid":"1","controller":true}]}}`)
		refusedWith(t, err, "metadata.ownerReferences: a held Job can't be given to a controller")
	})

	t.Run("an unqueued Job may be suspended and resumed by its user", func(t *testing.T) {
		mustCreate(t, users, job("free", 1, nil))
		for _, want := range []bool{true, false} {
			after, err := merge(ctx, users, "free", fmt.Sprintf(`{"spec":{"suspend":%t}}`, want))
			if err != nil {
				t.Fatal(err)
			}
			if isSuspended(after) != want {
				t.Errorf("suspended = %t, want %t", isSuspended(after), want)
			}
		}
	})

	t.Run("the operator releases, and a user's apply doesn't disturb the running Job", func(t *testing.T) {
		mustCreate(t, users, queued("released"))
		after, err := merge(ctx, p.operator.BatchV1().Jobs("team"), "released", `{"spec":{"suspend":false}}`)
		if err != nil {
			t.Fatal(err)
		}
		if isSuspended(after) {
			t.Fatal("the operator's release had no effect")
		}
		for _, patch := range []string{`{"spec":{"suspend":false}}`, `{"metadata":{"annotations":{"a":"b"}}}`} {
			if after, err = merge(ctx, users, "released", patch); err != nil || isSuspended(after) {
				t.Errorf("patch %s: %v, suspended = %t", patch, err, err == nil && isSuspended(after))
			}
		}
		// Suspending is a user's right; resuming isn't.
		for range 2 {
			if after, err = merge(ctx, users, "released", `{"spec":{"suspend":true}}`); err != nil || !isSuspended(after) {
				t.Errorf("a user's suspend: %v", err)
			}
			if after, err = merge(ctx, users, "released", `{"spec":{"suspend":false}}`); err != nil || !isSuspended(after) {
				t.Errorf("a user's resume: %v", err)
			}
		}
	})

	t.Run("an operator of another namespace can't release", func(t *testing.T) {
		mustCreate(t, users, queued("foreign"))
		other, err := kubernetes.NewForConfig(c.UserConfig("system:serviceaccount:team:"+cluster.TuttiServiceAccount, "system:masters"))
		if err != nil {
			t.Fatal(err)
		}
		after, err := merge(ctx, other.BatchV1().Jobs("team"), "foreign", `{"spec":{"suspend":false}}`)
		if err != nil || !isSuspended(after) {
			t.Errorf("%v, suspended = %t", err, err == nil && isSuspended(after))
		}
	})
}

func refuseBadLabels(t *testing.T, p people) {
	users, operator := p.user.BatchV1().Jobs("team"), p.operator.BatchV1().Jobs("team")

	wide := func(mode batchv1.CompletionMode, parallelism, completions int32) func(*batchv1.Job) {
		return func(j *batchv1.Job) {
			j.Spec.CompletionMode, j.Spec.Parallelism, j.Spec.Completions = &mode, &parallelism, &completions
		}
	}
	const (
		priority = "kueue.x-k8s.io/priority-class"
		limit    = "kueue.x-k8s.io/max-exec-time-seconds"
		minimum  = "kueue.x-k8s.io/job-min-parallelism"
		equal    = "kueue.x-k8s.io/job-completions-equal-parallelism"
		gatedBy  = "kueue.x-k8s.io/admission-gated-by"
		prebuilt = "kueue.x-k8s.io/prebuilt-workload-name"
		elastic  = "kueue.x-k8s.io/elastic-job"
	)
	for _, test := range []struct {
		name    string
		job     *batchv1.Job
		refusal string
	}{
		{"all that is possible", queued("", label(queueLabel, "team.a-1"), label(priority, "high"), label(limit, "60"), note(minimum, "1"), note(gatedBy, "a.com/one,b.com/two")), ""},
		{"longest time", queued("", label(limit, "2147483647")), ""},
		{"indexed with equal completions", queued("", note(equal, "true"), wide(batchv1.IndexedCompletion, 4, 4)), ""},
		{"bad labels of others' Jobs", queued("", label(limit, "none"), ownedBy("jobset.x-k8s.io/v1alpha2", "JobSet")), ""},
		{"queue name", queued("", label(queueLabel, "Team_A")), `metadata.labels[kueue.x-k8s.io/queue-name]: "Team_A" is not the name of a LocalQueue`},
		{"empty queue name", queued("", label(queueLabel, "")), "is not the name of a LocalQueue"},
		{"priority class", queued("", label(priority, "High")), "is not the name of a WorkloadPriorityClass"},
		{"no time", queued("", label(limit, "0")), "must be a number of seconds from 1 to 2147483647"},
		{"time with unit", queued("", label(limit, "5m")), `"5m" must be a number of seconds`},
		{"too much time", queued("", label(limit, "2147483648")), "must be a number of seconds from 1 to 2147483647"},
		{"far too much time", queued("", label(limit, "99999999999999999999")), "must be a number of seconds"},
		{"minimum of zero", queued("", note(minimum, "0")), "less than the number of pods"},
		{"minimum of all", queued("", note(minimum, "2")), `"2" must be a number from 1 to 1, less than the number of pods`},
		{"minimum above completions", queued("", note(minimum, "3"), wide(batchv1.NonIndexedCompletion, 5, 3)), "must be a number from 1 to 2"},
		{"minimum that is no number", queued("", note(minimum, "half")), "less than the number of pods"},
		{"equal completions, not indexed", queued("", note(equal, "true")), "needs spec.completionMode: Indexed"},
		{"equal completions that aren't", queued("", note(equal, "true"), wide(batchv1.IndexedCompletion, 4, 5)), "spec.completions: must be equal to spec.parallelism"},
		{"equal completions, perhaps", queued("", note(equal, "maybe")), `must be "true" or "false"`},
		{"gate without a domain", queued("", note(gatedBy, "gate")), "must be a list of different names"},
		{"gate twice", queued("", note(gatedBy, "a.com/g,a.com/g")), "must be a list of different names"},
		{"empty gate", queued("", note(gatedBy, "a.com/g,")), "must be a list of different names"},
		{"prebuilt workload", queued("", note(prebuilt, "Not A Name")), "is not the name of a Workload"},
		{"group label", queued("", func(j *batchv1.Job) { j.Spec.Template.Labels = map[string]string{groupLabel: "g"} }), "spec.template.metadata.labels[tutti.dev/pod-group]: only the queue controller may set this label"},
	} {
		t.Run("created with "+test.name, func(t *testing.T) {
			test.job.GenerateName = "created-"
			_, err := users.Create(t.Context(), test.job, metav1.CreateOptions{})
			if test.refusal != "" {
				refusedWith(t, err, test.refusal)
			} else if err != nil {
				t.Error(err)
			}
		})
	}

	running := func(t *testing.T, name string) {
		if _, err := merge(t.Context(), operator, name, `{"spec":{"suspend":false}}`); err != nil {
			t.Fatal(err)
		}
	}
	for i, test := range []struct {
		name    string
		job     *batchv1.Job
		run     bool
		patch   string
		refusal string
	}{
		{"queue while held", queued(""), false, `{"metadata":{"labels":{"` + queueLabel + `":"other"}}}`, ""},
		{"leave the queue while held", queued(""), false, `{"metadata":{"labels":{"` + queueLabel + `":null}}}`, ""},
		{"queue while running", queued(""), true, `{"metadata":{"labels":{"` + queueLabel + `":"other"}}}`, `cannot be changed from "lq" to "other" while the Job runs`},
		{"leave the queue while running", queued(""), true, `{"metadata":{"labels":{"` + queueLabel + `":null}}}`, `cannot be changed from "lq" to "" while the Job runs`},
		{"queue while suspending", queued(""), true, `{"metadata":{"labels":{"` + queueLabel + `":"other"}},"spec":{"suspend":true}}`, ""},
		{"priority class while held", queued("", label(priority, "a")), false, `{"metadata":{"labels":{"` + priority + `":"b"}}}`, ""},
		{"priority class while running", queued("", label(priority, "a")), true, `{"metadata":{"labels":{"` + priority + `":"b"}}}`, ""},
		{"add a priority class while held", queued(""), false, `{"metadata":{"labels":{"` + priority + `":"b"}}}`, ""},
		{"add a priority class while running", queued(""), true, `{"metadata":{"labels":{"` + priority + `":"b"}}}`, "cannot be added while the Job runs"},
		{"remove the priority class", queued("", label(priority, "a")), false, `{"metadata":{"labels":{"` + priority + `":null}}}`, `cannot be removed: set it to another WorkloadPriorityClass instead of "a"`},
		{"longest time while held", queued("", label(limit, "5")), false, `{"metadata":{"labels":{"` + limit + `":"6"}}}`, ""},
		{"longest time while running", queued("", label(limit, "5")), true, `{"metadata":{"labels":{"` + limit + `":"6"}}}`, "can be changed only while the Job is suspended"},
		{"prebuilt workload while running", queued("", note(prebuilt, "a")), true, `{"metadata":{"annotations":{"` + prebuilt + `":"b"}}}`, "cannot be changed while the Job runs"},
		{"parallelism while running in part", queued("", note(minimum, "1")), true, `{"spec":{"parallelism":1}}`, "spec.parallelism: cannot be changed while a Job with kueue.x-k8s.io/job-min-parallelism runs"},
		{"elastic", queued(""), false, `{"metadata":{"annotations":{"` + elastic + `":"true"}}}`, "can be set only at creation"},
		{"add a gate", queued("", note(gatedBy, "a.com/g")), false, `{"metadata":{"annotations":{"` + gatedBy + `":"a.com/g,b.com/h"}}}`, "gates can be added only at creation"},
		{"remove a gate", queued("", note(gatedBy, "a.com/g,b.com/h")), false, `{"metadata":{"annotations":{"` + gatedBy + `":"b.com/h"}}}`, ""},
		{"group label while held", queued(""), false, `{"spec":{"template":{"metadata":{"labels":{"` + groupLabel + `":"g"}}}}}`, "only the queue controller may set this label"},
		{"other labels while held", queued(""), false, `{"metadata":{"labels":{"a":"b"}}}`, ""},
	} {
		t.Run("changed: "+test.name, func(t *testing.T) {
			test.job.Name = fmt.Sprintf("changed-%d", i)
			mustCreate(t, users, test.job)
			if test.run {
				running(t, test.job.Name)
			}
			_, err := merge(t.Context(), users, test.job.Name, test.patch)
			if test.refusal != "" {
				refusedWith(t, err, test.refusal)
			} else if err != nil {
				t.Error(err)
			}
		})
	}
}

// podsOf waits for so many pods of a Job.
func podsOf(t *testing.T, c *cluster.Cluster, name string, count int) []corev1.Pod {
	t.Helper()
	var pods []corev1.Pod
	eventually(t, 30*time.Second, fmt.Sprintf("%d pods of %s", count, name), func(ctx context.Context) (bool, error) {
		list, err := c.Kube.CoreV1().Pods("team").List(ctx, metav1.ListOptions{LabelSelector: "batch.kubernetes.io/job-name=" + name})
		if err != nil {
			return false, err
		}
		pods = list.Items
		return len(pods) == count, nil
	})
	return pods
}

func release(name string) string {
	return `{"spec":{"suspend":false,"template":{"metadata":{"labels":{"` + groupLabel + `":"` + name + `"}}}}}`
}

func putPodsIntoTheirGroup(t *testing.T, c *cluster.Cluster, p people) {
	ctx := t.Context()
	users, operator := p.user.BatchV1().Jobs("team"), p.operator.BatchV1().Jobs("team")
	pod := func(labels map[string]string) *corev1.Pod {
		return &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{GenerateName: "mine-", Namespace: "team", Labels: labels},
			Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}},
		}
	}

	t.Run("the release names the group of a generated Job", func(t *testing.T) {
		created := mustCreate(t, users, queued("", func(j *batchv1.Job) { j.GenerateName = "gang-" }))
		after, err := merge(ctx, operator, created.Name, release("g-1"))
		if err != nil {
			t.Fatal(err)
		}
		if after.Spec.Template.Spec.SchedulingGroup != nil {
			t.Error("the template itself has a group")
		}
		for _, pod := range podsOf(t, c, created.Name, 2) {
			if group := pod.Spec.SchedulingGroup; group == nil || group.PodGroupName == nil || *group.PodGroupName != "g-1" {
				t.Errorf("pod %s has the group %v", pod.Name, group)
			}
		}
	})
	t.Run("pods of other Jobs have no group", func(t *testing.T) {
		mustCreate(t, users, job("single", 1, nil))
		if group := podsOf(t, c, "single", 1)[0].Spec.SchedulingGroup; group != nil {
			t.Errorf("it has the group %v", group)
		}
	})
	t.Run("users can't join a group", func(t *testing.T) {
		pods := p.user.CoreV1().Pods("team")
		_, err := pods.Create(ctx, pod(map[string]string{groupLabel: "g-1"}), metav1.CreateOptions{})
		refusedWith(t, err, "metadata.labels[tutti.dev/pod-group]: only the Job controller may create pods with this label, not alice")
		created, err := pods.Create(ctx, pod(nil), metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		_, err = pods.Patch(ctx, created.Name, types.MergePatchType, []byte(`{"metadata":{"labels":{"`+groupLabel+`":"g-1"}}}`), metav1.PatchOptions{})
		refusedWith(t, err, "metadata.labels[tutti.dev/pod-group]: only the queue controller may set this label")
	})
	t.Run("users can't name a group as the operator does", func(t *testing.T) {
		const words = `"victim-0a1b2c3d-1" looks like the name of a group that the queue controller makes: use another name`
		foreign, own := "victim-0a1b2c3d-1", "my-gang-1"
		for _, labelled := range []bool{false, true} {
			intruder := job("intruder", 1, nil)
			if labelled {
				intruder = queued("intruder")
			}
			intruder.Spec.Template.Spec.SchedulingGroup = &corev1.PodSchedulingGroup{PodGroupName: &foreign}
			_, err := users.Create(ctx, intruder, metav1.CreateOptions{})
			refusedWith(t, err, words)
		}
		intruder := pod(nil)
		intruder.Spec.SchedulingGroup = &corev1.PodSchedulingGroup{PodGroupName: &foreign}
		_, err := p.user.CoreV1().Pods("team").Create(ctx, intruder, metav1.CreateOptions{})
		refusedWith(t, err, words)

		preset := queued("preset")
		preset.Spec.Template.Spec.SchedulingGroup = &corev1.PodSchedulingGroup{PodGroupName: &own}
		created := mustCreate(t, users, preset)
		if group := created.Spec.Template.Spec.SchedulingGroup; group == nil || *group.PodGroupName != own {
			t.Errorf("a group of the user's own became %v", group)
		}
		if _, err := merge(ctx, users, "preset", `{"metadata":{"annotations":{"a":"b"}}}`); err != nil {
			t.Error(err)
		}
	})
	t.Run("a user's changes of a released Job keep working", func(t *testing.T) {
		mustCreate(t, users, queued("busy"))
		if _, err := merge(ctx, operator, "busy", release("g-2")); err != nil {
			t.Fatal(err)
		}
		if _, err := merge(ctx, users, "busy", `{"metadata":{"annotations":{"a":"b"}}}`); err != nil {
			t.Error(err)
		}
		pods := podsOf(t, c, "busy", 2)
		_, err := p.user.CoreV1().Pods("team").Patch(ctx, pods[0].Name, types.MergePatchType, []byte(`{"metadata":{"labels":{"a":"b"}}}`), metav1.PatchOptions{})
		if err != nil {
			t.Error(err)
		}
		_, err = merge(ctx, users, "busy", `{"spec":{"suspend":true}}`)
		if err != nil {
			t.Fatal(err)
		}
		// Until the Job controller has stopped it, its template can't be changed by anybody.
		eventually(t, 20*time.Second, "the Job to be stopped", func(ctx context.Context) (bool, error) {
			stopped, err := users.Get(ctx, "busy", metav1.GetOptions{})
			return err == nil && stopped.Status.StartTime == nil, err
		})
		_, err = merge(ctx, users, "busy", release("g-1"))
		refusedWith(t, err, "only the queue controller may set this label")
	})

	// Last: it takes the joining policy away for a while.
	t.Run("without the joining policy the guard lets no pod out of its group", func(t *testing.T) {
		bindings := c.Kube.AdmissionregistrationV1().MutatingAdmissionPolicyBindings()
		binding, err := bindings.Get(ctx, "tutti-pod-joins-group", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if err := bindings.Delete(ctx, binding.Name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		kcm, err := kubernetes.NewForConfig(c.UserConfig("system:serviceaccount:kube-system:job-controller", "system:masters"))
		if err != nil {
			t.Fatal(err)
		}
		const words = `spec.schedulingGroup.podGroupName: is "", must be "g-3" as the label tutti.dev/pod-group says`
		dry := metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}
		try := func(ctx context.Context) error {
			_, err := kcm.CoreV1().Pods("team").Create(ctx, pod(map[string]string{groupLabel: "g-3"}), dry)
			return err
		}
		eventually(t, 20*time.Second, "the guard", func(ctx context.Context) (bool, error) {
			err := try(ctx)
			if err == nil {
				return false, errors.New("the pod still joins")
			}
			if !strings.Contains(err.Error(), words) {
				return false, err
			}
			return true, nil
		})
		mustCreate(t, users, queued("guarded"))
		if _, err := merge(ctx, operator, "guarded", release("g-3")); err != nil {
			t.Fatal(err)
		}
		eventually(t, 20*time.Second, "an event that says why there is no pod", func(ctx context.Context) (bool, error) {
			events, err := c.Kube.CoreV1().Events("team").List(ctx, metav1.ListOptions{FieldSelector: "involvedObject.name=guarded,reason=FailedCreate"})
			if err != nil {
				return false, err
			}
			return len(events.Items) > 0 && strings.Contains(events.Items[0].Message, words), nil
		})
		binding.ResourceVersion, binding.UID = "", ""
		if _, err := bindings.Create(ctx, binding, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		for _, pod := range podsOf(t, c, "guarded", 2) {
			if pod.Spec.SchedulingGroup == nil {
				t.Errorf("pod %s is outside of its group", pod.Name)
			}
		}
	})
}

func TestPoliciesWithoutTheGangAPIStartLabelledPodsPlainly(t *testing.T) {
	c, p := installForPeople(t, cluster.Options{NoKwok: true, GatesOff: true}, nil)
	mustCreate(t, p.user.BatchV1().Jobs("team"), queued("plain"))
	if _, err := merge(t.Context(), p.operator.BatchV1().Jobs("team"), "plain", release("g")); err != nil {
		t.Fatal(err)
	}
	for _, pod := range podsOf(t, c, "plain", 2) {
		if pod.Spec.SchedulingGroup != nil || pod.Labels[groupLabel] != "g" {
			t.Errorf("pod %s has the group %v and the labels %v", pod.Name, pod.Spec.SchedulingGroup, pod.Labels)
		}
	}
}

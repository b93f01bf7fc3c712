// SPDX-License-Identifier: Apache-2.0

// Installing Tutti into a test cluster from its own chart: CRDs, policies, RBAC and webhook
// configuration as a user gets them; only the Deployment is replaced by a local process that uses
// the chart's ServiceAccount.

package cluster

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

const (
	// TuttiNamespace is where the chart is installed.
	TuttiNamespace = "tutti-system"
	// TuttiServiceAccount is the identity of the operator.
	TuttiServiceAccount = "tutti-controller-manager"
)

// RenderChart runs helm template on charts/tutti with the given values.
func RenderChart(ctx context.Context, values map[string]any, extraArgs ...string) ([]byte, error) {
	repo, err := RepoDir()
	if err != nil {
		return nil, err
	}
	helm, err := toolDir("helm", "TUTTI_HELM", "")
	if err != nil {
		return nil, err
	}
	text, err := yaml.Marshal(values)
	if err != nil {
		return nil, err
	}
	args := append([]string{"template", "tutti", filepath.Join(repo, "charts", "tutti"), "--namespace", TuttiNamespace, "--values", "-"}, extraArgs...)
	cmd := exec.CommandContext(ctx, filepath.Join(helm, "helm"), args...)
	cmd.Stdin = bytes.NewReader(text)
	var out, errOut bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errOut
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("helm template: %w\n%s", err, errOut.String())
	}
	return out.Bytes(), nil
}

// InstallTutti applies crds/ (the chart's own with the value crds.v1beta1) and the rendered chart,
// without the objects that make pods, and returns when the API server acts on the policies.
func (c *Cluster) InstallTutti(ctx context.Context, values map[string]any) error {
	repo, err := RepoDir()
	if err != nil {
		return err
	}
	twoVersions, _, _ := unstructured.NestedBool(values, "crds", "v1beta1")
	if !twoVersions {
		if err := c.ApplyFile(ctx, filepath.Join(repo, "crds")); err != nil {
			return err
		}
	}
	minor := "v" + c.Minor + ".0"
	_, gangs := c.PodGroups()
	served := map[string]any{
		"nativeGang": map[string]any{"enabled": gangs},
		"policies":   map[string]any{"betaApi": len(minors[c.Minor].policyRuntime) > 0},
	}
	text, err := RenderChart(ctx, merge(served, values), "--kube-version", minor)
	if err != nil {
		return err
	}
	rendered, err := ParseManifests(text)
	if err != nil {
		return err
	}
	namespace := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": TuttiNamespace},
	}}
	objects := []*unstructured.Unstructured{namespace}
	for _, object := range rendered {
		switch object.GetKind() {
		case "Deployment", "PodDisruptionBudget", "PersistentVolumeClaim", "Namespace", "ServiceMonitor", "Job":
			continue
		case "CustomResourceDefinition":
			if !twoVersions {
				continue
			}
			if strategy, _, _ := unstructured.NestedString(object.Object, "spec", "conversion", "strategy"); strategy == "Webhook" {
				err := unstructured.SetNestedField(object.Object, int64(c.webhookPort), "spec", "conversion", "webhook", "clientConfig", "service", "port")
				if err != nil {
					return err
				}
			}
		case "ValidatingWebhookConfiguration", "MutatingWebhookConfiguration":
			if err := c.pointToLocalPort(object); err != nil {
				return err
			}
		case "APIService":
			if err := unstructured.SetNestedField(object.Object, int64(c.visibilityPort), "spec", "service", "port"); err != nil {
				return err
			}
		case "Service":
			// The API server reaches the local process under the Service's own name, so that the
			// certificate is checked as in a real installation.
			object.Object["spec"] = map[string]any{"type": "ExternalName", "externalName": "localhost"}
		}
		objects = append(objects, object)
	}
	if err := c.Apply(ctx, objects...); err != nil {
		return err
	}
	mutatingAPI := "admissionregistration.k8s.io/v1"
	if len(minors[c.Minor].policyRuntime) > 0 {
		mutatingAPI = "admissionregistration.k8s.io/v1beta1"
	}
	if err := c.waitForPolicies(ctx, mutatingAPI); err != nil {
		return err
	}
	return c.CheckPolicies(ctx)
}

// servedArgs tells helm what a chart would learn from the server: which PodGroup API it serves.
func (c *Cluster) servedArgs() ([]string, error) {
	groups, err := c.Kube.Discovery().ServerGroups()
	if err != nil {
		return nil, err
	}
	var args []string
	for _, group := range groups.Groups {
		if group.Name != "scheduling.k8s.io" {
			continue
		}
		for _, version := range group.Versions {
			list, err := c.Kube.Discovery().ServerResourcesForGroupVersion(version.GroupVersion)
			if err != nil {
				return nil, err
			}
			for _, resource := range list.APIResources {
				if resource.Name == "podgroups" {
					args = append(args, "--api-versions", version.GroupVersion+"/"+resource.Kind)
				}
			}
		}
	}
	return args, nil
}

func (c *Cluster) pointToLocalPort(configuration *unstructured.Unstructured) error {
	webhooks, _, err := unstructured.NestedSlice(configuration.Object, "webhooks")
	if err != nil {
		return err
	}
	for _, item := range webhooks {
		webhook, ok := item.(map[string]any)
		if !ok {
			return fmt.Errorf("%s: a webhook is not an object", configuration.GetName())
		}
		if url, found, _ := unstructured.NestedString(webhook, "clientConfig", "url"); found {
			return fmt.Errorf("%s points to %s: leave webhook.url empty", configuration.GetName(), url)
		}
		if err := unstructured.SetNestedField(webhook, int64(c.webhookPort), "clientConfig", "service", "port"); err != nil {
			return fmt.Errorf("%s: %w", configuration.GetName(), err)
		}
	}
	return unstructured.SetNestedSlice(configuration.Object, webhooks, "webhooks")
}

// CheckPolicies reports what the API server's type check found in the validating policies.
func (c *Cluster) CheckPolicies(ctx context.Context) error {
	policies, err := c.Kube.AdmissionregistrationV1().ValidatingAdmissionPolicies().List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	var errs []error
	for _, policy := range policies.Items {
		if policy.Status.TypeChecking == nil {
			continue
		}
		for _, warning := range policy.Status.TypeChecking.ExpressionWarnings {
			errs = append(errs, fmt.Errorf("policy %s, %s: %s", policy.Name, warning.FieldRef, warning.Warning))
		}
	}
	return errors.Join(errs...)
}

// ServiceAccountToken makes a token of a ServiceAccount.
func (c *Cluster) ServiceAccountToken(ctx context.Context, namespace, name string, validity time.Duration) (string, error) {
	seconds := int64(validity.Seconds())
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: &seconds}}
	response, err := c.Kube.CoreV1().ServiceAccounts(namespace).CreateToken(ctx, name, request, metav1.CreateOptions{})
	if err != nil {
		return "", fmt.Errorf("token of ServiceAccount %s/%s: %w", namespace, name, err)
	}
	return response.Status.Token, nil
}

// writeYAML writes documents to a file.
func writeYAML(path string, documents ...map[string]any) error {
	var parts [][]byte
	for _, document := range documents {
		text, err := yaml.Marshal(document)
		if err != nil {
			return err
		}
		parts = append(parts, text)
	}
	return os.WriteFile(path, bytes.Join(parts, []byte("---\n")), 0o644)
}

// merge lays b over a, map by map; neither is changed.
func merge(a, b map[string]any) map[string]any {
	out := map[string]any{}
	for key, value := range a {
		out[key] = value
	}
	for key, value := range b {
		below, isMap := out[key].(map[string]any)
		over, overIsMap := value.(map[string]any)
		switch {
		case isMap && overIsMap:
			out[key] = merge(below, over)
		case value == nil:
			delete(out, key)
		default:
			out[key] = value
		}
	}
	return out
}

// removeTutti takes a stopped process off the list.
func (c *Cluster) removeTutti(t *Tutti) {
	c.tuttis = slices.DeleteFunc(c.tuttis, func(other *Tutti) bool { return other == t })
}

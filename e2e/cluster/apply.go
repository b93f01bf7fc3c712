// SPDX-License-Identifier: Apache-2.0

// Applying manifests, namespaces, and waiting on objects.

package cluster

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/dynamic"
)

// IsNotFound is the usual test, here so that tests need no further import.
func IsNotFound(err error) bool { return apierrors.IsNotFound(err) }

// ParseManifests splits YAML documents; List kinds are taken apart, empty documents skipped.
func ParseManifests(data []byte) ([]*unstructured.Unstructured, error) {
	var all []*unstructured.Unstructured
	reader := yaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(data)))
	for {
		document, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return all, nil
		}
		if err != nil {
			return nil, err
		}
		object := &unstructured.Unstructured{}
		if err := yaml.Unmarshal(document, &object.Object); err != nil {
			return nil, fmt.Errorf("%w in:\n%.400s", err, document)
		}
		if len(object.Object) == 0 {
			continue
		}
		if object.GetKind() == "" || object.GetAPIVersion() == "" {
			return nil, fmt.Errorf("document without kind or apiVersion:\n%.400s", document)
		}
		if object.IsList() {
			list, err := object.ToList()
			if err != nil {
				return nil, err
			}
			for i := range list.Items {
				all = append(all, &list.Items[i])
			}
			continue
		}
		all = append(all, object)
	}
}

// ReadManifests reads a file, or every .yaml and .yml file of a directory in the order of names.
func ReadManifests(path string) ([]*unstructured.Unstructured, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	files := []string{path}
	if info.IsDir() {
		files = nil
		entries, err := os.ReadDir(path)
		if err != nil {
			return nil, err
		}
		for _, entry := range entries {
			if extension := filepath.Ext(entry.Name()); extension == ".yaml" || extension == ".yml" {
				files = append(files, filepath.Join(path, entry.Name()))
			}
		}
	}
	var all []*unstructured.Unstructured
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		objects, err := ParseManifests(data)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		all = append(all, objects...)
	}
	return all, nil
}

// ApplyFile applies a file or a directory of manifests.
func (c *Cluster) ApplyFile(ctx context.Context, path string) error {
	objects, err := ReadManifests(path)
	if err != nil {
		return err
	}
	return c.Apply(ctx, objects...)
}

// ApplyYAML applies manifests given as text.
func (c *Cluster) ApplyYAML(ctx context.Context, text string) error {
	objects, err := ParseManifests([]byte(text))
	if err != nil {
		return err
	}
	return c.Apply(ctx, objects...)
}

// Apply applies objects by server-side apply as the administrator: namespaces and CRDs first, and
// returns once the CRDs among them are served.
func (c *Cluster) Apply(ctx context.Context, objects ...*unstructured.Unstructured) error {
	rank := func(o *unstructured.Unstructured) int {
		return slices.Index([]string{"Namespace", "CustomResourceDefinition"}, o.GetKind())
	}
	ordered := slices.Clone(objects)
	slices.SortStableFunc(ordered, func(a, b *unstructured.Unstructured) int {
		first := func(o *unstructured.Unstructured) int {
			if r := rank(o); r >= 0 {
				return r
			}
			return 2
		}
		return first(a) - first(b)
	})
	var crds []*unstructured.Unstructured
	for _, object := range ordered {
		if object.GetKind() == "CustomResourceDefinition" {
			crds = append(crds, object)
		} else if len(crds) > 0 {
			if err := c.waitServed(ctx, crds); err != nil {
				return err
			}
			crds = nil
		}
		if err := c.applyOne(ctx, object); err != nil {
			return fmt.Errorf("apply %s %s: %w", object.GetKind(), strings.TrimPrefix(object.GetNamespace()+"/"+object.GetName(), "/"), err)
		}
	}
	return c.waitServed(ctx, crds)
}

func (c *Cluster) applyOne(ctx context.Context, object *unstructured.Unstructured) error {
	client, err := c.Resource(object)
	if err != nil {
		return err
	}
	object = object.DeepCopy()
	object.SetManagedFields(nil)
	_, err = client.Apply(ctx, object.GetName(), object, metav1.ApplyOptions{FieldManager: "tutti-e2e", Force: true})
	return err
}

// Resource is the dynamic client for an object's kind and namespace.
func (c *Cluster) Resource(object *unstructured.Unstructured) (dynamic.ResourceInterface, error) {
	kind := object.GroupVersionKind()
	mapping, err := c.Mapper.RESTMapping(kind.GroupKind(), kind.Version)
	if meta.IsNoMatchError(err) {
		c.Mapper.Reset()
		mapping, err = c.Mapper.RESTMapping(kind.GroupKind(), kind.Version)
	}
	if err != nil {
		return nil, err
	}
	if mapping.Scope.Name() != meta.RESTScopeNameNamespace {
		return c.Dynamic.Resource(mapping.Resource), nil
	}
	namespace := object.GetNamespace()
	if namespace == "" {
		namespace = "default"
	}
	return c.Dynamic.Resource(mapping.Resource).Namespace(namespace), nil
}

var crdResource = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}

func (c *Cluster) waitServed(ctx context.Context, crds []*unstructured.Unstructured) error {
	for _, crd := range crds {
		err := Eventually(ctx, 30*time.Second, "CRD "+crd.GetName()+" to be established", func(ctx context.Context) (bool, error) {
			object, err := c.Dynamic.Resource(crdResource).Get(ctx, crd.GetName(), metav1.GetOptions{})
			if err != nil {
				return false, err
			}
			conditions, _, _ := unstructured.NestedSlice(object.Object, "status", "conditions")
			for _, item := range conditions {
				condition, _ := item.(map[string]any)
				if condition["type"] == "Established" && condition["status"] == "True" {
					return true, nil
				}
			}
			return false, nil
		})
		if err != nil {
			return err
		}
	}
	if len(crds) > 0 {
		c.Mapper.Reset()
	}
	return nil
}

// CreateNamespace creates a namespace and waits for its default ServiceAccount, without which no
// pod can be made.
func (c *Cluster) CreateNamespace(ctx context.Context, name string, labels map[string]string) error {
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}}
	if _, err := c.Kube.CoreV1().Namespaces().Create(ctx, namespace, metav1.CreateOptions{}); err != nil {
		return err
	}
	return Eventually(ctx, 30*time.Second, "ServiceAccount default in "+name, func(ctx context.Context) (bool, error) {
		_, err := c.Kube.CoreV1().ServiceAccounts(name).Get(ctx, "default", metav1.GetOptions{})
		if IsNotFound(err) {
			return false, nil
		}
		return err == nil, err
	})
}

// Eventually polls ten times a second until check says yes. The last error it gave is part of the message
// when time runs out.
func Eventually(ctx context.Context, timeout time.Duration, what string, check func(context.Context) (bool, error)) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	var last error
	for {
		done, err := check(ctx)
		if done && err == nil {
			return nil
		}
		if err != nil && ctx.Err() == nil {
			last = err
		}
		select {
		case <-ctx.Done():
			if last != nil {
				return fmt.Errorf("waited %v for %s: %w", timeout, what, last)
			}
			return fmt.Errorf("waited %v for %s", timeout, what)
		case <-tick.C:
		}
	}
}

// SPDX-License-Identifier: Apache-2.0

// Package terraform evaluates the stacks of examples/terraform as far as they go: variables with types and defaults,
// files of values, locals, for_each, and the manifests of kubernetes_manifest. It is no Terraform: there is no state, no
// provider and no plan, and a function or block that the examples don't use is an error.
package terraform

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/ext/typeexpr"
	"github.com/hashicorp/hcl/v2/hclparse"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/convert"
	"github.com/zclconf/go-cty/cty/function"
	"github.com/zclconf/go-cty/cty/function/stdlib"
	ctyjson "github.com/zclconf/go-cty/cty/json"
	"sigs.k8s.io/yaml"
)

// Manifest is one object of one resource.
type Manifest struct {
	Resource string // "gang"
	Key      string // of for_each
	Object   map[string]any
}

type stack struct {
	dir       string
	variables map[string]cty.Value
	locals    map[string]cty.Value
	manifests []Manifest
}

// Render is what the stack in `dir` would apply, in the order of its files; `varFile` is "" or a file of values.
func Render(dir, varFile string) ([]Manifest, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.tf"))
	if err != nil {
		return nil, err
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("%s: no *.tf in it", dir)
	}
	slices.Sort(files)
	s := &stack{dir: dir, variables: map[string]cty.Value{}, locals: map[string]cty.Value{}}
	parser := hclparse.NewParser()
	blocks := map[string]hcl.Blocks{}
	for _, file := range files {
		parsed, diags := parser.ParseHCLFile(file)
		if diags.HasErrors() {
			return nil, diags
		}
		content, diags := parsed.Body.Content(&hcl.BodySchema{Blocks: []hcl.BlockHeaderSchema{
			{Type: "terraform"}, {Type: "locals"}, {Type: "provider", LabelNames: []string{"name"}},
			{Type: "variable", LabelNames: []string{"name"}}, {Type: "resource", LabelNames: []string{"type", "name"}},
		}})
		if diags.HasErrors() {
			return nil, diags
		}
		for _, block := range content.Blocks {
			blocks[block.Type] = append(blocks[block.Type], block)
		}
	}
	values := hcl.Attributes{}
	if varFile != "" {
		parsed, diags := parser.ParseHCLFile(varFile)
		if diags.HasErrors() {
			return nil, diags
		}
		if values, diags = parsed.Body.JustAttributes(); diags.HasErrors() {
			return nil, diags
		}
	}
	for _, step := range []func() error{
		func() error { return s.takeVariables(blocks["variable"], values) },
		func() error { return s.takeLocals(blocks["locals"]) },
		func() error { return s.takeResources(blocks["resource"]) },
	} {
		if err := step(); err != nil {
			return nil, err
		}
	}
	return s.manifests, nil
}

func (s *stack) takeVariables(blocks hcl.Blocks, values hcl.Attributes) error {
	for _, block := range blocks {
		name := block.Labels[0]
		attributes, diags := block.Body.JustAttributes()
		if diags.HasErrors() {
			return diags
		}
		wanted := cty.DynamicPseudoType
		if of, ok := attributes["type"]; ok {
			if wanted, diags = typeexpr.TypeConstraint(of.Expr); diags.HasErrors() {
				return diags
			}
		}
		given, ok := values[name]
		if !ok {
			if given, ok = attributes["default"]; !ok {
				return fmt.Errorf("variable %s: has no default and no value", name)
			}
		}
		delete(values, name)
		value, diags := given.Expr.Value(nil)
		if diags.HasErrors() {
			return diags
		}
		converted, err := convert.Convert(value, wanted)
		if err != nil {
			return fmt.Errorf("variable %s: %w", name, err)
		}
		s.variables[name] = converted
	}
	for name := range values {
		return fmt.Errorf("a value for %s, which is no variable", name)
	}
	return nil
}

func (s *stack) takeLocals(blocks hcl.Blocks) error {
	for _, block := range blocks {
		attributes, diags := block.Body.JustAttributes()
		if diags.HasErrors() {
			return diags
		}
		for name, attribute := range attributes {
			value, diags := attribute.Expr.Value(s.context(nil))
			if diags.HasErrors() {
				return diags
			}
			s.locals[name] = value
		}
	}
	return nil
}

func (s *stack) takeResources(blocks hcl.Blocks) error {
	for _, block := range blocks {
		if block.Labels[0] != "kubernetes_manifest" {
			return fmt.Errorf("resource %s: only kubernetes_manifest is understood", block.Labels[0])
		}
		content, diags := block.Body.Content(&hcl.BodySchema{Attributes: []hcl.AttributeSchema{
			{Name: "manifest", Required: true}, {Name: "for_each"}, {Name: "depends_on"}, {Name: "computed_fields"},
		}})
		if diags.HasErrors() {
			return diags
		}
		if err := s.takeManifests(block.Labels[1], content.Attributes); err != nil {
			return fmt.Errorf("resource %s: %w", block.Labels[1], err)
		}
	}
	return nil
}

func (s *stack) takeManifests(resource string, attributes hcl.Attributes) error {
	add := func(key string, each map[string]cty.Value) error {
		value, diags := attributes["manifest"].Expr.Value(s.context(each))
		if diags.HasErrors() {
			return diags
		}
		text, err := ctyjson.Marshal(value, value.Type())
		if err != nil {
			return err
		}
		m := Manifest{Resource: resource, Key: key}
		if err := json.Unmarshal(text, &m.Object); err != nil {
			return err
		}
		s.manifests = append(s.manifests, m)
		return nil
	}
	forEach, ok := attributes["for_each"]
	if !ok {
		return add("", nil)
	}
	all, diags := forEach.Expr.Value(s.context(nil))
	if diags.HasErrors() {
		return diags
	}
	for it := all.ElementIterator(); it.Next(); {
		key, value := it.Element()
		if all.Type().IsSetType() {
			key = value
		}
		if err := add(key.AsString(), map[string]cty.Value{"key": key, "value": value}); err != nil {
			return err
		}
	}
	return nil
}

func (s *stack) context(each map[string]cty.Value) *hcl.EvalContext {
	variables := map[string]cty.Value{"var": cty.ObjectVal(s.variables), "local": cty.ObjectVal(s.locals)}
	if each != nil {
		variables["each"] = cty.ObjectVal(each)
	}
	return &hcl.EvalContext{Variables: variables, Functions: map[string]function.Function{
		"distinct": stdlib.DistinctFunc, "flatten": stdlib.FlattenFunc, "keys": stdlib.KeysFunc, "lookup": stdlib.LookupFunc,
		"file": s.text(func(path string) (cty.Value, error) {
			text, err := os.ReadFile(filepath.Join(s.dir, path))
			return cty.StringVal(string(text)), err
		}),
		"yamldecode": s.text(func(text string) (cty.Value, error) {
			data, err := yaml.YAMLToJSON([]byte(text))
			if err != nil {
				return cty.NilVal, err
			}
			of, err := ctyjson.ImpliedType(data)
			if err != nil {
				return cty.NilVal, err
			}
			return ctyjson.Unmarshal(data, of)
		}),
		"fileset": function.New(&function.Spec{
			Params: []function.Parameter{{Name: "dir", Type: cty.String}, {Name: "pattern", Type: cty.String}},
			Type:   function.StaticReturnType(cty.Set(cty.String)),
			Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
				dir := filepath.Join(s.dir, args[0].AsString())
				found, err := filepath.Glob(filepath.Join(dir, args[1].AsString()))
				if err != nil || len(found) == 0 {
					return cty.SetValEmpty(cty.String), err
				}
				names := []cty.Value{}
				for _, path := range found {
					name, err := filepath.Rel(dir, path)
					if err != nil {
						return cty.NilVal, err
					}
					names = append(names, cty.StringVal(name))
				}
				return cty.SetVal(names), nil
			},
		}),
	}}
}

// text is a function of a text.
func (s *stack) text(of func(string) (cty.Value, error)) function.Function {
	return function.New(&function.Spec{
		Params: []function.Parameter{{Name: "text", Type: cty.String}},
		Type: func(args []cty.Value) (cty.Type, error) {
			if !args[0].IsKnown() {
				return cty.DynamicPseudoType, nil
			}
			value, err := of(args[0].AsString())
			if err != nil {
				return cty.NilType, err
			}
			return value.Type(), nil
		},
		Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) { return of(args[0].AsString()) },
	})
}

// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Functions that the overlay stands in front of, and the names they get. "T.F" is a method.
var renamed = map[string]map[string]string{
	"test/integration/framework/framework.go": {
		"Framework.StartManager": "startManagerHere",
		"Framework.StopManager":  "stopManagerHere",
	},
	"pkg/controller/core/core.go": {"SetupControllers": "setupControllersHere"},
	"pkg/scheduler/scheduler.go": {
		"Scheduler.Start":          "startHere",
		"WithFairSharing":          "withFairSharingHere",
		"WithAdmissionFairSharing": "withAdmissionFairSharingHere",
		"WithQuotaCheckStrategy":   "withQuotaCheckStrategyHere",
	},
	"pkg/cache/scheduler/cache.go": {"WithResourceMetrics": "withResourceMetricsHere"},
	"pkg/cache/queue/manager.go": {
		"WithResourceMetrics":          "withResourceMetricsHere",
		"WithResourceTransformations":  "withResourceTransformationsHere",
		"WithExcludedResourcePrefixes": "withExcludedResourcePrefixesHere",
	},
	"pkg/controller/jobframework/integrationmanager.go": {"EnableIntegration": "enableIntegrationHere"},
	"pkg/controller/jobframework/reconciler.go": {
		"WithManageJobsWithoutQueueName":   "withManageJobsWithoutQueueNameHere",
		"WithManagedJobsNamespaceSelector": "withManagedJobsNamespaceSelectorHere",
		"WithWaitForPodsReady":             "withWaitForPodsReadyHere",
		"WithLabelKeysToCopy":              "withLabelKeysToCopyHere",
		"WithAnnotationsToCopy":            "withAnnotationsToCopyHere",
		"WithObjectRetentionPolicies":      "withObjectRetentionPoliciesHere",
	},
	"pkg/controller/jobs/pod/pod_webhook.go":                 {"SetupWebhook": "setupWebhookHere"},
	"pkg/controller/jobs/deployment/deployment_webhook.go":   {"SetupWebhook": "setupWebhookHere"},
	"pkg/controller/jobs/jobset/jobset_webhook.go":           {"SetupJobSetWebhook": "setupJobSetWebhookHere"},
	"pkg/controller/jobs/statefulset/statefulset_webhook.go": {"SetupWebhook": "setupWebhookHere"},
	"pkg/features/kube_features.go": {
		"SetFeatureGateDuringTest":  "setFeatureGateDuringTestHere",
		"SetFeatureGatesDuringTest": "setFeatureGatesDuringTestHere",
	},
}

// rename gives declarations of a file other names; callers in the package go to the overlay's.
func rename(file string, renames map[string]string) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	changed, err := renameIn(text, renames)
	if err != nil {
		return err
	}
	return os.WriteFile(file, changed, 0o644)
}

func renameIn(text []byte, renames map[string]string) ([]byte, error) {
	files := token.NewFileSet()
	parsed, err := parser.ParseFile(files, "", text, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	type edit struct {
		offset   int
		old, new string
	}
	var edits []edit
	for _, declaration := range parsed.Decls {
		function, ok := declaration.(*ast.FuncDecl)
		if !ok {
			continue
		}
		name := receiver(function) + function.Name.Name
		if to := renames[name]; to != "" {
			edits = append(edits, edit{files.Position(function.Name.Pos()).Offset, function.Name.Name, to})
		}
	}
	if len(edits) != len(renames) {
		return nil, fmt.Errorf("found %d of the functions to rename, not %d", len(edits), len(renames))
	}
	slices.SortFunc(edits, func(a, b edit) int { return b.offset - a.offset })
	for _, e := range edits {
		text = slices.Concat(text[:e.offset], []byte(e.new), text[e.offset+len(e.old):])
	}
	return text, nil
}

// receiver is "T." for a method of T or *T, else "".
func receiver(function *ast.FuncDecl) string {
	if function.Recv == nil {
		return ""
	}
	kind := function.Recv.List[0].Type
	if pointer, ok := kind.(*ast.StarExpr); ok {
		kind = pointer.X
	}
	if name, ok := kind.(*ast.Ident); ok {
		return name.Name + "."
	}
	return "?."
}

// listCollectors writes a function that returns every metric vector of the package: they are
// variables, and made anew when labels change.
func listCollectors(dir string) error {
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		return err
	}
	var names []string
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		found, err := vectorsIn(text)
		if err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		names = append(names, found...)
	}
	if len(names) == 0 {
		return fmt.Errorf("no metric vectors in %s", dir)
	}
	var out bytes.Buffer
	out.WriteString("package metrics\n\nimport \"github.com/prometheus/client_golang/prometheus\"\n\n")
	out.WriteString("func allCollectors() []prometheus.Collector {\n\treturn []prometheus.Collector{\n")
	for _, name := range names {
		fmt.Fprintf(&out, "\t\t%s,\n", name)
	}
	out.WriteString("\t}\n}\n")
	return os.WriteFile(filepath.Join(dir, "tutti_collectors.go"), out.Bytes(), 0o644)
}

// vectorsIn lists the package's variables of the types *prometheus.…Vec.
func vectorsIn(text []byte) ([]string, error) {
	parsed, err := parser.ParseFile(token.NewFileSet(), "", text, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, declaration := range parsed.Decls {
		group, ok := declaration.(*ast.GenDecl)
		if !ok || group.Tok != token.VAR {
			continue
		}
		for _, spec := range group.Specs {
			value := spec.(*ast.ValueSpec)
			pointer, ok := value.Type.(*ast.StarExpr)
			if !ok {
				continue
			}
			selector, ok := pointer.X.(*ast.SelectorExpr)
			if !ok || !strings.HasSuffix(selector.Sel.Name, "Vec") {
				continue
			}
			for _, name := range value.Names {
				names = append(names, name.Name)
			}
		}
	}
	return names, nil
}

// checkSpecs compares every file below test/integration whose name ends in _test.go, and the helpers
// of test/util, with the module's, byte by byte.
func checkSpecs(source, out string) error {
	count := 0
	for _, dir := range []string{"test/integration", "test/util"} {
		err := filepath.WalkDir(filepath.Join(source, dir), func(path string, entry os.DirEntry, err error) error {
			if err != nil || entry.IsDir() || (dir != "test/util" && !strings.HasSuffix(path, "_test.go")) {
				return err
			}
			relative, err := filepath.Rel(source, path)
			if err != nil {
				return err
			}
			want, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			have, err := os.ReadFile(filepath.Join(out, relative))
			if err != nil {
				return err
			}
			if !bytes.Equal(want, have) {
				return fmt.Errorf("%s is not as in the module", relative)
			}
			count++
			return nil
		})
		if err != nil {
			return err
		}
	}
	if count < 50 {
		return fmt.Errorf("only %d spec files", count)
	}
	fmt.Printf("%d spec files, as in the module\n", count)
	return nil
}

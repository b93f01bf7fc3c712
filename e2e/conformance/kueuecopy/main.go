// SPDX-License-Identifier: Apache-2.0

// kueuecopy makes a copy of the Kueue module in which the suites' start-up leads to a child process:
//
//	kueuecopy --overlay DIR --crds DIR --out DIR [--version V]
//
// Files of the overlay are added; nothing is overwritten. In the files named below functions are
// given another name, so that the overlay can put its own in front of them. Spec files stay as they
// are: the copy is refused if one of them differs from the module's.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

const module = "sigs.k8s.io/kueue"

// Left out: nothing in it is compiled or read by the suites.
var unused = map[string]bool{"keps": true, "docs": true, "charts": true, "CHANGELOG": true}

func main() {
	overlay := flag.String("overlay", "", "directory with the files to add")
	crds := flag.String("crds", "", "directory with Tutti's CRDs")
	out := flag.String("out", "", "directory to make")
	flag.Parse()
	if err := run(*overlay, *crds, *out); err != nil {
		fmt.Fprintln(os.Stderr, "kueuecopy:", err)
		os.Exit(1)
	}
}

func run(overlay, crds, out string) error {
	source, err := moduleDir()
	if err != nil {
		return err
	}
	if err := copyTree(source, out, unused); err != nil {
		return err
	}
	for file, renames := range renamed {
		if err := rename(filepath.Join(out, file), renames); err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
	}
	if err := listCollectors(filepath.Join(out, "pkg", "metrics")); err != nil {
		return err
	}
	if err := addTree(overlay, out); err != nil {
		return err
	}
	if err := placeCRDs(out, crds); err != nil {
		return err
	}
	return checkSpecs(source, out)
}

// moduleDir downloads the module in the version that go.mod requires, checked against go.sum.
func moduleDir() (string, error) {
	text, err := exec.Command("go", "mod", "download", "-json", module).Output()
	if err != nil {
		return "", fmt.Errorf("go mod download: %w: %s", err, text)
	}
	var found struct{ Dir, Error string }
	if err := json.Unmarshal(text, &found); err != nil {
		return "", err
	}
	if found.Error != "" {
		return "", fmt.Errorf("%s", found.Error)
	}
	return found.Dir, nil
}

func copyTree(from, to string, skip map[string]bool) error {
	return filepath.WalkDir(from, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		relative, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		if entry.IsDir() {
			if skip[relative] {
				return filepath.SkipDir
			}
			return os.MkdirAll(filepath.Join(to, relative), 0o755)
		}
		return copyFile(path, filepath.Join(to, relative))
	})
}

func copyFile(from, to string) error {
	text, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return os.WriteFile(to, text, 0o644)
}

// addTree copies the overlay; a file that is there already is an error.
func addTree(from, to string) error {
	return filepath.WalkDir(from, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		relative, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		target := filepath.Join(to, relative)
		if entry.IsDir() {
			return os.MkdirAll(target, 0o755)
		}
		if _, err := os.Stat(target); err == nil {
			return fmt.Errorf("%s would replace a file of the module", relative)
		}
		return copyFile(path, target)
	})
}

// Where the CRDs of other projects lie in their modules, and under which name the suites look.
var dependentCRDs = []struct{ module, dir, name string }{
	{"github.com/kubeflow/mpi-operator", "manifests/base", "mpi-operator"},
	{"github.com/kubeflow/training-operator", "manifests/base/crds", "training-operator-crds"},
	{"github.com/kubeflow/trainer/v2", "manifests/base/crds", "kf-trainer-crds"},
	{"github.com/ray-project/kuberay/ray-operator", "config/crd/bases", "ray-operator-crds"},
	{"sigs.k8s.io/jobset", "config/components/crd/bases", "jobset-operator"},
	{"k8s.io/autoscaler/cluster-autoscaler/apis", "config/crd", "cluster-autoscaler"},
	{"github.com/project-codeflare/appwrapper", "config/crd/bases", "appwrapper-crds"},
	{"sigs.k8s.io/lws", "config/crd/bases", "leaderworkerset-operator"},
	{"github.com/kubeflow/spark-operator/v2", "config/crd/bases", "spark-operator-crds"},
}

func placeCRDs(out, crds string) error {
	target := filepath.Join(out, "config", "components", "crd", "_output")
	if err := os.MkdirAll(target, 0o755); err != nil {
		return err
	}
	files, err := filepath.Glob(filepath.Join(crds, "*.yaml"))
	if err != nil {
		return err
	}
	if len(files) == 0 {
		return fmt.Errorf("no CRDs in %s", crds)
	}
	for _, file := range files {
		if err := copyFile(file, filepath.Join(target, filepath.Base(file))); err != nil {
			return err
		}
	}
	for _, dependent := range dependentCRDs {
		list := exec.Command("go", "list", "-m", "-mod=readonly", "-f", "{{.Dir}}", dependent.module)
		list.Dir = out
		dir, err := list.Output()
		if err != nil {
			return fmt.Errorf("go list %s: %w", dependent.module, err)
		}
		from := filepath.Join(strings.TrimSpace(string(dir)), dependent.dir)
		files, err := os.ReadDir(from)
		if err != nil {
			return err
		}
		to := filepath.Join(out, "dep-crds", dependent.name)
		if err := os.MkdirAll(to, 0o755); err != nil {
			return err
		}
		for _, file := range files {
			// The training operator's copy of the MPI operator's kind.
			if file.IsDir() || (dependent.name == "training-operator-crds" && file.Name() == "kubeflow.org_mpijobs.yaml") {
				continue
			}
			if err := copyFile(filepath.Join(from, file.Name()), filepath.Join(to, file.Name())); err != nil {
				return err
			}
		}
	}
	return nil
}

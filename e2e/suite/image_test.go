// SPDX-License-Identifier: Apache-2.0

// The container image: what a user loads into a cluster has all that the operator needs, and the chart's
// Deployment starts it. No container engine: the image's file tree becomes the root of the process.

package suite

import (
	"archive/tar"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"

	"tutti.dev/e2e/cluster"
)

// buildImage runs image/build.sh with the program under test.
func buildImage(t *testing.T, output string) {
	t.Helper()
	repo, err := cluster.RepoDir()
	if err != nil {
		t.Fatal(err)
	}
	binary, err := cluster.TuttiBinary()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), filepath.Join(repo, "image", "build.sh"), output)
	cmd.Env = append(os.Environ(), "TUTTI_BIN="+binary)
	if text, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("image/build.sh: %v\n%s", err, text)
	}
}

type imageConfig struct {
	Architecture string
	OS           string
	Config       struct {
		Entrypoint []string
		User       string
	}
}

// unpackImage lays the image's file tree below root.
func unpackImage(t *testing.T, archive, root string) imageConfig {
	t.Helper()
	parts := t.TempDir()
	untar(t, archive, parts, false)
	var manifest []struct {
		Config string
		Layers []string
	}
	readJSON(t, filepath.Join(parts, "manifest.json"), &manifest)
	if len(manifest) != 1 || len(manifest[0].Layers) != 1 {
		t.Fatalf("the archive should hold one image of one layer: %+v", manifest)
	}
	untar(t, filepath.Join(parts, manifest[0].Layers[0]), root, true)
	var config imageConfig
	readJSON(t, filepath.Join(parts, manifest[0].Config), &config)
	return config
}

func readJSON(t *testing.T, path string, into any) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, into); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
}

func untar(t *testing.T, path, into string, compressed bool) {
	t.Helper()
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	var stream io.Reader = file
	if compressed {
		if stream, err = gzip.NewReader(file); err != nil {
			t.Fatal(err)
		}
	}
	reader := tar.NewReader(stream)
	for {
		header, err := reader.Next()
		if errors.Is(err, io.EOF) {
			return
		}
		if err == nil {
			err = unpackOne(reader, header, into)
		}
		if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
	}
}

func unpackOne(reader io.Reader, header *tar.Header, into string) error {
	target := filepath.Join(into, header.Name)
	mode := header.FileInfo().Mode()
	switch header.Typeflag {
	case tar.TypeDir:
		if err := os.MkdirAll(target, 0o755); err != nil {
			return err
		}
		if err := os.Chmod(target, mode); err != nil {
			return err
		}
		return os.Chown(target, header.Uid, header.Gid)
	case tar.TypeSymlink:
		return os.Symlink(header.Linkname, target)
	case tar.TypeReg:
		out, err := os.OpenFile(target, os.O_CREATE|os.O_WRONLY, mode)
		if err != nil {
			return err
		}
		_, err = io.Copy(out, reader)
		return errors.Join(err, out.Close())
	default:
		return fmt.Errorf("%s: unexpected type %c", header.Name, header.Typeflag)
	}
}

func TestImageRunsAsTheChartStartsIt(t *testing.T) {
	ctx := t.Context()
	// t.TempDir is for this user alone; the image's user has to reach its root.
	root, err := os.MkdirTemp("", "tutti-image-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(root) })
	if err := os.Chmod(root, 0o755); err != nil {
		t.Fatal(err)
	}
	archives := t.TempDir()
	first, second := filepath.Join(archives, "1.tar"), filepath.Join(archives, "2.tar")
	buildImage(t, first)
	buildImage(t, second)
	if a, b := readFile(t, first), readFile(t, second); a != b {
		t.Error("two builds of the same program gave different images")
	}
	config := unpackImage(t, first, root)
	if got := strings.Join(config.Config.Entrypoint, " "); got != "/usr/bin/tutti" || config.Config.User != "65532:65532" || config.OS != "linux" {
		t.Errorf("configuration of the image: %+v", config)
	}

	c := cluster.ForTest(t, cluster.Options{})
	if err := c.InstallTutti(ctx, nil); err != nil {
		t.Fatal(err)
	}
	if _, err := c.AddNodes(ctx, cluster.NodeSpec{Count: 1}); err != nil {
		t.Fatal(err)
	}
	if err := c.CreateNamespace(ctx, "team", nil); err != nil {
		t.Fatal(err)
	}
	if err := c.ApplyYAML(ctx, oneTeam); err != nil {
		t.Fatal(err)
	}
	if _, err := c.StartTutti(ctx, cluster.TuttiOptions{ImageRoot: root}); err != nil {
		t.Fatal(err)
	}
	createJob(t, c, teamJob("first", 2, "1", "1s"))
	waitForJob(t, c, "first", batchv1.JobComplete)
	if _, err := os.Stat(filepath.Join(root, "var/lib/tutti/ledger.db")); err != nil {
		t.Errorf("the ledger: %v", err)
	}
}

func readFile(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

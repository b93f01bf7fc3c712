// SPDX-License-Identifier: Apache-2.0

// Where things are: the repository, the built tools, temporary and log directories.

package cluster

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// RepoDir is the root of the repository: TUTTI_REPO, or found upwards from the working directory.
func RepoDir() (string, error) {
	if dir := os.Getenv("TUTTI_REPO"); dir != "" {
		return dir, nil
	}
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "e2e", "tools", "build.sh")); err == nil {
			return dir, nil
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", errors.New("not inside the repository: set TUTTI_REPO to its root")
		}
		dir = parent
	}
}

// toolDir is the directory with a tool's binaries: from the environment variable, or from
// e2e/tools/build.sh, which builds them if need be.
func toolDir(name, variable, minor string) (string, error) {
	if dir := os.Getenv(variable); dir != "" && (minor == "" || minor == MinorFromEnv()) {
		return dir, nil
	}
	repo, err := RepoDir()
	if err != nil {
		return "", err
	}
	var out bytes.Buffer
	cmd := exec.Command(filepath.Join(repo, "e2e", "tools", "build.sh"), name)
	cmd.Env = append(os.Environ(), "TUTTI_K8S_MINOR="+minor)
	cmd.Stdout, cmd.Stderr = &out, os.Stderr
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("build %s: %w", name, err)
	}
	return strings.TrimSpace(out.String()), nil
}

// ToolPath is a program of a tool that e2e/tools/build.sh builds, built when it isn't there.
func ToolPath(tool, program string) (string, error) {
	dir, err := toolDir(tool, "TUTTI_"+strings.ToUpper(tool), "")
	return filepath.Join(dir, program), err
}

// CacheDir is where Tutti keeps what it builds or downloads for development.
func CacheDir() string {
	if dir := os.Getenv("TUTTI_CACHE"); dir != "" {
		return dir
	}
	base := os.Getenv("XDG_CACHE_HOME")
	if base == "" {
		base = filepath.Join(os.Getenv("HOME"), ".cache")
	}
	return filepath.Join(base, "tutti")
}

// newLogDir makes a log directory below TUTTI_E2E_LOGS (default: e2e-logs in the cache).
func newLogDir(name string) (string, error) {
	root := os.Getenv("TUTTI_E2E_LOGS")
	if root == "" {
		root = filepath.Join(CacheDir(), "e2e-logs")
	}
	if err := os.MkdirAll(root, 0o755); err != nil {
		return "", err
	}
	return os.MkdirTemp(root, fmt.Sprintf("%s-%s-", name, time.Now().Format("20060102-150405")))
}

// removeStale removes the directories of processes that were killed before they could do it.
func removeStale() {
	paths, _ := filepath.Glob(filepath.Join(os.TempDir(), dirPrefix+"*"))
	for _, path := range paths {
		pid, _, _ := strings.Cut(strings.TrimPrefix(filepath.Base(path), dirPrefix), "-")
		if _, err := strconv.Atoi(pid); err != nil {
			continue
		}
		if _, err := os.Stat("/proc/" + pid); errors.Is(err, os.ErrNotExist) {
			_ = os.RemoveAll(path)
		}
	}
}

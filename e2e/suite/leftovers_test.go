// SPDX-License-Identifier: Apache-2.0

// A test process that is interrupted, killed or panics leaves no process behind, and no directory
// after the next start.

package suite

import (
	"bufio"
	"context"
	"errors"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"tutti.dev/e2e/cluster"
)

func TestNothingIsLeftBehind(t *testing.T) {
	for _, test := range []struct {
		how         string
		signal      syscall.Signal
		cleansFirst bool // the directory goes at once, not at the next start
	}{
		{"interrupt", syscall.SIGINT, true},
		{"kill", syscall.SIGKILL, false},
		{"panic", 0, false},
	} {
		t.Run(test.how, func(t *testing.T) {
			executable, err := os.Executable()
			if err != nil {
				t.Fatal(err)
			}
			victim := exec.Command(executable)
			victim.Env = append(os.Environ(), "TUTTI_E2E_VICTIM="+test.how)
			victim.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
			out, err := victim.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := victim.Start(); err != nil {
				t.Fatal(err)
			}
			var lines []string
			for scanner := bufio.NewScanner(out); scanner.Scan() && scanner.Text() != "up"; {
				lines = append(lines, scanner.Text())
			}
			if test.signal != 0 {
				if err := victim.Process.Signal(test.signal); err != nil {
					t.Fatal(err)
				}
			}
			if err := victim.Wait(); err == nil {
				t.Error("the victim ended with status 0")
			}
			if len(lines) != 7 {
				t.Fatalf("the victim didn't start a cluster: %q", lines)
			}
			directory, logs := lines[0], lines[1]
			defer os.RemoveAll(logs)
			for _, line := range lines[2:] {
				pid, err := strconv.Atoi(line)
				if err != nil {
					t.Fatal(err)
				}
				err = cluster.Eventually(t.Context(), 10*time.Second, "process "+line+" to end", func(context.Context) (bool, error) {
					return gone(pid), nil
				})
				if err != nil {
					t.Error(err)
				}
			}
			_, err = os.Stat(directory)
			if there := err == nil; there == test.cleansFirst {
				t.Errorf("directory %s is there: %t", directory, there)
			}
		})
	}
	c := cluster.ForTest(t, cluster.Options{})
	for _, entry := range tempDirs(t) {
		if !strings.HasPrefix(c.Dir, entry) && deadOwner(entry) {
			t.Errorf("%s is left of a process that is gone", entry)
		}
	}
}

// gone: no such process, or a zombie that only waits to be reaped.
func gone(pid int) bool {
	if errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) {
		return true
	}
	data, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	return err != nil || strings.Contains(string(data), ") Z ")
}

func tempDirs(t *testing.T) []string {
	t.Helper()
	entries, err := os.ReadDir(os.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	var paths []string
	for _, entry := range entries {
		if strings.HasPrefix(entry.Name(), "tutti-e2e-") {
			paths = append(paths, os.TempDir()+"/"+entry.Name())
		}
	}
	return paths
}

func deadOwner(path string) bool {
	_, name, _ := strings.Cut(path, "tutti-e2e-")
	pid, err := strconv.Atoi(strings.Split(name, "-")[0])
	return err == nil && errors.Is(syscall.Kill(pid, 0), syscall.ESRCH)
}

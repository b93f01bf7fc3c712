// SPDX-License-Identifier: Apache-2.0

// Child processes of a test cluster: started so that they die with this process, measured through
// /proc, stopped by their own pid only.

package cluster

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Process is one child. Its standard output and error go to Log.
type Process struct {
	Name string
	Log  string

	cmd  *exec.Cmd
	done chan struct{}
	err  error // valid after done is closed
}

// The kernel sends the parent-death signal when the *thread* that forked ends. So all children are
// forked by one goroutine that keeps its thread for good.
var (
	spawnOnce sync.Once
	spawnJobs = make(chan func())
)

func onSpawnThread(f func()) {
	spawnOnce.Do(func() {
		go func() {
			runtime.LockOSThread()
			for job := range spawnJobs {
				job()
			}
		}()
	})
	finished := make(chan struct{})
	spawnJobs <- func() { defer close(finished); f() }
	<-finished
}

// StartProcess starts a program whose output is appended to <logDir>/<name>.log.
func StartProcess(name, logDir, dir, binary string, args, extraEnv []string) (*Process, error) {
	return startProcess(name, logDir, dir, binary, args, append(os.Environ(), extraEnv...), syscall.SysProcAttr{})
}

func startProcess(name, logDir, dir, binary string, args, env []string, attr syscall.SysProcAttr) (*Process, error) {
	log := filepath.Join(logDir, name+".log")
	out, err := os.OpenFile(log, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return nil, err
	}
	defer out.Close()
	cmd := exec.Command(binary, args...)
	cmd.Dir = dir
	cmd.Env = env
	cmd.Stdout, cmd.Stderr = out, out
	// A process group of its own: an interrupt typed at the terminal reaches us first, and we stop
	// the children in order.
	attr.Pdeathsig, attr.Setpgid = syscall.SIGKILL, true
	cmd.SysProcAttr = &attr
	onSpawnThread(func() { err = cmd.Start() })
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	p := &Process{Name: name, Log: log, cmd: cmd, done: make(chan struct{})}
	go func() {
		p.err = cmd.Wait()
		close(p.done)
	}()
	return p, nil
}

// PID is the process id.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Exited is closed when the process has ended.
func (p *Process) Exited() <-chan struct{} { return p.done }

// Alive tells whether the process still runs.
func (p *Process) Alive() bool {
	select {
	case <-p.done:
		return false
	default:
		return true
	}
}

// ExitError is nil while the process runs and after an exit with status 0.
func (p *Process) ExitError() error {
	if p.Alive() {
		return nil
	}
	return p.err
}

// Kill9 kills the process and waits until it is gone.
func (p *Process) Kill9() {
	if p == nil {
		return
	}
	if p.Alive() {
		_ = p.cmd.Process.Signal(syscall.SIGKILL)
	}
	<-p.done
}

// Stop sends SIGTERM and waits; after timeout it kills the process and says so.
func (p *Process) Stop(timeout time.Duration) error {
	if p.Alive() {
		if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
			return err
		}
	}
	select {
	case <-p.done:
		return p.err
	case <-time.After(timeout):
		p.Kill9()
		return fmt.Errorf("%s did not stop within %v of SIGTERM and was killed", p.Name, timeout)
	}
}

// CPU is the processor time (user and system) used so far; the last known value is lost when the
// process ends, so read it before.
func (p *Process) CPU() (time.Duration, error) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.PID()))
	if err != nil {
		return 0, err
	}
	// The second field is the name in parentheses and may hold anything.
	fields := strings.Fields(string(data[strings.LastIndexByte(string(data), ')')+1:]))
	if len(fields) < 13 {
		return 0, fmt.Errorf("unexpected /proc/%d/stat", p.PID())
	}
	user, err1 := strconv.ParseInt(fields[11], 10, 64)
	system, err2 := strconv.ParseInt(fields[12], 10, 64)
	const ticksPerSecond = 100 // USER_HZ, fixed by the kernel's interface
	return time.Duration(user+system) * time.Second / ticksPerSecond, errors.Join(err1, err2)
}

// RSS is the resident memory in bytes.
func (p *Process) RSS() (int64, error) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.PID()))
	if err != nil {
		return 0, err
	}
	for _, line := range strings.Split(string(data), "\n") {
		if rest, found := strings.CutPrefix(line, "VmRSS:"); found {
			kib, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 10, 64)
			return kib << 10, err
		}
	}
	return 0, fmt.Errorf("process %d has no VmRSS", p.PID())
}

// LogTail is the end of the process's log, for messages.
func (p *Process) LogTail(bytes int64) string {
	f, err := os.Open(p.Log)
	if err != nil {
		return ""
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return ""
	}
	from := max(0, info.Size()-bytes)
	buffer := make([]byte, info.Size()-from)
	n, _ := f.ReadAt(buffer, from)
	return string(buffer[:n])
}

// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const source = `package p

// Start starts, as Start says.
func (s *Server) Start() { Start() }

func Start() {}

var (
	Total *prometheus.CounterVec
	other int
)
`

func TestRenameTouchesOnlyTheDeclaration(t *testing.T) {
	changed, err := renameIn([]byte(source), map[string]string{"Server.Start": "startHere"})
	if err != nil {
		t.Fatal(err)
	}
	want := strings.Replace(source, "func (s *Server) Start()", "func (s *Server) startHere()", 1)
	if string(changed) != want {
		t.Errorf("got:\n%s", changed)
	}
}

func TestRenameOfAFunctionThatIsGoneIsAnError(t *testing.T) {
	if _, err := renameIn([]byte(source), map[string]string{"Stop": "stopHere"}); err == nil {
		t.Error("no error: a new version of the module would run without our start-up")
	}
}

func TestVectorsAreFoundByType(t *testing.T) {
	names, err := vectorsIn([]byte(source))
	if err != nil || !slices.Equal(names, []string{"Total"}) {
		t.Errorf("got %v, %v", names, err)
	}
}

func TestASpecFileThatWasChangedIsRefused(t *testing.T) {
	module, copied := t.TempDir(), t.TempDir()
	for _, dir := range []string{module, copied} {
		for i := range 60 {
			file := filepath.Join(dir, "test", "integration", string(rune('A'+i))+"_test.go")
			if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(file, []byte("package x\n"), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.MkdirAll(filepath.Join(dir, "test", "util"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := checkSpecs(module, copied); err != nil {
		t.Fatal(err)
	}
	changed := filepath.Join(copied, "test", "integration", "A_test.go")
	if err := os.WriteFile(changed, []byte("package x // easier\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := checkSpecs(module, copied); err == nil {
		t.Error("a changed spec file was taken")
	}
}

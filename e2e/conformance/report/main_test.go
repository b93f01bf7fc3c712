// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"testing"
)

const reports = `[{"SpecReports": [
  {"LeafNodeType": "BeforeSuite", "State": "passed"},
  {"ContainerHierarchyTexts": ["Queue"], "LeafNodeType": "It", "LeafNodeText": "admits", "State": "passed"},
  {"ContainerHierarchyTexts": ["Queue"], "LeafNodeType": "It", "LeafNodeText": "evicts", "State": "failed"},
  {"ContainerHierarchyTexts": ["Queue"], "LeafNodeType": "It", "LeafNodeText": "uses a fake clock", "State": "passed"},
  {"ContainerHierarchyTexts": ["Queue"], "LeafNodeType": "It", "LeafNodeText": "not asked for", "State": "skipped"}
]}]`

func write(t *testing.T, text string) string {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return file
}

func TestSpecsAreCounted(t *testing.T) {
	reasons, err := readReasons(write(t, "# why\nn/a scheduler: fake clock: needs the process\nfails scheduler: evicts: not yet\n"))
	if err != nil {
		t.Fatal(err)
	}
	r, err := read("scheduler", write(t, reports), reasons)
	if err != nil {
		t.Fatal(err)
	}
	// What is not applicable counts neither as passed nor as failed, whatever came of it.
	if r.passed != 1 || len(r.failed) != 1 || len(r.notApplicable) != 1 || r.notRun != 1 || r.total() != 4 {
		t.Errorf("got %d passed, %d failed, %d not applicable", r.passed, len(r.failed), len(r.notApplicable))
	}
	if why := explain("scheduler", r.failed[0], reasons).text; why != "not yet" {
		t.Errorf("reason %q", why)
	}
}

func TestReasonsOfAnotherSuiteDoNotCount(t *testing.T) {
	r, err := read("scheduler", write(t, reports), []reason{{notApplicable: true, suite: "webhook/core", name: "evicts"}})
	if err != nil || len(r.failed) != 1 {
		t.Errorf("got %v, %v", r, err)
	}
}

func TestASuiteThatDidNotComeUpIsNoSuccess(t *testing.T) {
	broken := `[{"SpecReports": [{"LeafNodeType": "BeforeSuite", "State": "failed", "Failure": {"Message": "no etcd"}}]}]`
	r, err := read("scheduler", write(t, broken), nil)
	if err != nil || r.broken == "" {
		t.Errorf("got %+v, %v", r, err)
	}
}

func TestAReasonInTheWrongFormIsRefused(t *testing.T) {
	if _, err := readReasons(write(t, "maybe scheduler: x\n")); err == nil {
		t.Error("no error")
	}
}

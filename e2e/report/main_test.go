// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"io"
	"strings"
	"testing"
)

func TestCountsAndFailures(t *testing.T) {
	const in = `
{"Action":"run","Package":"p/suite","Test":"TestA"}
{"Action":"run","Package":"p/suite","Test":"TestA/one"}
{"Action":"output","Package":"p/suite","Test":"TestA/one","Output":"    a_test.go:1: progress: 3 of 9\n"}
{"Action":"pass","Package":"p/suite","Test":"TestA/one","Elapsed":1}
{"Action":"run","Package":"p/suite","Test":"TestA/two"}
{"Action":"output","Package":"p/suite","Test":"TestA/two","Output":"    a_test.go:2: it broke\n"}
{"Action":"fail","Package":"p/suite","Test":"TestA/two","Elapsed":1}
{"Action":"output","Package":"p/suite","Test":"TestA","Output":"    a_test.go:3: logs: /somewhere/x\n"}
{"Action":"fail","Package":"p/suite","Test":"TestA","Elapsed":2}
{"Action":"run","Package":"p/suite","Test":"TestB"}
{"Action":"skip","Package":"p/suite","Test":"TestB"}
{"Action":"run","Package":"p/suite","Test":"TestC"}
{"Action":"pass","Package":"p/suite","Test":"TestC"}
{"Action":"fail","Package":"p/suite"}
`
	for _, test := range []struct {
		name, in string
		ok       bool
		contains []string
	}{
		{"a failing part", in, false, []string{
			"2 passed, 1 failed, 1 skipped", "progress: 3 of 9", "it broke", "failed: TestA/two\n        a_test.go:2: it broke\n", "component logs: /somewhere/x", "full output: LOG",
		}},
		{"all pass", `{"Action":"run","Package":"p","Test":"TestA"}
{"Action":"pass","Package":"p","Test":"TestA"}`, true, []string{"1 passed, 0 failed, 0 skipped"}},
		{"nothing ran", `{"Action":"pass","Package":"p"}`, false, []string{"0 passed, 0 failed, 0 skipped", "no test ran"}},
		{"the process died", `{"Action":"run","Package":"p","Test":"TestA"}
{"Action":"fail","Package":"p"}`, false, []string{"0 passed, 1 failed, 0 skipped", "failed: TestA"}},
		{"it doesn't compile", `{"ImportPath":"p","Action":"build-output","Output":"x.go:1: undefined: y\n"}
{"Action":"fail","Package":"p"}`, false, []string{"undefined: y", "0 passed, 1 failed, 0 skipped"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			var out bytes.Buffer
			r := newRunner(&out, io.Discard, "LOG")
			if err := r.read(strings.NewReader(strings.TrimSpace(test.in))); err != nil {
				t.Fatal(err)
			}
			if ok := r.close(); ok != test.ok {
				t.Errorf("ok = %t", ok)
			}
			if strings.Contains(out.String(), "failed: TestA\n") && test.name == "a failing part" {
				t.Errorf("the whole is listed beside its part:\n%s", out.String())
			}
			for _, want := range test.contains {
				if !strings.Contains(out.String(), want) {
					t.Errorf("no %q in:\n%s", want, out.String())
				}
			}
		})
	}
}

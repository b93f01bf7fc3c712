// SPDX-License-Identifier: Apache-2.0

package terraform

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func write(t *testing.T, text string) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "main.tf"), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestForEachOfAMap(t *testing.T) {
	dir := write(t, `
variable "sizes" {
  type    = map(number)
  default = { a = 1, b = "2" }
}
resource "kubernetes_manifest" "x" {
  for_each = var.sizes
  manifest = { kind = "X", metadata = { name = "n-${each.key}" }, spec = { size = each.value } }
}`)
	manifests, err := Render(dir, "")
	if err != nil {
		t.Fatal(err)
	}
	if len(manifests) != 2 || manifests[1].Key != "b" || manifests[1].Object["spec"].(map[string]any)["size"] != 2.0 {
		t.Errorf("%+v", manifests)
	}
}

func TestErrorsNameTheCause(t *testing.T) {
	for text, want := range map[string]string{
		`variable "a" { type = string }`:                                         "variable a: has no default",
		`variable "a" { default = unknown("x") }`:                                "Function calls not allowed",
		`resource "null_resource" "x" {}`:                                        "only kubernetes_manifest",
		`resource "kubernetes_manifest" "x" { manifest = { a = var.b } }`:        "b",
		`resource "kubernetes_manifest" "x" { manifest = { a = sha1("text") } }`: "sha1",
	} {
		if _, err := Render(write(t, text), ""); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}

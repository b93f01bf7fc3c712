// SPDX-License-Identifier: Apache-2.0

package celdiff

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"math/rand"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	dracel "k8s.io/dynamic-resource-allocation/cel"
)

type request struct {
	Expression string   `json:"expression"`
	Lists      bool     `json:"lists"`
	Devices    []device `json:"devices"`
}

type result struct {
	Value   string `json:"value"`
	Message string `json:"message"`
	Cost    int64  `json:"cost"`
}

type answer struct {
	Compile string   `json:"compile"`
	Results []result `json:"results"`
	// The evaluation changed a capacity of the device (Kubernetes only).
	changed bool
}

// evaluator is a running cel_eval.
type evaluator struct {
	in  *json.Encoder
	out *bufio.Reader
}

func startEvaluator(t *testing.T) *evaluator {
	t.Helper()
	program := os.Getenv("TUTTI_CEL_EVAL")
	if program == "" {
		repo := os.Getenv("TUTTI_REPO")
		if repo == "" {
			repo = filepath.Join("..", "..")
		}
		program = filepath.Join(repo, "build", "release", "api", "cel_eval")
		if bin := os.Getenv("TUTTI_BIN"); bin != "" { // …/build/X/operator/tutti or …/build/X/tutti
			for _, up := range []string{"..", "."} {
				if near := filepath.Join(filepath.Dir(bin), up, "api", "cel_eval"); exists(near) {
					program = near
				}
			}
		}
	}
	if !exists(program) {
		t.Fatalf("%s is missing: build the target cel_eval, or set TUTTI_CEL_EVAL to it", program)
	}
	cmd := exec.Command(program)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		in.Close()
		if err := cmd.Wait(); err != nil {
			t.Errorf("cel_eval: %v", err)
		}
	})
	encoder := json.NewEncoder(in)
	encoder.SetEscapeHTML(false)
	return &evaluator{encoder, bufio.NewReaderSize(out, 1<<20)}
}

func exists(path string) bool {
	info, err := os.Stat(path)
	return err == nil && !info.IsDir()
}

func (e *evaluator) ask(t *testing.T, q request) answer {
	t.Helper()
	if err := e.in.Encode(q); err != nil {
		t.Fatalf("cel_eval took no request: %v\n%s", err, q.Expression)
	}
	line, err := e.out.ReadBytes('\n')
	if err != nil {
		t.Fatalf("cel_eval ended: %v\n%s", err, q.Expression)
	}
	var a answer
	if err := json.Unmarshal(line, &a); err != nil {
		t.Fatalf("cel_eval: %v: %s", err, line)
	}
	return a
}

func toKubernetes(d device) dracel.Device {
	out := dracel.Device{
		Driver:                   d.Driver,
		AllowMultipleAllocations: &d.Multi,
		Attributes:               map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{},
		Capacity:                 map[resourceapi.QualifiedName]resourceapi.DeviceCapacity{},
	}
	for _, a := range d.Attributes {
		var value resourceapi.DeviceAttribute
		switch v := a.Value.(type) {
		case int64:
			value.IntValue = &v
		case bool:
			value.BoolValue = &v
		case string:
			if a.Type == "version" {
				value.VersionValue = &v
			} else {
				value.StringValue = &v
			}
		case []int64:
			value.IntValues = v
		case []bool:
			value.BoolValues = v
		case []string:
			if a.Type == "versions" {
				value.VersionValues = v
			} else {
				value.StringValues = v
			}
		}
		out.Attributes[resourceapi.QualifiedName(a.Domain+"/"+a.ID)] = value
	}
	for _, c := range d.Capacity {
		out.Capacity[resourceapi.QualifiedName(c.Domain+"/"+c.ID)] = resourceapi.DeviceCapacity{Value: resource.MustParse(c.Value)}
	}
	return out
}

// reference is what Kubernetes says.
func reference(q request) (out answer) {
	compiler := dracel.GetCompiler(dracel.Features{EnableConsumableCapacity: true, EnableListTypeAttributes: q.Lists})
	var compiled dracel.CompilationResult
	func() {
		defer func() {
			if r := recover(); r != nil {
				out.Compile = fmt.Sprintf("panic: %v", r)
			}
		}()
		compiled = compiler.CompileCELExpression(q.Expression, dracel.Options{DisableCostEstimation: true})
	}()
	if out.Compile != "" {
		return out
	}
	if compiled.Error != nil {
		out.Compile = compiled.Error.Detail
		return out
	}
	for _, d := range q.Devices {
		r := result{Value: "error", Cost: -1}
		device := toKubernetes(d)
		before := map[resourceapi.QualifiedName]resource.Quantity{}
		for name, capacity := range device.Capacity {
			before[name] = capacity.Value.DeepCopy()
		}
		matches, details, err := compiled.DeviceMatches(context.Background(), device)
		for name, capacity := range device.Capacity {
			out.changed = out.changed || capacity.Value.Cmp(before[name]) != 0
		}
		if err != nil {
			r.Message = err.Error()
		} else {
			r.Value = strconv.FormatBool(matches)
		}
		if details != nil && details.ActualCost() != nil {
			r.Cost = int64(*details.ActualCost())
		}
		out.Results = append(out.Results, r)
	}
	return out
}

// compare says what differs; empty if nothing does.
func compare(want, got answer, costs bool) string {
	if (want.Compile == "") != (got.Compile == "") {
		return fmt.Sprintf("compile\n  Kubernetes: %q\n  Tutti:      %q", want.Compile, got.Compile)
	}
	if len(want.Results) != len(got.Results) {
		return fmt.Sprintf("%d results instead of %d", len(got.Results), len(want.Results))
	}
	for i, w := range want.Results {
		g := got.Results[i]
		if w.Value != g.Value {
			return fmt.Sprintf("device %d\n  Kubernetes: %s %s\n  Tutti:      %s %s", i, w.Value, w.Message, g.Value, g.Message)
		}
		// After an error the two may have stopped at different places.
		if costs && w.Value != "error" && w.Cost >= 0 && w.Cost != g.Cost {
			return fmt.Sprintf("device %d: cost\n  Kubernetes: %d\n  Tutti:      %d", i, w.Cost, g.Cost)
		}
	}
	return ""
}

// limitMemory makes an expression that asks for too much end this test and not the machine: cel-go makes
// lists.range(9223372036854775807) element by element.
func limitMemory(t *testing.T) {
	t.Helper()
	limit := syscall.Rlimit{Cur: 6 << 30, Max: 6 << 30}
	if err := syscall.Setrlimit(syscall.RLIMIT_AS, &limit); err != nil {
		t.Fatal(err)
	}
}

func TestRandomExpressionsAgreeWithKubernetes(t *testing.T) {
	limitMemory(t)
	count := 5000
	if os.Getenv("TUTTI_E2E_LONG") != "" {
		count = 100000
	}
	seed := int64(1)
	if text := os.Getenv("TUTTI_CELDIFF_SEED"); text != "" {
		parsed, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			t.Fatalf("TUTTI_CELDIFF_SEED: %v", err)
		}
		seed = parsed
	}
	e := startEvaluator(t)
	refused, failed, matched, different := 0, 0, 0, 0
	excused := map[string]int{} // by the difference that explains it
	g := &generator{r: rand.New(rand.NewSource(seed))}
	g.lists = false
	for i := 0; i < count; i++ {
		if i == count*4/5 { // the gate is switched once: Kubernetes keeps one compiler at a time
			g.lists = true
		}
		q := request{Expression: g.Expression(), Lists: g.lists, Devices: []device{g.device(), g.device()}}
		want, got := reference(q), e.ask(t, q)
		if want.Compile != "" {
			refused++
		}
		for _, r := range want.Results {
			switch r.Value {
			case "error":
				failed++
			case "true":
				matched++
			}
		}
		if problem := compare(want, got, !g.unordered); problem != "" {
			if reason := known(want, got); reason != "" {
				excused[reason]++
				continue
			}
			if different++; different <= 100 {
				text, _ := json.Marshal(q.Devices)
				t.Errorf("seed %d, number %d, lists %v\n%s\n%s\n%s", seed, i, q.Lists, q.Expression, problem, text)
			}
		}
	}
	t.Logf("%d expressions: %d refused, %d errors, %d matches, %d differences; excused: %v", count, refused, failed, matched, different, excused)
	if different > 100 {
		t.Errorf("%d differences in all", different)
	}
	// A generator whose expressions all fail would compare nothing.
	if refused > count/2 || matched < count/20 {
		t.Errorf("the generator has become useless: %d of %d refused, %d matches", refused, count, matched)
	}
}

// known names the difference that docs/devices.md lists, or "".
func known(want, got answer) string {
	if want.changed {
		return "add and sub change the device"
	}
	if strings.Contains(got.Compile, "messages can't be made here") {
		return "messages"
	}
	for _, r := range got.Results {
		if strings.Contains(r.Message, "time zones by name") {
			return "time zones by name"
		}
	}
	return ""
}

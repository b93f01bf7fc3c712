// SPDX-License-Identifier: Apache-2.0

package suite

import (
	"context"
	"fmt"
	"os"
	"testing"

	"tutti.dev/e2e/cluster"
)

// TestMain also plays the victim of TestNothingIsLeftBehind: with TUTTI_E2E_VICTIM set it starts a
// cluster, says where, and then ends as told.
func TestMain(m *testing.M) {
	how := os.Getenv("TUTTI_E2E_VICTIM")
	if how == "" {
		os.Exit(m.Run())
	}
	c, err := cluster.Start(context.Background(), cluster.Options{Name: "victim"})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println(c.Dir)
	fmt.Println(c.LogDir)
	for _, p := range []*cluster.Process{c.Etcd, c.APIServer, c.Manager, c.Scheduler, c.Kwok} {
		fmt.Println(p.PID())
	}
	fmt.Println("up")
	if how == "panic" {
		panic("the victim panics as it was told")
	}
	<-context.Background().Done()
}

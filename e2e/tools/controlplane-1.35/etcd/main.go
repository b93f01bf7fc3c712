// SPDX-License-Identifier: Apache-2.0

// The etcd server as a program of its own: etcd's main module can't be fetched as a Go module
// dependency, its server module can.
package main

import (
	"os"

	"go.etcd.io/etcd/server/v3/etcdmain"
)

func main() { etcdmain.Main(os.Args) }

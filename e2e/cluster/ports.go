// SPDX-License-Identifier: Apache-2.0

// Free loopback ports. They are taken below the range from which the kernel serves outgoing
// connections, so that a port found free stays free until its server binds it.

package cluster

import (
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
)

var (
	portsMutex sync.Mutex
	portsGiven = map[int]bool{}
)

// FreePort returns a loopback TCP port that is free now and that this process gives out only once.
func FreePort() (int, error) {
	const low = 12000
	high := 32000
	if data, err := os.ReadFile("/proc/sys/net/ipv4/ip_local_port_range"); err == nil {
		if fields := strings.Fields(string(data)); len(fields) == 2 {
			if first, err := strconv.Atoi(fields[0]); err == nil && first > low+2000 {
				high = min(high, first)
			}
		}
	}
	portsMutex.Lock()
	defer portsMutex.Unlock()
	for range 1000 {
		port := low + rand.IntN(high-low)
		if portsGiven[port] {
			continue
		}
		listener, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err != nil {
			continue
		}
		listener.Close()
		portsGiven[port] = true
		return port, nil
	}
	return 0, fmt.Errorf("no free loopback port between %d and %d", low, high)
}

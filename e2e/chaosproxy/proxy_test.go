// SPDX-License-Identifier: Apache-2.0

package chaosproxy

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// start runs a server that counts the writes it has done, and a proxy before it.
func start(t *testing.T) (p *Proxy, client *http.Client, done *atomic.Int32) {
	t.Helper()
	done = &atomic.Int32{}
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			if r.URL.Query().Has("watch") {
				fmt.Fprintln(w, "first")
				w.(http.Flusher).Flush()
				<-r.Context().Done()
				return
			}
			fmt.Fprint(w, "read")
			return
		}
		done.Add(1)
		w.WriteHeader(http.StatusCreated)
		fmt.Fprint(w, "written")
	}))
	pool := x509.NewCertPool()
	pool.AddCert(server.Certificate())
	p, err := Start(Options{Upstream: server.URL, UpstreamCAs: pool, Certificate: server.TLS.Certificates[0]})
	if err != nil {
		t.Fatal(err)
	}
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}}
	t.Cleanup(func() {
		transport.CloseIdleConnections()
		p.Stop()
		server.CloseClientConnections()
		server.Close()
	})
	return p, &http.Client{Transport: transport, Timeout: 10 * time.Second}, done
}

func post(client *http.Client, url string) (string, error) {
	response, err := client.Post(url, "application/json", strings.NewReader("{}"))
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	return string(body), err
}

func TestTheCallbackRunsAtTheChosenWriteAndMoment(t *testing.T) {
	for _, test := range []struct {
		moment       Moment
		serverDid    int32 // writes done by the server when the callback runs
		clientKnows  bool
		statusOfThat int
	}{
		{BeforeRequest, 2, false, 0},
		{BeforeResponse, 3, false, 201},
		{AfterResponse, 3, true, 201},
	} {
		t.Run(test.moment.String(), func(t *testing.T) {
			p, client, done := start(t)
			var atCallback int32
			fired, err := p.Arm(3, test.moment, func() { atCallback = done.Load() })
			if err != nil {
				t.Fatal(err)
			}
			for i := 1; i <= 2; i++ {
				if body, err := post(client, p.URL+"/apis/batch/v1/jobs"); err != nil || body != "written" {
					t.Fatalf("write %d: %q, %v", i, body, err)
				}
			}
			// Neither reads nor uncounted writes move the number.
			if _, err := post(client, p.URL+"/apis/coordination.k8s.io/v1/namespaces/x/leases/y"); err != nil {
				t.Fatal(err)
			}
			done.Add(-1)
			if response, err := client.Get(p.URL + "/api/v1/pods"); err != nil {
				t.Fatal(err)
			} else {
				response.Body.Close()
			}
			select {
			case <-fired:
				t.Fatal("fired too early")
			default:
			}
			_, err = post(client, p.URL+"/apis/batch/v1/jobs")
			if (err == nil) != test.clientKnows {
				t.Errorf("the client's error: %v", err)
			}
			<-fired
			if atCallback != test.serverDid {
				t.Errorf("the server had done %d writes at the callback, want %d", atCallback, test.serverDid)
			}
			writes := p.Writes()
			if len(writes) != 3 || writes[2].Status != test.statusOfThat || writes[2].Path != "/apis/batch/v1/jobs" {
				t.Errorf("record: %+v", writes)
			}
			if body, err := post(client, p.URL+"/apis/batch/v1/jobs"); err != nil || body != "written" {
				t.Errorf("the next write: %q, %v", body, err)
			}
		})
	}
}

func TestWatchesStreamThrough(t *testing.T) {
	p, client, _ := start(t)
	response, err := client.Get(p.URL + "/api/v1/pods?watch=1")
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	line := make([]byte, 6)
	if _, err := io.ReadFull(response.Body, line); err != nil || string(line) != "first\n" {
		t.Errorf("%q, %v", line, err)
	}
}

func TestDisarmTakesTheCallbackBack(t *testing.T) {
	p, client, _ := start(t)
	if p.Disarm() {
		t.Error("nothing was armed")
	}
	if _, err := p.Arm(1, BeforeRequest, func() { t.Error("called") }); err != nil {
		t.Fatal(err)
	}
	if !p.Disarm() {
		t.Error("it was armed")
	}
	if _, err := post(client, p.URL+"/apis/batch/v1/jobs"); err != nil {
		t.Error(err)
	}
	if _, err := p.Arm(0, BeforeRequest, nil); err == nil {
		t.Error("write 0 was accepted")
	}
}

// SPDX-License-Identifier: Apache-2.0

// Package chaosproxy is a loopback TLS reverse proxy in front of an API server. It counts and
// records the write requests that pass and, at the n-th one, runs a callback (say, kill -9 of the
// client) at an exact point: before the request reaches the server, when the server has done it but
// the client doesn't know, or when the client knows. A hook may look at, delay or answer every request.
package chaosproxy

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"time"
)

// Moment is where in a write's life the callback runs.
type Moment int

const (
	// BeforeRequest: the server never sees the write; the client's connection is cut.
	BeforeRequest Moment = iota
	// BeforeResponse: the server has done the write; the client's connection is cut.
	BeforeResponse
	// AfterResponse: the client has been sent the whole response.
	AfterResponse
)

func (m Moment) String() string {
	return [...]string{"before the request", "before the response", "after the response"}[m]
}

// Write is one recorded write request.
type Write struct {
	Number int // from 1; in the order of arrival
	Time   time.Time
	Method string
	Path   string // without the query
	Status int    // 0 if no response came
}

// Proxy is a running proxy.
type Proxy struct {
	URL string // what the client gets instead of the API server's URL

	server  *http.Server
	counts  func(*http.Request) bool
	mutex   sync.Mutex
	writes  []Write
	trigger *trigger
	hook    Hook
}

// Hook sees every request before the server does, concurrently; true = it has answered itself.
type Hook func(w http.ResponseWriter, r *http.Request) bool

// SetHook replaces the hook; nil takes it away.
func (p *Proxy) SetHook(hook Hook) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	p.hook = hook
}

type trigger struct {
	number   int // absolute
	moment   Moment
	callback func()
	fired    chan struct{}
}

// Options of a proxy.
type Options struct {
	Upstream    string         // the API server's URL
	UpstreamCAs *x509.CertPool // its authority
	Certificate tls.Certificate
	// Counts tells which writes count; default: all but Leases and Events.
	Counts func(*http.Request) bool
}

// DefaultCounts leaves out what has no part in a job's way: Leases, Events, reviews.
func DefaultCounts(r *http.Request) bool {
	for _, part := range []string{"/leases", "/events", "tokenreviews", "subjectaccessreviews"} {
		if strings.Contains(r.URL.Path, part) {
			return false
		}
	}
	return true
}

// Start listens on a free loopback port.
func Start(o Options) (*Proxy, error) {
	upstream, err := url.Parse(o.Upstream)
	if err != nil {
		return nil, err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	p := &Proxy{URL: "https://" + listener.Addr().String(), counts: o.Counts}
	if p.counts == nil {
		p.counts = DefaultCounts
	}
	quiet := log.New(io.Discard, "", 0) // clients are killed here on purpose
	reverse := &httputil.ReverseProxy{
		Rewrite:       func(r *httputil.ProxyRequest) { r.SetURL(upstream) },
		FlushInterval: -1, // watches
		ErrorLog:      quiet,
		Transport: &http.Transport{
			TLSClientConfig:     &tls.Config{RootCAs: o.UpstreamCAs},
			MaxIdleConnsPerHost: 64,
		},
	}
	p.server = &http.Server{
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { p.serve(reverse, w, r) }),
		TLSConfig: &tls.Config{
			Certificates: []tls.Certificate{o.Certificate},
			NextProtos:   []string{"http/1.1"},
		},
		ErrorLog: quiet,
	}
	go func() { _ = p.server.ServeTLS(listener, "", "") }()
	return p, nil
}

// Stop closes the listener and all connections.
func (p *Proxy) Stop() { _ = p.server.Close() }

// Arm runs callback at the n-th counted write from now on (n ≥ 1), once. The channel is closed when
// it has run. Arming again replaces what was armed.
func (p *Proxy) Arm(n int, moment Moment, callback func()) (<-chan struct{}, error) {
	if n < 1 {
		return nil, fmt.Errorf("write number %d: must be at least 1", n)
	}
	p.mutex.Lock()
	defer p.mutex.Unlock()
	p.trigger = &trigger{number: len(p.writes) + n, moment: moment, callback: callback, fired: make(chan struct{})}
	return p.trigger.fired, nil
}

// Disarm takes back what was armed; false if there was nothing or it has run.
func (p *Proxy) Disarm() bool {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	armed := p.trigger != nil
	p.trigger = nil
	return armed
}

// Writes is a copy of the record of counted writes.
func (p *Proxy) Writes() []Write {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	return append([]Write(nil), p.writes...)
}

// Count is the number of counted writes so far.
func (p *Proxy) Count() int {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	return len(p.writes)
}

func (p *Proxy) serve(next http.Handler, w http.ResponseWriter, r *http.Request) {
	p.mutex.Lock()
	hook := p.hook
	p.mutex.Unlock()
	if hook != nil && hook(w, r) {
		return
	}
	if r.Method == http.MethodGet || r.Method == http.MethodHead || !p.counts(r) {
		next.ServeHTTP(w, r)
		return
	}
	number, hit := p.record(r)
	if hit != nil && hit.moment == BeforeRequest {
		fire(hit)
		panic(http.ErrAbortHandler) // cuts the connection
	}
	if hit != nil && hit.moment == BeforeResponse {
		kept := &discard{header: http.Header{}}
		next.ServeHTTP(kept, r)
		p.setStatus(number, kept.status)
		fire(hit)
		panic(http.ErrAbortHandler)
	}
	seen := &statusRecorder{ResponseWriter: w}
	next.ServeHTTP(seen, r)
	p.setStatus(number, seen.status)
	if hit != nil {
		if err := http.NewResponseController(w).Flush(); err != nil && !errors.Is(err, http.ErrNotSupported) {
			log.Printf("chaosproxy: flush: %v", err)
		}
		fire(hit)
	}
}

func fire(t *trigger) {
	defer close(t.fired)
	t.callback()
}

func (p *Proxy) record(r *http.Request) (int, *trigger) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	number := len(p.writes) + 1
	p.writes = append(p.writes, Write{Number: number, Time: time.Now(), Method: r.Method, Path: r.URL.Path})
	if p.trigger != nil && p.trigger.number == number {
		hit := p.trigger
		p.trigger = nil
		return number, hit
	}
	return number, nil
}

func (p *Proxy) setStatus(number, status int) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	p.writes[number-1].Status = status
}

// statusRecorder remembers the status and passes everything on.
type statusRecorder struct {
	http.ResponseWriter
	status int
}

func (s *statusRecorder) WriteHeader(status int) {
	if status >= 200 {
		s.status = status
	}
	s.ResponseWriter.WriteHeader(status)
}

func (s *statusRecorder) Write(data []byte) (int, error) {
	if s.status == 0 {
		s.status = http.StatusOK
	}
	return s.ResponseWriter.Write(data)
}

// Unwrap lets http.ResponseController find Flush.
func (s *statusRecorder) Unwrap() http.ResponseWriter { return s.ResponseWriter }

// discard swallows a response.
type discard struct {
	header http.Header
	status int
}

func (d *discard) Header() http.Header { return d.header }
func (d *discard) Flush()              {}
func (d *discard) WriteHeader(status int) {
	if status >= 200 {
		d.status = status
	}
}
func (d *discard) Write(data []byte) (int, error) {
	if d.status == 0 {
		d.status = http.StatusOK
	}
	return len(data), nil
}

package certificates

import (
	"context"
	"crypto/x509"
	"io"
	"log"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"holdfast/internal/testdb"
	"holdfast/internal/testdb/acmetest"
)

// world is a server with a certificate from a CA. Clients trust only that CA.
type world struct {
	t         *testing.T
	authority *acmetest.Authority
	options   ACMEOptions
	record    *syncRecord
	solved    atomic.Int64 // requests to the listener without TLS
}

// newWorld starts a CA but no server.
func newWorld(t *testing.T, domain string, validity uint64) *world {
	t.Helper()
	w := &world{t: t, record: &syncRecord{}}
	w.options = ACMEOptions{
		Options: w.record.options(time.Now), Domain: domain, Data: t.TempDir(), Email: "operator@example.org",
		Listen: testdb.FreeAddress(t), renewEvery: 100 * time.Millisecond,
	}
	w.authority = acmetest.Start(t, w.options.Listen, testdb.FreeAddress(t), validity)
	w.options.Directory, w.options.RootFile = w.authority.Directory, w.authority.RootFile
	return w
}

func (w *world) serve() (a *ACME, stop func()) {
	w.t.Helper()
	a, err := OpenACME(w.options)
	if err != nil {
		w.t.Fatal(err)
	}
	return a, w.run(a)
}

func (w *world) run(a *ACME) (stop func()) {
	w.t.Helper()
	var servers []*http.Server
	var running sync.WaitGroup
	start := func(address string, s *http.Server) {
		l, err := net.Listen("tcp", address)
		if err != nil {
			w.t.Fatal(err)
		}
		s.ErrorLog = log.New(io.Discard, "", 0)
		servers = append(servers, s)
		running.Go(func() {
			if s.TLSConfig != nil {
				_ = s.ServeTLS(l, "", "")
				return
			}
			_ = s.Serve(l)
		})
	}
	start(w.options.Listen, &http.Server{TLSConfig: a.TLS(), Handler: http.NotFoundHandler()})
	if w.options.HTTPListen != "" {
		h := a.Handler(http.NotFoundHandler())
		start(w.options.HTTPListen, &http.Server{Handler: http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
			w.solved.Add(1)
			h.ServeHTTP(rw, r)
		})})
	}
	ctx, cancel := context.WithCancel(w.t.Context())
	running.Go(func() { a.Run(ctx) })
	var once sync.Once
	stop = func() {
		once.Do(func() {
			cancel()
			for _, s := range servers {
				_ = s.Close()
			}
			running.Wait()
		})
	}
	w.t.Cleanup(stop)
	return stop
}

func await(t *testing.T, what string, done func() bool) {
	t.Helper()
	end := time.Now().Add(testdb.Patient(30 * time.Second))
	for !done() {
		if time.Now().After(end) {
			t.Fatalf("after 30 s: %s", what)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

func (w *world) served() *x509.Certificate {
	w.t.Helper()
	return dial(w.t, w.options.Listen, w.options.Domain)
}

func (w *world) isTrusted(c *x509.Certificate) bool {
	return w.authority.Verify(c, w.options.Domain) == nil
}

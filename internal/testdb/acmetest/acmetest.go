// Package acmetest runs Pebble, a certificate authority for tests, in the test's process.
package acmetest

import (
	"crypto/x509"
	"encoding/pem"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/letsencrypt/pebble/v2/ca"
	"github.com/letsencrypt/pebble/v2/db"
	"github.com/letsencrypt/pebble/v2/va"
	"github.com/letsencrypt/pebble/v2/wfe"
	"github.com/miekg/dns"
)

// start configures Pebble, which otherwise waits up to 15 s before it connects, and rejects random requests.
var start = sync.OnceValue(func() error {
	return errors.Join(os.Setenv("PEBBLE_VA_NOSLEEP", "1"), os.Setenv("PEBBLE_WFE_NONCEREJECT", "0"))
})

type Authority struct {
	*httptest.Server
	Directory string
	RootFile  string // verifies the authority's own server
	Requests  atomic.Int64

	ca *ca.CAImpl
}

// Start starts an authority that connects to these addresses instead of ports 443 and 80. validity is in seconds. All
// names outside "none." resolve to this machine.
func Start(t *testing.T, listen, httpListen string, validity uint64) *Authority {
	t.Helper()
	if err := start(); err != nil {
		t.Fatal(err)
	}
	quiet := log.New(io.Discard, "", 0)
	if testing.Verbose() {
		quiet = log.New(os.Stderr, t.Name()+" ", 0)
	}
	store := db.NewMemoryStore()
	a := &Authority{ca: ca.New(quiet, store, "", "ecdsa", 0, 1, map[string]ca.Profile{"default": {ValidityPeriod: validity}})}
	front := wfe.New(quiet, store, va.New(quiet, portOf(t, httpListen), portOf(t, listen), false, startDNS(t), store), a.ca, []string{"example.org"}, false, false, 1, 1)
	handler := front.Handler()
	a.Server = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		a.Requests.Add(1)
		handler.ServeHTTP(w, r)
	}))
	t.Cleanup(a.Close)
	a.Directory = a.URL + wfe.DirectoryPath
	a.RootFile = filepath.Join(t.TempDir(), "root.pem")
	if err := os.WriteFile(a.RootFile, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	return a
}

func (a *Authority) Verify(c *x509.Certificate, name string) error {
	roots, intermediates := x509.NewCertPool(), x509.NewCertPool()
	roots.AppendCertsFromPEM(a.ca.GetRootCert(0).PEM())
	intermediates.AppendCertsFromPEM(a.ca.GetIntermediateCert(0).PEM())
	_, err := c.Verify(x509.VerifyOptions{DNSName: name, Roots: roots, Intermediates: intermediates})
	return err
}

func (a *Authority) Roots() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(a.ca.GetRootCert(0).PEM())
	return pool
}

func portOf(t *testing.T, address string) int {
	t.Helper()
	_, text, err := net.SplitHostPort(address)
	if err != nil {
		t.Fatal(err)
	}
	port, err := strconv.Atoi(text)
	if err != nil {
		t.Fatal(err)
	}
	return port
}

func startDNS(t *testing.T) (address string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	started := make(chan struct{})
	s := &dns.Server{Listener: l, NotifyStartedFunc: func() { close(started) }, Handler: dns.HandlerFunc(func(w dns.ResponseWriter, q *dns.Msg) {
		answer := new(dns.Msg).SetReply(q)
		if name := q.Question[0].Name; q.Question[0].Qtype == dns.TypeA && !dns.IsSubDomain("none.", name) {
			answer.Answer = append(answer.Answer, &dns.A{Hdr: dns.RR_Header{Name: name, Rrtype: dns.TypeA, Class: dns.ClassINET}, A: net.IPv4(127, 0, 0, 1)})
		}
		_ = w.WriteMsg(answer)
	})}
	var done sync.WaitGroup
	done.Go(func() { _ = s.ActivateAndServe() })
	<-started
	t.Cleanup(func() {
		_ = s.Shutdown()
		done.Wait()
	})
	return l.Addr().String()
}

package certificates

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"log/slog"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"holdfast/internal/clock"
	"holdfast/internal/testdb"
)

func pairOf(t *testing.T, until time.Time) pair {
	t.Helper()
	return pairFor(t, "localhost", until)
}

func pairFor(t *testing.T, name string, until time.Time) pair {
	t.Helper()
	cert, key, err := testdb.SelfSigned(&x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), NotBefore: time.Now().Add(-48 * time.Hour), NotAfter: until, DNSNames: []string{name},
	})
	if err != nil {
		t.Fatal(err)
	}
	return pair{cert, key}
}

func (p pair) serial(t *testing.T) string {
	t.Helper()
	c, err := tls.X509KeyPair(p.cert, p.key)
	if err != nil {
		t.Fatal(err)
	}
	return c.Leaf.SerialNumber.String()
}

func listen(t *testing.T, s Source) (address string) {
	t.Helper()
	l, err := tls.Listen("tcp", "127.0.0.1:0", s.TLS())
	if err != nil {
		t.Fatal(err)
	}
	var handshakes sync.WaitGroup
	handshakes.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			handshakes.Go(func() { _, _ = c.(*tls.Conn).Handshake(), c.Close() })
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		handshakes.Wait()
	})
	return l.Addr().String()
}

func dial(t *testing.T, address, name string) *x509.Certificate {
	t.Helper()
	c, err := tls.DialWithDialer(&net.Dialer{Timeout: 10 * time.Second}, "tcp", address, &tls.Config{ServerName: name, InsecureSkipVerify: true})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	return c.ConnectionState().PeerCertificates[0]
}

type record struct {
	log strings.Builder
	ok  int
	bad []error
}

func (r *record) options(now clock.Clock) Options {
	return Options{Clock: now, Log: slog.New(slog.NewTextHandler(&r.log, nil)), Observe: func(err error) {
		if err == nil {
			r.ok++
			return
		}
		r.bad = append(r.bad, err)
	}}
}

func TestFiles(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	certFile, keyFile := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	write := func(name string, content []byte) {
		t.Helper()
		if err := os.WriteFile(name, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	put := func(p pair) { write(certFile, p.cert); write(keyFile, p.key) }
	until := time.Now().Add(time.Hour).Truncate(time.Second)
	first, second := pairOf(t, until), pairOf(t, until.Add(time.Hour))
	put(first)
	var r record
	f, err := OpenFiles(certFile, keyFile, r.options(time.Now))
	if err != nil {
		t.Fatal(err)
	}
	address := listen(t, f)
	uses := func(when string, p pair, problem string, ok, bad int) {
		t.Helper()
		if got := dial(t, address, "localhost").SerialNumber.String(); got != p.serial(t) {
			t.Errorf("%s: the certificate is %s, not %s", when, got, p.serial(t))
		}
		if s := f.State(); s.Until.IsZero() || !strings.Contains(s.Problem, problem) || problem == "" && s.Problem != "" {
			t.Errorf("%s: %+v", when, s)
		}
		if r.ok != ok || len(r.bad) != bad {
			t.Errorf("%s: %d replaced, refused %v", when, r.ok, r.bad)
		}
	}
	f.look()
	uses("the same files", first, "", 0, 0)
	write(certFile, second.cert)
	f.look()
	uses("half of a pair is not reported at once", first, "", 0, 0)
	write(keyFile, second.key)
	f.look()
	uses("the whole pair", second, "", 1, 0)
	if got := f.State().Until; !got.Equal(until.Add(time.Hour)) {
		t.Errorf("until %s", got)
	}
	for i, broken := range []struct {
		name, problem string
		do            func()
	}{
		{"a key of another pair", "private key does not match", func() { write(keyFile, first.key) }},
		{"half of a file", "", func() { put(pair{first.cert[:100], first.key}) }},
		{"an empty file", "", func() { put(pair{nil, first.key}) }},
		{"no file", "no such file", func() {
			if err := os.Remove(certFile); err != nil {
				t.Fatal(err)
			}
		}},
		{"an expired pair", "it expired on", func() { put(pairOf(t, time.Now().Add(-time.Hour))) }},
	} {
		broken.do()
		for range 3 { // reported once
			f.look()
		}
		uses(broken.name, second, problemOr(broken.problem), 1, i+1)
	}
	if n := strings.Count(r.log.String(), "level=WARN"); n != 5 {
		t.Errorf("%d warnings:\n%s", n, &r.log)
	}
	put(second)
	f.look()
	uses("the former pair again", second, "", 1, 5)
	put(first)
	f.look()
	uses("another pair", first, "", 2, 5)
}

func TestReloadFiles(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	certFile, keyFile := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	until := time.Now().Add(time.Hour).Truncate(time.Second)
	first, second := pairOf(t, until), pairOf(t, until.Add(time.Hour))
	write := func(cert, key []byte) {
		t.Helper()
		if err := errors.Join(os.WriteFile(certFile, cert, 0o600), os.WriteFile(keyFile, key, 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	write(first.cert, first.key)
	var r record
	f, err := OpenFiles(certFile, keyFile, r.options(time.Now))
	if err != nil {
		t.Fatal(err)
	}
	write(second.cert, second.key)
	if err := f.Reload(); err != nil || !f.State().Until.Equal(until.Add(time.Hour)) {
		t.Errorf("%+v, %v", f.State(), err)
	}
	write(second.cert, first.key)
	if err := f.Reload(); err == nil || !strings.Contains(err.Error(), "private key does not match") || !f.State().Until.Equal(until.Add(time.Hour)) {
		t.Errorf("a key of another pair: %+v, %v", f.State(), err)
	}
}

// problemOr returns s or a text that every problem contains.
func problemOr(s string) string {
	if s == "" {
		return "tls: "
	}
	return s
}

func TestOpenFiles(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if _, err := OpenFiles(filepath.Join(dir, "none"), filepath.Join(dir, "none"), (&record{}).options(time.Now)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no files: %v", err)
	}
	p := pairOf(t, time.Now().Add(-time.Hour))
	for name, content := range map[string][]byte{"cert": p.cert, "key": p.key, "other": pairOf(t, time.Now()).key} {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := OpenFiles(filepath.Join(dir, "cert"), filepath.Join(dir, "other"), (&record{}).options(time.Now)); err == nil {
		t.Error("a key of another certificate is accepted")
	}
	f, err := OpenFiles(filepath.Join(dir, "cert"), filepath.Join(dir, "key"), (&record{}).options(time.Now))
	if err != nil {
		t.Fatalf("an expired certificate: %v", err)
	}
	if got := dial(t, listen(t, f), "localhost").SerialNumber.String(); got != p.serial(t) {
		t.Errorf("the certificate is %s", got)
	}
}

package certificates

import (
	"context"
	"crypto/tls"
	"errors"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/caddyserver/certmagic"

	"holdfast/internal/clock"
	"holdfast/internal/testdb"
	"holdfast/internal/testdb/acmetest"
)

type syncRecord struct {
	mu sync.Mutex
	record
}

func (r *syncRecord) Write(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.log.Write(p)
}

func (r *syncRecord) options(now clock.Clock) Options {
	plain := r.record.options(now)
	return Options{Clock: now, Log: slog.New(slog.NewTextHandler(r, nil)), Observe: func(err error) {
		r.mu.Lock()
		defer r.mu.Unlock()
		plain.Observe(err)
	}}
}

func (r *syncRecord) counts() (ok, failed int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.ok, len(r.bad)
}

func (r *syncRecord) text() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.log.String()
}

const days90 = 90 * 24 * 3600

// TestACMEChallenges obtains a certificate by each challenge. The CA reaches only one of the listeners.
func TestACMEChallenges(t *testing.T) {
	t.Parallel()
	for name, byHTTP := range map[string]bool{"tls-alpn-01.example.org": false, "http-01.example.org": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, name, days90)
			if byHTTP {
				w.options.HTTPListen = testdb.FreeAddress(t)
				w.authority = acmetest.Start(t, testdb.FreeAddress(t), w.options.HTTPListen, days90)
				w.options.Directory, w.options.RootFile = w.authority.Directory, w.authority.RootFile
			}
			a, err := OpenACME(w.options)
			if err != nil {
				t.Fatal(err)
			}
			if w.authority.Requests.Load() != 0 {
				t.Error("OpenACME contacts the CA")
			}
			w.run(a)
			await(t, "no certificate", func() bool { return w.isTrusted(w.served()) })
			if got := w.solved.Load() > 0; got != byHTTP {
				t.Errorf("solved by HTTP-01: %v", got)
			}
			if s := a.State(); s.Problem != "" || !s.Until.Equal(w.served().NotAfter) {
				t.Errorf("%+v", s)
			}
			for _, name := range []string{"", "other.example.org"} { // clients without a name, and with another name
				if !w.isTrusted(dial(t, w.options.Listen, name)) {
					t.Errorf("a client that asks for %q gets another certificate", name)
				}
			}
			if ok, failed := w.record.counts(); ok != 1 || failed != 0 || !strings.Contains(w.record.text(), "certificate obtained") {
				t.Errorf("%d obtained, %d failed\n%s", ok, failed, w.record.text())
			}
			checkFiles(t, w.options.Data)
		})
	}
}

// checkFiles checks that only the server's user may read the data folder.
func checkFiles(t *testing.T, data string) {
	t.Helper()
	files := 0
	err := filepath.WalkDir(filepath.Join(data, Folder), func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		if info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s has the mode %s", name, info.Mode())
		}
		if !d.IsDir() {
			files++
		}
		if strings.Contains(name, "challenge") {
			t.Errorf("%s is left", name)
		}
		return nil
	})
	if err != nil || files < 4 { // certificate, key, metadata, account and its key
		t.Errorf("%d files, %v", files, err)
	}
}

// TestACMERenewal renews a certificate before it expires. While the CA is unavailable, the old certificate is used.
func TestACMERenewal(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "renewal.example.org", 15)
	a, _ := w.serve()
	await(t, "no certificate", func() bool { return w.isTrusted(w.served()) })
	first := w.served()
	await(t, "not renewed", func() bool { return w.served().SerialNumber.Cmp(first.SerialNumber) != 0 })
	second := w.served()
	if now := time.Now(); now.After(first.NotAfter) || !w.isTrusted(second) {
		t.Errorf("renewed at %s, the former one was valid until %s", now, first.NotAfter)
	}
	w.authority.Close()
	await(t, "no failure", func() bool { _, failed := w.record.counts(); return failed > 0 })
	if s := a.State(); s.Problem == "" || !s.Until.Equal(second.NotAfter) {
		t.Errorf("%+v", s)
	}
	if got := w.served(); got.SerialNumber.Cmp(second.SerialNumber) != 0 || !w.isTrusted(got) {
		t.Error("the former certificate is not served while the CA is away")
	}
	if !strings.Contains(w.record.text(), "certificate not obtained") {
		t.Error(w.record.text())
	}
	stored, err := Stored(t.Context(), w.options.Data, w.options.Directory, w.options.Domain)
	if err != nil || !stored.Until.Equal(second.NotAfter) || stored.Problem == "" {
		t.Errorf("%+v, %v", stored, err)
	}
}

// TestACMERestart checks that a stored certificate is used without asking the CA.
func TestACMERestart(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "restart.example.org", days90)
	_, stop := w.serve()
	await(t, "no certificate", func() bool { return w.isTrusted(w.served()) })
	first := w.served()
	stop()
	// The failure of a process with another domain, which the configuration no longer names.
	if err := newStorage(filepath.Join(w.options.Data, Folder)).Store(t.Context(), failureFile, []byte("refused")); err != nil {
		t.Fatal(err)
	}
	before := w.authority.Requests.Load()
	w.serve()
	await(t, "the stored certificate is not served", func() bool { return w.served().SerialNumber.Cmp(first.SerialNumber) == 0 })
	time.Sleep(300 * time.Millisecond) // several rounds of maintenance
	if n := w.authority.Requests.Load() - before; n != 0 {
		t.Errorf("%d requests to the CA", n)
	}
	if stored, err := Stored(t.Context(), w.options.Data, w.options.Directory, w.options.Domain); err != nil || stored.Problem != "" {
		t.Errorf("a failure with another domain is still reported: %+v, %v", stored, err)
	}
}

// TestACMEUnusable checks that an expired certificate is served until renewal, and a damaged certificate is replaced.
func TestACMEUnusable(t *testing.T) {
	t.Parallel()
	keep := func(t *testing.T, w *world, p pair) {
		t.Helper()
		s, key := newStorage(filepath.Join(w.options.Data, Folder)), issuerKey(w.options.Directory)
		for name, value := range map[string][]byte{
			certmagic.StorageKeys.SiteCert(key, w.options.Domain): p.cert, certmagic.StorageKeys.SitePrivateKey(key, w.options.Domain): p.key,
			certmagic.StorageKeys.SiteMeta(key, w.options.Domain): []byte(`{"sans":["` + w.options.Domain + `"]}`),
		} {
			if err := s.Store(t.Context(), name, value); err != nil {
				t.Fatal(err)
			}
		}
	}
	t.Run("expired", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t, "localhost", days90)
		expired := pairOf(t, time.Now().Add(-time.Hour))
		keep(t, w, expired)
		w.authority.Close()
		w.serve()
		await(t, "the expired certificate is not served", func() bool { return w.served().SerialNumber.String() == expired.serial(t) })
	})
	t.Run("expired and renewed", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t, "expired.example.org", days90)
		keep(t, w, pairFor(t, w.options.Domain, time.Now().Add(-time.Hour)))
		w.serve()
		await(t, "not renewed", func() bool { return w.isTrusted(w.served()) })
	})
	t.Run("damaged", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t, "damaged.example.org", days90)
		p := pairFor(t, w.options.Domain, time.Now().Add(time.Hour))
		p.key = pairOf(t, time.Now()).key // as after a power failure between the two files
		keep(t, w, p)
		w.serve()
		await(t, "not replaced", func() bool { return w.isTrusted(w.served()) })
	})
}

// TestACMEWrongDomain checks that the CA's reason is reported if a name does not resolve to the server.
func TestACMEWrongDomain(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "sync.none", days90)
	a, _ := w.serve()
	await(t, "no failure", func() bool { _, failed := w.record.counts(); return failed > 0 })
	if got := w.served(); w.isTrusted(got) || got.Subject.CommonName != temporaryName {
		t.Errorf("served %s", got.Subject)
	}
	if s := a.State(); !s.Until.IsZero() || !strings.Contains(s.Problem, "the certificate authority refuses: ") {
		t.Errorf("%+v", s)
	}
	stored, err := Stored(t.Context(), w.options.Data, w.options.Directory, w.options.Domain)
	if err != nil || !stored.Until.IsZero() || !strings.Contains(stored.Problem, "refuses: ") {
		t.Errorf("%+v, %v", stored, err)
	}
}

// TestACMEFullDisk checks that a certificate is used from memory until it can be saved.
func TestACMEFullDisk(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "full.example.org", days90)
	a, err := OpenACME(w.options)
	if err != nil {
		t.Fatal(err)
	}
	var room atomic.Bool
	a.store.put = func(name string, value []byte) error {
		if !room.Load() {
			return &fs.PathError{Op: "write", Path: name, Err: syscall.ENOSPC}
		}
		return put(name, value)
	}
	w.run(a)
	await(t, "no certificate", func() bool { return w.isTrusted(w.served()) })
	await(t, "no warning", func() bool { return strings.Contains(w.record.text(), "only in memory") })
	if s := a.State(); !strings.Contains(s.Problem, "cannot be saved") || s.Until.IsZero() {
		t.Errorf("%+v", s)
	}
	if _, err := os.Stat(filepath.Join(w.options.Data, Folder)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("something was written: %v", err)
	}
	room.Store(true)
	if err := a.store.save(); err != nil {
		t.Fatal(err)
	}
	if s := a.State(); s.Problem != "" {
		t.Errorf("%+v", s)
	}
	stored, err := Stored(t.Context(), w.options.Data, w.options.Directory, w.options.Domain)
	if err != nil || !stored.Until.Equal(w.served().NotAfter) {
		t.Errorf("%+v, %v", stored, err)
	}
	checkFiles(t, w.options.Data)
}

// TestACMERecovery checks that the CA is asked again after a minute.
func TestACMERecovery(t *testing.T) {
	testdb.SoakOnly(t, "the second attempt is a minute after the first")
	t.Parallel()
	w := newWorld(t, "recovery.example.org", days90)
	address := w.authority.Listener.Addr().String()
	w.authority.Listener.Close()
	w.serve()
	await(t, "no failure", func() bool { _, failed := w.record.counts(); return failed > 0 })
	var l net.Listener
	await(t, "the address is in use", func() (ok bool) { l, ok = listenAgain(t, address); return ok })
	served := tls.NewListener(l, w.authority.TLS)
	go func() { _ = w.authority.Config.Serve(served) }()
	end := time.Now().Add(2 * time.Minute)
	for !w.isTrusted(w.served()) {
		if time.Now().After(end) {
			t.Fatalf("not obtained\n%s", w.record.text())
		}
		time.Sleep(time.Second)
	}
}

func listenAgain(t *testing.T, address string) (net.Listener, bool) {
	t.Helper()
	l, err := net.Listen("tcp", address)
	return l, err == nil
}

func TestOpenACME(t *testing.T) {
	t.Parallel()
	broken := filepath.Join(t.TempDir(), "root.pem")
	if err := os.WriteFile(broken, []byte("no certificate"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, o := range map[string]ACMEOptions{
		"no root file":     {RootFile: broken + "x", Listen: ":443"},
		"broken root file": {RootFile: broken, Listen: ":443"},
		"no address":       {Listen: "x"},
	} {
		if _, err := OpenACME(o); err == nil {
			t.Errorf("%s is accepted", name)
		}
	}
}

func TestStorage(t *testing.T) {
	t.Parallel()
	for name, full := range map[string]bool{"on disk": false, "in memory": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStorage(filepath.Join(t.TempDir(), "c"))
			if full {
				s.put = func(string, []byte) error { return syscall.ENOSPC }
			}
			useStorage(t, s)
			if got := s.unsavedBecause() != nil; got != full {
				t.Errorf("unsaved: %v", got)
			}
		})
	}
}

func useStorage(t *testing.T, s *storage) {
	t.Helper()
	ctx := t.Context()
	for _, key := range []string{"a/b/c", "a/b/d", "a/e", "ab"} {
		if err := s.Store(ctx, key, []byte(key)); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := s.Load(ctx, "a/b/c"); err != nil || string(got) != "a/b/c" {
		t.Errorf("%q, %v", got, err)
	}
	if _, err := s.Load(ctx, "a/x"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("what does not exist: %v", err)
	}
	if _, err := s.Load(ctx, "../x"); err == nil {
		t.Error("a key leads out of the folder")
	}
	lists := func(when string, recursive bool, want ...string) {
		t.Helper()
		if got, err := s.List(ctx, "a", recursive); err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: %v, %v", when, got, err)
		}
	}
	lists("list", false, "a/b", "a/e")
	lists("recursive list", true, "a/b", "a/b/c", "a/b/d", "a/e")
	if i, err := s.Stat(ctx, "a/b"); err != nil || i.IsTerminal || s.Exists(ctx, "b") || !s.Exists(ctx, "a/e") {
		t.Errorf("%+v, %v", i, err)
	}
	if err := errors.Join(s.Delete(ctx, "a/b"), s.Delete(ctx, "none")); err != nil {
		t.Error(err)
	}
	lists("after deleting", true, "a/e")
}

func TestStorageLocks(t *testing.T) {
	t.Parallel()
	s := newStorage(t.TempDir())
	if err := s.Lock(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	waiting, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.Lock(waiting, "a"); !errors.Is(err, context.Canceled) {
		t.Errorf("a lock that is held: %v", err)
	}
	if err := errors.Join(s.Unlock(t.Context(), "a"), s.Lock(t.Context(), "a")); err != nil {
		t.Error(err)
	}
	if s.Unlock(t.Context(), "b") == nil {
		t.Error("a lock that is not held is released")
	}
}

package sourcedb

import (
	"crypto/tls"
	"encoding/pem"
	"io"
	"net"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func listen(t *testing.T, fn func(net.Conn)) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				fn(c)
				_, _ = io.Copy(io.Discard, c) // until the client closes the connection
				_ = c.Close()
			}()
		}
	}()
	t.Cleanup(func() {
		_ = l.Close()
		<-done
	})
	return l.Addr().String()
}

// TestOtherServers checks the errors for servers of another kind than the URL's. PostgreSQL waits for the client, and
// MySQL's client waits for the server.
func TestOtherServers(t *testing.T) {
	t.Parallel()
	say := func(text string) func(net.Conn) { return func(c net.Conn) { _, _ = io.WriteString(c, text) } }
	for name, tc := range map[string]struct {
		serve           func(net.Conn)
		mysql, postgres string
	}{
		"silent": {func(net.Conn) {}, "does not respond as MySQL or MariaDB: check the host and the port, and use postgres://", "does not respond as PostgreSQL"},
		"banner": {say("SSH-2.0-OpenSSH\r\n"), "does not respond as MySQL or MariaDB", "does not respond as PostgreSQL: check the host and the port; use mysql://"},
		"closes": {func(c net.Conn) { _ = c.Close() }, "the database c", "the database c"}, // "closed the connection", or "cannot be reached: connection reset"
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			address := listen(t, tc.serve)
			for url, want := range map[string]string{"mysql://user:secret@" + address + "/d": tc.mysql, "postgres://user:secret@" + address + "/d?connect_timeout=1": tc.postgres} {
				wantError(t, url, want)
			}
		})
	}
}

func wantError(t *testing.T, url, want string) {
	t.Helper()
	db, err := Open(url)
	if err != nil {
		t.Fatal(err)
	}
	db.limit = 200 * time.Millisecond
	err = db.Snapshot(t.Context(), func(*Snapshot) error { return nil })
	if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "secret") || strings.Contains(err.Error(), "\n") {
		t.Errorf("%s: %v, want %q", url, err, want)
	}
}

func TestPostgresTLS(t *testing.T) {
	t.Parallel()
	server := httptest.NewUnstartedServer(nil)
	server.StartTLS()
	t.Cleanup(server.Close)
	address := listen(t, func(c net.Conn) {
		if _, err := io.ReadFull(c, make([]byte, 8)); err != nil { // SSLRequest
			return
		}
		if _, err := io.WriteString(c, "S"); err != nil {
			return
		}
		_ = tls.Server(c, server.TLS).Handshake()
		_ = c.Close()
	})
	ca := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	url := "postgres://user:secret@" + address + "/d?sslmode=verify-full"
	wantError(t, url, "not signed by a known authority: name that authority, or the certificate itself, in sslrootcert")
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		t.Fatal(err)
	}
	wantError(t, "postgres://user:secret@localhost:"+port+"/d?sslmode=verify-full&sslrootcert="+ca, "it is for another host: use that name in the URL, or sslmode=verify-ca")
}

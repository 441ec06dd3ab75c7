package e2e

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"holdfast/test/binary"
)

// TestMalformedPaths checks that a malformed path gets an error in the service's format, on every listener.
func TestMalformedPaths(t *testing.T) {
	t.Parallel()
	internal := binary.FreePort(t)
	s := binary.Start(t, t.TempDir(), "HOLDFAST_SERVER__INTERNAL_LISTEN="+internal)
	clients, admin := strings.TrimPrefix(s.URL, "http://"), strings.TrimPrefix(s.Admin, "http://")
	const (
		sync   = "0"
		signIn = `{"status":"error","errors":[{"location":"body","name":"","description":"Bad request"}]}`
		json   = `{"error":{"code":"VALIDATION_FAILED","message":`
	)
	for _, tc := range []struct{ listener, path, body string }{
		{clients, "/storage/%zz", sync},
		{clients, "/1.5/1/storage/tabs/%zz", sync},
		{clients, "/1.5/1/storage/tabs/x%4", sync},
		{clients, "/1.0/sync/%zz", signIn},
		{clients, "/token/1.0/sync/%zz", signIn},
		{clients, "/ext/v1/installs/%zz", json},
		{clients, "/%zz", sync},
		{internal, "/internal/ext-storage/%zz", json},
		{internal, "/%zz", json},
		{admin, "/ext/installs/%zz", json},
		{admin, "/%zz", json},
	} {
		for _, method := range []string{"GET", "PUT"} {
			conn, err := net.Dial("tcp", tc.listener)
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			if _, err := io.WriteString(conn, method+" "+tc.path+" HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n"); err != nil {
				t.Fatal(err)
			}
			res, err := http.ReadResponse(bufio.NewReader(conn), nil)
			if err != nil {
				t.Fatal(err)
			}
			body, err := io.ReadAll(res.Body)
			if err != nil || res.StatusCode != http.StatusBadRequest || !strings.HasPrefix(string(body), tc.body) || res.Header.Get("Content-Type") != "application/json" {
				t.Errorf("%s %s: %d %s %v, %v", method, tc.path, res.StatusCode, body, res.Header, err)
			}
		}
	}
}

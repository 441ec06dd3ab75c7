package e2e

import (
	"bufio"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"holdfast/internal/testdb"
	"holdfast/test/binary"
)

// TestTLSMismatch connects with TLS to every plain listener, and without TLS to every listener that uses it. The client
// gets an answer at once, and the log names the mistake.
func TestTLSMismatch(t *testing.T) {
	t.Parallel()
	settings := []string{"HOLDFAST_SERVER__INTERNAL_LISTEN=" + testdb.FreeAddress(t), "HOLDFAST_BUCKETS__LISTEN=" + testdb.FreeAddress(t)}
	listeners := func(s *binary.Server) (all []string) {
		for _, setting := range settings {
			_, address, _ := strings.Cut(setting, "=")
			all = append(all, address)
		}
		_, address, _ := strings.Cut(s.URL, "://")
		return append(all, address)
	}
	logged := func(s *binary.Server, text string, times int) {
		t.Helper()
		all := regexp.MustCompile(fmt.Sprintf("(?s)(?:%s.*?){%d}", regexp.QuoteMeta(text), times))
		if s.Output.Await(all, s.Ended) == nil || strings.Contains(s.Output.String(), "malformed HTTP request") {
			t.Errorf("not %d times %q in\n%s", times, text, s.Output)
		}
	}
	s := binary.Start(t, t.TempDir(), settings...)
	for i, address := range append(listeners(s), strings.TrimPrefix(s.Admin, "http://")) {
		conn, err := tls.Dial("tcp", address, &tls.Config{InsecureSkipVerify: true})
		if err == nil {
			conn.Close()
		}
		if header := (tls.RecordHeaderError{}); !errors.As(err, &header) || string(header.RecordHeader[:]) != "HTTP/" {
			t.Errorf("%s: %v, want an answer in HTTP", address, err)
		}
		logged(s, "this port speaks HTTP, and the client tried TLS: write http:// in the client's address", i+1)
	}
	s.Kill()

	cert, key, _ := binary.Certificate(t)
	s = binary.Start(t, t.TempDir(), append(settings, "HOLDFAST_SERVER__TLS_CERT_FILE="+cert, "HOLDFAST_SERVER__TLS_KEY_FILE="+key)...)
	for i, address := range listeners(s) {
		resp, err := http.Get("http://" + address + "/")
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(resp.Body)
		if resp.Body.Close(); err != nil || resp.StatusCode != http.StatusBadRequest || string(text) != "this port uses TLS: use https\n" {
			t.Errorf("%s: %d %q, %v", address, resp.StatusCode, text, err)
		}
		logged(s, "this port uses TLS, and the client sent plain HTTP: write https:// in the client's address", i+1)
	}
}

// TestMalformedPaths checks that a malformed path gets an error in the service's format, on every listener.
func TestMalformedPaths(t *testing.T) {
	t.Parallel()
	internal := testdb.FreeAddress(t)
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

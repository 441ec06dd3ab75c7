package e2e

import (
	"bufio"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"holdfast/test/binary"
)

// TestEarlyAnswers checks that a request refused before its body is read gets an immediate response, whether the
// client waits for 100 Continue, sends late, or sends endlessly. Then the connection closes.
func TestEarlyAnswers(t *testing.T) {
	t.Parallel()
	s := binary.Start(t, t.TempDir())
	e := newExtension(t, s, "7e000000-0000-4000-8000-000000000021", "settings=rw")
	c := s.Token(1)
	hawk := func(method, path string) string {
		req, err := c.Request(t.Context(), method, path, "")
		if err != nil {
			t.Fatal(err)
		}
		return "Authorization: " + req.Header.Get("Authorization")
	}
	bearer := "Authorization: Bearer " + e.token
	install := "/ext/v1/installs/" + e.install
	for _, tc := range []struct {
		name         string
		method, path string
		status       int
		header       []string
	}{
		{"sync", "PUT", "/1.5/1/storage/tabs/x", 401, nil},
		{"sync", "PUT", "/1.5/1/nothing", 404, nil},
		{"sync", "PUT", "/1.5/1/storage/tabs/x", 413, []string{hawk("PUT", "/storage/tabs/x")}},
		{"sync", "POST", "/1.5/1/storage/tabs", 413, []string{hawk("POST", "/storage/tabs")}},
		{"sync", "POST", "/1.5/1/storage/tabs", 400, []string{hawk("POST", "/storage/tabs"), "X-If-Unmodified-Since: x"}},
		{"sync", "PUT", "/1.5/1/storage/%zz", 400, nil},
		{"accounts", "GET", "/1.0/sync/1.5", 401, nil},
		{"accounts", "POST", "/1.0/nothing", 404, nil},
		{"accounts", "POST", "/1.0/webhooks/fxa/events", 401, []string{"Authorization: Bearer x"}},
		{"accounts", "POST", "/1.0/%zz", 400, nil},
		{"ext", "PUT", install + "/namespaces/settings/records/x", 401, nil},
		{"ext", "PUT", install + "/nothing", 404, []string{bearer}},
		{"ext", "PUT", install + "/namespaces/settings/records/x", 413, []string{bearer}},
		{"ext", "POST", install + "/batch", 413, []string{bearer}},
		{"ext", "PUT", install + "/namespaces/settings/records/x", 400, []string{bearer, "If-Match: x"}},
		{"ext", "PUT", install + "/namespaces/%zz", 400, nil},
		{"server", "PUT", "/nothing", 404, nil},
	} {
		for way, header := range map[string][]string{
			"expects":   {"Expect: 100-continue", "Content-Length: 100000000"},
			"withholds": {"Content-Length: 100000000"},
			"chunks":    {"Transfer-Encoding: chunked"},
			"sends":     {"Content-Length: 100000000"},
		} {
			if way == "chunks" && tc.status == http.StatusRequestEntityTooLarge {
				continue
			}
			t.Run(strings.Join([]string{tc.name, tc.method, http.StatusText(tc.status), way}, " "), func(t *testing.T) {
				t.Parallel()
				text := tc.method + " " + tc.path + " HTTP/1.1\r\nHost: " + strings.TrimPrefix(s.URL, "http://") + "\r\nContent-Type: application/json\r\n"
				text += strings.Join(append(header, tc.header...), "\r\n") + "\r\n\r\n"
				early(t, strings.TrimPrefix(s.URL, "http://"), text, way == "sends", tc.status)
			})
		}
	}
}

// early sends a request head and, if sends is set, an endless body. The response and the closed connection must follow
// soon.
func early(t *testing.T, address, head string, sends bool, status int) {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	begun := time.Now()
	if _, err := io.WriteString(conn, head); err != nil {
		t.Fatal(err)
	}
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		for block := make([]byte, 32<<10); sends; time.Sleep(time.Millisecond) { // about network speed
			if _, err := conn.Write(block); err != nil {
				return
			}
		}
	}()
	_ = conn.SetReadDeadline(begun.Add(5 * soon))
	r := bufio.NewReader(conn)
	res, err := http.ReadResponse(r, nil)
	if err != nil {
		t.Fatalf("no answer after %v: %v", time.Since(begun), err)
	}
	_, err = io.Copy(io.Discard, res.Body)
	answered := time.Since(begun)
	if err != nil || res.StatusCode != status {
		t.Errorf("%d, %v after %v, want %d", res.StatusCode, err, answered, status)
	}
	// If the client continues to send, the server resets the connection.
	if _, err := r.ReadByte(); err == nil || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("after the answer: %v", err)
	}
	ended := time.Since(begun)
	conn.Close()
	<-stopped
	t.Logf("answered after %v, ended after %v", answered, ended)
}

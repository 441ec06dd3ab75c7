package httpapi_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"holdfast/internal/auth/hawk"
)

type wire struct {
	*net.TCPConn
	t  testing.TB
	in *bufio.Reader
}

func (s *server) dial(t testing.TB) *wire {
	t.Helper()
	conn, err := net.Dial("tcp", s.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return &wire{TCPConn: conn.(*net.TCPConn), t: t, in: bufio.NewReader(conn)}
}

func (w *wire) say(text string) {
	w.t.Helper()
	if _, err := io.WriteString(w, text); err != nil {
		w.t.Fatal(err)
	}
}

func (w *wire) hear(method string) *answer {
	w.t.Helper()
	res, err := http.ReadResponse(w.in, &http.Request{Method: method})
	if err != nil {
		w.t.Fatalf("no answer: %v", err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		w.t.Fatal(err)
	}
	return &answer{t: w.t, what: method, status: res.StatusCode, header: res.Header, body: string(body)}
}

// head returns a signed request's head, including the empty line. lines replace generated headers.
func (u *user) head(method, target string, lines ...string) string {
	u.t.Helper()
	host, port, err := hawk.HostPort(u.Listener.Addr().String(), "http")
	if err != nil {
		u.t.Fatal(err)
	}
	signed := target
	if _, rest, absolute := strings.Cut(target, "://"); absolute {
		signed = rest[strings.IndexByte(rest, '/'):]
	}
	h := hawk.Header{ID: u.id, TS: u.clock.Now().Unix(), Nonce: "nonce"}
	h = h.Sign(u.secret, hawk.Request{Method: method, Target: signed, Host: host, Port: port})
	text := fmt.Sprintf("%s %s HTTP/1.1\r\nHost: %s\r\nAuthorization: %s\r\n", method, target, u.Listener.Addr(), h)
	for _, line := range lines {
		text += line + "\r\n"
	}
	return text + "\r\n"
}

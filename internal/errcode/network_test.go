package errcode_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"strings"
	"sync"
	"testing"

	"holdfast/internal/errcode"
)

// ended is a connection that the other side closed.
type ended struct {
	net.Conn

	once   sync.Once
	closed chan struct{} // closed when net/http has seen the end
}

func (*ended) Read([]byte) (int, error) { return 0, io.EOF }

func (e *ended) Close() error {
	e.once.Do(func() { close(e.closed) })
	return e.Conn.Close()
}

// TestClosedBeforeRequest checks the advice if the other side closes a connection between the dial and the request, which
// net/http reports with an error of its own.
func TestClosedBeforeRequest(t *testing.T) {
	t.Parallel()
	client, server := net.Pipe()
	defer server.Close()
	e := &ended{Conn: client, closed: make(chan struct{})}
	trace := &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { <-e.closed }}
	req, err := http.NewRequestWithContext(httptrace.WithClientTrace(t.Context(), trace), http.MethodPost, "http://a/", strings.NewReader("x"))
	if err != nil {
		t.Fatal(err)
	}
	transport := &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) { return e, nil }}
	res, err := (&http.Client{Transport: transport}).Do(req)
	if err == nil {
		_ = res.Body.Close()
	}
	if fix := errcode.NetworkFix(err); !strings.Contains(fix, "the other side closed the connection") {
		t.Errorf("advice %q for %v", fix, err)
	}
}

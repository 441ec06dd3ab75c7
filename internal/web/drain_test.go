package web_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"holdfast/internal/web"
)

// pipes is a listener in memory, so that a drain's times pass in a synctest bubble. It has a socket's order: a
// connection that dial returned is accepted, even if the listener closes at once.
type pipes struct {
	dialed chan net.Conn
	closed chan struct{}
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.dialed:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error {
	select {
	case <-p.closed:
	default:
		close(p.closed)
	}
	return nil
}

func (p *pipes) Addr() net.Addr { return &net.TCPAddr{} }

func (p *pipes) dial() net.Conn {
	client, server := net.Pipe()
	p.dialed <- server
	return client
}

// request is what the draining server gets.
const request = "PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\nbody"

// draining is a connection that a server accepted before it drains.
type draining struct {
	before, after string // sent before the drain, and late after its beginning
	late          time.Duration
	err           error         // instead of the answer
	drained       time.Duration // how long the drain takes at most
}

// TestDrainAnswers checks the answers of a draining server on connections that it accepted before: each gets an answer,
// if the request arrives while the server may still expect it, however late that is on a busy machine.
func TestDrainAnswers(t *testing.T) {
	t.Parallel()
	half := len(request) / 2
	for name, tc := range map[string]draining{
		"new connection":              {"", request, 4 * time.Second, nil, 5 * time.Second},
		"first half of a request":     {request[:half], request[half:], 4 * time.Second, nil, 5 * time.Second},
		"new connection without use":  {"", "", 0, io.EOF, 7 * time.Second},
		"idle connection, used again": {request, request, 200 * time.Millisecond, nil, 500 * time.Millisecond},
		"idle connection":             {request, "", 0, io.EOF, 500 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, tc.run)
		})
	}
}

func (tc draining) run(t *testing.T) {
	t.Helper()
	p := &pipes{make(chan net.Conn), make(chan struct{})}
	srv := web.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
	}), web.DefaultLimits(), quiet)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- web.Serve(ctx, srv, p, web.Drain{Grace: time.Minute}) }()
	c := p.dial()
	defer c.Close()
	r := bufio.NewReader(c)
	if tc.before != "" {
		send(t, c, tc.before)
	}
	if tc.before == request {
		if res, err := http.ReadResponse(r, nil); err != nil || res.Close {
			t.Fatalf("before the drain: %+v, %v", res, err)
		}
	}
	synctest.Wait() // the server waits for the client
	begun := time.Now()
	stop()
	time.Sleep(tc.late)
	synctest.Wait()
	if tc.after != "" {
		send(t, c, tc.after)
	}
	res, err := http.ReadResponse(r, nil)
	if errors.Is(err, io.ErrUnexpectedEOF) {
		err = io.EOF
	}
	if !errors.Is(err, tc.err) || err == nil && !res.Close {
		t.Errorf("answer %+v, %v", res, err)
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if took := time.Since(begun); took > tc.drained {
		t.Errorf("drained after %v", took)
	}
}

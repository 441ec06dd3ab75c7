package web_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"holdfast/internal/errcode"
	"holdfast/internal/web"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var quiet = slog.New(slog.DiscardHandler)

func start(t *testing.T, h http.Handler, l web.Limits) (base string) {
	t.Helper()
	base, stop := serve(t, h, l, web.Drain{Grace: 10 * time.Second})
	t.Cleanup(func() {
		http.DefaultClient.CloseIdleConnections()
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
	return base
}

func serve(t *testing.T, h http.Handler, l web.Limits, d web.Drain) (base string, stop func() error) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- web.Serve(ctx, web.NewServer(h, l, quiet), listener, d) }()
	return "http://" + listener.Addr().String(), func() error {
		cancel()
		return <-ended
	}
}

// impatient returns a pace short enough for a test and long enough for a busy machine.
func impatient() web.Limits {
	l := web.DefaultLimits()
	l.Pace = web.Rate{Grace: 300 * time.Millisecond, BytesPerSecond: 1 << 20}
	return l
}

func reader(_ *testing.T, l web.Limits) http.Handler {
	return service(func(w http.ResponseWriter, r *http.Request, _ web.Address) error {
		n, err := io.Copy(io.Discard, r.Body)
		if errors.Is(err, os.ErrDeadlineExceeded) {
			return errcode.New(errcode.Invalid, "too slow")
		}
		if err != nil {
			return err
		}
		w.Header().Set("X-Length", string(rune('0'+n%10)))
		return nil
	}).Handler(web.Options{Log: quiet, Pace: l.Pace})
}

func dial(t *testing.T, base string) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(base, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

func send(t *testing.T, w io.Writer, text string) {
	t.Helper()
	if _, err := io.WriteString(w, text); err != nil {
		t.Fatal(err)
	}
}

func answer(t *testing.T, conn net.Conn) (status int, rest error) {
	t.Helper()
	r := bufio.NewReader(conn)
	res, err := http.ReadResponse(r, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(io.Discard, res.Body); err != nil {
		t.Fatal(err)
	}
	_, rest = r.ReadByte()
	return res.StatusCode, rest
}

func TestSlowHeader(t *testing.T) {
	t.Parallel()
	l := impatient()
	l.Header = 50 * time.Millisecond
	conn := dial(t, start(t, reader(t, l), l))
	send(t, conn, "POST / HTTP/1.1\r\nHost: a\r\nX-Part: ")
	if got, _ := io.ReadAll(conn); len(got) > 0 && !strings.HasPrefix(string(got), "HTTP/1.1 4") {
		t.Errorf("got %q", got)
	}
}

// The idle timeout applies before the first request.
func TestUnusedConnection(t *testing.T) {
	t.Parallel()
	l := impatient()
	l.Header, l.Idle = 50*time.Millisecond, time.Minute
	conn := dial(t, start(t, reader(t, l), l))
	time.Sleep(4 * l.Header) // nothing signals that a connection stays open
	send(t, conn, "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
	if status, _ := answer(t, conn); status != http.StatusOK {
		t.Errorf("got %d", status)
	}

	l.Idle = 100 * time.Millisecond
	if got, err := io.ReadAll(dial(t, start(t, reader(t, l), l))); len(got) > 0 || err != nil {
		t.Errorf("got %q, %v", got, err)
	}
}

func TestHugeHeader(t *testing.T) {
	t.Parallel()
	l := web.DefaultLimits()
	base := start(t, reader(t, l), l)
	for size, want := range map[int]int{l.HeaderBytes / 2: 200, l.HeaderBytes * 2: 431} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, base, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("X-Huge", strings.Repeat("x", size))
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = res.Body.Close()
		if res.StatusCode != want {
			t.Errorf("%d bytes: %s", size, res.Status)
		}
	}
}

// A stopped or trickling body fails even if the handler does not read it.
func TestSlowBody(t *testing.T) {
	t.Parallel()
	l := impatient()
	deaf := service(func(http.ResponseWriter, *http.Request, web.Address) error {
		return errcode.New(errcode.Denied, "no credentials")
	}).
		Handler(web.Options{Log: quiet, Pace: l.Pace})
	for name, tc := range map[string]struct {
		handler http.Handler
		trickle bool
		status  int
	}{
		"stops":    {reader(t, l), false, 400},
		"trickles": {reader(t, l), true, 400},
		"not read": {deaf, true, 401},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			conn := dial(t, start(t, tc.handler, l))
			send(t, conn, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 100000\r\n\r\nx")
			ctx, cancel := context.WithCancel(t.Context())
			var trickling sync.WaitGroup
			defer trickling.Wait()
			defer cancel()
			if tc.trickle {
				trickling.Go(func() {
					tick := time.NewTicker(5 * time.Millisecond)
					defer tick.Stop()
					for {
						select {
						case <-ctx.Done():
							return
						case <-tick.C:
							if _, err := conn.Write([]byte("x")); err != nil {
								return
							}
						}
					}
				})
			}
			status, rest := answer(t, conn)
			if status != tc.status {
				t.Errorf("status %d", status)
			}
			if rest == nil {
				t.Error("the connection is still in use")
			}
		})
	}
}

func TestTruncatedBody(t *testing.T) {
	t.Parallel()
	l := web.DefaultLimits()
	base := start(t, service(func(_ http.ResponseWriter, r *http.Request, _ web.Address) error {
		if _, err := io.Copy(io.Discard, r.Body); err != nil {
			return errcode.New(errcode.Invalid, "the body is truncated")
		}
		return nil
	}).Handler(web.Options{Log: quiet, Pace: l.Pace}), l)
	conn := dial(t, base)
	send(t, conn, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nhalf")
	if err := conn.(*net.TCPConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if status, _ := answer(t, conn); status != http.StatusBadRequest {
		t.Errorf("status %d", status)
	}
}

// The client gets its response and then EOF. A proxy would report a reset as a failure.
func TestRefusedBody(t *testing.T) {
	t.Parallel()
	l := web.DefaultLimits()
	refuses := service(func(http.ResponseWriter, *http.Request, web.Address) error { return errcode.New(errcode.Denied, "no") })
	refuses.Error = func(w http.ResponseWriter, _ *http.Request, _ error) {
		w.Header().Set("Content-Length", "2")
		w.WriteHeader(http.StatusUnauthorized)
		_, _ = io.WriteString(w, "no")
	}
	base := start(t, refuses.Handler(web.Options{Log: quiet, Pace: l.Pace}), l)
	for _, connection := range []string{"close", "keep-alive", "keep-alive\r\nExpect: 100-continue"} {
		conn := dial(t, base)
		send(t, conn, "PUT / HTTP/1.1\r\nHost: a\r\nConnection: "+connection+"\r\nContent-Length: 1000000\r\n\r\n"+strings.Repeat("x", 500_000))
		r := bufio.NewReader(conn)
		res, err := http.ReadResponse(r, nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.Copy(io.Discard, res.Body); err != nil {
			t.Fatal(err)
		}
		if res.StatusCode != http.StatusUnauthorized {
			t.Errorf("%s: status %d", connection, res.StatusCode)
		}
		// More of the body arrives after the response.
		send(t, conn, strings.Repeat("x", 10_000))
		if err := conn.(*net.TCPConn).CloseWrite(); err != nil {
			t.Fatal(err)
		}
		if _, err := r.ReadByte(); err != io.EOF {
			t.Errorf("%s: after the answer: %v", connection, err)
		}
	}
}

// A client that sends its body late gets a response immediately, and the connection is then closed. After a small,
// complete body the connection is reused.
func TestEarlyAnswer(t *testing.T) {
	t.Parallel()
	l := web.DefaultLimits()
	base := start(t, service(func(http.ResponseWriter, *http.Request, web.Address) error {
		return errcode.New(errcode.Denied, "no")
	}).Handler(web.Options{Log: quiet, Pace: l.Pace}), l)
	for name, request := range map[string]string{
		"expects":       "PUT / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 100\r\n\r\n",
		"expects large": "PUT / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 10000000\r\n\r\n",
		"withholds":     "PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\n",
		"large":         "PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 10000000\r\n\r\nxxx",
		"chunked":       "PUT / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			conn := dial(t, base)
			begun := time.Now()
			send(t, conn, request)
			if status, rest := answer(t, conn); status != http.StatusUnauthorized || !errors.Is(rest, io.EOF) {
				t.Errorf("status %d, then %v", status, rest)
			}
			if took := time.Since(begun); took > l.Pace.Grace/2 {
				t.Errorf("after %v", took)
			}
		})
	}
	conn := dial(t, base)
	for range 2 {
		send(t, conn, "PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc")
		res, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.Copy(io.Discard, res.Body); err != nil || res.StatusCode != http.StatusUnauthorized {
			t.Errorf("%d, %v", res.StatusCode, err)
		}
	}
}

// A handler may exceed the peer's grace before, between and after its reads. Body, context and connection stay usable.
func TestPaceIsOfThePeerOnly(t *testing.T) {
	t.Parallel()
	l := impatient()
	pause := func(r *http.Request) error {
		if r.URL.Path != "/slow" {
			return nil
		}
		long := time.NewTimer(l.Pace.Grace + l.Pace.Grace/10)
		defer long.Stop()
		select {
		case <-long.C:
			return nil
		case <-r.Context().Done():
			return r.Context().Err()
		}
	}
	h := service(func(_ http.ResponseWriter, r *http.Request, _ web.Address) error {
		var b [4]byte
		if err := pause(r); err != nil {
			return err
		}
		if _, err := io.ReadFull(r.Body, b[:2]); err != nil {
			return err
		}
		if err := pause(r); err != nil {
			return err
		}
		if _, err := io.ReadAll(r.Body); err != nil {
			return err
		}
		return pause(r)
	}).Handler(web.Options{Log: quiet, Pace: l.Pace})

	t.Run("HTTP/1.1", func(t *testing.T) {
		t.Parallel()
		conn := dial(t, start(t, h, l))
		r := bufio.NewReader(conn)
		for _, path := range []string{"/slow", "/again"} {
			send(t, conn, "POST "+path+" HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\nabcd")
			res, err := http.ReadResponse(r, nil)
			if err != nil {
				t.Fatal(err)
			}
			if res.StatusCode != http.StatusOK {
				t.Errorf("status %s", res.Status)
			}
		}
	})
	t.Run("HTTP/2", func(t *testing.T) {
		t.Parallel()
		// This uses no TLS, because net/http applies the write timeout to its handshake.
		var plain http.Protocols
		plain.SetUnencryptedHTTP2(true)
		srv := httptest.NewUnstartedServer(nil)
		srv.Config = web.NewServer(h, l, quiet).Server
		srv.Config.Protocols = &plain
		srv.Start()
		defer srv.Close()
		client := &http.Client{Transport: &http.Transport{Protocols: &plain}}
		defer client.CloseIdleConnections()
		for _, path := range []string{"/slow", "/again"} {
			res, err := client.Post(srv.URL+path, "text/plain", strings.NewReader("abcd"))
			if err != nil {
				t.Fatal(err)
			}
			_ = res.Body.Close()
			if res.ProtoMajor != 2 || res.StatusCode != http.StatusOK {
				t.Errorf("%s %s", res.Proto, res.Status)
			}
		}
	})
}

func TestSlowReader(t *testing.T) {
	t.Parallel()
	l := impatient()
	failed := make(chan error, 1)
	base := start(t, service(func(w http.ResponseWriter, _ *http.Request, _ web.Address) error {
		chunk := make([]byte, 1<<16)
		for {
			if _, err := w.Write(chunk); err != nil {
				failed <- err
				return err
			}
		}
	}).Handler(web.Options{Log: quiet, Pace: l.Pace}), l)
	send(t, dial(t, base), "GET / HTTP/1.1\r\nHost: a\r\n\r\n")
	if err := <-failed; !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Error(err)
	}
}

// All requests are answered, including a request that outlasts the listener.
func TestDrainUnderLoad(t *testing.T) {
	t.Parallel()
	var served atomic.Int64
	warm, held, release, notReady := make(chan struct{}), make(chan struct{}), make(chan struct{}), make(chan struct{})
	h := service(func(_ http.ResponseWriter, r *http.Request, _ web.Address) error {
		if r.RequestURI == "/held" {
			close(held)
			<-release
			return nil
		}
		if served.Add(1) == 200 {
			close(warm)
		}
		_, err := io.Copy(io.Discard, r.Body)
		return err
	}).Handler(web.Options{Log: quiet, Pace: web.DefaultLimits().Pace})
	base, stop := serve(t, h, web.DefaultLimits(), web.Drain{
		NotReady: func() { close(notReady) }, Delay: time.Second, Grace: 10 * time.Second,
	})

	var clients sync.WaitGroup
	for range 4 {
		clients.Go(func() { hammer(t, base, notReady) })
	}
	last := make(chan error, 1)
	go func() {
		res, err := http.Get(base + "/held")
		if err == nil {
			err = res.Body.Close()
		}
		last <- err
	}()
	<-warm
	<-held
	ended := make(chan error, 1)
	go func() { ended <- stop() }()
	clients.Wait() // takes part of the delay
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for listening(base) {
		<-tick.C
	}
	select {
	case err := <-ended:
		t.Errorf("ended before its last request: %v", err)
	default:
	}
	close(release)
	if err := <-last; err != nil {
		t.Errorf("the request that was under way: %v", err)
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

func hammer(t *testing.T, base string, notReady <-chan struct{}) {
	client := &http.Client{Transport: &http.Transport{}}
	defer client.CloseIdleConnections()
	for last := false; !last; {
		told := false
		select {
		case <-notReady:
			told = true
		default:
		}
		res, err := client.Post(base, "text/plain", strings.NewReader("body"))
		if err != nil {
			t.Error(err)
			return
		}
		_, _ = io.Copy(io.Discard, res.Body)
		_ = res.Body.Close()
		if res.StatusCode != http.StatusOK {
			t.Error(res.Status)
		}
		last = told && res.Close
	}
}

func listening(base string) bool {
	conn, err := net.Dial("tcp", strings.TrimPrefix(base, "http://"))
	if err != nil {
		return false
	}
	_ = conn.Close()
	return true
}

func TestDrainRunsOutOfGrace(t *testing.T) {
	t.Parallel()
	entered, left := make(chan struct{}), make(chan error, 1)
	h := service(func(_ http.ResponseWriter, r *http.Request, _ web.Address) error {
		close(entered)
		<-r.Context().Done()
		left <- r.Context().Err()
		return r.Context().Err()
	}).Handler(web.Options{Log: quiet})
	base, stop := serve(t, h, web.DefaultLimits(), web.Drain{Grace: time.Millisecond})
	send(t, dial(t, base), "GET / HTTP/1.1\r\nHost: a\r\n\r\n")
	<-entered
	if err := stop(); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("ended with %v", err)
	}
	if err := <-left; !errors.Is(err, context.Canceled) {
		t.Errorf("the request ended with %v", err)
	}
}

func TestShuttingDown(t *testing.T) {
	t.Parallel()
	waiting := make(chan struct{})
	base, stop := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		close(waiting)
		<-web.ShuttingDown(r.Context()).Done()
		w.WriteHeader(http.StatusNoContent)
	}), web.DefaultLimits(), web.Drain{Grace: 10 * time.Second})
	answered := make(chan error, 1)
	go func() {
		resp, err := http.Get(base)
		if err == nil {
			resp.Body.Close()
			if resp.StatusCode != http.StatusNoContent {
				err = errors.New(resp.Status)
			}
		}
		answered <- err
	}()
	<-waiting
	if err := errors.Join(stop(), <-answered); err != nil {
		t.Error(err)
	}
	http.DefaultClient.CloseIdleConnections()
	if web.ShuttingDown(t.Context()).Done() != nil {
		t.Error("a request without a server has a shutdown signal")
	}
}

func TestServeReportsItsListener(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_ = l.Close()
	srv := web.NewServer(http.NotFoundHandler(), web.DefaultLimits(), quiet)
	if err := web.Serve(t.Context(), srv, l, web.Drain{}); !errors.Is(err, net.ErrClosed) {
		t.Error(err)
	}
}

func TestServeTLS(t *testing.T) {
	t.Parallel()
	pair := httptest.NewUnstartedServer(nil) // for its certificate
	pair.StartTLS()
	defer pair.Close()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	srv := web.NewServer(reader(t, web.DefaultLimits()), web.DefaultLimits(), quiet)
	srv.TLSConfig = &tls.Config{Certificates: pair.TLS.Certificates, MinVersion: tls.VersionTLS12}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- web.Serve(ctx, srv, l, web.Drain{Grace: 10 * time.Second}) }()
	client := pair.Client()
	res, err := client.Get("https://" + l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	_ = res.Body.Close()
	client.CloseIdleConnections()
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

func testCertificates() []tls.Certificate {
	pair := httptest.NewUnstartedServer(nil)
	pair.StartTLS()
	defer pair.Close()
	return pair.TLS.Certificates
}

func stopAtEnd(t *testing.T, srv *web.Server, l net.Listener) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- web.Serve(ctx, srv, l, web.Drain{Grace: 10 * time.Second}) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

package web_test

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
	"time"

	"holdfast/internal/errcode"
	"holdfast/internal/web"
)

var malformed = map[string]string{
	"an escape":        "GET /b/%zz HTTP/1.1\r\nHost: a\r\n\r\n",
	"an escape's end":  "GET /b/x%4 HTTP/1.1\r\nHost: a\r\n\r\n",
	"of a whole URL":   "GET http://a/b/%zz HTTP/1.1\r\nHost: a\r\n\r\n",
	"a control byte":   "GET /b/\x01 HTTP/1.1\r\nHost: a\r\n\r\n",
	"no host":          "GET /b/ HTTP/1.1\r\n\r\n",
	"two hosts":        "GET /b/ HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
	"a header's name":  "GET /b/ HTTP/1.1\r\nHost: a\r\nX y: z\r\n\r\n",
	"a header's value": "GET /b/ HTTP/1.1\r\nHost: a\r\nX: \x01\r\n\r\n",
	"a body's length":  "PUT /b/ HTTP/1.1\r\nHost: a\r\nContent-Length: x\r\n\r\n",
	"a long path":      "GET /b/" + strings.Repeat("x", 5000) + "%zz HTTP/1.1\r\nHost: a\r\n\r\n",
	"no version":       "GET /b/%zz\r\n\r\n",
}

func named(name string) web.Service {
	return web.Service{
		Name: name, Route: func(string) string { return name },
		Serve: func(w http.ResponseWriter, r *http.Request, _ web.Address) error {
			_, err := io.Copy(w, r.Body)
			return err
		},
		Error: func(w http.ResponseWriter, _ *http.Request, err error) {
			w.Header().Set("Content-Type", "application/"+name)
			w.WriteHeader(http.StatusBadRequest)
			fmt.Fprint(w, name, ": ", errcode.Message(err))
		},
	}
}

type observed struct {
	mu  sync.Mutex
	all map[string]int
}

func (o *observed) note(service, route, method string, status int, _ time.Duration) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.all == nil {
		o.all = map[string]int{}
	}
	o.all[fmt.Sprint(service, route, method, status)]++
}

func startNamed(t *testing.T) (base string, seen *observed) {
	seen = &observed{}
	return start(t, &web.Mux{
		Resolver: &web.Resolver{}, Options: web.Options{Log: quiet, Pace: web.DefaultLimits().Pace, Observe: seen.note},
		Mounts:  []web.Mount{{Service: named("bee"), Owns: func(path string) bool { return strings.HasPrefix(path, "/b/") }}},
		Default: named("rest"),
	}, web.DefaultLimits()), seen
}

func wantRefused(t *testing.T, r *bufio.Reader, name string) {
	t.Helper()
	res, err := http.ReadResponse(r, nil)
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode != http.StatusBadRequest || !strings.HasPrefix(string(body), name+": malformed HTTP request: ") ||
		res.Header.Get("Content-Type") != "application/"+name || res.Header.Get("X-Request-Id") == "" || !res.Close {
		t.Errorf("%d %s %v, %v; want that of %s", res.StatusCode, body, res.Header, err, name)
	}
	if _, err := r.ReadByte(); err != io.EOF {
		t.Errorf("after the answer: %v", err)
	}
}

// The path's service answers a malformed request, which is counted.
func TestMalformedRequests(t *testing.T) {
	t.Parallel()
	base, seen := startNamed(t)
	for name, text := range malformed {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const good = "PUT /b/ HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\nGET "
			for _, way := range []struct {
				name  string
				first string // earlier request on the connection
				write func(w io.Writer)
			}{
				{"alone", "", func(w io.Writer) { _, _ = io.WriteString(w, text) }},
				{"before another", "", func(w io.Writer) { _, _ = io.WriteString(w, text+"DELETE /other HTTP/1.1\r\nHost: a\r\n\r\n") }},
				{"by the byte", "", func(w io.Writer) { _, _ = io.Copy(w, onlyReader{iotest.OneByteReader(strings.NewReader(text))}) }},
				{"after another", good, func(w io.Writer) { _, _ = io.WriteString(w, text) }},
				{"by the byte after another", good, func(w io.Writer) { _, _ = io.Copy(w, onlyReader{iotest.OneByteReader(strings.NewReader(text))}) }},
			} {
				conn := dial(t, base)
				r := bufio.NewReader(conn)
				if way.first != "" {
					send(t, conn, way.first)
					res, err := http.ReadResponse(r, nil)
					if err != nil {
						t.Fatal(err)
					}
					if body, err := io.ReadAll(res.Body); string(body) != "GET " || err != nil {
						t.Fatalf("%q, %v", body, err)
					}
				}
				way.write(conn)
				t.Log(way.name)
				wantRefused(t, r, "bee")
			}
		})
	}
	t.Cleanup(func() {
		seen.mu.Lock()
		defer seen.mu.Unlock()
		if seen.all["beebeeGET400"] == 0 || seen.all["beebeePUT400"] != 5 {
			t.Errorf("observed %v", seen.all)
		}
	})
}

// TestRefusedRequests checks that the service also answers the other requests that net/http refuses, with the same
// status. The connection ends although the body was not sent.
func TestRefusedRequests(t *testing.T) {
	t.Parallel()
	base, seen := startNamed(t)
	requests := map[int]string{
		http.StatusRequestHeaderFieldsTooLarge: "GET /b/ HTTP/1.1\r\nHost: a\r\nX: " + strings.Repeat("x", 1<<20) + "\r\n\r\n",
		http.StatusNotImplemented:              "PUT /b/ HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip\r\n\r\n",
		http.StatusHTTPVersionNotSupported:     "GET /b/ HTTP/3.0\r\nHost: a\r\n\r\n",
		http.StatusExpectationFailed:           "PUT /b/ HTTP/1.1\r\nHost: a\r\nExpect: gold\r\nContent-Length: 5\r\n\r\n",
	}
	for status, text := range requests {
		conn := dial(t, base)
		go func() { _, _ = io.WriteString(conn, text) }() // the server does not read everything
		r := bufio.NewReader(conn)
		res, err := http.ReadResponse(r, nil)
		if err != nil {
			t.Fatal(status, err)
		}
		body, err := io.ReadAll(res.Body)
		if err != nil || res.StatusCode != status || !strings.HasPrefix(string(body), "bee: ") || res.Header.Get("Content-Type") != "application/bee" || !res.Close {
			t.Errorf("%d %q %v, %v; want %d", res.StatusCode, body, res.Header, err, status)
		}
		if _, err := r.ReadByte(); err == nil {
			t.Errorf("%d: the connection is open", status)
		}
		seen.mu.Lock()
		if method, _, _ := strings.Cut(text, " "); seen.all[fmt.Sprint("beebee", method, status)] != 1 {
			t.Errorf("observed %v, want %d", seen.all, status)
		}
		seen.mu.Unlock()
	}
}

type onlyReader struct{ io.Reader }

func TestMalformedRequestWithBody(t *testing.T) {
	t.Parallel()
	base, _ := startNamed(t)
	nothing := dial(t, base)
	send(t, nothing, "\x15\x03\x01\r\n\r\n")
	wantRefused(t, bufio.NewReader(nothing), "rest")
	conn := dial(t, base)
	send(t, conn, "PUT /b/%zz HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000\r\n\r\n"+strings.Repeat("x", 500_000))
	wantRefused(t, bufio.NewReader(conn), "bee")
}

// The server must not replace a handler's response that looks like net/http's, or net/http's response if the handler is
// not a MalformedHandler.
func TestPlainAnswers(t *testing.T) {
	t.Parallel()
	plain := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header()["Date"], w.Header()["X-Content-Type-Options"] = nil, nil
		w.Header().Set("Connection", "close")
		http.Error(w, "400 Bad Request", http.StatusBadRequest)
	})
	mux := named("rest")
	mux.Serve = func(w http.ResponseWriter, r *http.Request, _ web.Address) error { plain(w, r); return nil }
	for _, h := range []http.Handler{plain, mux.Handler(web.Options{Log: quiet})} {
		base := start(t, h, web.DefaultLimits())
		for _, text := range []string{"GET /b HTTP/1.1\r\nHost: a\r\n\r\n", "GET /%zz HTTP/1.1\r\nHost: a\r\n\r\n"} {
			if _, ours := h.(web.MalformedHandler); ours && strings.Contains(text, "%zz") {
				continue
			}
			conn := dial(t, base)
			send(t, conn, text)
			if all, err := io.ReadAll(conn); err != nil || !strings.Contains(string(all), "400 Bad Request") || !strings.Contains(string(all), "text/plain") {
				t.Errorf("%q, %v", all, err)
			}
		}
	}
}

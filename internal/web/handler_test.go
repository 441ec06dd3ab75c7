package web_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"holdfast/internal/errcode"
	"holdfast/internal/web"
)

func plainError(w http.ResponseWriter, _ *http.Request, err error) {
	status := map[errcode.Code]int{errcode.Internal: 500, errcode.Unavailable: 503, errcode.Invalid: 400, errcode.Denied: 401}[errcode.Of(err)]
	w.WriteHeader(status)
	_, _ = io.WriteString(w, errcode.Of(err).String())
}

func service(serve web.Handler) web.Service {
	return web.Service{Name: "test", Serve: serve, Error: plainError, Route: func(string) string { return "thing" }}
}

type journal struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (j *journal) Write(p []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.Write(p)
}

func (j *journal) String() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.String()
}

func (j *journal) logger(level slog.Level) *slog.Logger {
	return slog.New(slog.NewTextHandler(j, &slog.HandlerOptions{Level: level}))
}

func ask(h http.Handler, method, target string, header map[string]string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, target, http.NoBody)
	for name, value := range header {
		r.Header.Set(name, value)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

func TestRequestID(t *testing.T) {
	t.Parallel()
	var log journal
	h := service(func(http.ResponseWriter, *http.Request, web.Address) error { return nil }).Handler(web.Options{Log: log.logger(slog.LevelInfo)})
	for sent, kept := range map[string]bool{"from-proxy.1": true, "": false, "a b": false, strings.Repeat("x", 65): false} {
		got := ask(h, "GET", "/", map[string]string{"X-Request-Id": sent}).Header().Get("X-Request-Id")
		if (got == sent) != kept || got == "" {
			t.Errorf("sent %q, answered %q", sent, got)
		}
		if !strings.Contains(log.String(), "request_id="+got) {
			t.Errorf("%s is not in the log", got)
		}
	}
}

func TestObserveAndLog(t *testing.T) {
	t.Parallel()
	cause := errors.New("disk on fire")
	for _, tc := range []struct {
		name   string
		method string
		serve  web.Handler
		status int
		log    []string
	}{
		{"an answer", "GET", func(w http.ResponseWriter, _ *http.Request, _ web.Address) error {
			_, err := io.WriteString(w, "12345")
			return err
		}, 200, []string{"level=INFO", "service=test", "method=GET", "route=thing", "status=200", "bytes=5"}},
		{"nothing written", "DELETE", func(http.ResponseWriter, *http.Request, web.Address) error { return nil }, 200, []string{"status=200"}},
		{"a refusal", "POST", func(http.ResponseWriter, *http.Request, web.Address) error {
			return errcode.New(errcode.Denied, "no such key")
		}, 401, []string{"level=INFO", "status=401", "code=denied", `error="no such key"`}},
		{"a database that is unavailable", "POST", func(http.ResponseWriter, *http.Request, web.Address) error {
			return errcode.Wrap(errcode.Unavailable, "try later", cause)
		}, 503, []string{"level=WARN", "status=503", "code=unavailable", "disk on fire"}},
		{"a bug", "POST", func(http.ResponseWriter, *http.Request, web.Address) error { return cause }, 500, []string{"level=ERROR", "code=internal", "disk on fire"}},
		{"a made-up method", "BREW", func(http.ResponseWriter, *http.Request, web.Address) error { return nil }, 200, []string{"method=other"}},
		{"a panic", "POST", func(http.ResponseWriter, *http.Request, web.Address) error { panic("boom") }, 500, []string{"level=ERROR", "panic: boom", "handler_test.go"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			var log journal
			var seen string
			h := service(tc.serve).Handler(web.Options{
				Log: log.logger(slog.LevelInfo),
				Observe: func(service, route, method string, status int, d time.Duration) {
					seen += fmt.Sprintln(service, route, method, status, d >= 0)
				},
			})
			w := ask(h, tc.method, "/secret-path?token=secret-query", map[string]string{"Authorization": "secret-header"})
			if w.Code != tc.status {
				t.Errorf("status %d, want %d", w.Code, tc.status)
			}
			for _, want := range tc.log {
				if !strings.Contains(log.String(), want) {
					t.Errorf("no %s in the log: %s", want, log.String())
				}
			}
			if strings.Contains(log.String(), "secret") {
				t.Errorf("a secret in the log: %s", log.String())
			}
			m := tc.method
			if m == "BREW" {
				m = "other"
			}
			if want := fmt.Sprintln("test thing", m, tc.status, true); seen != want {
				t.Errorf("observed %q, want %q", seen, want)
			}
		})
	}
}

func TestProvisionalAnswer(t *testing.T) {
	t.Parallel()
	observed := make(chan int, 1)
	base := start(t, service(func(w http.ResponseWriter, _ *http.Request, _ web.Address) error {
		w.WriteHeader(http.StatusEarlyHints)
		w.WriteHeader(http.StatusNoContent)
		return nil
	}).Handler(web.Options{
		Log:     quiet,
		Observe: func(_, _, _ string, status int, _ time.Duration) { observed <- status },
	}), web.DefaultLimits())
	res, err := http.Get(base)
	if err != nil {
		t.Fatal(err)
	}
	_ = res.Body.Close()
	if status := <-observed; res.StatusCode != http.StatusNoContent || status != http.StatusNoContent {
		t.Errorf("answered %s, observed %d", res.Status, status)
	}
}

func TestQuietLog(t *testing.T) {
	t.Parallel()
	var log journal
	h := service(func(http.ResponseWriter, *http.Request, web.Address) error { return nil }).Handler(web.Options{Log: log.logger(slog.LevelWarn)})
	ask(h, "GET", "/", nil)
	if log.String() != "" {
		t.Errorf("logged %s", log.String())
	}
}

// A client must not mistake a truncated response for a complete response.
func TestErrorAfterTheAnswerBegan(t *testing.T) {
	t.Parallel()
	for name, serve := range map[string]web.Handler{
		"error": func(w http.ResponseWriter, _ *http.Request, _ web.Address) error {
			_, _ = io.WriteString(w, "the first half")
			return errors.New("the snapshot has expired")
		},
		"panic": func(w http.ResponseWriter, _ *http.Request, _ web.Address) error {
			_, _ = io.WriteString(w, "the first half")
			panic("boom")
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var log journal
			base := start(t, service(serve).Handler(web.Options{Log: log.logger(slog.LevelError)}), web.DefaultLimits())
			res, err := http.Get(base)
			if err == nil {
				_, err = io.ReadAll(res.Body)
				_ = res.Body.Close()
			}
			if err == nil {
				t.Error("the response ended without an error")
			}
			if !strings.Contains(log.String(), "level=ERROR") {
				t.Errorf("log: %s", log.String())
			}
		})
	}
}

func TestAnsweredError(t *testing.T) {
	t.Parallel()
	var log journal
	h := service(func(w http.ResponseWriter, _ *http.Request, _ web.Address) error {
		_, _ = io.WriteString(w, "it failed")
		return fmt.Errorf("while copying: %w", &web.Answered{Err: errcode.New(errcode.Unavailable, "a node is slow")})
	}).Handler(web.Options{Log: log.logger(slog.LevelInfo)})
	if w := ask(h, "GET", "/", nil); w.Code != 200 || w.Body.String() != "it failed" {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	if !strings.Contains(log.String(), "level=WARN") || !strings.Contains(log.String(), "a node is slow") {
		t.Error(log.String())
	}
}

func TestClientLeaves(t *testing.T) {
	t.Parallel()
	var log journal
	entered, observed := make(chan struct{}), make(chan int, 1)
	h := service(func(_ http.ResponseWriter, r *http.Request, _ web.Address) error {
		close(entered)
		<-r.Context().Done()
		return errcode.Wrap(errcode.Unavailable, "interrupted", r.Context().Err())
	}).Handler(web.Options{
		Log:     log.logger(slog.LevelWarn),
		Observe: func(_, _, _ string, status int, _ time.Duration) { observed <- status },
	})
	base := start(t, h, web.DefaultLimits())
	ctx, cancel := context.WithCancel(t.Context())
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, base, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		<-entered
		cancel()
	}()
	if res, err := http.DefaultClient.Do(req); err == nil {
		_ = res.Body.Close()
		t.Errorf("answered with %s", res.Status)
	}
	if status := <-observed; status != 499 {
		t.Errorf("status %d", status)
	}
	if log.String() != "" {
		t.Errorf("logged %s", log.String())
	}
}

func BenchmarkHandler(b *testing.B) {
	h := service(func(w http.ResponseWriter, _ *http.Request, _ web.Address) error {
		w.WriteHeader(http.StatusNoContent)
		return nil
	})
	written := struct{ io.Writer }{io.Discard} // slog would not even format for io.Discard
	handler := h.Handler(web.Options{Log: slog.New(slog.NewJSONHandler(written, nil)), Pace: web.DefaultLimits().Pace, Gate: web.NewGate(64, time.Second)})
	r := httptest.NewRequest(http.MethodGet, "/", http.NoBody)
	b.ReportAllocs()
	for b.Loop() {
		handler.ServeHTTP(httptest.NewRecorder(), r)
	}
}

func TestLogClientAddress(t *testing.T) {
	t.Parallel()
	refused, ok := errcode.New(errcode.Denied, "no"), error(nil)
	for _, tc := range []struct {
		name           string
		quiet, address bool
		peer, sender   string
		err            error
		want           string // "" if no line is expected
	}{
		{"off", false, false, "192.0.2.9:1", "", refused, ` request_id=\S+ reason=why code=denied error=no\n$`},
		{"refused", false, true, "192.0.2.9:1", "", refused, ` request_id=\S+ client_address=192.0.2.9 reason=why code=`},
		{"served", false, true, "192.0.2.9:1", "", ok, ` request_id=\S+ client_address=192.0.2.9\n$`},
		{"a proxy", false, true, "10.0.0.1:1", "203.0.113.9, 2001:db8::7", ok, ` client_address=2001:db8::7\n$`},
		{"a proxy without a client address", false, true, "10.0.0.1:1", "unknown", refused, ` request_id=\S+ reason=why `},
		{"not a proxy", false, true, "192.0.2.9:1", "203.0.113.9", ok, ` client_address=192.0.2.9\n$`},
		{"quiet", true, false, "192.0.2.9:1", "", refused, ""},
		{"quiet, refused", true, true, "192.0.2.9:1", "", refused, ` client_address=192.0.2.9 reason=why `},
		{"quiet, served", true, true, "192.0.2.9:1", "", ok, ""},
		{"quiet, without a reason", true, true, "192.0.2.9:1", "", errcode.New(errcode.Invalid, "no"), ""},
		{"quiet, failed", true, false, "192.0.2.9:1", "", errcode.New(errcode.Internal, "no"), `level=ERROR .* code=internal`},
	} {
		var log journal
		s := service(func(http.ResponseWriter, *http.Request, web.Address) error { return tc.err })
		s.Reason = func(err error) string {
			if errcode.Is(err, errcode.Denied) {
				return "why"
			}
			return ""
		}
		mux := &web.Mux{
			Resolver: resolver(t, "", "10.0.0.0/8"), Default: s,
			Options: web.Options{Log: log.logger(slog.LevelInfo), Quiet: tc.quiet, ClientAddress: tc.address},
		}
		r := httptest.NewRequest(http.MethodGet, "/", http.NoBody)
		r.RemoteAddr = tc.peer
		if tc.sender != "" {
			r.Header.Set("X-Forwarded-For", tc.sender)
		}
		mux.ServeHTTP(httptest.NewRecorder(), r)
		if got := log.String(); tc.want == "" && got != "" || !regexp.MustCompile(tc.want).MatchString(got) {
			t.Errorf("%s: %s", tc.name, got)
		}
	}
}

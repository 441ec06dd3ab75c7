package web_test

import (
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"holdfast/internal/web"
)

// rich serves requests with a budget of 80 bytes, 10 of them reserved. Up to 4 requests wait for at most a second.
func rich(m *web.Memory, serve web.Handler) http.Handler {
	s := service(serve)
	return s.Handler(web.Options{Log: slog.New(slog.DiscardHandler), Gate: web.NewGate(4, time.Second), Memory: m})
}

func budget() *web.Memory { return web.NewMemory(80, 4, time.Second) }

func expectUsed(t *testing.T, m *web.Memory, want int64) {
	t.Helper()
	if s := m.Stats(); s.Used != want {
		t.Errorf("%d bytes are used, want %d", s.Used, want)
	}
}

func TestMemoryIsReleased(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(http.ResponseWriter) error{
		"an answer": func(w http.ResponseWriter) error { web.SendJSON(w, http.StatusOK, []byte("{}")); return nil },
		"an error":  func(http.ResponseWriter) error { return errors.New("an error") },
		"a panic":   func(http.ResponseWriter) error { panic("a bug") },
		"a cut": func(w http.ResponseWriter) error {
			_, err := w.Write([]byte("half"))
			return errors.Join(err, errors.New("no more"))
		},
	} {
		m := budget()
		var inside int64
		h := rich(m, func(w http.ResponseWriter, r *http.Request, _ web.Address) error {
			if err := errors.Join(web.ChargeMemory(r, 30), web.ChargeMemory(r, 20)); err != nil {
				return err
			}
			web.ReleaseMemory(r, 10)
			inside = m.Stats().Used
			return end(w)
		})
		func() {
			defer func() { _ = recover() }() // http.ErrAbortHandler
			ask(h, http.MethodGet, "/", nil)
		}()
		if inside != 40 {
			t.Errorf("%s: %d bytes inside, want 40", name, inside)
		}
		expectUsed(t, m, 0)
	}
}

// TestHeadersAreCharged checks that a large header uses the budget, besides the body, and does not wait for it: the header
// is in memory already.
func TestHeadersAreCharged(t *testing.T) {
	t.Parallel()
	const value = 6000
	for name, tc := range map[string]struct {
		header     http.Header
		trailers   int
		least      int64 // charged
		status     int
		withLittle bool // memory
	}{
		"a small header":          {http.Header{"A": {"b"}}, 0, 0, http.StatusOK, false},
		"a large field":           {http.Header{"A": {strings.Repeat("b", value)}}, 0, value, http.StatusOK, false},
		"a repeated field":        {http.Header{"A": repeatedly(strings.Repeat("b", 100), value/100)}, 0, value, http.StatusOK, false},
		"many empty fields":       {manyFields(100), 0, 10_000, http.StatusOK, false},
		"many announced trailers": {http.Header{}, 100, 10_000, http.StatusOK, false},
		"too large":               {manyFields(100), 0, 0, http.StatusServiceUnavailable, true},
	} {
		synctest.Test(t, func(t *testing.T) {
			m := web.NewMemory(40_000, 4, time.Second)
			if tc.withLittle {
				m = budget()
			}
			var before, after int64
			h := rich(m, func(w http.ResponseWriter, r *http.Request, _ web.Address) error {
				before = m.Stats().Used
				web.Identify(r, "somebody")
				if err := web.ChargeMemory(r, 100); err != nil {
					return err
				}
				after = m.Stats().Used
				return nil
			})
			r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", http.NoBody)
			r.Header = tc.header
			for i := range tc.trailers {
				if r.Trailer == nil {
					r.Trailer = http.Header{}
				}
				r.Trailer["T"+strconv.Itoa(i)] = nil
			}
			w, begun := httptest.NewRecorder(), time.Now()
			h.ServeHTTP(w, r)
			if w.Code != tc.status || before < tc.least || tc.least == 0 && before > 0 || tc.status == http.StatusOK && after != before+100 || time.Since(begun) > 0 {
				t.Errorf("%s: %d, %d bytes charged, then %d, after %v", name, w.Code, before, after, time.Since(begun))
			}
			if refused := tc.status != http.StatusOK; refused != (w.Header().Get("Retry-After") != "") {
				t.Errorf("%s: Retry-After: %q", name, w.Header().Get("Retry-After"))
			}
			expectUsed(t, m, 0)
		})
	}
}

func repeatedly(value string, n int) (all []string) {
	for range n {
		all = append(all, value)
	}
	return all
}

func manyFields(n int) http.Header {
	h := http.Header{}
	for i := range n {
		h["X"+strconv.Itoa(i)] = []string{""}
	}
	return h
}

// A request without memory waits without a slot, and is then rejected.
func TestMemoryRunsOut(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := budget()
		release := make(chan struct{})
		gate := web.NewGate(1, time.Second)
		r := service(func(w http.ResponseWriter, r *http.Request, _ web.Address) error {
			web.Identify(r, "greedy")
			if err := web.AcquireSlot(r); err != nil {
				return err
			}
			if err := web.ChargeMemory(r, 60); err != nil {
				return err
			}
			web.ReleaseSlot(r)
			<-release
			return nil
		})
		c := &crowd{gate: gate, handler: r.Handler(web.Options{Log: slog.New(slog.DiscardHandler), Gate: gate, Memory: m}), answers: map[int]int{}}
		c.send(2)
		expectUsed(t, m, 60)
		c.expectLoad(t, 0, 0) // the slot is free: one request waits for its client, another for memory
		time.Sleep(time.Second)
		c.expect(t, 0, 1)
		if s := m.Stats(); s.Refused != 1 || s.Waiting != 0 {
			t.Errorf("%+v", s)
		}
		c.send(1)
		release <- struct{}{}
		c.expect(t, 1, 1)
		release <- struct{}{} // the waiting request
		c.expect(t, 2, 1)
		expectUsed(t, m, 0)
		if c.retry[0] < 10 {
			t.Errorf("Retry-After: %d", c.retry[0])
		}
	})
}

// Memory is charged to the address only until Identify, so that clients behind one address do not share a limit.
func TestMemoryIsChargedToTheClient(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := budget()
		release := make(chan struct{})
		c := &crowd{answers: map[int]int{}, handler: rich(m, func(w http.ResponseWriter, r *http.Request, at web.Address) error {
			if err := web.ChargeMemory(r, 30); err != nil {
				return err
			}
			if at.Path != "/" {
				web.Identify(r, at.Path)
			}
			if err := web.ChargeMemory(r, 4); err != nil {
				return err
			}
			<-release
			return nil
		})}
		c.sendTo("/a", 1)
		c.sendTo("/b", 1)
		expectUsed(t, m, 68)
		if n := m.Stats().Clients; n != 2 {
			t.Errorf("%d clients, want 2", n)
		}
		close(release)
		c.expect(t, 2, 0)
		expectUsed(t, m, 0)
	})
}

func TestWithoutMemory(t *testing.T) {
	t.Parallel()
	h := rich(nil, func(w http.ResponseWriter, r *http.Request, _ web.Address) error {
		err := web.ChargeMemory(r, 1<<40)
		web.ReleaseMemory(r, 1<<41)
		return err
	})
	if w := ask(h, http.MethodGet, "/", nil); w.Code != http.StatusOK {
		t.Errorf("%d", w.Code)
	}
}

func BenchmarkChargeMemory(b *testing.B) {
	for name, n := range map[string]int64{"none": 0, "once": 100 << 10} {
		h := rich(web.NewMemory(256<<20, 256, time.Second), func(w http.ResponseWriter, r *http.Request, _ web.Address) error {
			return web.ChargeMemory(r, n)
		})
		b.Run(name, func(b *testing.B) {
			r := httptest.NewRequestWithContext(b.Context(), http.MethodGet, "/", nil)
			w := httptest.NewRecorder()
			b.ReportAllocs()
			for b.Loop() {
				h.ServeHTTP(w, r)
			}
		})
	}
}

// Bytes read from a body, and response bytes waiting for the client, are charged even if the handler does not charge
// them.
func TestEverythingIsCharged(t *testing.T) {
	t.Parallel()
	const size = 100 << 10
	memory := func() *web.Memory { return web.NewMemory(1<<20, 4, time.Second) }
	t.Run("a body", func(t *testing.T) {
		t.Parallel()
		for name, c := range map[string]struct {
			begin func(http.ResponseWriter, *http.Request) error
			want  int64
		}{
			"kept":           {want: size},
			"charged before": {func(_ http.ResponseWriter, r *http.Request) error { return web.ChargeMemory(r, size) }, size},
			"partly charged": {func(_ http.ResponseWriter, r *http.Request) error { return web.ChargeMemory(r, size/2) }, size},
			"streamed":       {func(_ http.ResponseWriter, r *http.Request) error { web.StreamBody(r); return nil }, 0},
			"streamed, charged": {func(w http.ResponseWriter, r *http.Request) error {
				web.StreamBody(r)
				return web.ChargeMemory(r, 9)
			}, 9},
		} {
			m := memory()
			var used int64
			h := rich(m, func(w http.ResponseWriter, r *http.Request, _ web.Address) error {
				if c.begin != nil {
					if err := c.begin(w, r); err != nil {
						return err
					}
				}
				_, err := io.ReadAll(r.Body)
				used = m.Stats().Used
				return err
			})
			r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", strings.NewReader(strings.Repeat("x", size)))
			h.ServeHTTP(httptest.NewRecorder(), r)
			if used != c.want {
				t.Errorf("%s: %d bytes are charged, want %d", name, used, c.want)
			}
			expectUsed(t, m, 0)
		}
	})
	t.Run("a response", func(t *testing.T) {
		t.Parallel()
		for name, c := range map[string]struct {
			begin func(http.ResponseWriter, *http.Request) error
			size  int
			want  int64
		}{
			"large":          {size: size, want: size},
			"short":          {size: 4 << 10},
			"charged before": {func(_ http.ResponseWriter, r *http.Request) error { return web.ChargeMemory(r, 2*size) }, size, 2 * size},
			"static":         {func(_ http.ResponseWriter, r *http.Request) error { web.StaticBody(r); return nil }, size, 0},
		} {
			m := memory()
			h := rich(m, func(w http.ResponseWriter, r *http.Request, _ web.Address) error {
				if c.begin != nil {
					if err := c.begin(w, r); err != nil {
						return err
					}
				}
				web.SendJSON(w, http.StatusOK, make([]byte, c.size))
				return nil
			})
			var used int64
			w := &watching{ResponseRecorder: httptest.NewRecorder(), write: func() { used = m.Stats().Used }}
			h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil))
			if used != c.want {
				t.Errorf("%s: %d bytes are charged, want %d", name, used, c.want)
			}
			expectUsed(t, m, 0)
		}
	})
}

type watching struct {
	*httptest.ResponseRecorder
	write func()
}

func (w *watching) Write(p []byte) (int, error) {
	w.write()
	return w.ResponseRecorder.Write(p)
}

// A response without memory is cut off, or refused for a net/http handler.
func TestNoMemoryForAResponse(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := budget()
		h := rich(m, func(w http.ResponseWriter, _ *http.Request, _ web.Address) error {
			web.SendJSON(w, http.StatusOK, make([]byte, 5<<10))
			return nil
		})
		defer func() {
			if p := recover(); p != http.ErrAbortHandler {
				t.Errorf("the response ends with %v, want that the connection is closed", p)
			}
			expectUsed(t, m, 0)
		}()
		ask(h, http.MethodGet, "/", nil)
	})
}

func TestCharge(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := web.NewMemory(64<<10, 4, time.Second)
		var used int64
		serve := func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.ReadAll(r.Body)
			used = m.Stats().Used
			w.WriteHeader(http.StatusNoContent)
		}
		post := func(need int64) int {
			w := httptest.NewRecorder()
			r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", strings.NewReader(strings.Repeat("x", 10<<10)))
			web.Charge(m, need, http.HandlerFunc(serve)).ServeHTTP(w, r)
			return w.Code
		}
		if status := post(1 << 10); status != http.StatusNoContent || used != 10<<10 {
			t.Errorf("status %d, %d bytes are charged", status, used)
		}
		if status := post(1 << 20); status != http.StatusServiceUnavailable {
			t.Errorf("status %d without memory", status)
		}
		expectUsed(t, m, 0)
	})
}

package web

import (
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

func TestPace(t *testing.T) {
	t.Parallel()
	type part struct {
		bytes  int
		waited time.Duration
	}
	now := time.Unix(1_800_000_000, 0)
	for _, tc := range []struct {
		name  string
		parts []part
		next  int // bytes to write
		left  time.Duration
	}{
		{"at the start", nil, 0, 20 * time.Second},
		{"to write much", nil, 5_000, 25 * time.Second},
		{"a stop", []part{{0, 15 * time.Second}}, 0, 5 * time.Second},
		{"a stop, then a quick part", []part{{0, 15 * time.Second}, {10_000, 0}}, 0, 15 * time.Second},
		{"quick parts earn no more than the grace", []part{{1 << 30, time.Second}}, 0, 20 * time.Second},
		{"a steady, slow peer", []part{{1_000, 2 * time.Second}, {1_000, 2 * time.Second}, {1_000, 2 * time.Second}}, 0, 17 * time.Second},
		{"too long", []part{{1_000, 22 * time.Second}}, 0, -time.Second},
	} {
		p := newPace(Rate{Grace: 20 * time.Second, BytesPerSecond: 1000})
		for _, part := range tc.parts {
			p.count(part.bytes, part.waited)
		}
		if got := p.deadline(now, tc.next).Sub(now); got != tc.left {
			t.Errorf("%s: %v left, want %v", tc.name, got, tc.left)
		}
	}
}

func TestPieces(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := &sizes{}
		r := newResponse(w, nil, Rate{BytesPerSecond: 1 << 10})
		r.of(httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil))
		body := make([]byte, 400<<10)
		for _, w.delay = range []time.Duration{0, 2 * time.Second} {
			if n, err := r.Write(body); n != len(body) || err != nil {
				t.Errorf("wrote %d bytes: %v", n, err)
			}
		}
		want := []int{64, 128, 128, 80, 128}
		for range (400 - 128) / 16 {
			want = append(want, 16)
		}
		if !slices.Equal(w.kib, want) {
			t.Errorf("pieces of %v KiB, want %v", w.kib, want)
		}
	})
}

type sizes struct {
	kib   []int
	delay time.Duration
}

func (*sizes) Header() http.Header { return http.Header{} }
func (*sizes) WriteHeader(int)     {}

func (s *sizes) Write(p []byte) (int, error) {
	time.Sleep(s.delay)
	s.kib = append(s.kib, len(p)>>10)
	return len(p), nil
}

func TestDiscard(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		pieces int
		every  time.Duration
		stalls bool // does not close its side
		want   error
		took   time.Duration
		read   int
	}{
		"less than a chunk per second": {1000, lingerPause / 3, false, os.ErrDeadlineExceeded, lingerPause, 3 * piece},
		"a slow proxy":                 {1000, 120 * time.Millisecond, false, os.ErrDeadlineExceeded, lingerTime, 83 * piece},
		"a proxy that needs seconds":   {50, lingerPause / 10, false, io.EOF, 5 * lingerPause, 50 * piece},
		"a peer that stalls":           {1, 0, true, os.ErrDeadlineExceeded, lingerPause, piece},
		"an endless body":              {1 << 20, 0, false, nil, 0, lingerBytes},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				server, peer := net.Pipe()
				ended := make(chan struct{})
				var sending sync.WaitGroup
				sending.Go(func() {
					if sendPieces(peer, tc.pieces, tc.every, ended) && !tc.stalls {
						_ = peer.Close()
					}
				})
				begun, r := time.Now(), &counter{Reader: server}
				if err := discard(r, server); !errors.Is(err, tc.want) {
					t.Errorf("%v, want %v", err, tc.want)
				}
				if took := time.Since(begun); took != tc.took || r.n != tc.read {
					t.Errorf("read %d bytes in %s, want %d in %s", r.n, took, tc.read, tc.took)
				}
				close(ended)
				_, _ = server.Close(), peer.Close()
				sending.Wait()
			})
		})
	}
}

const piece = 8 << 10

// sendPieces reports whether it sent all pieces.
func sendPieces(to io.Writer, n int, every time.Duration, ended <-chan struct{}) bool {
	for range n {
		select {
		case <-time.After(every):
		case <-ended:
			return false
		}
		if _, err := to.Write(make([]byte, piece)); err != nil {
			return false
		}
	}
	return true
}

type counter struct {
	io.Reader
	n int
}

func (c *counter) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	c.n += n
	return n, err
}

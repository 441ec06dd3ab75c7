package web

import (
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

func TestDiscard(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		chunks int
		every  time.Duration
		stalls bool // does not close its side
		want   error
		took   time.Duration
		read   int
	}{
		"a peer that sends slower than a chunk per second": {1000, lingerPause / 3, false, os.ErrDeadlineExceeded, lingerPause, 3 * chunk},
		"a slow proxy":               {1000, 120 * time.Millisecond, false, os.ErrDeadlineExceeded, lingerTime, 83 * chunk},
		"a proxy that needs seconds": {50, lingerPause / 10, false, io.EOF, 5 * lingerPause, 50 * chunk},
		"a peer that stalls":         {1, 0, true, os.ErrDeadlineExceeded, lingerPause, chunk},
		"an endless body":            {1 << 20, 0, false, nil, 0, lingerBytes},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				server, peer := net.Pipe()
				var sending sync.WaitGroup
				sending.Go(func() {
					for range tc.chunks {
						time.Sleep(tc.every)
						if _, err := peer.Write(make([]byte, chunk)); err != nil {
							return
						}
					}
					if !tc.stalls {
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
				_, _ = server.Close(), peer.Close()
				sending.Wait()
			})
		})
	}
}

const chunk = 8 << 10

type counter struct {
	io.Reader
	n int
}

func (c *counter) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	c.n += n
	return n, err
}

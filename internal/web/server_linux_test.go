package web_test

import (
	"io"
	"net/http"
	"testing"
	"time"

	"holdfast/internal/web"
)

// TestSteadyReader checks that a client that reads faster than the minimum rate gets the whole response, despite kernel
// buffers. Only Linux reports the bytes that a client acknowledged.
func TestSteadyReader(t *testing.T) {
	t.Parallel()
	l := web.DefaultLimits()
	l.Pace = web.Rate{Grace: 2 * time.Second, BytesPerSecond: 64 << 10} // longer than TCP's timers
	const size = 6 << 20
	conn := dial(t, start(t, service(func(w http.ResponseWriter, _ *http.Request, _ web.Address) error {
		_, err := w.Write(make([]byte, size))
		return err
	}).Handler(web.Options{Log: quiet, Pace: l.Pace}), l))
	send(t, conn, "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	piece := make([]byte, 8*l.Pace.BytesPerSecond/100)
	for n := 0; ; <-tick.C {
		got, err := io.ReadFull(conn, piece)
		if n += got; err != nil {
			if n < size {
				t.Errorf("cut off after %d bytes: %v", n, err)
			}
			return
		}
	}
}

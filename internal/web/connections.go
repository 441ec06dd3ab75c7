package web

import (
	"context"
	"net"
	"net/http"
	"sync"
	"time"
)

// connections knows the state of each open connection.
type connections struct {
	mu   sync.Mutex
	open map[net.Conn]connection
}

// connection is the last change of a connection's state.
type connection struct {
	state http.ConnState
	since time.Time
}

// note is a http.Server.ConnState.
func (all *connections) note(c net.Conn, state http.ConnState) {
	all.mu.Lock()
	defer all.mu.Unlock()
	if state == http.StateClosed || state == http.StateHijacked {
		delete(all.open, c)
		return
	}
	if all.open == nil {
		all.open = map[net.Conn]connection{}
	}
	all.open[c] = connection{state, time.Now()}
}

// firstRequest is how long a new connection may take until its first request is read, in seconds of the clock. Then
// http.Server.Shutdown closes it like an idle connection.
const firstRequest = 5

// count returns the number of open connections, and how many of them have a request, or may still send their first.
func (all *connections) count() (open, busy int) {
	all.mu.Lock()
	defer all.mu.Unlock()
	now := time.Now().Unix()
	for _, c := range all.open {
		if c.state == http.StateActive || c.state == http.StateNew && c.since.Unix() >= now-firstRequest {
			busy++
		}
	}
	return len(all.open), busy
}

// await waits until Shutdown loses no request. Once Shutdown has begun, net/http closes a connection whose request it
// reads, without an answer, even if the connection is new. So await waits for the answers on busy connections. It waits
// for idle connections, too, but only briefly: clients that send one request after another read the answer that closes
// their connection.
func (all *connections) await(ctx context.Context) {
	const idle, longest = 250 * time.Millisecond, 100 * time.Millisecond
	begun := time.Now()
	for pause := 5 * time.Millisecond; ; pause = min(2*pause, longest) {
		open, busy := all.count()
		if open == 0 || busy == 0 && time.Since(begun) >= idle {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
	}
}

package redis_test

import (
	"bytes"
	"net"
	"net/url"
	"slices"
	"sync/atomic"
	"testing"

	"holdfast/internal/clock"
	"holdfast/internal/guest"
	"holdfast/internal/guest/redis"
	"holdfast/internal/ident"
	"holdfast/internal/suite"
	"holdfast/internal/testdb"
)

// TestChangedBetween changes the attributes between a read's script and its HMGET. The session and attributes that
// the read returns must belong together.
func TestChangedBetween(t *testing.T) {
	t.Parallel()
	address, err := url.Parse(testdb.Redis(t))
	if err != nil {
		t.Fatal(err)
	}
	environment, id := "test-"+ident.New(), guest.NewID(guest.SessionPrefix, clock.System())
	direct := redis.New(open(t, address.String()), environment, clock.System)
	old, changed := guest.NewAttributes(`{"n":1}`), guest.NewAttributes(`{"n":2}`)
	put := func(was, is guest.Attributes) {
		stored, err := direct.PutAttributes(t.Context(), id, was.Version, is)
		if err != nil || !stored {
			t.Errorf("put: %v, %v", stored, err)
		}
	}
	put(guest.Attributes{}, old)
	before, err := direct.Session(t.Context(), id, guest.Change{})
	suite.Must(t, "Session", err)
	var changes atomic.Int32
	through := *address
	through.Host = beforeHMGET(t, address.Host, func() {
		if changes.Add(1) == 1 {
			put(old, changed)
			_, err := direct.Session(t.Context(), id, guest.Change{Locale: new("de")})
			suite.Must(t, "Session", err)
		}
	})
	s, err := redis.New(open(t, through.String()), environment, clock.System).Session(t.Context(), id, guest.Change{ReadAttributes: true})
	suite.Must(t, "Session", err)
	suite.Equal(t, "changes", changes.Load(), 1)
	suite.Equal(t, "attributes", s.Attributes, changed)
	suite.Equal(t, "locale", s.Locale, "de")
	if s.LastSeen.Before(before.LastSeen) {
		t.Errorf("seen at %v, before %v", s.LastSeen, before.LastSeen)
	}
}

// beforeHMGET returns the address of a proxy that calls fn before it forwards an HMGET, after earlier commands are
// answered.
func beforeHMGET(t *testing.T, target string, fn func()) (address string) {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			server, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", target)
			if err != nil {
				_ = client.Close()
				continue
			}
			answered := make(chan struct{}, 1)
			go forward(client, server, func(p []byte) error {
				select {
				case answered <- struct{}{}:
				default:
				}
				return write(client, p)
			})
			go forward(server, client, func(p []byte) error {
				before, after, found := bytes.Cut(p, hmget)
				if !found {
					return write(server, p)
				}
				select {
				case <-answered:
				default:
				}
				if err := write(server, before); err != nil {
					return err
				}
				<-answered
				fn()
				return write(server, slices.Concat(hmget, after))
			})
		}
	}()
	return l.Addr().String()
}

var hmget = []byte("*4\r\n$5\r\nHMGET\r\n")

func write(to net.Conn, p []byte) error {
	_, err := to.Write(p)
	return err
}

// forward calls fn with the bytes of each read, and finally closes both connections. Pipelined commands arrive in
// one read.
func forward(to, from net.Conn, fn func([]byte) error) {
	defer to.Close()
	defer from.Close()
	for buffer := make([]byte, 64<<10); ; {
		n, err := from.Read(buffer)
		if err != nil || fn(buffer[:n]) != nil {
			return
		}
	}
}

package redisdb_test

import (
	"context"
	"io"
	"net"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"holdfast/internal/db/redisdb"
	"holdfast/internal/errcode"
	"holdfast/internal/testdb"
)

func open(t testing.TB, url string) *redisdb.DB {
	t.Helper()
	db, err := redisdb.Open(t.Context(), redisdb.Options{URL: url, Probe: func(ctx context.Context, c rueidis.Client) error {
		return c.Do(ctx, c.B().Set().Key("probe").Value("1").Build()).Error()
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(db.Close)
	return db
}

func set(db *redisdb.DB, value string) error {
	return db.Run(context.Background(), "set", func(ctx context.Context, c rueidis.Client) error {
		return c.Do(ctx, c.B().Set().Key("key").Value(value).Build()).Error()
	})
}

func await(t testing.TB, what string, fn func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !fn(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%s: not within a minute", what)
		}
	}
}

func TestParse(t *testing.T) {
	t.Parallel()
	for _, url := range []string{"redis://u:p@host:1/2", "rediss://host", "redis://a?addr=b:1&addr=c:2"} {
		if _, err := redisdb.Parse(url); err != nil {
			t.Errorf("%s: %v", url, err)
		}
	}
	for _, url := range []string{"http://host", "redis://host/x", "redis://host/1/2", "redis://%"} {
		if _, err := redisdb.Parse(url); !errcode.Is(err, errcode.Invalid) || strings.Contains(errcode.Message(err), url) {
			t.Errorf("%s: %v", url, err)
		}
	}
}

// TestSilent checks that a silent server delays only a few callers by 0.1 s, piles up no goroutines, and is used again
// within seconds.
func TestSilent(t *testing.T) {
	t.Parallel()
	server := testdb.OwnRedis(t)
	db := open(t, server.URL())
	if err := set(db, "1"); err != nil {
		t.Fatal(err)
	}
	before := runtime.NumGoroutine()
	if err := server.Pause(); err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	for range 500 {
		if err := set(db, "2"); !errcode.Is(err, errcode.Unavailable) {
			t.Fatalf("while it is silent: %v", err)
		}
	}
	if took := time.Since(start); took > 40*time.Second { // without the limit, 500 timeouts take 50 s on any machine
		t.Errorf("500 calls took %s", took)
	}
	if up, n := db.State(); up || n != 1 {
		t.Errorf("up %v, given up %d times", up, n)
	}
	if n := runtime.NumGoroutine(); n > before+50 {
		t.Errorf("%d goroutines, %d before", n, before)
	}
	if err := server.Continue(); err != nil {
		t.Fatal(err)
	}
	await(t, "used again", func() bool { return set(db, "3") == nil })
}

func TestGone(t *testing.T) {
	t.Parallel()
	server := testdb.OwnRedis(t)
	if err := server.Kill(); err != nil {
		t.Fatal(err)
	}
	db := open(t, server.URL())
	if err := set(db, "1"); !errcode.Is(err, errcode.Unavailable) {
		t.Fatalf("without a server: %v", err)
	}
	if _, err := db.Servers(t.Context()); !errcode.Is(err, errcode.Unavailable) {
		t.Errorf("Servers without a server: %v", err)
	}
	for range 2 {
		if err := server.Start(); err != nil {
			t.Fatal(err)
		}
		await(t, "used", func() bool { return set(db, "1") == nil })
		if err := server.Kill(); err != nil {
			t.Fatal(err)
		}
		await(t, "noticed", func() bool { return set(db, "1") != nil })
	}
}

// TestReadOnly checks that after a server became a replica, the next connection reaches the new primary.
func TestReadOnly(t *testing.T) {
	t.Parallel()
	old, next := testdb.OwnRedis(t), testdb.OwnRedis(t)
	name := forwarder(t, old.Address())
	db := open(t, "redis://"+name.address)
	await(t, "used", func() bool { return set(db, "1") == nil }) // a busy machine may exceed the timeout
	host, port, _ := net.SplitHostPort(next.Address())
	old.Must(t, "REPLICAOF", host, port)
	name.to(next.Address()) // existing connections stay with the old server
	await(t, "the next one is used", func() bool { return set(db, "2") == nil })
	if got := next.Must(t, "GET", "key"); got != "2" {
		t.Errorf("the next one has %q", got)
	}
}

func TestOutOfMemory(t *testing.T) {
	t.Parallel()
	server := testdb.OwnRedis(t, "--maxmemory-policy", "noeviction")
	db := open(t, server.URL())
	await(t, "used", func() bool { return set(db, "1") == nil }) // a busy machine may exceed the timeout
	server.Must(t, "CONFIG", "SET", "maxmemory", "1")
	for range 20 {
		if err := set(db, "2"); !errcode.Is(err, errcode.Unavailable) {
			t.Fatalf("while it is full: %v", err)
		}
	}
	if up, n := db.State(); !up || n != 0 {
		t.Errorf("up %v, given up %d times", up, n)
	}
	var got string
	err := db.Run(t.Context(), "get", func(ctx context.Context, c rueidis.Client) (err error) {
		got, err = c.Do(ctx, c.B().Get().Key("key").Build()).ToString()
		return err
	})
	if err != nil || got != "1" {
		t.Errorf("read %q, %v", got, err)
	}
	server.Must(t, "CONFIG", "SET", "maxmemory", "0")
	if err := set(db, "2"); err != nil {
		t.Errorf("afterwards: %v", err)
	}
}

func TestCallerLeaves(t *testing.T) {
	t.Parallel()
	db := open(t, testdb.Redis(t))
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	for range 50 {
		err := db.Run(gone, "get", func(ctx context.Context, c rueidis.Client) error {
			return c.Do(ctx, c.B().Get().Key("key").Build()).Error()
		})
		if err == nil {
			t.Fatal("a caller that has left got a value")
		}
	}
	if up, n := db.State(); !up || n != 0 {
		t.Errorf("up %v, given up %d times", up, n)
	}
}

func TestErrors(t *testing.T) {
	t.Parallel()
	db := open(t, testdb.Redis(t))
	for range 10 {
		err := db.Run(t.Context(), "wrong", func(ctx context.Context, c rueidis.Client) error {
			return c.Do(ctx, c.B().Arbitrary("NOSUCHCOMMAND").Build()).Error()
		})
		if !errcode.Is(err, errcode.Internal) {
			t.Fatalf("an unknown command: %v", err)
		}
	}
	if up, _ := db.State(); !up {
		t.Error("mistakes closed the connection")
	}
}

func TestServers(t *testing.T) {
	t.Parallel()
	db := open(t, testdb.OwnRedis(t, "--maxmemory", "100mb", "--maxmemory-policy", "volatile-lru").URL())
	all, err := db.Servers(t.Context())
	if err != nil || len(all) != 1 {
		t.Fatalf("%v, %v", all, err)
	}
	s := all[0]
	if s.MaxMemory != 100<<20 || s.Eviction != "volatile-lru" || s.Replica || s.Cluster || s.Down || s.Version == "" || s.Address == "" {
		t.Errorf("%+v", s)
	}
	cluster := testdb.RedisCluster(t)
	all, err = open(t, cluster[1].URL()).Servers(t.Context())
	if err != nil || len(all) != 3 {
		t.Fatalf("cluster: %v, %v", all, err)
	}
	for _, s := range all {
		if !s.Cluster || s.Down {
			t.Errorf("%+v", s)
		}
	}
}

// forward is a server name: new connections reach the current server.
type forward struct {
	address string
	mu      sync.Mutex
	target  string
}

func (f *forward) to(address string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.target = address
}

func forwarder(t testing.TB, target string) *forward {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	f := &forward{address: l.Addr().String(), target: target}
	go func() {
		for {
			in, err := l.Accept()
			if err != nil {
				return
			}
			f.mu.Lock()
			out, err := net.Dial("tcp", f.target)
			f.mu.Unlock()
			if err != nil {
				_ = in.Close()
				continue
			}
			for _, pair := range [][2]net.Conn{{in, out}, {out, in}} {
				go func() {
					_, _ = io.Copy(pair[0], pair[1])
					_ = pair[0].Close()
				}()
			}
		}
	}()
	return f
}

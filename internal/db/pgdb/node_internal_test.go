package pgdb

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"holdfast/internal/errcode"
	"holdfast/internal/work"
)

var (
	first, second = address{"first", 5432}, address{"second", 5432}
	halves        = []shard{{-1 << 31, -1, first}, {0, 1<<31 - 1, second}}
)

// cluster has two nodes, which answer probes from a channel, for a pool of ten connections.
type cluster struct {
	*nodes
	probes chan bool
}

func newCluster(t *testing.T) *cluster {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	c := &cluster{probes: make(chan bool)}
	c.nodes = newNodes(ctx, 10, func(context.Context) ([]shard, bool, error) { return halves, true, nil },
		func(context.Context, address) (bool, error) { return <-c.probes, nil })
	c.set(halves)
	return c
}

// enter waits up to a second for a slot on a node.
func enter(t *testing.T, n *node) (*patience, error) {
	t.Helper()
	p := newPatience(context.Background(), time.Second)
	err := n.enter(p, false)
	p.pause()
	if err != nil {
		p.end()
	}
	return p, err
}

func fill(t *testing.T, n *node) (all []*patience) {
	t.Helper()
	for range cap(n.slots) {
		p, err := enter(t, n)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, p)
	}
	return all
}

func finish(n *node, all []*patience) {
	for _, p := range all {
		n.leave(p, true)
		p.end()
	}
}

func wantErr(t *testing.T, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("error %v, want %v", err, want)
	}
}

// TestSilentNode checks that a node may use half of the connections. If the coordinator cannot connect to it, its
// statements end, and further statements for it or for all nodes fail at once. Other nodes are not affected.
func TestSilentNode(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		hung, healthy := c.current().find(-5), c.current().find(5)
		all := fill(t, hung)
		if len(all) != 5 {
			t.Fatalf("a node may hold %d of 10 connections", len(all))
		}
		wide, err := enter(t, c.wide)
		wantErr(t, err, nil)
		_, err = enter(t, hung)
		wantErr(t, err, errBusy)
		time.Sleep(silence)
		waiting := make(chan error)
		go func() { _, err := enter(t, hung); waiting <- err }()
		synctest.Wait()
		c.probes <- false
		wantErr(t, <-waiting, errSilent)
		synctest.Wait() // the statement on all nodes is canceled after the waiters were notified
		for _, p := range append(all, wide) {
			wantErr(t, context.Cause(p), errSilent)
			wantErr(t, p.explain(p.Err()), errSilent)
		}
		before := time.Now()
		for _, n := range []*node{hung, c.wide} {
			_, err = enter(t, n)
			wantErr(t, err, errSilent)
			if errcode.Of(err) != errcode.Unavailable {
				t.Errorf("%v has another code", err)
			}
		}
		if time.Since(before) != 0 {
			t.Error("a refusal takes time")
		}
		finish(healthy, fill(t, healthy))
		finish(hung, all)
		finish(c.wide, []*patience{wide})
		c.probes <- false
		c.probes <- true
		synctest.Wait()
		finish(hung, fill(t, hung))
		finish(c.wide, fill(t, c.wide))
	})
}

func TestBusyNode(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		n := c.current().find(-5)
		all := fill(t, n)
		time.Sleep(silence + time.Millisecond)
		go func() { c.probes <- true }()
		_, err := enter(t, n)
		wantErr(t, err, errBusy)
		for _, p := range all {
			wantErr(t, p.Err(), nil)
		}
		waiting := make(chan error)
		go func() {
			p, err := enter(t, n)
			finish(n, []*patience{p})
			waiting <- err
		}()
		synctest.Wait()
		finish(n, all)
		wantErr(t, <-waiting, nil)
	})
}

// TestUnknownNode checks that a node keeps its state if the coordinator does not answer either.
func TestUnknownNode(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		probed := 0
		c.probe = func(context.Context, address) (bool, error) { probed++; return false, errors.New("no coordinator") }
		n := c.current().find(-5)
		p, err := enter(t, n)
		wantErr(t, err, nil)
		time.Sleep(silence + time.Millisecond)
		q, err := enter(t, n)
		synctest.Wait()
		wantErr(t, err, nil)
		if r, err := enter(t, n); err != nil || probed != 1 {
			t.Errorf("after %d probes: %v", probed, err)
		} else {
			finish(n, []*patience{p, q, r})
		}
	})
}

// TestPlaceYields checks that a request yields its turn if it waits for a node or runs there for a while.
func TestPlaceYields(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := newCluster(t).current().find(-5)
		meter := &work.Meter{}
		var yielded atomic.Int64
		meter.OnYield(func() { yielded.Add(1) })
		enter := func() *nodeSlot {
			l := &nodeSlot{patience: newPatience(context.Background(), time.Second), meter: meter}
			if err := l.wait(n); err != nil && !errors.Is(err, errBusy) {
				t.Error(err)
			}
			l.patience.end()
			return l
		}
		enter().leave()
		time.Sleep(time.Minute)
		if yielded.Load() != 0 {
			t.Error("a short statement yields")
		}
		l := enter()
		time.Sleep(turnPatience)
		synctest.Wait()
		l.leave()
		if n := yielded.Load(); n != 1 {
			t.Errorf("a long statement yields %d times", n)
		}
		all := fill(t, n)
		enter()
		finish(n, all)
		if n := yielded.Load(); n != 2 {
			t.Errorf("a wait yields %d times", n-1)
		}
	})
}

func TestLayout(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		before := c.current()
		moved := []shard{{-1 << 31, -10, first}, {-9, 1<<31 - 1, second}}
		c.read = func(context.Context) ([]shard, bool, error) { return moved, true, nil }
		time.Sleep(layoutAge)
		c.current()
		synctest.Wait()
		after := c.current()
		for hash, on := range map[int32]address{-1 << 31: first, -10: first, -9: second, 0: second, 1<<31 - 1: second} {
			if n := after.find(hash); n == nil || n != before.nodes[on] {
				t.Errorf("%d is not on the %s node", hash, on.host)
			}
		}
		c.set([]shard{{-1 << 31, 1<<31 - 1, first}})
		if n := c.current().find(0); cap(n.slots) != 10 {
			t.Errorf("the only node may hold %d connections", cap(n.slots))
		}
		if n := (&layout{shards: []shard{{0, 1, first}}}).find(7); n != nil {
			t.Error("a hash in no range has a node")
		}
	})
}

package blobs_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"holdfast/internal/buckets"
	"holdfast/internal/buckets/blobs"
	"holdfast/internal/errcode"
)

// stall passes only when all goroutines are blocked (synctest).
const stall = time.Second

// each runs a test with a body in memory and with a streamed body.
func each(t *testing.T, test func(t *testing.T, b []byte)) {
	for _, size := range bodySizes {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) { test(t, content(size)) })
		})
	}
}

// TestNodeFails checks that a failed node is replaced, and then avoided for some time.
func TestNodeFails(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, b []byte) {
		c := newCluster(t, time.Minute, "a:1", "b:1", "c:1")
		bad := c.nodes["b:1"]
		bad.set(func(f *flaky) { f.err = errBroken })
		for range 10 {
			body := c.mustWrite(b, 2)
			c.wantRead(body, b)
			must(t, c.Remove(t.Context(), path, body.Sharks))
		}
		// The first failed Put may be the only one, because the node is then avoided.
		if bad.puts > 1 {
			t.Errorf("the node was tried %d times", bad.puts)
		}
		_, err := c.write(b, 3)
		wantCode(t, "3 copies on 2 nodes that work", err, errcode.Unavailable)
		if errors.Is(err, blobs.ErrNotEnoughSpace) {
			t.Errorf("%v: space is not the problem", err)
		}
		c.settled()
		c.wantOn(nil)
		bad.set(func(f *flaky) { f.err = nil })
		c.clock.Advance(blobs.DefaultAvoid + time.Second)
		c.mustWrite(b, 3)
	})
}

// TestNodeFailsInTheMiddle checks that the lost copy is replaced from another copy.
func TestNodeFailsInTheMiddle(t *testing.T) {
	t.Parallel()
	b := content(3 << 20)
	for _, cause := range []error{errBroken, blobs.NotEnoughSpace("a:1", nil), errors.New("an error without a code")} {
		c := newCluster(t, time.Minute, "a:1", "b:1", "c:1", "d:1")
		n := c.nodes["a:1"]
		n.set(func(f *flaky) { f.err, f.putAfter = cause, 1<<20 })
		for n.putCount() == 0 {
			body := c.mustWrite(b, 2)
			c.wantRead(body, b)
			must(t, c.Remove(t.Context(), path, body.Sharks))
		}
	}
}

// TestAllFailInTheMiddle checks that the write fails and leaves nothing behind, because sent data cannot be sent
// again.
func TestAllFailInTheMiddle(t *testing.T) {
	t.Parallel()
	c := newCluster(t, time.Minute, "a:1", "b:1", "c:1")
	for _, n := range c.nodes {
		n.set(func(f *flaky) { f.err, f.putAfter = errBroken, 1<<20 })
	}
	_, err := c.write(content(3<<20), 2)
	wantCode(t, "write", err, errcode.Unavailable)
	c.settled()
	c.wantOn(nil)
}

func TestNoReplacement(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, b []byte) {
		c := newCluster(t, time.Minute, "a:1", "b:1")
		c.nodes["a:1"].set(func(f *flaky) { f.err, f.putAfter = errBroken, 1 })
		_, err := c.write(b, 2)
		wantCode(t, "write", err, errcode.Unavailable)
		c.settled()
		c.wantOn(nil)
	})
}

func TestNodeFull(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, b []byte) {
		c := newCluster(t, time.Minute, "a:1", "b:1")
		c.nodes["a:1"].set(func(f *flaky) { f.err, f.putAfter = blobs.NotEnoughSpace("a:1", errors.New("disk full")), 1 })
		for range 5 {
			_, err := c.write(b, 2)
			if !errors.Is(err, blobs.ErrNotEnoughSpace) || !errcode.Is(err, errcode.Unavailable) {
				t.Fatalf("write: %v, want ErrNotEnoughSpace", err)
			}
			c.settled()
			c.wantOn(nil)
			body := c.mustWrite(b, 1)
			must(t, c.Remove(t.Context(), path, body.Sharks))
		}
		c.nodes["a:1"].set(func(f *flaky) { f.err = nil })
		c.mustWrite(b, 2) // the node has space again; Write asks it before giving up
	})
}

// TestSpaceAgain checks that a full or read-only node is used again immediately, and that concurrent writers ask it
// once.
func TestSpaceAgain(t *testing.T) {
	t.Parallel()
	const writers = 20
	for _, full := range []blobs.Space{{Total: 1 << 30}, {Total: 1 << 30, Free: 1 << 30, ReadOnly: true}} {
		synctest.Test(t, func(t *testing.T) {
			c := newCluster(t, time.Minute, "a:1")
			n := c.nodes["a:1"]
			n.set(func(f *flaky) { f.space = &full })
			c.Refresh(t.Context())
			write := func(i int) error {
				_, err := c.Write(t.Context(), fmt.Sprintf("%s%d", path, i), -1, 1, bytes.NewReader(content(5000)))
				return err
			}
			if err := write(0); !errcode.Is(err, errcode.Unavailable) {
				t.Errorf("%+v: write: %v, want Unavailable", full, err)
			}
			asked := make(chan struct{})
			n.set(func(f *flaky) { f.space, f.asked = nil, asked })
			errs := make(chan error, writers)
			for i := range writers {
				go func() { errs <- write(i) }()
			}
			synctest.Wait()
			<-asked
			n.set(func(f *flaky) { f.asked = nil })
			for range writers {
				must(t, <-errs)
			}
		})
	}
}

// TestOnlyNodeFails checks that the only node is tried again immediately.
func TestOnlyNodeFails(t *testing.T) {
	t.Parallel()
	c := newCluster(t, time.Minute, "a:1")
	n := c.nodes["a:1"]
	b := content(100)
	body := c.mustWrite(b, 1)
	n.set(func(f *flaky) { f.err = errBroken })
	_, err := c.write(b, 1)
	wantCode(t, "write", err, errcode.Unavailable)
	_, err = c.read(body, 0, -1)
	wantCode(t, "read", err, errcode.Unavailable)
	if s := c.Nodes()[0]; !s.Avoided || s.Err == nil {
		t.Errorf("status: %+v, want avoided", s)
	}
	n.set(func(f *flaky) { f.err = nil })
	c.wantRead(body, b)
	c.wantRead(c.mustWrite(b, 1), b)
}

// TestNodeHangs includes nodes that ignore their context. A copy that they store later is removed.
func TestNodeHangs(t *testing.T) {
	t.Parallel()
	for _, deaf := range []bool{false, true} {
		for _, putAfter := range []int64{0, 1} {
			each(t, func(t *testing.T, b []byte) {
				c := newCluster(t, stall, "a:1", "b:1", "c:1")
				hang := make(chan struct{})
				n := c.nodes["a:1"]
				n.set(func(f *flaky) { f.hang, f.deaf, f.putAfter = hang, deaf, putAfter })
				var all []buckets.Reference
				for n.putCount() == 0 {
					stored, err := c.write(b, 2)
					must(t, err)
					if slices.Contains(stored.Sharks, "a:1") {
						t.Fatalf("written to %q", stored.Sharks)
					}
					all = append(all, bodyOf(b, stored))
				}
				c.wantRead(all[len(all)-1], b)
				c.Refresh(t.Context())
				n.set(func(f *flaky) { f.hang = nil })
				close(hang)
				c.settled()
				c.wantOn(all[len(all)-1].Sharks)
			})
		}
	}
}

// TestNodesHang checks that writes wait for hanging nodes only once, and use them as soon as they respond.
func TestNodesHang(t *testing.T) {
	t.Parallel()
	for _, deaf := range []bool{false, true} {
		each(t, func(t *testing.T, b []byte) {
			c := newCluster(t, stall, "a:1", "b:1", "c:1")
			hang := make(chan struct{})
			hung := []*flaky{c.nodes["a:1"], c.nodes["b:1"]}
			for _, n := range hung {
				n.set(func(f *flaky) { f.hang, f.deaf = hang, deaf })
			}
			refused := func() int {
				t.Helper()
				_, err := c.write(b, 2)
				wantCode(t, "write", err, errcode.Unavailable)
				if errors.Is(err, blobs.ErrNotEnoughSpace) {
					t.Errorf("write: %v, but space is not the reason", err)
				}
				return hung[0].putCount() + hung[1].putCount()
			}
			if tried := refused(); tried > 2 {
				t.Errorf("a write tried the nodes that hang %d times, want once each", tried)
			}
			if before, after := hung[0].putCount()+hung[1].putCount(), refused(); after != before {
				t.Errorf("another write tried a node that has not responded")
			}
			c.mustWriteOne(b, "c:1")
			hung[1].set(func(f *flaky) { f.hang = nil })
			if !deaf { // otherwise its earlier operations continue
				synctest.Wait() // a node is asked again only after the driver returned from the previous question
				stored, err := c.write(b, 2)
				must(t, err)
				if slices.Contains(stored.Sharks, "a:1") {
					t.Errorf("written to %q", stored.Sharks)
				}
			}
			hung[0].set(func(f *flaky) { f.hang = nil })
			close(hang)
			c.settled()
			c.mustWrite(b, 3)
		})
	}
}

func (c *cluster) mustWriteOne(b []byte, want string) {
	c.t.Helper()
	stored, err := c.write(b, 1)
	if err != nil || !slices.Equal(stored.Sharks, []string{want}) {
		c.t.Fatalf("written to %q, %v; want %s", stored.Sharks, err, want)
	}
}

func second[T any](_ T, err error) error { return err }

func (f *flaky) putCount() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.puts
}

func TestReadFailover(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(t *testing.T, f *flaky){
		"fails":               func(_ *testing.T, f *flaky) { f.err = errBroken },
		"fails in the middle": func(_ *testing.T, f *flaky) { f.err, f.getAfter = errBroken, 3000 },
		"hangs":               func(_ *testing.T, f *flaky) { f.hang = make(chan struct{}) },
		"hangs and is deaf":   func(_ *testing.T, f *flaky) { f.hang, f.deaf = make(chan struct{}), true },
		"hangs in the middle": func(_ *testing.T, f *flaky) { f.hang, f.getAfter = make(chan struct{}), 3000 },
		"has no copy":         func(t *testing.T, f *flaky) { must(t, os.Remove(filepath.Join(f.dir, path))) },
		"has a short copy":    func(t *testing.T, f *flaky) { must(t, os.Truncate(filepath.Join(f.dir, path), 4000)) },
		"has a wrong copy":    func(t *testing.T, f *flaky) { f.corrupt(t, path, 100) },
		"is not mounted":      func(t *testing.T, f *flaky) { must(t, os.Rename(f.dir, f.dir+".away")) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			each(t, func(t *testing.T, b []byte) {
				c := newCluster(t, stall, "a:1", "b:1")
				body := c.mustWrite(b, 2)
				n := c.nodes["a:1"]
				n.set(func(f *flaky) { change(t, f) })
				for range 8 { // until each copy was read first
					got, err := c.read(body, 0, -1)
					if err != nil || !bytes.Equal(got, b) {
						t.Fatalf("read %d bytes, %v; want %d", len(got), err, len(b))
					}
					if got, err := c.read(body, 10, 4500); err != nil || !bytes.Equal(got, b[10:4510]) {
						t.Fatalf("read of a range: %d bytes, %v", len(got), err)
					}
				}
			})
		})
	}
}

// TestFindings checks that a bad copy is reported and that the next read uses another copy.
func TestFindings(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, b []byte) {
		for problem, change := range map[string]func(f *flaky){
			"missing":   func(f *flaky) { must(t, f.Driver.Delete(t.Context(), path)) },
			"truncated": func(f *flaky) { must(t, os.Truncate(filepath.Join(f.dir, path), 4000)) },
			"corrupt":   func(f *flaky) { f.corrupt(t, path, int64(len(b)-1)) },
		} {
			c := newCluster(t, time.Minute, "a:1", "b:1", "c:1")
			body := c.mustWrite(b, 3)
			for _, id := range []string{"a:1", "b:1"} {
				change(c.nodes[id])
			}
			for found := 0; found < 2; found += len(c.problems()) {
				_, _ = c.read(body, 0, -1)
			}
			for range 10 {
				c.wantRead(body, b)
			}
			if p := c.problems(); len(p) > 0 {
				t.Errorf("found again: %q", p)
			}
			for _, id := range []string{"a:1", "b:1"} {
				_, err := c.Verify(t.Context(), path, body, id, nil)
				if problem == "missing" {
					wantCode(t, "verify", err, errcode.NotFound)
				} else if !errors.Is(err, blobs.ErrCorrupt) {
					t.Errorf("verify a %s copy: %v", problem, err)
				}
			}
			must(t, second(c.Verify(t.Context(), path, body, "c:1", nil)))
			c.problems()
			body.Sharks = []string{"a:1", "b:1"}
			_, err := c.read(body, 0, -1)
			wantCode(t, "read without a good copy", err, errcode.Internal)
			if got, want := c.problems(), []string{" lost", "a:1 " + problem, "b:1 " + problem}; !slices.Equal(got, want) {
				t.Errorf("found %q, want %q", got, want)
			}
		}
	})
}

func TestSourceFails(t *testing.T) {
	t.Parallel()
	for _, size := range []int{0, 100, 128 << 10, 3 << 20} {
		c := newCluster(t, time.Minute, "a:1", "b:1", "c:1")
		for _, hungUp := range []error{errors.New("client hung up"), io.ErrUnexpectedEOF, errcode.Wrap(errcode.Unavailable, "peer", io.EOF)} {
			_, err := c.Write(t.Context(), path, -1, 3, io.MultiReader(bytes.NewReader(content(size)), iotest.ErrReader(hungUp)))
			if !errors.Is(err, hungUp) {
				t.Errorf("write: %v, want the error of the source", err)
			}
		}
		ctx, cancel := context.WithCancel(t.Context())
		stop := readerFunc(func([]byte) (int, error) { cancel(); return 0, ctx.Err() })
		if _, err := c.Write(ctx, path, -1, 3, io.MultiReader(bytes.NewReader(content(size)), stop)); !errors.Is(err, context.Canceled) {
			t.Errorf("write: %v, want context.Canceled", err)
		}
		func() {
			defer func() {
				if p := recover(); p != "abort" {
					t.Errorf("recovered %v", p)
				}
			}()
			_, _ = c.Write(t.Context(), path, -1, 3, io.MultiReader(bytes.NewReader(content(size)), readerFunc(func([]byte) (int, error) { panic("abort") })))
		}()
		c.settled()
		c.wantOn(nil)
		for _, s := range c.Nodes() {
			if s.Avoided || s.Err != nil {
				t.Errorf("a node is blamed: %+v", s)
			}
		}
	}
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

func TestCanceledRead(t *testing.T) {
	t.Parallel()
	c := newCluster(t, time.Minute, "a:1")
	body := c.mustWrite(content(3<<20), 1)
	ctx, cancel := context.WithCancel(t.Context())
	r, err := c.Open(ctx, path, body, 0, -1)
	must(t, err)
	cancel()
	if _, err := io.Copy(io.Discard, r); !errors.Is(err, context.Canceled) {
		t.Errorf("read: %v, want context.Canceled", err)
	}
	must(t, r.Close())
	r, err = c.Open(t.Context(), path, body, 0, -1)
	must(t, err)
	must(t, r.Close()) // close without reading
	c.settled()
	if s := c.Nodes()[0]; s.Avoided {
		t.Errorf("the node is blamed: %+v", s)
	}
}

func TestReplicate(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, b []byte) {
		c := newCluster(t, time.Minute, "a:1", "b:1", "c:1", "d:1")
		body := c.mustWrite(b, 2)
		added, err := c.Replicate(t.Context(), path, body, 2, nil)
		must(t, err)
		all := slices.Concat(body.Sharks, added)
		c.wantOn(all)
		for _, id := range all {
			must(t, second(c.Verify(t.Context(), path, body, id, nil)))
		}
		_, err = c.Replicate(t.Context(), path, body, 1, all)
		if !errors.Is(err, blobs.ErrNotEnoughSpace) {
			t.Errorf("no node is left: %v, want ErrNotEnoughSpace", err)
		}
		must(t, c.Remove(t.Context(), path, added))
		for _, id := range body.Sharks {
			c.nodes[id].corrupt(t, path, 7)
		}
		_, err = c.Replicate(t.Context(), path, body, 1, nil)
		if !errors.Is(err, blobs.ErrCorrupt) {
			t.Errorf("copy of a wrong body: %v, want ErrCorrupt", err)
		}
		c.settled()
		c.wantOn(body.Sharks)
	})
}

// TestRestoreGivenUp checks that a canceled restore's late copy is kept, because it may be the only copy.
func TestRestoreGivenUp(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, b []byte) {
		c := newCluster(t, time.Minute, "a:1")
		body, late := c.mustWrite(b, 1), make(chan struct{})
		c.nodes["a:1"].set(func(f *flaky) { f.late = late })
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- c.Restore(ctx, path, body, "a:1") }()
		synctest.Wait()
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("the restore: %v", err)
		}
		close(late)
		c.settled()
		c.wantRead(body, b)
	})
}

func TestCopy(t *testing.T) {
	t.Parallel()
	b := content(1000)
	c := newCluster(t, time.Minute, "a:1", "b:1")
	body := c.mustWrite(b, 2)
	must(t, c.Copy(t.Context(), path, "v2/other", body.Sharks))
	must(t, c.Remove(t.Context(), path, body.Sharks))
	for _, id := range body.Sharks {
		must(t, second(c.Verify(t.Context(), "v2/other", body, id, nil)))
	}
	must(t, c.nodes["a:1"].Driver.Delete(t.Context(), "v2/other"))
	if err := c.Copy(t.Context(), "v2/other", "v2/third", []string{"b:1", "a:1"}); !errcode.Is(err, errcode.NotFound) {
		t.Errorf("copy: %v, want not found", err)
	}
	c.settled()
	if files := c.nodes["b:1"].files(t); !slices.Equal(files, []string{"v2/other"}) {
		t.Errorf("files: %q", files)
	}
}

// breakSome makes a third of the nodes fail after some bytes, and repairs the others.
func (c *cluster) breakSome(worker, i int) {
	for _, n := range c.nodes {
		n.set(func(f *flaky) {
			f.err, f.putAfter, f.getAfter = nil, 0, 0
			if (worker+i+len(n.dir))%3 == 0 {
				f.err, f.putAfter = errBroken, int64(i*5000)
			}
		})
	}
}

// TestRandomFaults checks that acknowledged bodies are readable, and that failed writes leave nothing behind.
func TestRandomFaults(t *testing.T) {
	t.Parallel()
	c := newCluster(t, time.Minute, "a:1", "a:2", "b:1", "b:2", "c:1")
	rounds := 30
	if testing.Short() {
		rounds = 6
	}
	var wg sync.WaitGroup
	var mu sync.Mutex
	acknowledged := map[string]buckets.Reference{}
	for worker := range 4 {
		wg.Go(func() {
			for i := range rounds {
				b := content(1 + (worker*7919+i*104729)%(700<<10))
				name := fmt.Sprintf("v2/o/%d/%d", worker, i)
				c.breakSome(worker, i)
				stored, err := c.Write(t.Context(), name, -1, 2, struct{ io.Reader }{bytes.NewReader(b)})
				if err != nil {
					if !errcode.Is(err, errcode.Unavailable) {
						t.Errorf("write: %v", err)
					}
					continue
				}
				mu.Lock()
				acknowledged[name] = bodyOf(b, stored)
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	for _, n := range c.nodes {
		n.set(func(f *flaky) { f.err, f.putAfter = nil, 0 })
	}
	c.settled()
	copies := 0
	for _, n := range c.nodes {
		copies += len(n.files(t))
	}
	for name, body := range acknowledged {
		for _, id := range body.Sharks {
			if _, err := c.Verify(t.Context(), name, body, id, nil); err != nil {
				t.Errorf("%s on %s: %v", name, id, err)
			}
		}
	}
	if len(acknowledged) == 0 || copies < 2*len(acknowledged) {
		t.Errorf("%d copies of %d acknowledged bodies", copies, len(acknowledged))
	}
	t.Logf("%d bodies of %d acknowledged, %d copies", len(acknowledged), 4*rounds, copies)
}

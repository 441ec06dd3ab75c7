package blobs_test

import (
	"bytes"
	"context"
	"crypto/md5"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"holdfast/internal/buckets"
	"holdfast/internal/buckets/blobs"
	"holdfast/internal/buckets/blobs/filedriver"
	"holdfast/internal/clock"
	"holdfast/internal/errcode"
	"holdfast/internal/optional"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// flaky injects faults into a driver.
type flaky struct {
	blobs.Driver
	dir string

	mu       sync.Mutex
	err      error         // returned by every operation
	putAfter int64         // if not 0, Put fails with err after this many bytes
	getAfter int64         // likewise for Get
	hang     chan struct{} // operations wait until it is closed or their context ends
	deaf     bool          // waiting operations ignore their context
	late     chan struct{} // Put stores the body, then waits until it is closed
	space    *blobs.Space
	asked    chan struct{} // receives a value per call to Space
	puts     int
	gets     int
}

func (f *flaky) set(change func(f *flaky)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change(f)
}

func (f *flaky) begin(ctx context.Context, count *int, after func() int64) error {
	f.mu.Lock()
	if count != nil {
		*count++
	}
	err, hang, deaf := f.err, f.hang, f.deaf
	if after != nil && after() > 0 {
		err, hang = nil, nil
	}
	f.mu.Unlock()
	if hang == nil {
		return err
	}
	gone := ctx.Done()
	if deaf {
		gone = nil
	}
	select {
	case <-hang:
		return err
	case <-gone:
		return ctx.Err()
	}
}

type limited struct {
	blobs.Reader
	ctx   context.Context
	f     *flaky
	after int64
}

func (l *limited) Read(p []byte) (int, error) {
	if l.after == 0 {
		if err := l.f.begin(l.ctx, nil, nil); err != nil {
			return 0, err
		}
		return l.Reader.Read(p)
	}
	n, err := l.Reader.Read(p[:min(int64(len(p)), l.after)])
	l.after -= int64(n)
	return n, err
}

func (f *flaky) Put(ctx context.Context, path string, body io.Reader, size int64) (int64, error) {
	if err := f.begin(ctx, &f.puts, func() int64 { return f.putAfter }); err != nil {
		return 0, err
	}
	f.mu.Lock()
	after := f.putAfter
	f.mu.Unlock()
	if after > 0 {
		var read bytes.Buffer
		if _, err := io.CopyN(&read, body, after); err != nil && err != io.EOF {
			return 0, blobs.SourceError(err)
		}
		f.mu.Lock()
		f.putAfter = 0
		f.mu.Unlock()
		if err := f.begin(ctx, nil, nil); err != nil {
			return 0, err
		}
		body = io.MultiReader(&read, body)
	}
	n, err := f.Driver.Put(ctx, path, body, size)
	f.mu.Lock()
	late := f.late
	f.mu.Unlock()
	if late != nil {
		<-late
	}
	return n, err
}

func (f *flaky) Get(ctx context.Context, path string, offset, length int64) (blobs.Reader, error) {
	if err := f.begin(ctx, &f.gets, func() int64 { return f.getAfter }); err != nil {
		return nil, err
	}
	r, err := f.Driver.Get(ctx, path, offset, length)
	f.mu.Lock()
	defer f.mu.Unlock()
	if err != nil || f.getAfter == 0 {
		return r, err
	}
	return &limited{Reader: r, ctx: ctx, f: f, after: f.getAfter}, nil
}

func (f *flaky) Delete(ctx context.Context, path string) error {
	if err := f.begin(ctx, nil, nil); err != nil {
		return err
	}
	return f.Driver.Delete(ctx, path)
}

func (f *flaky) Space(ctx context.Context) (blobs.Space, error) {
	f.mu.Lock()
	asked := f.asked
	f.mu.Unlock()
	if asked != nil {
		asked <- struct{}{}
	}
	if err := f.begin(ctx, nil, nil); err != nil {
		return blobs.Space{}, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.space != nil {
		return *f.space, nil
	}
	return blobs.Unlimited, nil
}

// files returns the bodies on a node. Other files fail the test.
func (f *flaky) files(t testing.TB) (all []string) {
	t.Helper()
	for info, err := range f.Driver.Walk(context.Background(), "") {
		if err != nil || info.Temporary {
			t.Fatalf("walk: %+v, %v", info, err)
		}
		all = append(all, info.Path)
	}
	return all
}

func (f *flaky) corrupt(t testing.TB, path string, at int64) {
	t.Helper()
	file, err := os.OpenFile(filepath.Join(f.dir, path), os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	b := make([]byte, 1)
	_, err1 := file.ReadAt(b, at)
	_, err2 := file.WriteAt([]byte{b[0] ^ 0x10}, at)
	if err := errors.Join(err1, err2, file.Close()); err != nil {
		t.Fatal(err)
	}
}

type cluster struct {
	*blobs.Cluster
	t     *testing.T
	clock *clock.Manual
	nodes map[string]*flaky

	mu       sync.Mutex
	findings []blobs.Finding
}

func newCluster(t *testing.T, stall time.Duration, ids ...string) *cluster {
	t.Helper()
	c := &cluster{t: t, clock: clock.NewManual(time.Unix(1e9, 0)), nodes: map[string]*flaky{}}
	c.Cluster = blobs.NewCluster(blobs.Options{Clock: c.clock.Now, Stall: stall, ReadStall: stall, Report: func(f blobs.Finding) {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.findings = append(c.findings, f)
	}})
	for _, id := range ids {
		dir := t.TempDir()
		if err := filedriver.Init(dir, id); err != nil {
			t.Fatal(err)
		}
		c.nodes[id] = &flaky{Driver: filedriver.New(dir, id), dir: dir}
	}
	c.setStates(nil)
	t.Cleanup(func() {
		for _, n := range c.nodes {
			n.set(func(f *flaky) {
				if f.hang != nil {
					close(f.hang)
					f.hang = nil
				}
			})
		}
		c.settled()
		for _, n := range c.nodes {
			if err := n.Driver.Close(); err != nil {
				t.Error(err)
			}
		}
	})
	return c
}

func (c *cluster) setStates(states map[string]buckets.NodeState) {
	var nodes []blobs.Node
	for id, n := range c.nodes {
		state := buckets.NodeActive
		if s, ok := states[id]; ok {
			state = s
		}
		nodes = append(nodes, blobs.Node{ID: id, State: state, Driver: n})
	}
	c.Set(nodes...)
}

func (c *cluster) settled() {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := c.Wait(ctx); err != nil {
		c.t.Fatalf("the background does not end: %v", err)
	}
}

func (c *cluster) problems() (all []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, f := range c.findings {
		all = append(all, f.Node+" "+string(f.Problem))
	}
	c.findings = nil
	slices.Sort(all)
	return all
}

func content(size int) []byte {
	b := make([]byte, size)
	_, _ = rand.NewChaCha8([32]byte(fmt.Appendf(nil, "%032d", size))).Read(b)
	return b
}

const path = "v2/owner/bucket/ab/abc,def"

// bodySizes lists a body that fits into memory and a streamed body.
var bodySizes = []int{5000, 1<<20 + 17}

func (c *cluster) write(b []byte, copies int) (buckets.Stored, error) {
	c.t.Helper()
	return c.Write(c.t.Context(), path, int64(len(b)), copies, struct{ io.Reader }{bytes.NewReader(b)})
}

func (c *cluster) mustWrite(b []byte, copies int) buckets.Reference {
	c.t.Helper()
	stored, err := c.write(b, copies)
	if err != nil {
		c.t.Fatalf("write: %v", err)
	}
	if len(stored.Sharks) != copies {
		c.t.Fatalf("written to %q, want %d nodes", stored.Sharks, copies)
	}
	c.settled()
	c.wantOn(stored.Sharks)
	return bodyOf(b, stored)
}

func bodyOf(b []byte, stored buckets.Stored) buckets.Reference {
	sum := md5.Sum(b)
	return buckets.Reference{Body: buckets.Body{Length: int64(len(b)), MD5: sum[:], Frames: optional.Some(stored.Frames), Sharks: stored.Sharks}}
}

// wantOn checks that only these nodes hold a body.
func (c *cluster) wantOn(sharks []string) {
	c.t.Helper()
	for id, n := range c.nodes {
		if got, want := len(n.files(c.t)), 0; slices.Contains(sharks, id) != (got == 1) || got > 1 {
			c.t.Errorf("node %s has %d files, want %d; the body is on %q", id, got, want, sharks)
		}
	}
}

func (c *cluster) read(body buckets.Reference, offset, length int64) ([]byte, error) {
	r, err := c.Open(c.t.Context(), path, body, offset, length)
	if err != nil {
		return nil, err
	}
	b, err := io.ReadAll(struct{ io.Reader }{r})
	return b, errors.Join(err, r.Close())
}

func (c *cluster) wantRead(body buckets.Reference, want []byte) {
	c.t.Helper()
	if got, err := c.read(body, 0, -1); err != nil || !bytes.Equal(got, want) {
		c.t.Fatalf("read %d bytes, %v; want %d", len(got), err, len(want))
	}
}

func (c *cluster) wantRanges(body buckets.Reference, want []byte) {
	c.t.Helper()
	size := int64(len(want))
	for _, at := range [][2]int64{{0, 1}, {size / 2, size / 3}, {size, 0}, {size / 2, -1}} {
		end := at[0] + at[1]
		if at[1] < 0 {
			end = size
		}
		if end > size {
			continue
		}
		if got, err := c.read(body, at[0], at[1]); err != nil || !bytes.Equal(got, want[at[0]:end]) {
			c.t.Errorf("read %d bytes from %d: %d bytes, %v", at[1], at[0], len(got), err)
		}
	}
}

// TestMissingNode checks that a read finds a node that was added after Cluster.Set.
func TestMissingNode(t *testing.T) {
	t.Parallel()
	c := newCluster(t, time.Minute, "a:1", "b:1")
	b := content(300_000)
	body := c.mustWrite(b, 2)
	asked := 0
	var late *blobs.Cluster
	late = blobs.NewCluster(blobs.Options{Clock: c.clock.Now, Missing: func(context.Context) {
		if asked++; asked == 2 {
			late.Set(blobs.Node{ID: "b:1", Driver: c.nodes["b:1"], State: buckets.NodeActive})
		}
	}})
	if _, err := late.Open(t.Context(), path, body, 0, -1); !errcode.Is(err, errcode.Unavailable) {
		t.Errorf("without nodes: %v", err)
	}
	r, err := late.Open(t.Context(), path, body, 0, -1)
	must(t, err)
	got, err := io.ReadAll(r)
	if err != nil || !bytes.Equal(got, b) || asked != 2 {
		t.Errorf("%d bytes, %v, asked %d times", len(got), err, asked)
	}
	must(t, errors.Join(r.Close(), late.Close(t.Context())))
}

func TestRoundTrip(t *testing.T) {
	t.Parallel()
	c := newCluster(t, time.Minute, "a:1", "a:2", "b:1")
	for copies := 1; copies <= 3; copies++ {
		for _, size := range []int{0, 1, 128<<10 - 1, 128 << 10, 128<<10 + 1, 256 << 10, 2<<20 + 3} {
			b := content(size)
			body := c.mustWrite(b, copies)
			c.wantRead(body, b)
			r, err := c.Open(t.Context(), path, body, 0, -1)
			if err != nil {
				t.Fatal(err)
			}
			var to bytes.Buffer
			if n, err := io.Copy(&to, r); err != nil || n != int64(size) || !bytes.Equal(to.Bytes(), b) {
				t.Errorf("WriteTo: %d bytes, %v; want %d", n, err, size)
			}
			must(t, r.Close())
			if _, err := r.Read(make([]byte, 1)); err == nil && size > 0 {
				t.Error("read after Close")
			}
			c.wantRanges(body, b)
			must(t, c.Remove(t.Context(), path, body.Sharks))
			must(t, c.Remove(t.Context(), path, body.Sharks))
			c.wantOn(nil)
		}
	}
	if p := c.problems(); len(p) > 0 {
		t.Errorf("found %q", p)
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func wantCode(t testing.TB, what string, err error, code errcode.Code) {
	t.Helper()
	if err == nil || !errcode.Is(err, code) {
		t.Fatalf("%s: %v, want the code %v", what, err, code)
	}
}

func TestWrongArguments(t *testing.T) {
	t.Parallel()
	c := newCluster(t, time.Minute, "a:1")
	for _, copies := range []int{-1, 0, 10} {
		_, err := c.write(nil, copies)
		wantCode(t, fmt.Sprintf("%d copies", copies), err, errcode.Invalid)
	}
	_, err := c.Write(t.Context(), "../x", 0, 1, strings.NewReader(""))
	wantCode(t, "a path outside", err, errcode.Invalid)
	for _, size := range bodySizes {
		_, err = c.Write(t.Context(), path, int64(size)-1, 1, bytes.NewReader(content(size)))
		wantCode(t, "a body that is too large", err, errcode.Invalid)
	}
	body := c.mustWrite(content(10), 1)
	for _, r := range [][2]int64{{-1, 1}, {0, 11}, {11, 0}, {11, -1}} {
		_, err := c.read(body, r[0], r[1])
		wantCode(t, fmt.Sprintf("range %v", r), err, errcode.Invalid)
	}
	_, err = c.read(bodyOf(content(10), buckets.Stored{Sharks: []string{"x:9"}}), 0, -1)
	wantCode(t, "read from an unknown node", err, errcode.Unavailable)
	wantCode(t, "remove from an unknown node", c.Remove(t.Context(), path, []string{"x:9", "a:1"}), errcode.Unavailable)
	c.wantOn(nil)
}

// TestDatacenters checks that the nodes per datacenter do not matter.
func TestDatacenters(t *testing.T) {
	t.Parallel()
	c := newCluster(t, time.Minute, "a:1", "a:2", "a:3", "a:4", "b:1", "c:1")
	count := map[string]int{}
	for range 60 {
		sharks := c.mustWrite(content(10), 2).Sharks
		if buckets.Datacenter(sharks[0]) == buckets.Datacenter(sharks[1]) {
			t.Fatalf("both copies are in one datacenter: %q", sharks)
		}
		for _, id := range sharks {
			count[buckets.Datacenter(id)]++
		}
		must(t, c.Remove(t.Context(), path, sharks))
	}
	for _, dc := range []string{"a", "b", "c"} {
		if n := count[dc]; n < 20 || n > 60 {
			t.Errorf("%d of 120 copies are in %s, want about 40", n, dc)
		}
	}
	sharks := c.mustWrite(content(10), 6).Sharks
	if len(slices.Compact(slices.Sorted(slices.Values(sharks)))) != 6 {
		t.Errorf("a node has two copies: %q", sharks)
	}
	must(t, c.Remove(t.Context(), path, sharks))
	c.nodes["b:1"].set(func(f *flaky) { f.err = errBroken })
	c.nodes["c:1"].set(func(f *flaky) { f.err = errBroken })
	c.Refresh(t.Context())
	c.mustWrite(content(10), 2) // both copies in the same datacenter are better than an error
}

var errBroken = errcode.New(errcode.Unavailable, "broken")

func TestFreeSpace(t *testing.T) {
	t.Parallel()
	c := newCluster(t, time.Minute, "a:small", "a:large", "a:full")
	for id, s := range map[string]blobs.Space{"a:small": {Total: 1000 << 20, Free: 100 << 20}, "a:large": {Total: 1000 << 20, Free: 900 << 20}, "a:full": {Total: 1000 << 20, Free: 10 << 20}} {
		c.nodes[id].set(func(f *flaky) { f.space = &s })
	}
	c.Refresh(t.Context())
	count := map[string]int{}
	for range 100 {
		sharks := c.mustWrite(content(10), 1).Sharks
		count[sharks[0]]++
		must(t, c.Remove(t.Context(), path, sharks))
	}
	if n := count["a:large"]; n < 75 || n == 100 || count["a:full"] > 0 {
		t.Errorf("%v, want about 90 on large and none on full", count)
	}
	_, err := c.Write(t.Context(), path, 200<<20, 2, strings.NewReader("x"))
	must(t, err) // the size is only a limit; the body is a single byte
	_, err = c.Write(t.Context(), path, 200<<20, 2, bytes.NewReader(content(1<<20)))
	if !errors.Is(err, blobs.ErrNotEnoughSpace) || !errcode.Is(err, errcode.Unavailable) {
		t.Errorf("write of 200 MiB: %v, want ErrNotEnoughSpace", err)
	}
	_, err = c.write(content(10), 4)
	if !errors.Is(err, blobs.ErrNotEnoughSpace) {
		t.Errorf("4 copies on 3 nodes: %v, want ErrNotEnoughSpace", err)
	}
}

// TestPending checks that Copies counts a pending node. A write that needs it fails, but not because space is short.
func TestPending(t *testing.T) {
	t.Parallel()
	c := newCluster(t, time.Minute, "a:1")
	if n := c.Copies(); n != 1 {
		t.Errorf("%d copies with one node, want 1", n)
	}
	c.SetPending(1)
	if n := c.Copies(); n != 2 {
		t.Errorf("%d copies with one node and one that is pending, want 2", n)
	}
	_, err := c.write(content(1000), 2)
	wantCode(t, "2 copies on one node", err, errcode.Unavailable)
	if errors.Is(err, blobs.ErrNotEnoughSpace) {
		t.Errorf("%v: space is not the problem", err)
	}
	c.settled()
	c.wantOn(nil)
}

func TestStates(t *testing.T) {
	t.Parallel()
	c := newCluster(t, time.Minute, "a:1", "a:2")
	b := content(1000)
	body := c.mustWrite(b, 2)
	if n := c.Copies(); n != 2 {
		t.Errorf("%d copies by default, want 2", n)
	}
	c.setStates(map[string]buckets.NodeState{"a:1": buckets.NodeDraining, "a:2": buckets.NodeReadOnly})
	c.wantRead(body, b)
	if _, err := c.write(b, 1); !errors.Is(err, blobs.ErrNotEnoughSpace) {
		t.Errorf("write without an active node: %v, want ErrNotEnoughSpace", err)
	}
	must(t, c.Remove(t.Context(), path, body.Sharks))
	if n := c.Copies(); n != 1 {
		t.Errorf("%d copies without an active node, want 1", n)
	}
	c.setStates(map[string]buckets.NodeState{"a:1": buckets.NodeDraining})
	if n := c.Copies(); n != 1 {
		t.Errorf("%d copies while one of two nodes is drained, want 1", n)
	}
	if sharks := c.mustWrite(b, 1).Sharks; sharks[0] != "a:2" {
		t.Errorf("written to %q, want the active node", sharks)
	}
	if n := c.Nodes(); len(n) != 2 || n[0].ID != "a:1" || n[0].State != buckets.NodeDraining || n[1].Avoided {
		t.Errorf("nodes: %+v", n)
	}
}

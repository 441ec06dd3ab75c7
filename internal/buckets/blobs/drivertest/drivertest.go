// Package drivertest tests that a driver implements blobs.Driver.
package drivertest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"holdfast/internal/buckets/blobs"
	"holdfast/internal/errcode"
)

// Open returns the driver of an empty node.
type Open func(t testing.TB) blobs.Driver

// Run tests a driver against the contract of blobs.Driver. Each case opens its own node, and cases run in parallel.
func Run(t *testing.T, open Open) {
	for _, c := range []struct {
		name string
		run  func(t *testing.T, d blobs.Driver)
	}{
		{"sizes", sizes},
		{"ranges", ranges},
		{"replace", replace},
		{"wrong size", wrongSize},
		{"source fails", sourceFails},
		{"source panics", sourcePanics},
		{"canceled", canceled},
		{"absent", absent},
		{"paths", paths},
		{"walk in byte order", walkOrder},
		{"walk while bodies are deleted", walkDeleted},
		{"copy", copies},
		{"one path, many writers", onePath},
		{"put and delete in one folder", putDelete},
		{"space", space},
		{"closed", closed},
		{"model", model},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			d := open(t)
			t.Cleanup(func() {
				if err := d.Close(); err != nil {
					t.Errorf("close: %v", err)
				}
			})
			c.run(t, d)
		})
	}
}

// content returns reproducible bytes.
func content(seed uint64, size int) []byte {
	b := make([]byte, size)
	r := rand.New(rand.NewPCG(seed, uint64(size)))
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	return b
}

// unsized hides the size and returns short reads.
func unsized(b []byte) io.Reader { return iotest.HalfReader(bytes.NewReader(b)) }

func put(t testing.TB, d blobs.Driver, path string, b []byte) {
	t.Helper()
	n, err := d.Put(t.Context(), path, bytes.NewReader(b), int64(len(b)))
	if err != nil || n != int64(len(b)) {
		t.Fatalf("put %s: %d bytes, %v; want %d bytes", path, n, err, len(b))
	}
}

func read(ctx context.Context, d blobs.Driver, path string, offset, length int64) ([]byte, error) {
	r, err := d.Get(ctx, path, offset, length)
	if err != nil {
		return nil, err
	}
	b, err := io.ReadAll(r)
	return b, errors.Join(err, r.Close())
}

func wantSize(t testing.TB, d blobs.Driver, path string, offset, length, want int64) {
	t.Helper()
	r, err := d.Get(t.Context(), path, offset, length)
	if err != nil {
		t.Fatal(err)
	}
	if got := r.Size(); got != want {
		t.Errorf("get %d bytes from %d of %s: its size is %d, want %d", length, offset, path, got, want)
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
}

func wantBody(t testing.TB, d blobs.Driver, path string, want []byte) {
	t.Helper()
	got, err := read(t.Context(), d, path, 0, -1)
	if err != nil || !bytes.Equal(got, want) {
		t.Fatalf("get %s: %d bytes, %v; want %d bytes", path, len(got), err, len(want))
	}
	info, err := d.Stat(t.Context(), path)
	if err != nil || info.Path != path || info.Size != int64(len(want)) || info.Modified.IsZero() || info.Temporary {
		t.Fatalf("stat %s: %+v, %v; want the size %d", path, info, err, len(want))
	}
}

func wantCode(t testing.TB, what string, err error, code errcode.Code) {
	t.Helper()
	if !errcode.Is(err, code) {
		t.Fatalf("%s: %v, want the code %v", what, err, code)
	}
}

func wantFiles(t testing.TB, d blobs.Driver, after string, want ...string) {
	t.Helper()
	got := []string{}
	for info, err := range d.Walk(t.Context(), after) {
		if err != nil {
			t.Fatalf("walk after %q: %v", after, err)
		}
		got = append(got, info.Path)
	}
	if !slices.Equal(got, want) && len(got)+len(want) > 0 {
		t.Fatalf("walk after %q: %q, want %q", after, got, want)
	}
}

func sizes(t *testing.T, d blobs.Driver) {
	all := []string{}
	for i, size := range []int{0, 1, 4096, 128<<10 - 1, 128 << 10, 128<<10 + 1, 1<<20 - 1, 1 << 20, 1<<20 + 1, 12<<20 + 5} {
		b, path := content(1, size), fmt.Sprintf("v2/sizes/%02d", i)
		put(t, d, path, b)
		wantBody(t, d, path, b)
		n, err := d.Put(t.Context(), path, unsized(b), -1)
		if err != nil || n != int64(size) {
			t.Fatalf("put of unknown size: %d bytes, %v; want %d bytes", n, err, size)
		}
		wantBody(t, d, path, b)
		all = append(all, path)
	}
	wantFiles(t, d, "", all...)
}

func ranges(t *testing.T, d blobs.Driver) {
	b := content(2, 300<<10)
	size := int64(len(b))
	put(t, d, "v2/r", b)
	put(t, d, "v2/empty", nil)
	for _, r := range []struct{ offset, length, end int64 }{
		{0, -1, size}, {0, size, size}, {0, 1, 1}, {0, 0, 0}, {17, 1000, 1017}, {17, -1, size},
		{size - 1, 1, size}, {size - 1, 100, size}, {size - 5, -1, size}, {0, size + 1, size}, {100, 0, 100},
	} {
		got, err := read(t.Context(), d, "v2/r", r.offset, r.length)
		if err != nil || !bytes.Equal(got, b[r.offset:r.end]) {
			t.Errorf("get %d bytes from %d: %d bytes, %v; want %d bytes", r.length, r.offset, len(got), err, r.end-r.offset)
		}
		wantSize(t, d, "v2/r", r.offset, r.length, size)
	}
	for _, length := range []int64{-1, 0, 10} {
		if got, err := read(t.Context(), d, "v2/empty", 0, length); err != nil || len(got) > 0 {
			t.Errorf("get %d bytes of an empty body: %d bytes, %v", length, len(got), err)
		}
		wantSize(t, d, "v2/empty", 0, length, 0)
	}
	for _, r := range [][2]int64{{size, -1}, {size, 1}, {size + 1, 1}, {1 << 40, -1}, {-1, 1}, {0, -2}} {
		_, err := read(t.Context(), d, "v2/r", r[0], r[1])
		wantCode(t, fmt.Sprintf("get %d bytes from %d", r[1], r[0]), err, errcode.Invalid)
	}
	_, err := read(t.Context(), d, "v2/empty", 1, -1)
	wantCode(t, "get beyond an empty body", err, errcode.Invalid)
}

func replace(t *testing.T, d blobs.Driver) {
	for i, size := range []int{300 << 10, 10, 2 << 20, 0} {
		b := content(uint64(i), size)
		put(t, d, "v2/x", b)
		wantBody(t, d, "v2/x", b)
	}
	wantFiles(t, d, "", "v2/x")
}

var brokenSizes = []int{0, 1, 5000, 700 << 10, 3 << 20}

func wrongSize(t *testing.T, d blobs.Driver) {
	old := content(3, 100)
	put(t, d, "v2/old", old)
	for _, size := range brokenSizes {
		b := content(4, size)
		for _, expected := range []int64{int64(size) + 1, int64(size) - 1, int64(size) * 2} {
			if expected < 0 || expected == int64(size) {
				continue
			}
			for _, path := range []string{"v2/old", "v2/new"} {
				_, err := d.Put(t.Context(), path, unsized(b), expected)
				wantCode(t, fmt.Sprintf("put %d bytes, expected %d", size, expected), err, errcode.Invalid)
				if !blobs.IsSourceError(err) {
					t.Errorf("the node is blamed for the body: %v", err)
				}
			}
		}
	}
	wantBody(t, d, "v2/old", old)
	wantFiles(t, d, "", "v2/old")
}

func sourceFails(t *testing.T, d blobs.Driver) {
	old := content(3, 100)
	put(t, d, "v2/old", old)
	for _, hungUp := range []error{errors.New("client hung up"), io.ErrUnexpectedEOF, errcode.New(errcode.Denied, "wrong signature"), errcode.Wrap(errcode.Unavailable, "peer", io.EOF)} {
		for _, size := range brokenSizes {
			for _, path := range []string{"v2/old", "v2/new"} {
				_, err := d.Put(t.Context(), path, io.MultiReader(bytes.NewReader(content(4, size)), iotest.ErrReader(hungUp)), -1)
				if !errors.Is(err, hungUp) || !blobs.IsSourceError(err) || errcode.Of(err) != errcode.Of(hungUp) {
					t.Fatalf("put: %v, want the error of the reader", err)
				}
			}
		}
	}
	wantBody(t, d, "v2/old", old)
	wantFiles(t, d, "", "v2/old")
}

type panicReader struct{}

func (panicReader) Read([]byte) (int, error) { panic("body") }

// sourcePanics tests a body that panics, because net/http aborts requests with a panic.
func sourcePanics(t *testing.T, d blobs.Driver) {
	for _, size := range brokenSizes {
		func() {
			defer func() {
				if p := recover(); p != "body" {
					t.Errorf("recovered %v, want the panic of the body", p)
				}
			}()
			_, _ = d.Put(t.Context(), "v2/x", io.MultiReader(bytes.NewReader(content(4, size)), panicReader{}), -1)
		}()
	}
	wantFiles(t, d, "")
}

func canceled(t *testing.T, d blobs.Driver) {
	put(t, d, "v2/x", content(5, 5<<20))
	for _, size := range brokenSizes {
		ctx, cancel := context.WithCancel(t.Context())
		stop := readerFunc(func([]byte) (int, error) { cancel(); return 0, io.EOF })
		_, err := d.Put(ctx, "v2/new", io.MultiReader(bytes.NewReader(content(4, size)), stop), -1)
		// The last byte may be written before the driver checks the context.
		if err == nil {
			t.Errorf("put of %d bytes succeeded after its context was canceled", size)
		} else if !errors.Is(err, context.Canceled) {
			t.Errorf("put: %v, want context.Canceled", err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	r, err := d.Get(ctx, "v2/x", 0, -1)
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	if _, err := io.ReadAll(r); !errors.Is(err, context.Canceled) {
		t.Errorf("read: %v, want context.Canceled", err)
	}
	_ = r.Close()
	_, err1 := d.Get(ctx, "v2/x", 0, -1)
	_, err2 := d.Stat(ctx, "v2/x")
	_, err3 := d.Put(ctx, "v2/y", bytes.NewReader(nil), 0)
	_, err4 := d.Space(ctx)
	var err5 error
	for _, err5 = range d.Walk(ctx, "") {
	}
	for i, err := range []error{err1, err2, err3, err4, err5, d.Delete(ctx, "v2/x"), d.Copy(ctx, "v2/x", "v2/y")} {
		if !errors.Is(err, context.Canceled) {
			t.Errorf("operation %d: %v, want context.Canceled", i, err)
		}
	}
	wantFiles(t, d, "", "v2/x")
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

func absent(t *testing.T, d blobs.Driver) {
	wantFiles(t, d, "")
	put(t, d, "v2/a/b", nil)
	for _, path := range []string{"v2/a/c", "v2/c/b", "x", "v2/a/b1"} {
		_, err := d.Get(t.Context(), path, 0, -1)
		wantCode(t, "get", err, errcode.NotFound)
		_, err = d.Stat(t.Context(), path)
		wantCode(t, "stat", err, errcode.NotFound)
		err = d.Copy(t.Context(), path, "v2/new")
		if !errors.Is(err, errors.ErrUnsupported) {
			wantCode(t, "copy", err, errcode.NotFound)
		}
		for range 2 {
			if err := d.Delete(t.Context(), path); err != nil {
				t.Errorf("delete of an absent body: %v", err)
			}
		}
	}
	wantFiles(t, d, "", "v2/a/b")
}

func paths(t *testing.T, d blobs.Driver) {
	for _, path := range []string{
		"", "/", "/a", "a/", "a//b", ".", "..", "../a", "a/../b", "a/./b", "a/..", `a\b`, `..\a`, "a\x00b", "a b", "a%2fb", "ä", "C:a",
		blobs.MarkerName, "a/" + blobs.MarkerName, "v2/.hidden/a", strings.Repeat("a", 201), strings.Repeat("a/", 256) + "a", "a\n", "~", "*",
	} {
		_, err := d.Put(t.Context(), path, bytes.NewReader(nil), 0)
		wantCode(t, fmt.Sprintf("put %q", path), err, errcode.Invalid)
		_, err = d.Get(t.Context(), path, 0, -1)
		wantCode(t, fmt.Sprintf("get %q", path), err, errcode.Invalid)
		_, err = d.Stat(t.Context(), path)
		wantCode(t, fmt.Sprintf("stat %q", path), err, errcode.Invalid)
		wantCode(t, fmt.Sprintf("delete %q", path), d.Delete(t.Context(), path), errcode.Invalid)
		wantCode(t, fmt.Sprintf("copy from %q", path), d.Copy(t.Context(), path, "a"), errcode.Invalid)
		wantCode(t, fmt.Sprintf("copy to %q", path), d.Copy(t.Context(), "a", path), errcode.Invalid)
	}
	_, err := d.Put(t.Context(), "v2/"+blobs.TemporaryPrefix+"x", bytes.NewReader(nil), 0)
	wantCode(t, "put of a temporary name", err, errcode.Invalid)
	longest := strings.Repeat(strings.Repeat("x", 200)+"/", 2) + strings.Repeat("y", 110)
	put(t, d, longest, []byte("x"))
	wantBody(t, d, longest, []byte("x"))
	wantFiles(t, d, "", longest)
}

// names are in byte order, unlike folder listings.
var names = []string{
	"v2/A/x", "v2/a,b/x", "v2/a-b/x", "v2/a.b/x", "v2/a/,", "v2/a/-", "v2/a/0", "v2/a/a/z", "v2/a/a0", "v2/a/b", "v2/a0/x", "v2/a_b/x", "v2/aa/x", "v2/b", "v3",
}

func walkOrder(t *testing.T, d blobs.Driver) {
	shuffled := slices.Clone(names)
	rand.Shuffle(len(shuffled), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
	for _, name := range shuffled {
		put(t, d, name, []byte(name))
	}
	wantFiles(t, d, "", names...)
	for i, name := range names {
		wantFiles(t, d, name, names[i+1:]...)
		wantFiles(t, d, name+",", names[i+1:]...)
		for info, err := range d.Walk(t.Context(), name) {
			if err != nil || info.Path != names[i+1] || info.Size != int64(len(info.Path)) || info.Modified.IsZero() {
				t.Errorf("first after %s: %+v, %v", name, info, err)
			}
			break
		}
	}
	for _, after := range []string{"v", "v2", "v2/", "v2/a", "v2/a/", "v2/a/a", "v2/a/a/", "v2/a0", "v2/zz", "v3"} {
		want := slices.DeleteFunc(slices.Clone(names), func(name string) bool { return name <= after })
		wantFiles(t, d, after, want...)
	}
}

func walkDeleted(t *testing.T, d blobs.Driver) {
	for _, name := range names {
		put(t, d, name, nil)
	}
	found := 0
	for info, err := range d.Walk(t.Context(), "") {
		if err != nil {
			t.Fatal(err)
		}
		found++
		if err := d.Delete(t.Context(), info.Path); err != nil {
			t.Fatal(err)
		}
	}
	if found != len(names) {
		t.Errorf("the walk found %d bodies, want %d", found, len(names))
	}
	wantFiles(t, d, "")
}

func copies(t *testing.T, d blobs.Driver) {
	b := content(6, 200<<10)
	put(t, d, "v2/a/from", b)
	err := d.Copy(t.Context(), "v2/a/from", "v2/b/to")
	if errors.Is(err, errors.ErrUnsupported) {
		t.Skip("this node does not copy")
	}
	if err != nil {
		t.Fatal(err)
	}
	put(t, d, "v2/other", []byte("other"))
	for _, to := range []string{"v2/b/to", "v2/other", "v2/a/from"} {
		if err := d.Copy(t.Context(), "v2/a/from", to); err != nil {
			t.Fatalf("copy to %s: %v", to, err)
		}
		wantBody(t, d, to, b)
	}
	wantFiles(t, d, "", "v2/a/from", "v2/b/to", "v2/other")
	put(t, d, "v2/other", []byte("new"))
	if err := d.Delete(t.Context(), "v2/a/from"); err != nil {
		t.Fatal(err)
	}
	wantBody(t, d, "v2/b/to", b)
	wantFiles(t, d, "", "v2/b/to", "v2/other")
}

func space(t *testing.T, d blobs.Driver) {
	s, err := d.Space(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if s != blobs.Unlimited && (s.Free < 0 || s.Total <= 0 || s.Free > s.Total) {
		t.Errorf("space: %+v", s)
	}
}

func closed(t *testing.T, d blobs.Driver) {
	put(t, d, "v2/x", nil)
	for range 2 {
		if err := d.Close(); err != nil {
			t.Fatal(err)
		}
	}
	_, err := d.Put(t.Context(), "v2/x", bytes.NewReader(nil), 0)
	wantCode(t, "put", err, errcode.Unavailable)
	_, err = d.Get(t.Context(), "v2/x", 0, -1)
	wantCode(t, "get", err, errcode.Unavailable)
	wantCode(t, "delete", d.Delete(t.Context(), "v2/x"), errcode.Unavailable)
	_, err = d.Space(t.Context())
	wantCode(t, "space", err, errcode.Unavailable)
}

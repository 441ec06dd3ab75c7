package drivertest

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"holdfast/internal/buckets/blobs"
	"holdfast/internal/errcode"
)

func onePath(t *testing.T, d blobs.Driver) {
	const writers, rounds = 8, 10
	bodies := map[string]bool{}
	for i := range writers {
		bodies[string(content(uint64(i), 40<<10+i))] = true
	}
	put(t, d, "v2/f/x", content(0, 40<<10))
	bodies[string(content(0, 40<<10))] = true
	var wg sync.WaitGroup
	for body := range bodies {
		wg.Go(func() {
			for range rounds {
				if _, err := d.Put(t.Context(), "v2/f/x", bytes.NewReader([]byte(body)), int64(len(body))); err != nil {
					t.Errorf("put: %v", err)
				}
				got, err := read(t.Context(), d, "v2/f/x", 0, -1)
				if err != nil || !bodies[string(got)] {
					t.Errorf("get: %d bytes, %v; want one of the bodies", len(got), err)
				}
			}
		})
	}
	wg.Wait()
	wantFiles(t, d, "", "v2/f/x")
}

func putDelete(t *testing.T, d blobs.Driver) {
	const workers, rounds = 8, 30
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			path := fmt.Sprintf("v2/o/b%d/%02d/x%d", w%2, w%4, w)
			for i := range rounds {
				body := content(uint64(w), i)
				if _, err := d.Put(t.Context(), path, bytes.NewReader(body), int64(i)); err != nil {
					t.Errorf("put: %v", err)
					return
				}
				if got, err := read(t.Context(), d, path, 0, -1); err != nil || !bytes.Equal(got, body) {
					t.Errorf("get: %d bytes, %v; want %d", len(got), err, i)
				}
				if err := d.Delete(t.Context(), path); err != nil {
					t.Errorf("delete: %v", err)
				}
			}
		})
	}
	wg.Wait()
	wantFiles(t, d, "")
}

func model(t *testing.T, d blobs.Driver) {
	have := map[string][]byte{}
	path := rapid.SampledFrom([]string{"v2/a/x", "v2/a/y", "v2/a-b/x", "v2/b/c/x", "v2/b/c/y", "v2/d"})
	rapid.Check(t, func(r *rapid.T) {
		switch p := path.Draw(r, "path"); rapid.SampledFrom([]string{"put", "put", "get", "delete", "copy", "walk", "fail"}).Draw(r, "operation") {
		case "put":
			b := content(rapid.Uint64().Draw(r, "seed"), rapid.IntRange(0, 3000).Draw(r, "size"))
			put(t, d, p, b)
			have[p] = b
		case "get":
			got, err := read(t.Context(), d, p, 0, -1)
			if b, ok := have[p]; ok && (err != nil || !bytes.Equal(got, b)) {
				r.Fatalf("get: %d bytes, %v; want %d bytes", len(got), err, len(b))
			} else if !ok && !errcode.Is(err, errcode.NotFound) {
				r.Fatalf("get: %v, want not found", err)
			}
		case "delete":
			if err := d.Delete(t.Context(), p); err != nil {
				r.Fatalf("delete: %v", err)
			}
			delete(have, p)
		case "copy":
			to := path.Draw(r, "to")
			err := d.Copy(t.Context(), p, to)
			if b, ok := have[p]; ok {
				if err != nil {
					r.Fatalf("copy: %v", err)
				}
				have[to] = b
			} else if !errcode.Is(err, errcode.NotFound) {
				r.Fatalf("copy: %v, want not found", err)
			}
		case "walk":
			all := slices.Sorted(maps.Keys(have))
			wantFiles(t, d, p, slices.DeleteFunc(all, func(name string) bool { return name <= p })...)
		case "fail":
			if _, err := d.Put(t.Context(), p, bytes.NewReader(nil), 1); !errcode.Is(err, errcode.Invalid) {
				r.Fatalf("put of a wrong size: %v", err)
			}
		}
	})
	for p, b := range have {
		wantBody(t, d, p, b)
	}
}

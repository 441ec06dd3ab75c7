package main

import (
	"context"
	"maps"
	"net/http"
	"runtime"
	"sync"
	"testing"
)

// TestMixed checks that a mixed work sends exactly its shares of requests, each for an existing object that no other
// request uses.
func TestMixed(t *testing.T) {
	t.Parallel()
	const callers, steps = 8, 250
	w := newBuckets(&size{reads: 12}) // 1 MiB: 3 objects, fewer than callers
	for size, objects := range map[int]int{s3Mixed: 12, s3Middle: 3} {
		m := w.newMixed()[size]
		if len(m.keys) != objects {
			t.Fatalf("%d objects, want %d", len(m.keys), objects)
		}
		var mu sync.Mutex
		exist, used, sent := map[string]bool{}, map[string]bool{}, map[string]int{}
		for _, key := range m.keys {
			exist[key] = true
		}
		send := func(method, key string) error {
			mu.Lock()
			defer mu.Unlock()
			if exist[key] == (method == http.MethodPut) || used[key] {
				t.Errorf("%s %s: exists: %t, used: %t", method, key, exist[key], used[key])
			}
			sent[method]++
			used[key] = true
			mu.Unlock()
			runtime.Gosched() // other callers send in the meantime
			mu.Lock()
			delete(used, key)
			exist[key] = true
			if method == http.MethodDelete {
				delete(exist, key)
			}
			return nil
		}
		_, err := drive(t.Context(), callers, times(steps), func(context.Context, int, int) error { return m.step(w.newKey, send) })
		if err != nil {
			t.Fatal(err)
		}
		want := map[string]int{http.MethodGet: 900, http.MethodHead: 600, http.MethodPut: 300, http.MethodDelete: 200}
		if size == s3Mixed && !maps.Equal(sent, want) { // with fewer objects than callers, PUT replaces some other requests
			t.Errorf("sent %v, want %v", sent, want)
		}
		if len(m.keys) != len(exist) {
			t.Errorf("%d keys, want %d", len(m.keys), len(exist))
		}
		for _, key := range m.keys {
			if !exist[key] {
				t.Errorf("%s is a key of the work, but does not exist", key)
			}
		}
	}
}

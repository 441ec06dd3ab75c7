package main

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"testing"
)

// TestMixed checks that a mixed work sends its shares of requests, reads only objects that it never deletes, and deletes
// only objects that exist.
func TestMixed(t *testing.T) {
	t.Parallel()
	const callers, steps = 8, 250
	w := newBuckets(&size{reads: 12})
	m := w.newMixed(s3Mixed)
	var mu sync.Mutex
	exist, sent := map[string]bool{}, map[string]int{}
	send := func(method, key string) error {
		mu.Lock()
		defer mu.Unlock()
		sent[method]++
		read := strings.HasPrefix(key, s3Objects+"/get/")
		if read != (method == http.MethodGet || method == http.MethodHead) || !read && exist[key] == (method == http.MethodPut) {
			t.Errorf("%s %s: exists: %t", method, key, exist[key])
		}
		exist[key] = method == http.MethodPut
		return nil
	}
	if _, err := drive(t.Context(), callers, times(steps), func(context.Context, int, int) error { return m.step(w.newKey, send) }); err != nil {
		t.Fatal(err)
	}
	// A PUT may replace a DELETE that comes too early.
	if puts := sent[http.MethodPut]; sent[http.MethodGet] != 900 || sent[http.MethodHead] != 600 || puts < 300 || puts > 310 || puts+sent[http.MethodDelete] != 500 {
		t.Errorf("sent %v", sent)
	}
}

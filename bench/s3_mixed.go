package main

import (
	"context"
	"io"
	"math/rand/v2"
	"net/http"
	"sync"
)

// mixedTurns are 20 requests, GET, HEAD, PUT or DELETE, in the proportions of MinIO's `warp mixed`: 45, 30, 15 and
// 10 %. The order is fixed, because a window with more PUTs would be slower.
const mixedTurns = "GHGPGHGDHGPGHGDHGPHG"

var mixedMethods = map[byte]string{'G': http.MethodGet, 'H': http.MethodHead, 'P': http.MethodPut, 'D': http.MethodDelete}

type mixed struct {
	mu   sync.Mutex
	turn int
	keys []string // existing objects that no request uses
}

// A PUT gets a new key. Other methods get a random existing key that no other request uses until send returns, so no
// object is read while it is deleted.
func (m *mixed) step(newKey func() string, send func(method, key string) error) error {
	m.mu.Lock()
	method := mixedMethods[mixedTurns[m.turn%len(mixedTurns)]]
	m.turn++
	var key string
	if n := len(m.keys); method == http.MethodPut || n == 0 {
		method, key = http.MethodPut, newKey()
	} else {
		i := rand.IntN(n)
		key = m.keys[i]
		m.keys[i] = m.keys[n-1]
		m.keys = m.keys[:n-1]
	}
	m.mu.Unlock()
	err := send(method, key)
	if err == nil && method != http.MethodDelete {
		m.mu.Lock()
		m.keys = append(m.keys, key)
		m.mu.Unlock()
	}
	return err
}

func (w *s3Load) newMixed() map[int]*mixed {
	all := map[int]*mixed{}
	for size, objects := range map[int]int{s3Mixed: w.size.reads, s3Middle: w.size.reads / 4} {
		m := &mixed{}
		for range objects {
			m.keys = append(m.keys, w.newKey())
		}
		all[size] = m
	}
	return all
}

func (w *s3Load) mix(size int) func(context.Context, *caller, int) error {
	return func(ctx context.Context, c *caller, _ int) error {
		return w.mixed[c.Endpoint][size].step(w.newKey, func(method, key string) error {
			switch method {
			case http.MethodGet:
				return getObject(ctx, c, key, size)
			case http.MethodPut:
				return c.exchange(ctx, method, key, w.body(size), "", io.Discard)
			}
			return c.exchange(ctx, method, key, nil, "", io.Discard)
		})
	}
}

func mixedSize(operation string) int {
	switch operation {
	case workMixedSmall:
		return s3Mixed
	case workMixedMiddle:
		return s3Middle
	}
	return 0
}

type mixedRow func(ctx context.Context, method, key string) error

// Deleted objects' files remain, as on the server until it collects garbage.
func (f *bucketsFiles) mix(size int, row mixedRow) step {
	return func(ctx context.Context, _, _ int) error {
		return f.mixed[size].step(f.load.newKey, func(method, key string) error {
			if method == http.MethodGet || method == http.MethodPut {
				if err := f.copy(size, method == http.MethodPut); err != nil {
					return err
				}
			}
			return row(ctx, method, key)
		})
	}
}

package overview

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// TestListing checks that a slow target delays a page only briefly. Meanwhile, and after an error, the page shows the
// older list.
func TestListing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var l listing[string]
		var reads atomic.Int32
		took, result, failed := time.Duration(0), "one", error(nil)
		get := func(of string) string {
			return l.get(t.Context(), of, time.Now, func(ctx context.Context) (string, error) {
				reads.Add(1)
				text, err := result, failed
				select {
				case <-time.After(took):
				case <-ctx.Done():
					return "", ctx.Err()
				}
				return text, err
			})
		}
		want := func(of, text string, n int32, within time.Duration) {
			t.Helper()
			start := time.Now()
			if got := get(of); got != text || reads.Load() != n || time.Since(start) > within {
				t.Errorf("%q after %v, %d reads; want %q, %d reads", got, time.Since(start), reads.Load(), text, n)
			}
		}
		want("a", "one", 1, 0)
		want("a", "one", 1, 0)
		time.Sleep(listFresh + time.Second)
		took, result = 5*time.Second, "two"
		want("a", "one", 2, listPatience)
		want("a", "one", 2, listPatience)
		time.Sleep(5 * time.Second)
		want("a", "two", 2, 0)
		took, failed = 0, errors.New("no route")
		l.expire()
		want("a", "two", 3, 0)
		if s := l.state(); s.Problem != "no route" || s.At.IsZero() {
			t.Errorf("%+v", s)
		}
		took, failed, result = time.Hour, nil, "three"
		want("b", "", 4, listPatience)
		if s := l.state(); s.Problem != "" || !s.At.IsZero() {
			t.Errorf("%+v", s)
		}
		time.Sleep(listTimeout)
		synctest.Wait()
		if s := l.state(); s.Problem == "" || s.At.IsZero() {
			t.Errorf("after the timeout: %+v", s)
		}
		took = 0
		l.expire()
		want("b", "three", 5, 0)
	})
}

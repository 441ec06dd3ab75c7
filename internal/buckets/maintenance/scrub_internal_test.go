package maintenance

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"holdfast/internal/buckets"
	"holdfast/internal/clock"
)

// TestPace checks that concurrent readers share the rate and do not catch up after a pause.
func TestPace(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := &pacer{rate: MinScrubRate, now: clock.System}
		began := time.Now()
		read := func(n int) {
			t.Helper()
			done := make(chan error)
			for range n {
				go func() { done <- p.wait(t.Context(), MinScrubRate) }()
			}
			for range n {
				if err := <-done; err != nil {
					t.Error(err)
				}
			}
		}
		read(10)
		if took := time.Since(began); took != 9*time.Second { // the tenth starts after nine periods
			t.Errorf("10 chunks of a second each took %s", took)
		}
		time.Sleep(time.Hour)
		began = time.Now()
		read(3)
		if took := time.Since(began); took != 2*time.Second {
			t.Errorf("3 chunks after a pause took %s", took)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := p.wait(ctx, 1); !errors.Is(err, context.Canceled) {
			t.Errorf("a canceled wait: %v", err)
		}
	})
}

// TestScrubRate checks that a pass ends in time, and that the rate after a long pause is at most ten times the planned
// rate.
func TestScrubRate(t *testing.T) {
	t.Parallel()
	const day, tb = 24 * time.Hour, int64(1e12)
	s := &Scrubber{Every: 30 * day}
	began := time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
	p := &pass{Scrub: buckets.Scrub{Began: buckets.At(began)}}
	perDay := func(n int64, days float64) int64 { return int64(float64(n) / (days * day.Seconds())) }
	for _, tc := range []struct {
		left  int64
		after time.Duration
		want  int64
	}{
		{1e9, 0, MinScrubRate},
		{30 * tb, 0, perDay(30*tb, 30)},
		{15 * tb, 15 * day, perDay(15*tb, 15)},
		{30 * tb, 20 * day, perDay(30*tb, 10)},
		{30 * tb, 29 * day, perDay(30*tb, 3)},
		{30 * tb, 90 * day, perDay(30*tb, 3)},
	} {
		if got := s.rate(p, tc.left, began.Add(tc.after)); got != tc.want {
			t.Errorf("%d bytes left after %s: %d bytes/s, want %d", tc.left, tc.after, got, tc.want)
		}
	}
	s.Rate = 7
	if got := s.rate(p, 30*tb, began); got != 7 {
		t.Errorf("a rate that is set: %d", got)
	}
}

// TestNearest checks that a round takes the first bodies by path without gaps.
func TestNearest(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		n := nearest{budget: rapid.Int64Range(1, 100).Draw(rt, "budget")}
		var all []body
		for i, length := range rapid.SliceOfN(rapid.Int64Range(1, 30), 0, 50).Draw(rt, "lengths") {
			all = append(all, body{path: fmt.Sprintf("%02d", i), ref: buckets.Reference{Body: buckets.Body{Length: length}}})
		}
		for _, b := range rapid.Permutation(all).Draw(rt, "order") {
			n.add(b)
		}
		var want []string
		sum, until := int64(0), ""
		for i, b := range all {
			if sum >= n.budget {
				until = all[i-1].path
				break
			}
			want, sum = append(want, b.path), sum+b.ref.Length
		}
		var got []string
		for _, b := range n.all {
			got = append(got, b.path)
		}
		slices.Sort(got)
		if !slices.Equal(got, want) || n.until != until || n.bytes != sum {
			rt.Errorf("%s with %d bytes until %q, want %s with %d until %q", strings.Join(got, " "), n.bytes, n.until, strings.Join(want, " "), sum, until)
		}
	})
}

package web

import (
	"testing"
	"time"
)

func TestPace(t *testing.T) {
	t.Parallel()
	type part struct {
		bytes  int
		waited time.Duration
	}
	now := time.Unix(1_800_000_000, 0)
	for _, tc := range []struct {
		name  string
		parts []part
		next  int // bytes to write
		left  time.Duration
	}{
		{"at the start", nil, 0, 20 * time.Second},
		{"to write much", nil, 5_000, 25 * time.Second},
		{"a stop", []part{{0, 15 * time.Second}}, 0, 5 * time.Second},
		{"a stop, then a quick part", []part{{0, 15 * time.Second}, {10_000, 0}}, 0, 15 * time.Second},
		{"quick parts earn no more than the grace", []part{{1 << 30, time.Second}}, 0, 20 * time.Second},
		{"a steady, slow peer", []part{{1_000, 2 * time.Second}, {1_000, 2 * time.Second}, {1_000, 2 * time.Second}}, 0, 17 * time.Second},
		{"too long", []part{{1_000, 22 * time.Second}}, 0, -time.Second},
	} {
		p := newPace(Rate{Grace: 20 * time.Second, BytesPerSecond: 1000})
		for _, part := range tc.parts {
			p.count(part.bytes, part.waited)
		}
		if got := p.deadline(now, tc.next).Sub(now); got != tc.left {
			t.Errorf("%s: %v left, want %v", tc.name, got, tc.left)
		}
	}
}

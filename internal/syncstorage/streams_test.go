package syncstorage

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"holdfast/internal/clock"
	"holdfast/internal/errcode"
)

// TestStreams checks that a streamed listing holds its slot until it is closed or streamTime has passed.
func TestStreams(t *testing.T) {
	t.Parallel()
	hands := clock.NewManual(time.UnixMilli(1_700_000_000_000))
	synctest.Test(t, func(t *testing.T) {
		s := newStreams(1, time.Second, hands.Now)
		if !s.try(Owner{UID: 1}) {
			t.Fatal("the first finds no place")
		}
		endless := func(yield func(*BSO, error) bool) {
			for yield(&BSO{}, nil) {
			}
		}
		l := NewListing(0, 1, endless, nil)
		s.hold(Owner{UID: 1}, l)
		if err := s.enter(t.Context(), Owner{UID: 2}); !errcode.Is(err, errcode.Unavailable) {
			t.Errorf("a second of one: %v", err)
		}
		gone, leave := context.WithCancel(t.Context())
		leave()
		if err := s.enter(gone, Owner{UID: 3}); !errcode.Is(err, errcode.Unavailable) {
			t.Errorf("who has left: %v", err)
		}
		var last error
		start := hands.Now()
		for _, last = range l.Items {
			hands.Advance(time.Minute)
		}
		if took := hands.Now().Sub(start); last != errStreamTime || took < streamTime || took > streamTime+2*time.Minute {
			t.Errorf("it ended after %v: %v", took, last)
		}
		l.Close()
		l.Close()
		if err := s.enter(t.Context(), Owner{UID: 2}); err != nil {
			t.Errorf("after its end: %v", err)
		}
	})
}

package syncstorage

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"holdfast/internal/fault"
)

// A listing that is streamed has a place until it is closed, and an end.
func TestStreams(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newStreams(1, time.Second)
		if !s.try() {
			t.Fatal("the first finds no place")
		}
		endless := func(yield func(*BSO, error) bool) {
			for yield(&BSO{}, nil) {
			}
		}
		l := NewListing(0, 1, endless, nil)
		s.hold(l)
		if err := s.enter(t.Context()); !fault.Is(err, fault.Unavailable) {
			t.Errorf("a second of one: %v", err)
		}
		gone, leave := context.WithCancel(t.Context())
		leave()
		if err := s.enter(gone); !fault.Is(err, fault.Unavailable) {
			t.Errorf("who has left: %v", err)
		}
		var last error
		start := time.Now()
		for _, last = range l.Items {
			time.Sleep(time.Minute) // on the clock of the bubble
		}
		if took := time.Since(start); last != errStreamTime || took < streamTime || took > streamTime+2*time.Minute {
			t.Errorf("it ended after %v: %v", took, last)
		}
		l.Close()
		l.Close()
		if err := s.enter(t.Context()); err != nil {
			t.Errorf("after its end: %v", err)
		}
	})
}

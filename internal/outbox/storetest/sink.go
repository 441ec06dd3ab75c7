package storetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"holdfast/internal/clock"
	"holdfast/internal/outbox"
)

type sink struct {
	mu        sync.Mutex
	published []outbox.Event
	largest   int
	calls     int
	more      chan struct{}
	busy      *partitions

	fail   func(call int, events []outbox.Event) (take int, err error)
	refuse func(e outbox.Event) *outbox.Refusal
}

type partitions struct {
	busy     [outbox.Partitions]atomic.Int32
	together atomic.Bool
}

func (p *partitions) enter(events []outbox.Event) (leave func()) {
	var set outbox.Parts
	for _, e := range events {
		set |= outbox.PartsOf(part(e))
	}
	for i := range set.All() {
		if p.busy[i].Add(1) > 1 {
			p.together.Store(true)
		}
	}
	return func() {
		for i := range set.All() {
			p.busy[i].Add(-1)
		}
	}
}

func newSink() *sink { return &sink{more: make(chan struct{}, 1), busy: &partitions{}} }

func (s *sink) Publish(_ context.Context, events []outbox.Event) error {
	defer s.busy.enter(events)()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls++
	s.largest = max(s.largest, len(events))
	take, err := len(events), error(nil)
	if s.fail != nil {
		if n, failure := s.fail(s.calls, events); failure != nil {
			take, err = min(n, take), failure
		}
	}
	var no outbox.RefusedError
	held := map[string]bool{}
	for i, e := range events[:take] {
		stream := e.Owner + e.Stream
		if s.refuse != nil && !held[stream] {
			if refusal := s.refuse(e); refusal != nil {
				refusal.Index = i
				no.Refusals, held[stream] = append(no.Refusals, *refusal), true
			}
		}
		if !held[stream] {
			s.published = append(s.published, e)
		}
	}
	select {
	case s.more <- struct{}{}:
	default:
	}
	if len(no.Refusals) > 0 {
		return fmt.Errorf("publish: %w", &no)
	}
	return err
}

func refusal(of outbox.Event, times int, permanent bool) func(outbox.Event) *outbox.Refusal {
	return func(e outbox.Event) *outbox.Refusal {
		if e.ID() != of.ID() || times == 0 {
			return nil
		}
		times--
		return &outbox.Refusal{Err: errors.New("the name of the topic is not valid\x00\xff"), Permanent: permanent}
	}
}

func (s *sink) first() (events []outbox.Event, times map[outbox.ID]int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	times = map[outbox.ID]int{}
	for _, e := range s.published {
		if times[e.ID()]++; times[e.ID()] == 1 {
			events = append(events, e)
		}
	}
	return events, times
}

func (s *sink) await(t testing.TB, n int) []outbox.Event {
	t.Helper()
	late := time.After(time.Minute)
	for {
		events, _ := s.first()
		if len(events) >= n {
			return events
		}
		select {
		case <-s.more:
		case <-late:
			t.Fatalf("%d of %d events were published in a minute", len(events), n)
		}
	}
}

func inOrder(t testing.TB, events []outbox.Event) []outbox.Event {
	t.Helper()
	last := map[string]int64{}
	for _, e := range events {
		stream := e.Owner + e.Stream
		if e.Seq != last[stream]+1 {
			t.Errorf("stream %s: %d came after %d", stream, e.Seq, last[stream])
		}
		last[stream] = e.Seq
	}
	sorted := slices.Clone(events)
	slices.SortFunc(sorted, less)
	return sorted
}

func relay(b outbox.Box, s outbox.Sink, o outbox.Options) *outbox.Relay {
	o.Box, o.Sink, o.Clock = b, s, clock.System
	return outbox.NewRelay(o)
}

func run(t testing.TB, r *outbox.Relay) (end func()) {
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { r.Run(ctx) })
	end = func() { stop(); running.Wait() }
	t.Cleanup(end)
	return end
}

func (s *sink) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.published)
}

package httpapi_test

import (
	"cmp"
	"context"
	"sync"
	"testing"

	"holdfast/internal/guest"
	"holdfast/internal/guest/eventschema/eventschematest"
)

// checkers are the event schemas by profile. Compiling them takes longer than most tests.
var checkers = struct {
	sync.Mutex
	by map[string]eventschematest.Checker
}{by: map[string]eventschematest.Checker{}}

func checkEvents(t testing.TB, s *server) {
	t.Helper()
	ctx := context.WithoutCancel(t.Context())
	checker := checkerOf(t, cmp.Or(s.profile, guest.Hotel))
	_ = s.telemetry.Flush(ctx) // may fail if the test's store does
	waiting, err1 := s.store.Outbox().ListWaiting(ctx, 0, 1000)
	published, err2 := s.store.Outbox().ListPublished(ctx, "", 1000)
	if err1 != nil || err2 != nil {
		return
	}
	for i := range published {
		if err := checker.Check(ctx, published[i].Topic, published[i].Payload); err != nil {
			t.Error(err)
		}
	}
	for i := range waiting {
		if err := checker.Check(ctx, waiting[i].Topic, waiting[i].Payload); err != nil {
			t.Error(err)
		}
	}
}

func checkerOf(t testing.TB, p *guest.Profile) eventschematest.Checker {
	t.Helper()
	checkers.Lock()
	defer checkers.Unlock()
	key := p.Name + string(p.Payload)
	if checkers.by[key] == nil {
		var err error
		if checkers.by[key], err = eventschematest.New(p); err != nil {
			t.Fatal(err)
		}
	}
	return checkers.by[key]
}

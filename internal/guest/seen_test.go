package guest_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"holdfast/internal/clock"
	"holdfast/internal/errcode"
	"holdfast/internal/guest"
	"holdfast/internal/guest/backend"
	"holdfast/internal/guest/retention"
	"holdfast/internal/suite"
)

type days struct {
	backend.Store

	mu   sync.Mutex
	away bool
	seen map[string][]guest.ID // by day
}

func (d *days) MarkSeen(_ context.Context, sessions []guest.ID, at time.Time) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.away {
		return errcode.New(errcode.Unavailable, "away")
	}
	day := at.Format(time.DateOnly)
	d.seen[day] = append(d.seen[day], sessions...)
	return nil
}

// TestSeenOnceADay also covers a database that is unavailable at first.
func TestSeenOnceADay(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 23, 23, 0, 0, 0, time.UTC)
	d := &days{seen: map[string][]guest.ID{}}
	s := guest.NewService(guest.Options{Store: d, Clock: func() time.Time { return now }})
	a, b := guest.NewID(guest.SessionPrefix, clock.System()), guest.NewID(guest.SessionPrefix, clock.System())
	visit := func(ids ...guest.ID) {
		t.Helper()
		for _, id := range ids {
			s.Saw(id, false)
		}
		suite.Must(t, "FlushSeen", s.FlushSeen(t.Context()))
	}
	visit(a, a)
	visit(a)
	d.away = true
	s.Saw(b, false)
	if err := s.FlushSeen(t.Context()); !errcode.Is(err, errcode.Unavailable) {
		t.Errorf("FlushSeen: %v", err)
	}
	d.away = false
	visit(b)
	suite.Equal(t, "today", d.seen["2026-11-23"], []guest.ID{a, b})
	now = now.Add(2 * time.Hour)
	visit(b, a, b)
	tomorrow := d.seen["2026-11-24"]
	slices.Sort(tomorrow)
	suite.Equal(t, "tomorrow", tomorrow, slices.Sorted(slices.Values([]guest.ID{a, b})))
}

func TestRenewOnceADay(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 23, 23, 0, 0, 0, time.UTC)
	s := guest.NewService(guest.Options{Clock: func() time.Time { return now }})
	a, b := guest.NewID(guest.SessionPrefix, clock.System()), guest.NewID(guest.SessionPrefix, clock.System())
	got := []bool{s.Saw(a, false), s.Saw(a, true), s.Saw(a, true), s.Saw(a, false), s.Saw(b, true), s.Saw(b, true)}
	now = now.Add(2 * time.Hour)
	got = append(got, s.Saw(a, true), s.Saw(a, true))
	suite.Equal(t, "renewed", got, []bool{false, true, false, false, true, false, true, false})
}

func TestRetentionBefore(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)
	r := retention.New(retention.Options{Expired: time.Hour, Kept: retention.Kept{Events: 30 * 24 * time.Hour, Audit: 60 * 24 * time.Hour}})
	got := map[retention.Job]float64{}
	for _, job := range retention.Jobs {
		got[job] = now.Sub(r.Before(job, now)).Hours()
	}
	suite.Equal(t, "hours", got, map[retention.Job]float64{
		retention.JobAnswers: 1, retention.JobRemoved: 720, retention.JobSilent: 720, retention.JobUsers: 720, retention.JobHandoffs: 24, retention.JobRefusals: 1440, retention.JobBotScores: 168,
		retention.JobEvents: 720, retention.JobAuditEvents: 1440, retention.JobReceived: 168,
	})
}

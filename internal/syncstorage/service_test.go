package syncstorage_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"holdfast/internal/clock"
	"holdfast/internal/errcode"
	ss "holdfast/internal/syncstorage"
)

type writer struct {
	ss.Store
	used ss.Used
	own  ss.Optional[int64]
}

func (w *writer) Put(_ context.Context, _ ss.Owner, write ss.Write, _ ss.Update) (ss.Written, error) {
	return ss.Written{Modified: 10, Used: w.used, Quota: write.Quota.For(w.own)}, nil
}

func TestOverQuota(t *testing.T) {
	t.Parallel()
	var none ss.Optional[int64]
	for _, tc := range []struct {
		name     string
		change   func(c *ss.Config)
		used     ss.Used
		own      ss.Optional[int64]
		reported bool
	}{
		{"no quota", func(c *ss.Config) { c.EnableQuota = false }, ss.Used{Collection: 1 << 60, User: 1 << 60}, none, false},
		{"no quota but the user's own", func(c *ss.Config) { c.EnableQuota = false }, ss.Used{Collection: 2, User: 2}, ss.Some[int64](1), false},
		{"over the user's own", func(*ss.Config) {}, ss.Used{Collection: 5, User: 6}, ss.Some[int64](5), true},
		{"at the user's own", func(*ss.Config) {}, ss.Used{Collection: 5, User: 30}, ss.Some[int64](30), false},
		{"at both limits", func(*ss.Config) {}, ss.Used{Collection: 10, User: 20}, none, false},
		{"over that of the collection", func(*ss.Config) {}, ss.Used{Collection: 11, User: 11}, none, true},
		{"over that of the user", func(*ss.Config) {}, ss.Used{Collection: 1, User: 21}, none, true},
		{"over one that is enforced", func(c *ss.Config) { c.EnforceQuota = true }, ss.Used{Collection: 11, User: 21}, none, false},
	} {
		conf := ss.DefaultConfig()
		conf.EnableQuota, conf.Limits.MaxQuotaLimit, conf.Limits.MaxUserQuota = true, 10, 20
		tc.change(&conf)
		var reports []string
		s, err := ss.NewService(ss.Options{
			Store: &writer{used: tc.used, own: tc.own}, Config: conf, Clock: clock.System,
			OverQuota: func(o ss.Owner, collection string, used ss.Used) {
				reports = append(reports, fmt.Sprint(o.UID, collection, used == tc.used))
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Put(t.Context(), ss.Owner{UID: 7}, ss.Request{Collection: "tabs"}, ss.Item{Update: ss.Update{ID: "a"}}); err != nil {
			t.Errorf("%s: %v", tc.name, err)
		}
		if want := []string{fmt.Sprint(7, "tabs", true)}; tc.reported && !slices.Equal(reports, want) || !tc.reported && reports != nil {
			t.Errorf("%s: the reports are %q", tc.name, reports)
		}
	}
}

type sweeper struct {
	ss.Store
	now   ss.Timestamp
	limit int
}

func (s *sweeper) Sweep(_ context.Context, now ss.Timestamp, limit int) (int, error) {
	s.now, s.limit = now, limit
	return 7, nil
}

func TestNewService(t *testing.T) {
	t.Parallel()
	for name, o := range map[string]ss.Options{
		"nothing":  {},
		"no store": {Clock: clock.System},
		"no clock": {Store: &sweeper{}},
	} {
		if _, err := ss.NewService(o); !errcode.Is(err, errcode.Invalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestServiceSweep(t *testing.T) {
	t.Parallel()
	store, conf := &sweeper{}, ss.DefaultConfig()
	conf.SweepAfter = 3 * time.Hour
	s, err := ss.NewService(ss.Options{Store: store, Config: conf, Clock: clock.System})
	if err != nil {
		t.Fatal(err)
	}
	now := time.UnixMilli(1_700_000_000_120)
	n, err := s.Sweep(t.Context(), now, 500)
	if n != 7 || err != nil || store.now != ss.At(now.Add(-3*time.Hour)) || store.limit != 500 {
		t.Errorf("%d swept, %v; the store was asked for %d until %v", n, err, store.limit, store.now)
	}
}

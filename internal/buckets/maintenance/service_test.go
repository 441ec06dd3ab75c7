package maintenance_test

import (
	"context"
	"io"
	"log/slog"
	"os"
	"testing"
	"time"

	"holdfast/internal/buckets"
	"holdfast/internal/buckets/maintenance"
)

// maintain returns a server's service, which receives findings from reads.
func (s *site) maintain() *maintenance.Service {
	m := maintenance.NewService(maintenance.ServiceOptions{
		Options: s.options(), Log: slog.New(slog.DiscardHandler), Whole: func(context.Context) error { return nil },
		Repaired: func(string) {}, Changed: func() {},
	})
	s.cluster.Report = m.Report
	return m
}

func (s *site) readPart(name string) {
	s.t.Helper()
	o := s.row(name)
	r := s.service.Open(s.t.Context(), s.owner, s.bucket.ID, &o, buckets.Span{From: 100_000, Length: 5})
	if _, err := io.ReadAll(r); err != nil {
		s.t.Fatal(err)
	}
	s.must(r.Close())
}

func (s *site) wait(holds func() bool) {
	s.t.Helper()
	for !holds() {
		time.Sleep(10 * time.Millisecond)
	}
}

// TestReadBodiesGetFrames checks that an old body gets frames after a read by a server, but not by a command.
func TestReadBodiesGetFrames(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, s *site) {
		text := large('a') + large('b')
		o := s.putOld("a", text)
		m := s.maintain()
		s.readPart("a")
		ctx, cancel := context.WithCancel(t.Context())
		wait := m.Start(ctx)
		if info, err := os.Stat(s.file(o.Sharks[0], &o)); err != nil || info.Size() != int64(len(text)) || s.row("a").Frames.Set {
			t.Errorf("a command changed the body: %v", err)
		}
		s.readPart("a")
		s.wait(func() bool {
			o = s.row("a")
			info, err := os.Stat(s.file(o.Sharks[1], &o))
			return o.Frames.Set && err == nil && info.Size() != int64(len(text))
		})
		cancel()
		wait()
		s.wantFrames("a", text)
	})
}

// TestServerRepairs also checks that other servers learn about the damage.
func TestServerRepairs(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, s *site) {
		text := large('a') + large('b')
		o := s.put("a", text)
		for _, id := range o.Sharks[1:] {
			s.must(os.Remove(s.file(id, &o)))
		}
		m := s.maintain()
		marks := func() (all []buckets.Damage) {
			for d, err := range m.Damages(t.Context(), buckets.DamageQuery{Limit: 1}) {
				s.must(err)
				all = append(all, d)
			}
			return all
		}
		s.wait(func() bool { // reads start with any copy
			s.want("a", text)
			s.must(m.StoreReports(t.Context()))
			return len(marks()) > 0
		})
		if h, err := m.Health(t.Context()); err != nil || len(h.Damages) != 1 || h.Damages[0].Node != o.Sharks[1] || h.Damages[0].Copies != 1 {
			t.Errorf("%+v, %v", h, err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		wait := m.Start(ctx)
		s.wait(func() bool { return len(marks()) == 0 })
		cancel()
		wait()
		s.wantFiles()
		if all, err := m.CountBodies(t.Context()); err != nil || all[o.Sharks[1]] != (maintenance.Stored{Bodies: 1, Bytes: int64(len(text))}) {
			t.Errorf("%+v, %v", all, err)
		}
	})
}

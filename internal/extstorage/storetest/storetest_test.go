package storetest

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"sync"
	"testing"

	ss "holdfast/internal/extstorage"
	"holdfast/internal/fault"
)

// TestMemory runs the suite on the model behind a lock: what the suite says of
// every store must be true of the plainest one.
func TestMemory(t *testing.T) {
	t.Parallel()
	Run(t, func(testing.TB) Harness { return memoryHarness(func(string) error { return nil }) })
}

func memoryHarness(fault func(string) error) Harness {
	m := &memory{fault: fault, models: map[ss.Owner]*model{}, schemas: map[ss.Owner]map[ss.Namespace][]ss.Schema{}, installs: map[ss.Owner]ss.Install{}}
	return Harness{
		Store: m, Registry: m, Installs: m,
		Events: func(t testing.TB, o ss.Owner) (all []Event) {
			must(t, "events", m.read(o, func(m *model) error { all = m.events; return nil }))
			return all
		},
		Faulty: func(_ testing.TB, fault func(string) error) Harness { return memoryHarness(fault) },
	}
}

// memory keeps models. It keeps no more than the suite needs.
type memory struct {
	mu       sync.Mutex
	fault    func(point string) error
	models   map[ss.Owner]*model
	schemas  map[ss.Owner]map[ss.Namespace][]ss.Schema // by version
	installs map[ss.Owner]ss.Install
}

// read runs fn on the owner's model, alone.
func (s *memory) read(o ss.Owner, fn func(m *model) error) error {
	if err := o.Check(); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.models[o] == nil {
		s.models[o], s.schemas[o] = newModel(), map[ss.Namespace][]ss.Schema{}
	}
	return fn(s.models[o])
}

func (s *memory) write(ctx context.Context, o ss.Owner, fn func(m *model) error) error {
	return s.read(o, func(m *model) error {
		if err := ctx.Err(); err != nil {
			return fault.Wrap(fault.Unavailable, "the caller has gone", err)
		}
		if err := s.fault("begin"); err != nil {
			return err
		}
		return fn(m)
	})
}

func (s *memory) Apply(ctx context.Context, o ss.Owner, w ss.Write) (a ss.Applied, err error) {
	err = s.write(ctx, o, func(m *model) error { a, err = m.Apply(w); return err })
	return a, err
}

func (s *memory) Reclaim(ctx context.Context, o ss.Owner, now ss.Moment, limit int) (n int, err error) {
	err = s.write(ctx, o, func(m *model) error { n = m.Reclaim(now, limit); return nil })
	return n, err
}

// Sweep takes what expired first of all installs, one at a time.
func (s *memory) Sweep(_ context.Context, now ss.Moment, limit int) (n int, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.fault("begin"); err != nil {
		return 0, err
	}
	for n < limit {
		var first *model
		var until ss.Moment
		for _, m := range s.models {
			if due := m.due(now); len(due) > 0 && (first == nil || due[0].ExpiresAt < until) {
				first, until = m, due[0].ExpiresAt
			}
		}
		if first == nil {
			break
		}
		n += first.Reclaim(now, 1)
	}
	for _, m := range s.models {
		n += m.Sweep(now, limit-n)
	}
	return n, nil
}

func (s *memory) Get(_ context.Context, o ss.Owner, ns ss.Namespace, key ss.Key, now ss.Moment) (r ss.Record, err error) {
	err = s.read(o, func(m *model) error { r, err = m.Get(ns, key, now); return err })
	return r, err
}

func (s *memory) List(_ context.Context, o ss.Owner, q ss.Query) (p ss.Page, err error) {
	err = s.read(o, func(m *model) error { p = m.List(q); return nil })
	return p, err
}

func (s *memory) Export(_ context.Context, o ss.Owner, after ss.Position, limit int, now ss.Moment) (all []ss.Record, err error) {
	err = s.read(o, func(m *model) error { all = m.Export(after, limit, now); return nil })
	return all, err
}

func (s *memory) Changes(_ context.Context, o ss.Owner, since ss.Seq, limit int, _ ss.Moment) (f ss.Feed, err error) {
	err = s.read(o, func(m *model) error { f, err = m.Changes(since, limit); return err })
	return f, err
}

func (s *memory) Usage(_ context.Context, o ss.Owner, now ss.Moment) (u ss.Usage, err error) {
	err = s.read(o, func(m *model) error { u = m.Usage(now); return nil })
	return u, err
}

func (s *memory) Audit(_ context.Context, o ss.Owner) (a ss.Audit, err error) {
	err = s.read(o, func(m *model) error { a = ss.Audit{Counters: m.counters(), Counted: m.counters()}; return nil })
	return a, err
}

func (s *memory) Ping(context.Context) error { return nil }

func (s *memory) Register(ctx context.Context, o ss.Owner, ns ss.Namespace, document []byte, by string, now ss.Moment) (sc ss.Schema, err error) {
	err = s.write(ctx, o, func(*model) error {
		all := s.schemas[o][ns]
		sc = ss.Schema{Namespace: ns, Version: ss.SchemaVersion(len(all) + 1), Status: ss.Draft, Document: document, CreatedAt: now, UpdatedAt: now, CreatedBy: by}
		s.schemas[o][ns] = append(all, sc)
		return nil
	})
	return sc, err
}

func (s *memory) SetStatus(ctx context.Context, o ss.Owner, ns ss.Namespace, v ss.SchemaVersion, status ss.SchemaStatus, now ss.Moment) (sc ss.Schema, err error) {
	err = s.write(ctx, o, func(m *model) error {
		all := s.schemas[o][ns]
		switch {
		case status == ss.Draft:
			return fault.New(fault.Invalid, "a schema is activated or deprecated")
		case v < 1 || int(v) > len(all):
			return ss.ErrNoSchema
		}
		for i := range all {
			if all[i].Status == ss.Active && status == ss.Active && all[i].Version != v {
				all[i].Status, all[i].UpdatedAt = ss.Deprecated, now
			}
		}
		if all[v-1].Status != status {
			all[v-1].Status, all[v-1].UpdatedAt = status, now
		}
		m.active[ns] = 0
		for _, other := range all {
			if other.Status == ss.Active {
				m.active[ns] = other.Version
			}
		}
		sc = all[v-1]
		return nil
	})
	return sc, err
}

func (s *memory) Schemas(_ context.Context, o ss.Owner, ns ss.Namespace) (all []ss.Schema, err error) {
	err = s.read(o, func(*model) error {
		all = slices.SortedFunc(slices.Values(s.schemas[o][ns]), func(a, b ss.Schema) int { return cmp.Compare(b.Version, a.Version) })
		return nil
	})
	return all, err
}

func (s *memory) Active(_ context.Context, o ss.Owner, ns ss.Namespace) (sc ss.Schema, err error) {
	err = s.read(o, func(m *model) error {
		if v := m.active[ns]; v > 0 {
			sc = s.schemas[o][ns][v-1]
		}
		return nil
	})
	return sc, err
}

func (s *memory) Install(_ context.Context, o ss.Owner) (in ss.Install, err error) {
	err = s.read(o, func(*model) error {
		var found bool
		if in, found = s.installs[o]; !found {
			return ss.ErrNoInstall
		}
		return nil
	})
	return in, err
}

func (s *memory) SetInstall(ctx context.Context, o ss.Owner, in ss.Install, now ss.Moment) error {
	return s.write(ctx, o, func(*model) error {
		in.CreatedAt, in.UpdatedAt = cmp.Or(s.installs[o].CreatedAt, now), now
		in.Namespaces = maps.Clone(in.Namespaces)
		s.installs[o] = in
		return nil
	})
}

// TestNamesAreUnique: an exemption must mean one test.
func TestNamesAreUnique(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, g := range groups() {
		for _, c := range g.checks {
			name := g.name + "/" + c.name
			if seen[name] {
				t.Errorf("two tests are called %s", name)
			}
			seen[name] = true
		}
	}
}

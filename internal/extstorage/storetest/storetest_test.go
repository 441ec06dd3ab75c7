//test:unraced the race detector makes it ten times as slow

package storetest

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"testing"

	"holdfast/internal/errcode"
	ext "holdfast/internal/extstorage"
	"holdfast/internal/extstorage/inspection"
)

// TestMemory runs the suite on the model with a lock, because the suite must accept the simplest correct store.
func TestMemory(t *testing.T) {
	t.Parallel()
	Run(t, func(testing.TB) Harness { return memoryHarness(func(string) error { return nil }) })
}

func memoryHarness(fault func(string) error) Harness {
	m := &memory{fault: fault, models: map[ext.Owner]*model{}, schemas: map[ext.Owner]map[ext.Namespace][]ext.Schema{}, installs: map[ext.Owner]ext.Install{}, tokens: map[ext.Owner][]ext.RevokedToken{}, deletions: map[ext.Owner]*deletion{}, floors: map[ext.Owner]ext.SchemaVersion{}}
	return Harness{
		Store: m, Inspector: m, Registry: m, Installs: m, Tokens: m, Deletions: m,
		Events: func(t testing.TB, o ext.Owner) (all []Event) {
			must(t, "events", m.read(o, func(m *model) error { all = m.events; return nil }))
			return all
		},
		Faulty: func(_ testing.TB, fault func(string) error) Harness { return memoryHarness(fault) },
		Exempt: map[string]string{
			"Span/Uncounted":        "it has no stored counters: it counts the records",
			"Delete/WrongCounters":  "it has no stored counters: it counts the records",
			"Delete/SweptMeanwhile": "its sweep ignores deletions",
			"Sweep/Tombstones":      "its events cannot be published",
		},
	}
}

type memory struct {
	mu       sync.Mutex
	fault    func(point string) error
	models   map[ext.Owner]*model
	schemas  map[ext.Owner]map[ext.Namespace][]ext.Schema // by version
	installs map[ext.Owner]ext.Install
	tokens   map[ext.Owner][]ext.RevokedToken

	deletions map[ext.Owner]*deletion
	floors    map[ext.Owner]ext.SchemaVersion // greatest deleted version
	first     ext.Seq                         // numbers of new installs start after this
}

func (s *memory) SkipChanges(_ context.Context, n int64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for o, m := range s.models {
		m.last += ext.Seq(n)
		m.floor = m.last
		for _, all := range s.schemas[o] {
			for _, sc := range all {
				s.floors[o] = max(s.floors[o], sc.Version)
			}
		}
		s.floors[o] = ext.SchemaVersion(min(int64(s.floors[o])+ext.SkippedVersions(n), ext.MaxSchemaVersion))
	}
	s.first += ext.Seq(n)
	return nil
}

func (s *memory) read(o ext.Owner, fn func(m *model) error) error {
	if err := o.Check(); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.models[o] == nil {
		s.models[o], s.schemas[o] = newModel(), map[ext.Namespace][]ext.Schema{}
		s.models[o].last, s.models[o].floor = s.first, s.first
		s.floors[o] = ext.SchemaVersion(min(ext.SkippedVersions(int64(s.first)), ext.MaxSchemaVersion))
	}
	return fn(s.models[o])
}

func (s *memory) write(ctx context.Context, o ext.Owner, fn func(m *model) error) error {
	return s.read(o, func(m *model) error {
		if err := ctx.Err(); err != nil {
			return errcode.Wrap(errcode.Unavailable, "the caller disconnected", err)
		}
		if err := s.fault("begin"); err != nil {
			return err
		}
		if s.closed(o) {
			return ext.ErrInstallDeleted
		}
		return fn(m)
	})
}

func (s *memory) Apply(ctx context.Context, o ext.Owner, w ext.Write) (a ext.Applied, err error) {
	err = s.write(ctx, o, func(m *model) error { a, err = m.Apply(w); return err })
	return a, err
}

func (s *memory) Sweep(_ context.Context, kind ext.Swept, now, due ext.Moment, limit int) (n int, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.fault("begin"); err != nil {
		return 0, err
	}
	switch kind {
	case ext.SweptTokens:
		return s.sweepTokens(due, limit), nil
	case ext.SweptTombstones:
		return 0, nil
	}
	for kind == ext.SweptRecords && n < limit {
		var first *model
		var until ext.Moment
		for _, m := range s.models {
			if all := m.due(due); len(all) > 0 && (first == nil || all[0].ExpiresAt < until) {
				first, until = m, all[0].ExpiresAt
			}
		}
		if first == nil {
			break
		}
		n += first.remove(now, due, 1)
	}
	for _, m := range s.models {
		switch kind {
		case ext.SweptChanges:
			n += m.sweepChanges(due, limit-n)
		case ext.SweptAnswers:
			n += m.sweepAnswers(due, limit-n)
		}
	}
	return n, nil
}

func (s *memory) sweepTokens(due ext.Moment, limit int) (n int) {
	for o, all := range s.tokens {
		s.tokens[o] = slices.DeleteFunc(all, func(t ext.RevokedToken) bool {
			gone := n < limit && t.ExpiresAt <= due
			if gone {
				n++
			}
			return gone
		})
	}
	return n
}

func (s *memory) RevokedTokens(_ context.Context, o ext.Owner, now ext.Moment) (all []ext.RevokedToken, err error) {
	err = s.read(o, func(*model) error {
		for _, t := range s.tokens[o] {
			if t.ExpiresAt > now {
				all = append(all, t)
			}
		}
		slices.SortFunc(all, func(a, b ext.RevokedToken) int { return cmp.Compare(a.ID, b.ID) })
		return nil
	})
	return all, err
}

func (s *memory) RevokeToken(ctx context.Context, o ext.Owner, t ext.RevokedToken) error {
	return s.write(ctx, o, func(*model) error {
		for i, old := range s.tokens[o] {
			if old.ID == t.ID {
				s.tokens[o][i].ExpiresAt = max(old.ExpiresAt, t.ExpiresAt)
				return nil
			}
		}
		s.tokens[o] = append(s.tokens[o], t)
		return nil
	})
}

func (s *memory) InstallState(ctx context.Context, o ext.Owner, now ext.Moment) (in ext.Install, revoked []string, err error) {
	all, err := s.RevokedTokens(ctx, o, now)
	for _, t := range all {
		revoked = append(revoked, t.ID)
	}
	if err == nil {
		in, err = s.Install(ctx, o)
		if tenant, failed := s.Install(ctx, ext.Services(o.Tenant)); failed == nil && o != ext.Services(o.Tenant) {
			in.Tenant = ext.TenantState{Deletion: tenant.Deletion, TokensAfter: tenant.TokensAfter}
		}
	}
	if errors.Is(err, ext.ErrNoInstall) {
		err = nil
	}
	return in, revoked, err
}

func (s *memory) Get(_ context.Context, o ext.Owner, ns ext.Namespace, key ext.Key, now ext.Moment) (r ext.Record, err error) {
	err = s.read(o, func(m *model) error { r, err = m.Get(ns, key, now); return err })
	return r, err
}

func (s *memory) List(_ context.Context, o ext.Owner, q ext.Query) (p ext.Page, err error) {
	err = s.read(o, func(m *model) error { p = m.List(q); return nil })
	return p, err
}

func (s *memory) Export(_ context.Context, o ext.Owner, q ext.ExportQuery) (p ext.Page, err error) {
	err = s.read(o, func(m *model) error { p = m.Export(q); return nil })
	return p, err
}

func (s *memory) Changes(_ context.Context, o ext.Owner, since ext.Seq, limit int) (f ext.Feed, err error) {
	err = s.read(o, func(m *model) error { f, err = m.Changes(since, limit); return err })
	return f, err
}

func (s *memory) Usage(_ context.Context, o ext.Owner, now ext.Moment) (u ext.Usage, err error) {
	err = s.read(o, func(m *model) error { u = m.Usage(now); return nil })
	return u, err
}

func (s *memory) Audit(_ context.Context, o ext.Owner) (a inspection.Audit, err error) {
	err = s.read(o, func(m *model) error { c := m.stored(); a = inspection.Audit{Counters: c, Counted: c}; return nil })
	return a, err
}

func (s *memory) Totals(_ context.Context, soft int64, now ext.Moment) (t inspection.Totals, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	tenants := map[ext.TenantID]int64{}
	for o, m := range s.models {
		c := m.stored()
		t.Installs++
		t.Bytes, t.Keys, t.Namespaces = t.Bytes+c.Bytes, t.Keys+c.Keys, t.Namespaces+c.Namespaces
		t.ExpiredPending += int64(len(m.due(now)))
		tenants[o.Tenant] += c.Bytes
	}
	for _, bytes := range tenants {
		if bytes > soft {
			t.TenantsOverSoft++
		}
	}
	return t, nil
}

func (s *memory) ListUsage(_ context.Context, span inspection.Span, limit int) (all []inspection.InstallUsage, err error) {
	if err := span.Check(); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	after, last := span.Bounds()
	for o, m := range s.models {
		if d := s.deletions[o]; d != nil && m.stored() == (ext.Counters{}) {
			continue
		}
		if m.last > 0 && after.Compare(o) < 0 && o.Compare(last) <= 0 {
			all = append(all, inspection.InstallUsage{Owner: o, Counters: m.stored(), Registered: s.installs[o]})
		}
	}
	slices.SortFunc(all, func(a, b inspection.InstallUsage) int { return a.Compare(b.Owner) })
	return all[:min(limit, len(all))], nil
}

func (s *memory) Uncounted(_ context.Context, span inspection.Span, _ int) ([]ext.Owner, error) {
	return nil, span.Check()
}

func (s *memory) Ping(context.Context) error { return nil }

func (s *memory) Register(ctx context.Context, o ext.Owner, draft ext.Schema, quota ext.Quota) (sc ext.Schema, err error) {
	err = s.write(ctx, o, func(m *model) error {
		ns := draft.Namespace
		if err := m.fitsNamespace(ns, quota, draft.CreatedAt); err != nil {
			return err
		}
		all := s.schemas[o][ns]
		last := lastVersion(all)
		if last == 0 || m.floor > 0 {
			last = max(last, s.floors[o])
		}
		if last == ext.MaxSchemaVersion {
			return ext.ErrNoVersionLeft
		}
		sc = draft
		sc.Version, sc.Status, sc.UpdatedAt = last+1, ext.Draft, draft.CreatedAt
		s.schemas[o][ns] = newestSchemas(append(all, sc))
		s.count(m, o)
		return nil
	})
	return sc, err
}

// lastVersion returns 0 without schemas.
func lastVersion(all []ext.Schema) ext.SchemaVersion {
	if len(all) == 0 {
		return 0
	}
	return all[len(all)-1].Version
}

// newestSchemas keeps the newest SchemasKept versions, and the active version.
func newestSchemas(all []ext.Schema) []ext.Schema {
	if len(all) <= ext.SchemasKept {
		return all
	}
	oldest := all[len(all)-ext.SchemasKept].Version
	return slices.DeleteFunc(all, func(sc ext.Schema) bool { return sc.Version < oldest && sc.Status != ext.Active })
}

func (s *memory) SetStatus(ctx context.Context, o ext.Owner, id ext.SchemaID, status ext.SchemaStatus, now ext.Moment) (sc ext.Schema, err error) {
	err = s.write(ctx, o, func(m *model) error {
		ns := id.Namespace
		all := s.schemas[o][ns]
		at := slices.IndexFunc(all, func(sc ext.Schema) bool { return sc.Version == id.Version })
		switch {
		case status == ext.Draft:
			return errcode.New(errcode.Invalid, "a schema can only be activated or deprecated")
		case at < 0:
			return ext.ErrNoSchema
		}
		for i := range all {
			if all[i].Status == ext.Active && status == ext.Active && i != at {
				all[i].Status, all[i].UpdatedAt = ext.Deprecated, now
			}
		}
		if all[at].Status != status {
			all[at].Status, all[at].UpdatedAt = status, now
		}
		m.active[ns] = 0
		for _, other := range all {
			if other.Status == ext.Active {
				m.active[ns] = other.Version
			}
		}
		sc = all[at]
		return nil
	})
	return sc, err
}

func (s *memory) Restore(ctx context.Context, o ext.Owner, sc ext.Schema, quota ext.Quota, now ext.Moment) (changed bool, err error) {
	err = s.write(ctx, o, func(m *model) error {
		if err := m.fitsNamespace(sc.Namespace, quota, now); err != nil {
			return err
		}
		all := s.schemas[o][sc.Namespace]
		at, found := slices.BinarySearchFunc(all, sc.Version, func(sc ext.Schema, v ext.SchemaVersion) int { return cmp.Compare(sc.Version, v) })
		switch {
		case found && !bytes.Equal(all[at].Document, sc.Document):
			return ext.ErrSchemaConflict
		case found && (sc.Status == ext.Draft || sc.Status == all[at].Status), !found && sc.Status != ext.Active && len(all)-at >= ext.SchemasKept:
			return nil
		}
		if changed = true; m.active[sc.Namespace] == sc.Version {
			m.active[sc.Namespace] = 0
		}
		if sc.Status == ext.Active {
			for i := range all {
				if all[i].Status == ext.Active {
					all[i].Status, all[i].UpdatedAt = ext.Deprecated, now
				}
			}
			m.active[sc.Namespace] = sc.Version
		}
		if found {
			all[at].Status, all[at].UpdatedAt = sc.Status, sc.UpdatedAt
			return nil
		}
		s.schemas[o][sc.Namespace] = newestSchemas(slices.Insert(all, at, sc))
		s.count(m, o)
		return nil
	})
	return changed, err
}

func (s *memory) ExportSchemas(_ context.Context, o ext.Owner, after ext.SchemaPosition, limit int) (all []ext.Schema, err error) {
	err = s.read(o, func(*model) error {
		for _, ns := range slices.Sorted(maps.Keys(s.schemas[o])) {
			for _, sc := range s.schemas[o][ns] {
				if cmp.Or(cmp.Compare(ns, after.Namespace), cmp.Compare(sc.Version, after.Version)) > 0 && len(all) < limit {
					all = append(all, sc)
				}
			}
		}
		return nil
	})
	return all, err
}

func (s *memory) Schemas(_ context.Context, o ext.Owner, q ext.SchemaQuery) (p ext.SchemaPage, err error) {
	end := ext.NewPageEnd(q.Limit, q.Bytes)
	err = s.read(o, func(*model) error {
		for _, sc := range slices.Backward(s.schemas[o][q.Namespace]) {
			switch {
			case p.More || q.Before > 0 && sc.Version >= q.Before:
			case end.Takes(int64(len(sc.Document))):
				p.Schemas = append(p.Schemas, sc)
			default:
				p.More = true
			}
		}
		return nil
	})
	return p, err
}

func (s *memory) Schema(_ context.Context, o ext.Owner, ns ext.Namespace, v ext.SchemaVersion) (sc ext.Schema, err error) {
	err = s.read(o, func(*model) error {
		all := s.schemas[o][ns]
		at := slices.IndexFunc(all, func(sc ext.Schema) bool { return sc.Version == v })
		if at < 0 {
			return ext.ErrNoSchema
		}
		sc = all[at]
		return nil
	})
	return sc, err
}

func (s *memory) Active(_ context.Context, o ext.Owner, ns ext.Namespace) (sc ext.Schema, err error) {
	err = s.read(o, func(m *model) error {
		for _, one := range s.schemas[o][ns] {
			if one.Version == m.active[ns] {
				sc = one
			}
		}
		return nil
	})
	return sc, err
}

func (s *memory) Install(_ context.Context, o ext.Owner) (in ext.Install, err error) {
	err = s.read(o, func(*model) error {
		var found bool
		if in, found = s.installs[o]; !found {
			return ext.ErrNoInstall
		}
		return nil
	})
	return in, err
}

func (s *memory) SetInstall(ctx context.Context, o ext.Owner, r ext.Registration, restore bool, now ext.Moment) (in ext.Install, created bool, err error) {
	if restore {
		if _, err := s.Reopen(ctx, o, now); err != nil {
			return ext.Install{}, false, err
		}
	}
	err = s.write(ctx, o, func(*model) error {
		before, known := s.installs[o]
		known = known && (before.TokensAfter != now || before.Tier != "")
		in = ext.Install{Registration: r, CreatedAt: cmp.Or(before.CreatedAt, now), UpdatedAt: now, TokensAfter: before.TokensAfter}
		if !restore {
			in.RevokedAt = before.RevokedAt
		}
		in.Namespaces = maps.Clone(r.Namespaces)
		s.installs[o], created = in, !known
		return nil
	})
	return in, created, err
}

func (s *memory) RestoreInstall(ctx context.Context, o ext.Owner, now ext.Moment) error {
	if _, err := s.Reopen(ctx, o, now); err != nil {
		return err
	}
	return s.write(ctx, o, func(*model) error {
		in, known := s.installs[o]
		if !known {
			return ext.ErrNoInstall
		}
		in.RevokedAt, in.UpdatedAt = 0, now
		s.installs[o] = in
		return nil
	})
}

func (s *memory) SwapQuota(ctx context.Context, o ext.Owner, from, to ext.Registration, now ext.Moment) (done bool, err error) {
	err = s.write(ctx, o, func(*model) error {
		in, known := s.installs[o]
		if done = known && in.Tier == from.Tier && in.Overrides == from.Overrides; done {
			in.Tier, in.Overrides, in.UpdatedAt = to.Tier, to.Overrides, now
			s.installs[o] = in
		}
		return nil
	})
	return done, err
}

func (s *memory) RevokeInstall(ctx context.Context, o ext.Owner, now ext.Moment) error {
	return s.write(ctx, o, func(*model) error {
		if in := s.installs[o]; in.RevokedAt == 0 {
			in.CreatedAt, in.UpdatedAt, in.RevokedAt = cmp.Or(in.CreatedAt, now), now, now
			s.installs[o] = in
		}
		return nil
	})
}

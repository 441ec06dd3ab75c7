package storetest

import (
	"context"
	"slices"
	"strings"

	ext "holdfast/internal/extstorage"
	"holdfast/internal/extstorage/inspection"
)

type deletion struct {
	ext.Deletion

	kept ext.Moment
}

// closed reports whether an owner or its tenant is or was being deleted.
func (s *memory) closed(o ext.Owner) bool {
	return s.deletions[o] != nil || s.deletions[ext.Services(o.Tenant)] != nil
}

// always is like write, but allows a closed owner.
func (s *memory) always(o ext.Owner, fn func(m *model) error) error {
	return s.read(o, func(m *model) error {
		if err := s.fault("begin"); err != nil {
			return err
		}
		return fn(m)
	})
}

func (s *memory) Close(_ context.Context, o ext.Owner, now ext.Moment) (d ext.Deletion, err error) {
	err = s.always(o, func(*model) error {
		if s.deletions[o] == nil {
			s.deletions[o] = &deletion{Deletion: ext.Deletion{StartedAt: now}}
		}
		s.show(o, now)
		d = s.deletions[o].Deletion
		return nil
	})
	return d, err
}

func (s *memory) show(o ext.Owner, now ext.Moment) {
	in, known := s.installs[o]
	if !known {
		in.CreatedAt = now
	}
	in.UpdatedAt, in.Deletion = now, s.deletions[o].Deletion
	s.installs[o] = in
}

func (s *memory) DeleteSome(_ context.Context, o ext.Owner, step ext.DeleteStep) (d ext.Deletion, err error) {
	step = step.Limited()
	err = s.always(o, func(m *model) error {
		del := s.deletions[o]
		switch {
		case del == nil:
			return ext.ErrNotClosed
		case del.FinishedAt != 0:
		case !s.deleteSome(m, o, &step, &del.Deleted):
			s.finish(m, o, &step, del)
		}
		if d = del.Deletion; d.FinishedAt == 0 {
			s.show(o, step.Now)
		}
		return nil
	})
	return d, err
}

func (s *memory) deleteSome(m *model, o ext.Owner, step *ext.DeleteStep, done *ext.Holdings) bool {
	if n, bytes := m.deleteRecords(step.Rows, step.Bytes); n > 0 {
		done.Records, done.Bytes = done.Records+n, done.Bytes+bytes
		return true
	}
	for ns, all := range s.schemas[o] {
		for _, sc := range all {
			s.floors[o] = max(s.floors[o], sc.Version)
		}
		delete(s.schemas[o], ns)
		s.count(m, o)
		if done.Schemas += int64(len(all)); len(all) > 0 {
			return true
		}
	}
	clear(m.active)
	n := min(int(step.Rows), len(m.feed))
	m.feed = slices.Clone(m.feed[n:])
	answers, tokens := int64(len(m.answers)), int64(len(s.tokens[o]))
	switch {
	case n > 0:
		done.Changes += int64(n)
	case answers > 0:
		done.Answers += answers
		clear(m.answers)
	default:
		done.Tokens += tokens
		delete(s.tokens, o)
		return tokens > 0
	}
	return true
}

func (s *memory) finish(m *model, o ext.Owner, step *ext.DeleteStep, d *deletion) {
	d.FinishedAt, d.kept = step.Now, step.KeptUntil
	m.last++
	m.countedAt = 0
	topic, whole := ext.AuditDeleteTenant, ext.Services(o.Tenant)
	if o != whole {
		topic = ext.AuditDeleteInstall
		if of := s.deletions[whole]; of != nil && of.FinishedAt == 0 {
			of.Deleted.Add(d.Deleted)
			of.Deleted.Installs++
			s.show(whole, step.Now)
		}
	}
	m.events = append(m.events, Event{
		Seq: int64(m.last), Topic: topic, At: step.Now, Payload: string(ext.DeletionPayload(o, step.Caller, &d.Deletion)),
	})
	s.installs[o] = ext.Install{CreatedAt: d.StartedAt, UpdatedAt: step.Now, Deletion: d.Deletion}
}

func (s *memory) NextInstall(_ context.Context, t ext.TenantID, after ext.InstallID) (next ext.InstallID, err error) {
	err = s.read(ext.Services(t), func(*model) error {
		for o := range s.models {
			if o.Tenant == t && o.Install > after && (next == "" || o.Install < next) {
				next = o.Install
			}
		}
		return nil
	})
	return next, err
}

func (s *memory) Holdings(_ context.Context, o ext.Owner) (h ext.Holdings, err error) {
	err = s.read(o, func(*model) error {
		for of, m := range s.models {
			whole := o == ext.Services(o.Tenant) && of.Tenant == o.Tenant
			if !whole && of != o {
				continue
			}
			_, registered := s.installs[of]
			known := m.last > 0 || registered || len(s.schemas[of]) > 0
			if d := s.deletions[of]; known && whole && of != o && (d == nil || d.FinishedAt == 0) {
				h.Installs++
			}
			h.Records += int64(len(m.rows))
			for _, r := range m.rows {
				h.Bytes += r.Bytes()
			}
			for _, all := range s.schemas[of] {
				h.Schemas += int64(len(all))
			}
			h.Changes += int64(len(m.feed))
			h.Answers += int64(len(m.answers))
			h.Tokens += int64(len(s.tokens[of]))
		}
		return nil
	})
	return h, err
}

func (s *memory) Reopen(_ context.Context, o ext.Owner, now ext.Moment) (reopened bool, err error) {
	err = s.always(o, func(*model) error {
		d := s.deletions[o]
		switch {
		case o != ext.Services(o.Tenant) && s.deletions[ext.Services(o.Tenant)] != nil, d != nil && d.FinishedAt == 0:
			return ext.ErrInstallDeleted
		case d != nil:
			reopened = true
			delete(s.deletions, o)
			s.installs[o] = ext.Install{CreatedAt: now, UpdatedAt: now, TokensAfter: now}
		}
		return nil
	})
	return reopened, err
}

func (s *memory) count(m *model, o ext.Owner) {
	clear(m.schemas)
	for ns, all := range s.schemas[o] {
		m.schemas[ns] = len(all)
	}
}

func (s *memory) DropSchemas(ctx context.Context, o ext.Owner, ns ext.Namespace, v ext.SchemaVersion, _ ext.Moment) (n int, err error) {
	err = s.write(ctx, o, func(m *model) error {
		all := s.schemas[o][ns]
		if v == 0 {
			for _, sc := range all {
				s.floors[o] = max(s.floors[o], sc.Version)
			}
			n, m.active[ns] = len(all), 0
			delete(s.schemas[o], ns)
			s.count(m, o)
			return nil
		}
		if len(all) > 0 && all[len(all)-1].Version == v || m.active[ns] == v {
			return ext.ErrSchemaNeeded
		}
		s.schemas[o][ns] = slices.DeleteFunc(all, func(sc ext.Schema) bool { return sc.Version == v })
		n = len(all) - len(s.schemas[o][ns])
		s.count(m, o)
		return nil
	})
	return n, err
}

func (s *memory) ListInstalls(_ context.Context, span inspection.Span, revoked bool, limit int) (all []inspection.InstallUsage, err error) {
	if err := span.Check(); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	after, last := span.Bounds()
	for o, in := range s.installs {
		if after.Compare(o) < 0 && o.Compare(last) <= 0 && (!revoked || in.RevokedAt != 0) && o != ext.Services(o.Tenant) {
			u := inspection.InstallUsage{Owner: o, Registered: in}
			if m := s.models[o]; m != nil {
				u.Counters = m.stored()
			}
			all = append(all, u)
		}
	}
	slices.SortFunc(all, func(a, b inspection.InstallUsage) int { return a.Compare(b.Owner) })
	return all[:min(limit, len(all))], nil
}

func (s *memory) FindInstalls(_ context.Context, first, last ext.InstallID, limit int) (all []ext.Owner, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	add := func(o ext.Owner) {
		if first <= o.Install && o.Install <= last && o != ext.Services(o.Tenant) {
			all = append(all, o)
		}
	}
	for o := range s.installs {
		add(o)
	}
	for o, m := range s.models {
		if m.stored() != (ext.Counters{}) {
			add(o)
		}
	}
	return inspection.FirstInstalls(all, limit), nil
}

func (s *memory) FindRecords(_ context.Context, o ext.Owner, prefix string, limit int, now ext.Moment) (all []ext.Position, err error) {
	err = s.read(o, func(m *model) error {
		for _, r := range m.live(now) {
			if strings.HasPrefix(string(r.Key), prefix) && len(all) < limit {
				all = append(all, ext.Position{Namespace: r.Namespace, Key: r.Key})
			}
		}
		return nil
	})
	return all, err
}

func (s *memory) Filled(_ context.Context, least ext.Quota, now ext.Moment, begin func(), fn func(inspection.Filling)) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	begin()
	for o, m := range s.models {
		f := inspection.Filling{Bytes: m.stored().Bytes, Namespaces: m.quota(m.countedAt).Namespaces, Registered: s.installs[o]}
		for ns := range m.namespaces(m.countedAt) {
			f.Keys = max(f.Keys, m.keys(ns, m.countedAt))
		}
		if s.deletions[o] == nil && (f.Bytes >= ext.NoticeFrom(least.Bytes) || f.Namespaces >= ext.NoticeFrom(least.Namespaces) ||
			f.Keys >= ext.NoticeFrom(least.Keys) || f.Registered.Overrides.Until > now) {
			fn(f)
		}
	}
	return nil
}

package imports

import (
	"context"
	"errors"

	"holdfast/internal/buckets"
	"holdfast/internal/errcode"
)

// versionsHere lists versions in the target, as a stream.
type versionsHere struct {
	service *buckets.Service
	owner   buckets.AccountID
	bucket  buckets.BucketID
	query   buckets.VersionQuery
	page    []buckets.Version
	isLast  bool
}

// versionsHere begins at the first name with the prefix.
func (i *imports) versionsHere(p *pair, prefix string) *versionsHere {
	return &versionsHere{service: i.Target, owner: i.Account.ID, bucket: p.bucket.ID, query: buckets.VersionQuery{Prefix: prefix, Limit: pageSize}}
}

// head returns the next version without consuming it; nil at the end.
func (h *versionsHere) head(ctx context.Context) (*buckets.Version, error) {
	for len(h.page) == 0 {
		if h.isLast || h.bucket == "" {
			return nil, nil //nolint:nilnil // the end
		}
		page, err := h.service.ListVersions(ctx, h.owner, h.bucket, h.query)
		if err != nil {
			return nil, err
		}
		h.page, h.isLast, h.query.After, h.query.AfterVersion = page.Versions, !page.More, page.After, page.AfterVersion
	}
	return &h.page[0], nil
}

// until returns the versions of the next name, oldest first, unless that name is above name.
func (h *versionsHere) until(ctx context.Context, name string) (all []buckets.Version, err error) {
	first, err := h.head(ctx)
	if err != nil || first == nil || first.Name > name {
		return nil, err
	}
	return h.next(ctx)
}

// next returns all versions of the next name, oldest first; none at the end.
func (h *versionsHere) next(ctx context.Context) (all []buckets.Version, err error) {
	for {
		v, err := h.head(ctx)
		if err != nil || v == nil || len(all) > 0 && v.Name != all[len(all)-1].Name {
			reverse(all)
			return all, err
		}
		all = append(all, *v)
		h.page = h.page[1:]
	}
}

// reverse turns newest first into oldest first.
func reverse(all []buckets.Version) {
	for a, b := 0, len(all)-1; a < b; a, b = a+1, b-1 {
		all[a], all[b] = all[b], all[a]
	}
}

// ofName returns a name's versions here, oldest first.
func (i *imports) ofName(ctx context.Context, p *pair, name string) ([]buckets.Version, error) {
	all, err := i.versionsHere(p, name).until(ctx, name)
	return all, err
}

// mergeVersions is merge for buckets with versions.
type mergeVersions struct {
	*merge
	here *versionsHere
}

// run compares all names. If the source listed nothing at all, nothing is deleted.
func (m *mergeVersions) run(ctx context.Context) error {
	err := m.Source.listVersions(ctx, m.from, m.Prefix, func(key string, from []Listed) error { return m.add(ctx, key, from) })
	if err != nil {
		return err
	}
	for {
		here, err := m.here.next(ctx)
		if err != nil || len(here) == 0 {
			return err
		}
		if m.last == "" && len(PlanVersions(nil, here, 0).Delete) > 0 {
			m.problem(Problem{Bucket: m.from, Reason: reason(errEmpty), Failed: true})
			return nil
		}
		if err := m.decide(here[0].Name, nil, here); err != nil {
			return err
		}
	}
}

// add decides about a name, and about all names here before it.
func (m *mergeVersions) add(ctx context.Context, key string, from []Listed) error {
	m.change(func(r *Result) { r.Objects += int64(len(from)) })
	if err := buckets.CheckObjectName(key); err != nil {
		m.problem(Problem{Bucket: m.from, Key: key, Reason: reason(err), Failed: true})
		return nil
	}
	if m.last != "" && key <= m.last {
		here, err := m.ofName(ctx, m.pair, key)
		if err != nil {
			return err
		}
		return m.decide(key, from, here)
	}
	m.last = key
	for {
		here, err := m.here.until(ctx, key)
		if err != nil {
			return err
		}
		if len(here) == 0 || here[0].Name == key {
			return m.decide(key, from, here)
		}
		if err := m.decide(here[0].Name, nil, here); err != nil {
			return err
		}
	}
}

// decide sends tasks for a plan, and counts the rest.
func (m *mergeVersions) decide(key string, from []Listed, here []buckets.Version) error {
	plan := PlanVersions(from, here, m.behind())
	if plan.Keep {
		m.keep(m.pair, key)
	}
	if plan.Absent > 0 {
		m.change(func(r *Result) { r.Absent += int64(plan.Absent) })
		m.problem(Problem{Bucket: m.from, Key: key, Reason: "older versions are not here, and cannot be added below newer ones: they were deleted here, or an import could not take them"})
	}
	m.change(func(r *Result) { r.Skipped += int64(len(plan.Same)) })
	if len(plan.Take)+len(plan.Delete) > 0 {
		if err := m.send(task{action: TakeVersions, from: Listed{Key: key}, plan: plan, current: currentOf(here)}); err != nil {
			return err
		}
	}
	for _, s := range plan.Same {
		if !s.From.Marker && m.comparesTags(s.Here) {
			if err := m.send(task{action: Retag, from: s.From, here: s.Here}); err != nil {
				return err
			}
		}
	}
	return nil
}

// currentOf returns the current object; nil for a delete marker.
func currentOf(here []buckets.Version) *buckets.Object {
	if n := len(here); n > 0 && !here[n-1].Marker {
		return &here[n-1].Object
	}
	return nil
}

// takeVersions follows a plan, and plans again if a client changed the name meanwhile.
func (i *imports) takeVersions(ctx context.Context, p *pair, t *task) error {
	for range tries {
		if len(t.plan.Delete) > 0 { // the list may be old or unsorted
			if err := i.planAgain(ctx, p, t); err != nil {
				return err
			}
		}
		err := i.followPlan(ctx, p, t)
		if !errcode.Is(err, errcode.Precondition) {
			return err
		}
		if err := i.planAgain(ctx, p, t); err != nil { // a client was faster
			return err
		}
		if t.plan.Keep {
			i.keep(p, t.from.Key)
		}
	}
	return buckets.ErrPrecondition
}

// planAgain reads both sides and plans anew.
func (i *imports) planAgain(ctx context.Context, p *pair, t *task) error {
	from, err := i.Source.versionsOf(ctx, p.from, t.from.Key)
	if err != nil {
		return err
	}
	here, err := i.ofName(ctx, p, t.from.Key)
	t.plan, t.current = PlanVersions(from, here, i.behind()), currentOf(here)
	return err
}

// followPlan stops at a version that cannot be read now, so that the next import continues there. It skips versions
// that can never be imported.
func (i *imports) followPlan(ctx context.Context, p *pair, t *task) error {
	for _, v := range t.plan.Delete {
		d := buckets.Delete{Name: v.Name, Version: v.VersionID()}
		if !v.Marker {
			d.Unchanged = &v.Object
		}
		err := i.Target.DeleteObject(ctx, i.Account.ID, p.bucket.BucketRef, d)
		switch {
		case errors.Is(err, buckets.ErrNoVersion):
		case err != nil:
			return err
		default:
			i.change(func(r *Result) { r.Deleted++ })
		}
	}
	if len(t.plan.Delete) > 0 {
		here, err := i.ofName(ctx, p, t.from.Key)
		if err != nil {
			return err
		}
		t.current = currentOf(here)
	}
	for _, from := range t.plan.Take {
		if err := i.takeVersion(ctx, p, t, from); err != nil {
			if code := errcode.Of(err); code != errcode.Invalid && code != errcode.Denied || errors.Is(err, buckets.ErrNoBucket) {
				return err
			}
			i.problem(Problem{Bucket: p.from, Key: from.Key, Reason: "version " + from.Version + ": " + reason(err), Failed: true})
		}
	}
	return nil
}

// takeVersion writes a version or marker on top of the current object.
func (i *imports) takeVersion(ctx context.Context, p *pair, t *task, from Listed) error {
	if err := p.keepsVersions(ctx); err != nil {
		return err
	}
	if !from.Marker {
		single := task{action: Take, from: from, here: t.current}
		var err error
		for range tries {
			if err = i.take(ctx, p, &single); !errors.Is(err, errDamaged) {
				break
			}
		}
		t.current = single.here
		return err
	}
	d := buckets.Delete{Name: from.Key, Imported: from.Modified, Condition: unchanged(t.current)}
	if err := i.Target.DeleteObject(ctx, i.Account.ID, p.bucket.BucketRef, d); err != nil {
		return err
	}
	t.current = nil
	i.change(func(r *Result) { r.Imported++ })
	return nil
}

package imports

import (
	"context"
	"errors"
	"time"

	"holdfast/internal/buckets"
	"holdfast/internal/errcode"
)

const pageSize = 1000 // objects read here at once

// here lists objects in the target, as a stream.
type here struct {
	service *buckets.Service
	owner   buckets.AccountID
	bucket  buckets.BucketID
	query   buckets.Query
	page    []buckets.Entry
	isLast  bool
}

// objectsHere begins at the first name with the prefix.
func (i *imports) objectsHere(p *pair) *here {
	return &here{service: i.Target, owner: i.Account.ID, bucket: p.bucket.ID, query: buckets.Query{Prefix: i.Prefix, Limit: pageSize}}
}

// head returns the next object without consuming it; nil at the end, or if the bucket does not exist yet.
func (h *here) head(ctx context.Context) (*buckets.Object, error) {
	if h.bucket == "" {
		return nil, nil //nolint:nilnil // no object
	}
	for len(h.page) == 0 {
		if h.isLast {
			return nil, nil //nolint:nilnil // the end
		}
		page, err := h.service.List(ctx, h.owner, h.bucket, h.query)
		if err != nil {
			return nil, err
		}
		h.page, h.query.Start, h.isLast = page.Entries, page.Next, !page.More
	}
	return h.page[0].Object, nil
}

// skip consumes the head.
func (h *here) skip() { h.page = h.page[1:] }

// merge compares the two lists. It looks up source names that are out of order, because some servers list a folder
// before names that sort before its slash.
type merge struct {
	*imports
	*pair
	here *here
	send func(task) error // gives a task to a worker
	last string           // greatest name so far
}

// run compares all names.
func (m *merge) run(ctx context.Context) error {
	err := m.Source.list(ctx, m.from, m.Prefix, func(page []Listed) error {
		for n := range page {
			if err := m.add(ctx, &page[n]); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	return m.rest(ctx)
}

// add decides about a listed name, and about all names here before it, which the source lacks.
func (m *merge) add(ctx context.Context, from *Listed) error {
	m.change(func(r *Result) { r.Objects++ })
	if err := buckets.CheckObjectName(from.Key); err != nil {
		m.problem(Problem{Bucket: m.from, Key: from.Key, Reason: reason(err), Failed: true})
		return nil
	}
	if m.last != "" && from.Key <= m.last {
		return m.lookUp(ctx, from)
	}
	m.last = from.Key
	for {
		o, err := m.here.head(ctx)
		switch {
		case err != nil:
			return err
		case o == nil || o.Name > from.Key:
			return m.decide(from, nil)
		case o.Name == from.Key:
			m.here.skip()
			return m.decide(from, o)
		}
		m.here.skip()
		if err := m.decide(nil, o); err != nil {
			return err
		}
	}
}

// lookUp finds a name that is out of order. Its counterpart here was passed already.
func (m *merge) lookUp(ctx context.Context, from *Listed) error {
	if m.bucket.ID == "" {
		return m.decide(from, nil)
	}
	o, err := m.Target.Object(ctx, m.Account.ID, m.bucket.ID, from.Key)
	if errors.Is(err, buckets.ErrNoObject) {
		return m.decide(from, nil)
	} else if err != nil {
		return err
	}
	o.Inline = nil // it would stay in memory while the task waits
	return m.decide(from, &o)
}

var errEmpty = errcode.New(errcode.Conflict, "the bucket is empty at the source, but not here: nothing is deleted. If that is right, delete the objects here")

// rest decides about names here after the last listed name. If the source listed nothing at all, nothing is deleted.
func (m *merge) rest(ctx context.Context) error {
	for {
		o, err := m.here.head(ctx)
		if err != nil || o == nil {
			return err
		}
		if m.last == "" && Decide(nil, o, 0) == Delete { // the source lists no objects, e.g. because its disk is not mounted
			m.problem(Problem{Bucket: m.from, Reason: reason(errEmpty), Failed: true})
			return nil
		}
		m.here.skip()
		if err := m.decide(nil, o); err != nil {
			return err
		}
	}
}

// decide sends a task for a change, and counts the rest.
func (m *merge) decide(from *Listed, here *buckets.Object) error {
	switch action := Decide(from, here, m.behind()); {
	case action == Take:
		return m.send(task{action: Take, from: *from, here: here})
	case action == Delete:
		return m.send(task{action: Delete, from: Listed{Key: here.Name}, here: here})
	case action == Skip:
		m.change(func(r *Result) { r.Skipped++ })
		if m.comparesTags(here) {
			return m.send(task{action: Retag, from: *from, here: here})
		}
	case from != nil:
		m.keep(m.pair, from.Key)
	}
	return nil
}

// behind returns how far the source's clock is behind, measured in its answers.
func (i *imports) behind() time.Duration { return time.Duration(i.Source.behind.Load()) }

package extstorage

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"

	"holdfast/internal/canonjson"
)

// ExportPage is a part of an export.
type ExportPage struct {
	Records []Record
	Total   int64  // records of all pages up to this one
	Next    string // cursor of the next page; "" when this is the last
}

// exportPlace is where an export goes on: behind a record, and how many records
// came before.
type exportPlace struct {
	Position
	total int64
}

func (p exportPlace) String() string {
	return strconv.FormatInt(p.total, 10) + "/" + string(p.Namespace) + "/" + string(p.Key)
}

// parseExportPlace reads what String returned. Neither a namespace nor a key has a
// slash.
func parseExportPlace(s string) (p exportPlace, err error) {
	total, rest, _ := strings.Cut(s, "/")
	ns, key, _ := strings.Cut(rest, "/")
	p.Namespace, p.Key = Namespace(ns), Key(key)
	if p.total, err = strconv.ParseInt(total, 10, 64); err != nil {
		return p, errCursor
	}
	return p, nil
}

// Export reads a page of the records of an install that the bearer may read, in
// the order of namespace and key, of at most limit records and PageBytes. A page
// may be empty and not be the last.
func (s *Service) Export(ctx context.Context, r Request, cursor string, limit int) (page ExportPage, err error) {
	p, err := s.pass(ctx, r.Grant)
	if err != nil {
		return page, err
	}
	if !p.reads() {
		return page, ErrAccess
	}
	if err := checkLimit(limit, 1, MaxPage); err != nil {
		return page, err
	}
	question := []string{"export", string(p.Owner.Tenant), string(p.Owner.Install)}
	var at exportPlace
	if cursor != "" {
		place, err := s.cursors.open(cursor, question...)
		if err == nil {
			at, err = parseExportPlace(place)
		}
		if err != nil {
			return page, under("/cursor", err)
		}
	}
	read, err := s.opts.Store.Export(ctx, p.Owner, ExportQuery{After: at.Position, Limit: limit, Now: s.moment()})
	if err != nil {
		return page, err
	}
	if read.More {
		last := &read.Records[len(read.Records)-1]
		at.Position = Position{last.Namespace, last.Key}
	}
	page.Records = slices.DeleteFunc(read.Records, func(rec Record) bool { return p.In(rec.Namespace)&Read == 0 })
	at.total += int64(len(page.Records))
	if page.Total = at.total; read.More {
		page.Next = s.cursors.seal(at.String(), question...)
	}
	return page, nil
}

// Imported counts what an import did with its records.
type Imported struct {
	Written int
	Same    int // were there already, as they are: an import may come again
	Expired int // were left out
}

// Import puts records as Export gave them: at most as many as a batch may have,
// all or none. Values are held against the active schemas, and a time to live
// ends when it ended there. A record that was there before goes on with its own
// revisions; a new one begins with 1. The failure of one is an *ItemError.
func (s *Service) Import(ctx context.Context, r Request, records []Record) (done Imported, err error) {
	p, err := s.pass(ctx, r.Grant)
	if err != nil {
		return done, err
	}
	if len(records) > s.limits.Items {
		return done, ErrTooMany
	}
	r.IdempotencyKey = nil // what it does depends on what is there
	now := s.moment()
	var tasks []Task
	var indexes []int // of the tasks' records
	for i := range records {
		rec := &records[i]
		if err := p.need(rec.Namespace, Read|Modify); err != nil {
			return done, &ItemError{i, err}
		}
		if rec.ExpiresAt.Reached(now) {
			done.Expired++
			continue
		}
		if rec.ExpiresAt > now+Moment(s.limits.MaxTTL.Milliseconds()) {
			return done, &ItemError{i, &ValidationError{Pointer: "/ttlExpiresAt", Reason: "is too far ahead"}}
		}
		old, err := s.opts.Store.Get(ctx, p.Owner, rec.Namespace, rec.Key, now)
		if err != nil && !errors.Is(err, ErrNoRecord) {
			return done, err
		}
		metadata := rec.Metadata
		if metadata == "" {
			metadata = canonjson.EmptyObject
		}
		if err == nil && old.Value == rec.Value && old.Metadata == metadata && old.ExpiresAt == rec.ExpiresAt {
			done.Same++
			continue
		}
		tasks = append(tasks, Task{Namespace: rec.Namespace, Key: rec.Key, Value: rec.Value, Metadata: metadata, until: rec.ExpiresAt})
		indexes = append(indexes, i)
	}
	if done.Written = len(tasks); done.Written == 0 {
		return done, nil
	}
	_, err = s.BulkPut(ctx, r, tasks)
	if item, ok := errors.AsType[*ItemError](err); ok {
		err = &ItemError{indexes[item.Index], item.Err}
	}
	if err != nil {
		return Imported{}, err
	}
	return done, nil
}

// RegisterInstall registers an install, or changes what is registered as a
// whole, and returns it and whether nothing was before. Overrides without an end
// last for OverrideLifetime. Only restore gives access again to one that is
// revoked.
func (s *Service) RegisterInstall(ctx context.Context, o Owner, r Registration, restore bool) (in Install, created bool, err error) {
	now := s.moment()
	if err := s.checkRegistration(&r, now); err != nil {
		return Install{}, false, err
	}
	defer s.installs.remove(o) // also of an error, which may have come too late
	return s.opts.Installs.SetInstall(ctx, o, r, restore, now)
}

func (s *Service) checkRegistration(r *Registration, now Moment) error {
	if _, known := s.opts.Config.Tiers[r.Tier]; !known && r.Tier != "" {
		return &ValidationError{Pointer: "/tier", Reason: "must be a tier of the configuration"}
	}
	v, most := &r.Overrides, now+Moment(OverrideLifetime.Milliseconds())
	switch {
	case v.Until != 0 && v.Until <= now:
		return &ValidationError{Pointer: "/overrides/until", Reason: "must be in the future"}
	case v.Bytes < 0 || v.Namespaces < 0 || v.Keys < 0:
		return &ValidationError{Pointer: "/overrides", Reason: "must not be negative"}
	case v.Quota != Quota{} && v.Until == 0:
		v.Until = most
	case v.Until > most:
		return &ValidationError{Pointer: "/overrides/until", Reason: "must be at most 14 days ahead"}
	case v.Until != 0 && v.Quota == Quota{}:
		return &ValidationError{Pointer: "/overrides", Reason: "must have bytes, namespaces or keys beside until"}
	}
	for ns := range r.Namespaces {
		if _, err := ParseNamespace(string(ns)); err != nil {
			return under(canonjson.Pointer{"namespaces", string(ns)}.String(), err)
		}
	}
	return nil
}

// ShowInstall is what is registered: ErrNoInstall.
func (s *Service) ShowInstall(ctx context.Context, o Owner) (Install, error) {
	return s.opts.Installs.Install(ctx, o)
}

// RevokeInstall ends all access of an install, registered or not: here at once,
// on other processes within a second. What it has stays.
func (s *Service) RevokeInstall(ctx context.Context, o Owner) error {
	defer s.signals.notify(o)  // who waits for changes has waited for nothing
	defer s.installs.remove(o) // also of an error, which may have come too late
	return s.opts.Installs.RevokeInstall(ctx, o, s.moment())
}

package extstorage

import (
	"context"
	"slices"
	"strconv"
	"time"
)

// GetRecord may return ErrNoRecord or *MismatchError.
func (s *Service) GetRecord(ctx context.Context, r Request, ns Namespace, key Key, g Precondition) (Record, error) {
	p, err := s.may(ctx, r.Grant, ns, Read)
	if err != nil {
		return Record{}, err
	}
	rec, err := s.opts.Store.Get(ctx, p.Owner, ns, key, s.moment())
	if err != nil {
		return Record{}, err
	}
	return rec, g.Check(rec.Revision, rec.Seq)
}

// Listing selects a page of records.
type Listing struct {
	Namespace Namespace
	Prefix    string
	Cursor    string // previous page's cursor; "" means from the start
	After     Key    // only keys after it; for operators, who need no sealed cursor; "" means from the start
	Limit     int    // 1 to MaxPage
	Reverse   bool
	Values    bool
	Metadata  bool
}

// ListRecords reads a page of at most PageBytes, and returns the next cursor, which is "" on the last page.
func (s *Service) ListRecords(ctx context.Context, r Request, l Listing) (records []Record, next string, err error) {
	p, err := s.may(ctx, r.Grant, l.Namespace, Read)
	if err != nil {
		return nil, "", err
	}
	if err := checkLimit(l.Limit, 1, MaxPage); err != nil {
		return nil, "", err
	}
	if l.Prefix != "" {
		if _, err := ParseKey(l.Prefix); err != nil {
			return nil, "", Under("/prefix", err)
		}
	}
	question := []string{
		"list", string(p.Owner.Tenant), string(p.Owner.Install), string(l.Namespace), l.Prefix, strconv.FormatBool(l.Reverse),
	}
	q := Query{
		Namespace: l.Namespace, Prefix: l.Prefix, Reverse: l.Reverse, Limit: l.Limit,
		Values: l.Values, Metadata: l.Metadata, Now: s.moment(), After: l.After,
	}
	if l.Cursor != "" {
		after, err := s.cursors.open(l.Cursor, question...)
		if err != nil {
			return nil, "", Under("/cursor", err)
		}
		q.After = Key(after)
	}
	page, err := s.opts.Store.List(ctx, p.Owner, q)
	if err == nil && page.More {
		next = s.cursors.seal(string(page.Records[len(page.Records)-1].Key), question...)
	}
	return page.Records, next, err
}

// checkLimit validates a page size.
func checkLimit(limit, minimum, maximum int) error {
	if limit < minimum || limit > maximum {
		return &ValidationError{Pointer: "/limit", Reason: "must be a whole number from " + strconv.Itoa(minimum) + " to " + strconv.Itoa(maximum)}
	}
	return nil
}

// Limits for reading changes.
const (
	MaxChanges = 1000
	MaxWait    = 60 * time.Second
)

// Changes reads changes after since in the readable namespaces, oldest first, waiting up to the given time for the
// first. Continue at Last, which may be after the last returned change. If limit is 0, it returns only Last. It
// returns ErrChangesGone if since is too old or was never issued here.
func (s *Service) Changes(ctx context.Context, r Request, since Seq, limit int, wait time.Duration) (Feed, error) {
	if err := checkLimit(limit, 0, MaxChanges); err != nil {
		return Feed{}, err
	}
	switch {
	case since < 0:
		return Feed{}, &ValidationError{Pointer: "/since", Reason: "must not be negative"}
	case wait < 0 || wait > MaxWait:
		return Feed{}, &ValidationError{Pointer: "/wait", Reason: "must be a whole number from 0 to 60"}
	}
	until := s.opts.Clock().Add(wait)
	for page := limit; ; {
		feed, full, made, leave, err := s.look(ctx, r, since, page)
		if len(feed.Changes) > limit {
			feed.Changes = feed.Changes[:limit]
			feed.Last = feed.Changes[limit-1].Seq
		}
		if err != nil || len(feed.Changes) > 0 {
			leave()
			return feed, err
		}
		since = feed.Last
		left := until.Sub(s.opts.Clock())
		if left <= 0 && !full {
			leave()
			return feed, nil
		}
		if full {
			page = MaxChanges // the token may not allow many of them
		} else {
			err = s.await(ctx, &r.Grant, made, min(left, s.config.Load().PollEvery))
		}
		if leave(); err != nil {
			return Feed{}, err
		}
	}
}

// look reads a page of changes. full means that more changes follow. It subscribes before reading, so as not to miss
// changes in between.
func (s *Service) look(ctx context.Context, r Request, since Seq, limit int) (feed Feed, full bool, made <-chan struct{}, leave func(), err error) {
	made, leave = s.signals.wait(r.Grant.Owner)
	p, err := s.pass(ctx, r.Grant) // each time: the grant may be revoked while waiting
	if err != nil {
		return feed, false, made, leave, err
	}
	if !p.reads() {
		return feed, false, made, leave, ErrAccess
	}
	feed, err = s.opts.Store.Changes(ctx, p.Owner, since, limit)
	if err != nil {
		return feed, false, made, leave, err
	}
	if since > feed.Last {
		return Feed{}, false, made, leave, ErrChangesGone
	}
	if n := len(feed.Changes); n > 0 {
		full = feed.Changes[n-1].Seq < feed.Last
		feed.Last = feed.Changes[n-1].Seq
	}
	feed.Changes = slices.DeleteFunc(feed.Changes, func(c Change) bool { return p.In(c.Namespace)&Read == 0 })
	return feed, full, made, leave, nil
}

// reads reports whether the token may read any namespace.
func (p *Pass) reads() bool {
	if p.Every&Read != 0 {
		return true
	}
	for ns := range p.Namespaces {
		if p.In(ns)&Read != 0 {
			return true
		}
	}
	return false
}

// Warning reports a nearly exhausted quota.
type Warning struct {
	What      string    // "namespaces", "keys" or "bytes"
	Namespace Namespace // for keys only
	Limit     int64
	Used      int64
	Percent   int64 // of Limit, rounded down; at least NoticePercent
}

// UsageReport is an install's usage with the quota in effect.
type UsageReport struct {
	Usage
	Quota    Quota
	Warnings []Warning
}

// Usage reads the usage of namespaces to which the token has any access. Totals and warnings cover the whole install.
func (s *Service) Usage(ctx context.Context, r Request) (UsageReport, error) {
	p, err := s.pass(ctx, r.Grant)
	if err != nil {
		return UsageReport{}, err
	}
	now := s.moment()
	used, err := s.opts.Store.Usage(ctx, p.Owner, now)
	if err != nil {
		return UsageReport{}, err
	}
	used.Namespaces = slices.DeleteFunc(used.Namespaces, func(n NamespaceUsage) bool { return p.In(n.Namespace) == 0 })
	u := UsageReport{Usage: used, Quota: s.quota(&p.install, now)}
	u.warn("namespaces", "", u.Quota.Namespaces, used.Counters.Namespaces)
	for _, n := range used.Namespaces {
		u.warn("keys", n.Namespace, u.Quota.Keys, n.Keys)
	}
	u.warn("bytes", "", u.Quota.Bytes, used.Counters.Bytes)
	return u, nil
}

// warn adds a warning from NoticePercent on.
func (u *UsageReport) warn(what string, ns Namespace, limit, used int64) {
	if percent := PercentOf(used, limit); percent >= NoticePercent {
		u.Warnings = append(u.Warnings, Warning{What: what, Namespace: ns, Limit: limit, Used: used, Percent: percent})
	}
}

// Namespaces lists the namespaces with live records to which the token has any access.
func (s *Service) Namespaces(ctx context.Context, r Request) ([]NamespaceUsage, error) {
	u, err := s.Usage(ctx, r)
	return u.Namespaces, err
}

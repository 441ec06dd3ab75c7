package syncstorage

import (
	"bytes"
	"context"
	"iter"
	"sync/atomic"
	"time"

	"holdfast/internal/clock"
	"holdfast/internal/errcode"
	"holdfast/internal/ident"
)

// Options are the parts of a Service.
type Options struct {
	Store  Store
	Config Config
	Clock  clock.Clock

	// Connections is the Store's connection pool size. Half as many large listings, at least 1, are read at the same
	// time, so that one user's requests do not fill the queue.
	Connections int

	// OverQuota, which may be nil, is called after a write that exceeds a quota that is not enforced, before the write
	// returns. It may be called concurrently and must not block.
	OverQuota func(o Owner, collection string, used Used)
}

// Service validates and limits client requests, and calls the Store. It is safe for concurrent use.
type Service struct {
	store     Store
	conf      atomic.Pointer[Config]
	overQuota func(o Owner, collection string, used Used)
	streams   streams
}

// NewService returns a Service. It returns errcode.Invalid for a missing option that would fail only later.
func NewService(o Options) (*Service, error) {
	if o.Store == nil || o.Clock == nil {
		return nil, errcode.New(errcode.Invalid, "syncstorage: Options requires Store and Clock")
	}
	if o.OverQuota == nil {
		o.OverQuota = func(Owner, string, Used) {}
	}
	s := &Service{
		store: o.Store, overQuota: o.OverQuota,
		streams: newStreams(o.Connections/2, o.Config.StatementTimeout, o.Clock),
	}
	s.Reload(o.Config)
	return s, nil
}

// Reload changes the settings for later requests. The caller must not change the maps in c afterwards.
func (s *Service) Reload(c Config) { s.conf.Store(&c) }

// Limits returns the limits for a collection.
func (s *Service) Limits(collection string) Limits { return s.conf.Load().Limits.For(collection) }

// MaxNames returns the setting.
func (s *Service) MaxNames() int { return s.conf.Load().MaxNames }

// Quota returns the configured quota.
func (s *Service) Quota() Quota { return s.conf.Load().Quota() }

// Errors that reject the whole request.
var (
	// ErrBody means that the body contains no valid record.
	ErrBody error = errcode.New(errcode.Invalid, "the body is not a valid BSO or list of BSOs")
	// ErrDeclared means that an X-Weave header declares more than is allowed.
	ErrDeclared error = errcode.New(errcode.TooLarge, "the size in the X-Weave headers exceeds the limit")
	// ErrBatchQuery means that the query contains commit without batch.
	ErrBatchQuery error = errcode.New(errcode.Invalid, "commit requires batch in the query")
)

// Item is an element of a POST: an update, or the reason why it is invalid.
type Item struct {
	Update
	Reason string // for the failed list; "" if valid
}

// BatchQuery is the query of a POST: ?batch=ID&commit=true.
type BatchQuery struct {
	Batch  bool   // the parameter exists
	ID     string // "true" opens a batch
	Commit bool
}

// Declared contains the request and batch sizes that the client declared.
type Declared struct {
	Records, Bytes, TotalRecords, TotalBytes Optional[int64]
}

// check compares the X-Weave headers with the limits. A missing header is 0.
func (d Declared) check(l Limits) error {
	if d.Records.Value > l.MaxPostRecords || d.Bytes.Value > l.MaxPostBytes ||
		d.TotalRecords.Value > l.MaxTotalRecords || d.TotalBytes.Value > l.MaxTotalBytes {
		return ErrDeclared
	}
	return nil
}

// Request holds the parameters that all requests to a collection share. Reads pass it on; writes become a Write.
type Request struct {
	Collection string
	// see the method for the resource to which it applies
	If Precondition
	// decides which records have expired
	Now Timestamp
}

// write returns the Store's parameters.
func (s *Service) write(r Request) Write {
	return Write{Collection: r.Collection, If: r.If, Now: r.Now, Quota: s.Quota(), MaxNames: s.MaxNames()}
}

// done reports excess of a quota that is not enforced.
func (s *Service) done(o Owner, collection string, w Written, err error) (Written, error) {
	if q := w.Quota; err == nil && !q.Enforce && q.Over(w.Used) {
		s.overQuota(o, collection, w.Used)
	}
	return w, err
}

// CheckDeclared may return ErrDeclared.
func (s *Service) CheckDeclared(collection string, d Declared) error {
	return d.check(s.Limits(collection))
}

// Put stores a record. It returns ErrBody for an invalid record, and the errors of Store.Put.
func (s *Service) Put(ctx context.Context, o Owner, r Request, it Item) (Written, error) {
	if it.Reason != "" || it.Check() != nil || tooLarge(&it.Update, s.Limits(r.Collection)) || insecure(r.Collection, &it.Update) {
		return Written{}, ErrBody
	}
	w, err := s.store.Put(ctx, o, s.write(r), it.Update)
	return s.done(o, r.Collection, w, err)
}

// tooLarge reports whether the payload exceeds the limit.
func tooLarge(u *Update, l Limits) bool {
	return int64(len(u.Payload.Value)) > l.MaxRecordPayloadBytes
}

// insecure detects a crypto record with an all-zero initialization vector, which is an old client's bug.
func insecure(collection string, u *Update) bool {
	if collection != "crypto" {
		return false
	}
	rest := u.Payload.Value
	for {
		_, after, found := bytes.Cut(rest, []byte(`IV":`))
		if !found {
			return false
		}
		if bytes.HasPrefix(bytes.TrimLeft(after, " \t\r\n\f\v"), []byte(`"AAAAAAAAAAAAAAAAAAAAAA=="`)) {
			return true
		}
		rest = after
	}
}

// Failure is a record that was refused, while others were stored.
type Failure struct {
	ID     string
	Reason string
}

// Posted is the result of a POST.
type Posted struct {
	Written
	Staged  bool // in a batch, not visible yet
	Batch   BatchID
	Success []string // IDs
	Failed  []Failure
}

// Post writes the valid items, stages them, or commits a batch with them. It does not change items.
func (s *Service) Post(ctx context.Context, o Owner, r Request, q BatchQuery, items []Item) (Posted, error) {
	if q.Commit && !q.Batch {
		return Posted{}, ErrBatchQuery
	}
	if q.Batch && q.ID != "" && !ValidBatchID(q.ID) {
		return Posted{}, ErrNoBatch
	}
	p, us, err := s.partition(r.Collection, items)
	if err != nil {
		return Posted{}, err
	}
	w, l := s.write(r), s.Limits(r.Collection)
	part := BatchPart{ID: BatchID(q.ID), Updates: us, Limits: BatchLimits{Records: l.MaxTotalRecords, Bytes: l.MaxTotalBytes}}
	switch {
	case !q.Batch, q.ID == "" && q.Commit:
		p.Written, err = s.store.Post(ctx, o, w, us)
	case q.Commit:
		p.Written, err = s.store.Commit(ctx, o, w, part)
	default:
		if part.Opens = q.ID == ""; part.Opens {
			part.ID = BatchID(ident.New())
		}
		p.Staged, p.Batch = true, part.ID
		p.Written, err = s.store.Append(ctx, o, w, part)
	}
	p.Written, err = s.done(o, r.Collection, p.Written, err)
	return p, err
}

// partition separates items that fail. A record that does not fit takes no space from later records.
func (s *Service) partition(collection string, items []Item) (Posted, []Update, error) {
	var (
		p     Posted
		us    = make([]Update, 0, min(int64(len(items)), s.Limits(collection).MaxPostRecords))
		limit = s.Limits(collection)
		left  = limit.MaxPostBytes
	)
	for i := range items {
		it := &items[i]
		size := int64(len(it.Payload.Value))
		reason := it.Reason
		if err := it.Check(); reason == "" && err != nil {
			reason = errcode.Message(err)
		}
		switch {
		case reason != "":
		case insecure(collection, &it.Update):
			return p, nil, ErrBody
		case int64(len(us)) == limit.MaxPostRecords:
			reason = "retry bso"
		case tooLarge(&it.Update, limit), size > left:
			reason = "retry bytes"
		}
		if reason != "" {
			p.Failed = append(p.Failed, Failure{it.ID, reason})
			continue
		}
		left -= size
		us = append(us, it.Update)
		p.Success = append(p.Success, it.ID)
	}
	return p, us, nil
}

// Get returns a record. See Store.Get.
func (s *Service) Get(ctx context.Context, o Owner, r Request, id string) (BSO, error) {
	return s.store.Get(ctx, o, r, id)
}

// List reads a page. If too many large listings are in progress, it calls idle with a function that waits for a turn,
// so that the request can give back its slot meanwhile; no connection is held. idle must not be nil, and calls the
// function once unless it fails itself. The listing must be closed, and ctx must not end before.
func (s *Service) List(ctx context.Context, o Owner, q *Query, idle func(wait func() error) error) (*Listing, error) {
	if err := q.Check(); err != nil {
		return nil, err
	}
	l, err := s.store.List(ctx, o, q)
	if err != nil || l.Gathered {
		return l, err
	}
	if !s.streams.try(o) {
		l.Close() // release its resources; current data is read afterwards
		if err := s.streams.take(ctx, o, idle); err != nil {
			return nil, err
		}
		if l, err = s.store.List(ctx, o, q); err != nil {
			s.streams.leave(o)
			return nil, err
		}
	}
	s.streams.hold(o, l)
	return l, nil
}

// Collections applies p to the user's last stamp.
func (s *Service) Collections(ctx context.Context, o Owner, p Precondition) (Collections, error) {
	cs, err := s.store.Collections(ctx, o)
	if err == nil {
		err = p.Check(cs.Modified)
	}
	return cs, err
}

// Usage applies p to the user's last stamp.
func (s *Service) Usage(ctx context.Context, o Owner, p Precondition, now Timestamp) (Usage, error) {
	u, err := s.store.Usage(ctx, o, now)
	if err == nil {
		err = p.Check(u.Modified)
	}
	return u, err
}

// DeleteBSO deletes a record. See Store.
func (s *Service) DeleteBSO(ctx context.Context, o Owner, r Request, id string) (Written, error) {
	return s.store.DeleteBSO(ctx, o, s.write(r), id)
}

// DeleteBSOs rejects an empty list, so that a client error does not empty the collection.
func (s *Service) DeleteBSOs(ctx context.Context, o Owner, r Request, ids []string) (Written, error) {
	q := Query{IDs: ids}
	if err := q.Check(); err != nil {
		return Written{}, err
	}
	return s.store.DeleteBSOs(ctx, o, s.write(r), ids)
}

// DeleteCollection deletes a collection. See Store.
func (s *Service) DeleteCollection(ctx context.Context, o Owner, r Request) (Written, error) {
	return s.store.DeleteCollection(ctx, o, s.write(r))
}

// DeleteAll deletes the user's data. See Store.
func (s *Service) DeleteAll(ctx context.Context, o Owner, p Precondition) error {
	return s.store.DeleteAll(ctx, o, p)
}

// Totals reads counters for operators.
func (s *Service) Totals(ctx context.Context, owners []Owner) ([]Total, error) {
	return s.store.Totals(ctx, owners)
}

// SetQuota sets the user's own quota. See AdminStore.
func (s *Service) SetQuota(ctx context.Context, o Owner, bytes Optional[int64]) error {
	return s.store.SetQuota(ctx, o, bytes)
}

// Export reads a snapshot. See AdminStore.
func (s *Service) Export(ctx context.Context, o Owner, now Timestamp) iter.Seq2[Exported, error] {
	return s.store.Export(ctx, o, now)
}

// Restore returns errcode.Invalid for impossible records, errcode.TooLarge for a record over the limit, or ErrQuota.
func (s *Service) Restore(ctx context.Context, o Owner, r Request, of Restore) (Restored, error) {
	if err := of.Check(r.Now); err != nil {
		return Restored{}, err
	}
	return s.store.Restore(ctx, o, s.write(r), of)
}

// Sweep is Store.Sweep for rows that expired at least sweep_after ago.
func (s *Service) Sweep(ctx context.Context, now time.Time, limit int) (int, error) {
	return s.store.Sweep(ctx, At(now.Add(-s.conf.Load().SweepAfter)), limit)
}

// Ping is Store.Ping.
func (s *Service) Ping(ctx context.Context) error { return s.store.Ping(ctx) }

package syncstorage

import (
	"bytes"
	"context"
	"iter"
	"time"

	"holdfast/internal/clock"
	"holdfast/internal/fault"
	"holdfast/internal/ident"
)

// Options is what a Service is made of. OverQuota may be nil.
type Options struct {
	Store  Store
	Config Config
	Clock  clock.Clock

	// Connections is how many connections the Store has. As many listings are read at
	// once, lest one user's requests fill the queue for connections, and half as many
	// while their clients take them.
	Connections int

	// OverQuota is called after a write to a collection that leaves it, or its
	// user, over a quota that is not enforced.
	OverQuota func(o Owner, collection string, used Used)
}

// Service is the use cases of the service: it validates and limits what a client
// sends and calls the Store. It is safe for concurrent use.
type Service struct {
	store     Store
	conf      Config
	overQuota func(o Owner, collection string, used Used)
	streams   streams
}

// NewService returns the service, or fault.Invalid when an option is missing
// that would be missed only later.
func NewService(o Options) (*Service, error) {
	if o.Store == nil || o.Clock == nil {
		return nil, fault.New(fault.Invalid, "syncstorage: Options requires Store and Clock")
	}
	if o.OverQuota == nil {
		o.OverQuota = func(Owner, string, Used) {}
	}
	return &Service{
		store: o.Store, conf: o.Config, overQuota: o.OverQuota,
		streams: newStreams(o.Connections/2, o.Config.PoolConnectionTimeout, o.Clock),
	}, nil
}

// Limits are those of a collection; of none in particular for "".
func (s *Service) Limits(collection string) Limits { return s.conf.Limits.For(collection) }

// Quota is the quota of every user who has none of its own.
func (s *Service) Quota() Quota { return s.conf.Quota() }

// Errors of a request as a whole.
var (
	// ErrBody is a body that holds no valid record.
	ErrBody error = fault.New(fault.Invalid, "the body is not a valid BSO or list of BSOs")
	// ErrDeclared is an X-Weave header that declares more than is allowed.
	ErrDeclared error = fault.New(fault.TooLarge, "the size in the X-Weave headers exceeds the limit")
	// ErrBatchQuery is a combination of batch and commit that means nothing.
	ErrBatchQuery error = fault.New(fault.Invalid, "commit requires batch in the query")
)

// Item is one element of a POST's body: an update, or the reason why it is
// none.
type Item struct {
	Update
	Reason string // for the failed list; empty when the update is sound
}

// BatchQuery is what the query of a POST says of a batch.
type BatchQuery struct {
	Batch  bool // the request belongs to a batch
	ID     string
	Commit bool
}

// Declared is what a client says of a request and its batch before the server
// has counted.
type Declared struct {
	Records, Bytes, TotalRecords, TotalBytes Optional[int64]
}

// check holds what is declared against the limits.
func (d Declared) check(l Limits) error {
	if d.Records.Value > l.MaxPostRecords || d.Bytes.Value > l.MaxPostBytes ||
		d.TotalRecords.Value > l.MaxTotalRecords || d.TotalBytes.Value > l.MaxTotalBytes {
		return ErrDeclared
	}
	return nil
}

// Request is what the writing use cases have in common.
type Request struct {
	Collection string
	If         Precondition
	Now        Timestamp
}

func (s *Service) write(r Request) Write {
	return Write{Collection: r.Collection, If: r.If, Now: r.Now, Quota: s.Quota(), MaxNames: s.conf.MaxNames}
}

// done reports a write that was let pass over the quota.
func (s *Service) done(o Owner, collection string, w Written, err error) (Written, error) {
	if q := w.Quota; err == nil && !q.Enforce && q.Over(w.Used) {
		s.overQuota(o, collection, w.Used)
	}
	return w, err
}

// CheckDeclared refuses declared sizes over the limits: ErrDeclared.
func (s *Service) CheckDeclared(collection string, d Declared) error {
	return d.check(s.Limits(collection))
}

// Put writes one record; ErrBody when the update is not sound.
func (s *Service) Put(ctx context.Context, o Owner, r Request, it Item) (Written, error) {
	if it.Reason != "" || it.Check() != nil || tooLarge(&it.Update, s.Limits(r.Collection)) || insecure(r.Collection, &it.Update) {
		return Written{}, ErrBody
	}
	w, err := s.store.Put(ctx, o, s.write(r), it.Update)
	return s.done(o, r.Collection, w, err)
}

func tooLarge(u *Update, l Limits) bool {
	return int64(len(u.Payload.Value)) > l.MaxRecordPayloadBytes
}

// insecure tells a crypto record that was encrypted with an all-zero
// initialisation vector: an old client's bug, which must not reach storage.
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

// Failure is one line of the failed list.
type Failure struct {
	ID     string
	Reason string
}

// Posted is the result of a POST.
type Posted struct {
	Written
	Staged  bool    // nothing is visible yet: the batch is open
	Batch   BatchID // of an open batch
	Success []string
	Failed  []Failure
}

// Post writes the sound items of a request, or stages them in a batch, or
// commits a batch with them.
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
	total := BatchLimits{Records: l.MaxTotalRecords, Bytes: l.MaxTotalBytes}
	switch {
	case !q.Batch, q.ID == "" && q.Commit:
		p.Written, err = s.store.Post(ctx, o, w, us)
	case q.Commit:
		p.Written, err = s.store.Commit(ctx, o, w, BatchID(q.ID), us, total)
	case q.ID == "":
		p.Staged, p.Batch = true, BatchID(ident.New())
		p.Written, err = s.store.Append(ctx, o, w, p.Batch, true, us, total)
	default:
		p.Staged, p.Batch = true, BatchID(q.ID)
		p.Written, err = s.store.Append(ctx, o, w, p.Batch, false, us, total)
	}
	p.Written, err = s.done(o, r.Collection, p.Written, err)
	return p, err
}

// partition separates what will be written from what the answer lists as failed. A
// record that does not fit takes no room from those behind it.
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
			reason = fault.Message(err)
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

// Get reads one record.
func (s *Service) Get(ctx context.Context, o Owner, r Request, id string) (BSO, error) {
	return s.store.Get(ctx, o, r.Collection, id, r.If, r.Now)
}

// List reads a page of a collection. fault.Unavailable when too many large ones
// are under way. It calls idle around a wait for those of others, if it has to wait,
// while it holds nothing.
func (s *Service) List(ctx context.Context, o Owner, q *Query, idle func(wait func() error) error) (*Listing, error) {
	if err := q.Check(); err != nil {
		return nil, err
	}
	l, err := s.store.List(ctx, o, q)
	if err != nil || l.Gathered {
		return l, err
	}
	if !s.streams.try(o) {
		l.Close() // others need what it holds, and it is to be as new as its answer
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

// Collections is info/collections.
func (s *Service) Collections(ctx context.Context, o Owner, p Precondition) (Collections, error) {
	cs, err := s.store.Collections(ctx, o)
	if err == nil {
		err = p.Check(cs.Modified)
	}
	return cs, err
}

// Usage serves info/quota, info/collection_usage and info/collection_counts.
func (s *Service) Usage(ctx context.Context, o Owner, p Precondition, now Timestamp) (Usage, error) {
	u, err := s.store.Usage(ctx, o, now)
	if err == nil {
		err = p.Check(u.Modified)
	}
	return u, err
}

// DeleteBSO deletes one record.
func (s *Service) DeleteBSO(ctx context.Context, o Owner, r Request, id string) (Written, error) {
	return s.store.DeleteBSO(ctx, o, s.write(r), id)
}

// DeleteBSOs deletes the records that a query names; the query must name some,
// or a slip of a client would empty the collection.
func (s *Service) DeleteBSOs(ctx context.Context, o Owner, r Request, ids []string) (Written, error) {
	q := Query{IDs: ids}
	if err := q.Check(); err != nil {
		return Written{}, err
	}
	return s.store.DeleteBSOs(ctx, o, s.write(r), ids)
}

// DeleteCollection deletes a collection.
func (s *Service) DeleteCollection(ctx context.Context, o Owner, r Request) (Written, error) {
	return s.store.DeleteCollection(ctx, o, s.write(r))
}

// DeleteAll deletes everything of a user.
func (s *Service) DeleteAll(ctx context.Context, o Owner, p Precondition) error {
	return s.store.DeleteAll(ctx, o, p)
}

// Totals reads what users store by the counters. Store.Totals.
func (s *Service) Totals(ctx context.Context, owners []Owner) ([]Total, error) {
	return s.store.Totals(ctx, owners)
}

// SetQuota gives a user a quota of its own, or takes it away. Store.SetQuota.
func (s *Service) SetQuota(ctx context.Context, o Owner, bytes Optional[int64]) error {
	return s.store.SetQuota(ctx, o, bytes)
}

// Export yields all of a user. Store.Export.
func (s *Service) Export(ctx context.Context, o Owner, now Timestamp) iter.Seq2[Exported, error] {
	return s.store.Export(ctx, o, now)
}

// Restore writes records of an export as they are. fault.Invalid for what no export
// has, fault.TooLarge for a record over the limit, ErrQuota.
func (s *Service) Restore(ctx context.Context, o Owner, r Request, of Restore) (Restored, error) {
	if err := of.Check(r.Now); err != nil {
		return Restored{}, err
	}
	return s.store.Restore(ctx, o, s.write(r), of)
}

// Sweep removes at most limit rows that expired the setting sweep_after before
// now, or earlier.
func (s *Service) Sweep(ctx context.Context, now time.Time, limit int) (int, error) {
	return s.store.Sweep(ctx, At(now.Add(-s.conf.SweepAfter)), limit)
}

// Ping says whether the store can serve.
func (s *Service) Ping(ctx context.Context) error { return s.store.Ping(ctx) }

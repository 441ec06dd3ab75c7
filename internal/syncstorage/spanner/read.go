package spanner

import (
	"context"
	"errors"
	"fmt"
	"time"

	"cloud.google.com/go/spanner"

	"holdfast/internal/db/spannerdb"
	"holdfast/internal/errcode"
	ss "holdfast/internal/syncstorage"
)

var epoch = ss.Timestamp(0).Time()

// Collections implements syncstorage.Store.
func (s *Store) Collections(ctx context.Context, o ss.Owner) (cs ss.Collections, err error) {
	if err := checkOwner(o); err != nil {
		return cs, err
	}
	var ids []int64
	err = s.db.ForEach(ctx, sqlCollections, of(o, spannerdb.Params{"epoch": epoch}), func(r *spanner.Row) error {
		var (
			id       int64
			modified time.Time
		)
		if err := r.Columns(&id, &modified); err != nil {
			return err
		}
		cs.Modified = max(cs.Modified, stamp(modified))
		if id != ss.TombstoneID {
			ids = append(ids, id)
			cs.Stamps = append(cs.Stamps, ss.CollectionStamp{Modified: stamp(modified)})
		}
		return nil
	})
	if err == nil {
		err = s.nameAll(ctx, ids, func(i int, name string) { cs.Stamps[i].Name = name })
	}
	if err != nil {
		return ss.Collections{}, err
	}
	return cs, nil
}

// nameAll passes the names of collections to set, from the cache if known.
func (s *Store) nameAll(ctx context.Context, ids []int64, set func(i int, name string)) error {
	var strange []int64
	for _, id := range ids {
		if _, known := s.names.Load(id); !known {
			strange = append(strange, id)
		}
	}
	if strange != nil {
		err := s.db.ForEach(ctx, sqlNames, spannerdb.Params{"ids": strange}, func(r *spanner.Row) error {
			var (
				id   int64
				name string
			)
			err := r.Columns(&id, &name)
			s.know(id, name)
			return err
		})
		if err != nil {
			return err
		}
	}
	for i, id := range ids {
		name, known := s.names.Load(id)
		if !known {
			return errcode.Wrap(errcode.Internal, "internal error", fmt.Errorf("collection %d has no name", id))
		}
		set(i, name.(string))
	}
	return nil
}

// Usage reads all the user's records, because counters may be too high or NULL.
func (s *Store) Usage(ctx context.Context, o ss.Owner, now ss.Timestamp) (us ss.Usage, err error) {
	if err := checkOwner(o); err != nil {
		return us, err
	}
	var ids []int64
	err = s.db.ForEach(ctx, sqlUsage, of(o, spannerdb.Params{"epoch": epoch, "now": now.Time()}), func(r *spanner.Row) error {
		var (
			id       int64
			modified time.Time
			c        ss.CollectionUsage
			quota    spanner.NullInt64
		)
		if err := r.Columns(&id, &modified, &quota, &c.Records, &c.Bytes); err != nil {
			return err
		}
		us.Modified = max(us.Modified, stamp(modified))
		if id == ss.TombstoneID {
			us.Quota = optional(quota)
			return nil
		}
		ids = append(ids, id)
		us.Collections = append(us.Collections, c)
		return nil
	})
	if err == nil {
		err = s.nameAll(ctx, ids, func(i int, name string) { us.Collections[i].Name = name })
	}
	if err != nil {
		return ss.Usage{}, err
	}
	return us, nil
}

var (
	errNoRecord error = errcode.New(errcode.NotFound, "record not found")
	errTwice          = errcode.Wrap(errcode.Internal, "internal error", errors.New("a record was returned twice"))
	errShort          = errcode.Wrap(errcode.Internal, "internal error", errors.New("a list has fewer rows than were counted"))
)

// Get implements syncstorage.Store.
func (s *Store) Get(ctx context.Context, o ss.Owner, q ss.Request, id string) (ss.BSO, error) {
	if err := checkOwner(o); err != nil {
		return ss.BSO{}, err
	}
	coll, err := s.lookup(ctx, q.Collection)
	switch {
	case err != nil:
		return ss.BSO{}, err
	case coll == unknown:
		return ss.BSO{}, errNoRecord
	}
	var record *ss.BSO
	err = s.db.ForEach(ctx, sqlGet, of(o, spannerdb.Params{"coll": coll, "id": id, "now": q.Now.Time()}), func(r *spanner.Row) error {
		var (
			sortindex        spanner.NullInt64
			payload          string
			modified, expiry time.Time
		)
		if record != nil {
			return errTwice
		}
		if err := r.Columns(&sortindex, &payload, &modified, &expiry); err != nil {
			return err
		}
		m := stamp(modified)
		record = &ss.BSO{ID: id, SortIndex: optional(sortindex), Payload: []byte(payload), Modified: m, Expiry: expiryOf(m, expiry)}
		return nil
	})
	switch {
	case err != nil:
		return ss.BSO{}, err
	case record == nil:
		return ss.BSO{}, errNoRecord
	}
	if err := q.If.Check(record.Modified); err != nil {
		return ss.BSO{}, err
	}
	return *record, nil
}

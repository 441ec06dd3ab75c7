package postgres

import (
	"context"
	"slices"
	"strconv"
	"strings"

	"holdfast/internal/buckets"
	"holdfast/internal/db/pgdb"
	"holdfast/internal/errcode"
)

// Delete implements buckets.Store.
func (s *Store) Delete(ctx context.Context, owner buckets.AccountID, b buckets.BucketRef, d buckets.Delete) (done buckets.Deleted, err error) {
	if err := owner.Check(); err != nil {
		return done, err
	}
	marker := buckets.ObjectID(buckets.NewUUID())
	err = twice(func(all bool) error {
		st, args, scan := sqlDelete.Statement, sqlDelete.Args(deletion{owner, b, d, marker, all}), scanDeleted
		if d.Version != "" {
			st, args, scan = sqlDeleteVersion.Statement, sqlDeleteVersion.Args(versionDeletion{owner, b, d}), scanDeletedVersion
		}
		var columns []*string
		if d.Unchanged == nil && d.Notice == nil && d.Imported == 0 {
			if _, err := s.db.QueryRow(ctx, st, args, &columns); err != nil {
				return err
			}
			done, err = scan(columns)
			return err
		}
		return s.notifying(ctx, "buckets.delete_in_steps", objectKey{owner, b, d.Name}, func(tx *pgdb.Tx) ([]buckets.Event, error) {
			if _, err := tx.QueryRow(st, args, &columns); err != nil {
				return nil, err
			}
			if done, err = scan(columns); err != nil {
				return nil, err
			}
			if d.Version != "" {
				return d.Notice.OfDeletedVersion(d.Name, d.Version, d.Now), d.CheckUnchanged(&done.Object)
			}
			if d.Imported != 0 && done.Marker {
				if err := setImported(tx, sqlSetMarker, moved{owner, b.ID, d.Name, d.Imported, d.Now}); err != nil {
					return nil, err
				}
			}
			return d.Notice.OfDeleted(d.Name, done, d.Now), d.CheckUnchanged(&done.Object)
		})
	})
	if err != nil {
		return buckets.Deleted{}, err
	}
	if d.Version != "" {
		done.Version = d.Version
	}
	return done, nil
}

// resultOf returns the error for a result code, the first column.
func resultOf(columns []*string) error {
	if len(columns) == 0 || columns[0] == nil {
		return errcode.New(errcode.Internal, "the buckets database returned no result for a deletion")
	}
	result, err := strconv.ParseInt(*columns[0], 10, 64)
	if err != nil {
		return errcode.Wrap(errcode.Internal, "read the result of a deletion", err)
	}
	return failed(result)
}

// scanDeleted reads a result of bucket_delete_v2: the code, the deleted object if any, and the ID of a new delete
// marker.
func scanDeleted(columns []*string) (done buckets.Deleted, err error) {
	if err := resultOf(columns); err != nil {
		return done, err
	}
	n := len(columns)
	if columns[n-1] != nil {
		done.Version, done.Marker = buckets.VersionID(*columns[n-1]), true
	}
	if columns[1+objectID] != nil {
		done.Object, err = scanObject(columns[1 : n-2])
	}
	return done, err
}

// deletion holds the parameters for bucket_delete_v2.
type deletion struct {
	owner  buckets.AccountID
	bucket buckets.BucketRef
	buckets.Delete
	marker buckets.ObjectID
	all    bool
}

// args names and orders the parameters for pgdb.
func (d deletion) args() []pgdb.Arg {
	args := append([]pgdb.Arg{
		{Param: "p_owner uuid", Value: string(d.owner)},
		{Param: "p_bucket text", Value: d.bucket.Name},
		{Param: "p_bucket_id uuid", Value: orNull(d.bucket.ID)},
		{Param: "p_name text", Value: d.Name},
		{Param: "p_now timestamptz", Value: at(d.Now)},
	}, conditionArgs(&d.Condition)...)
	return append(args,
		pgdb.Arg{Param: "p_marker uuid", Value: string(d.marker)},
		pgdb.Arg{Param: "p_exists boolean", Value: d.Unchanged != nil},
		pgdb.Arg{Param: "p_all boolean", Value: d.all},
	)
}

// conditionArgs are the parameters by which SQL functions check a Condition.
func conditionArgs(c *buckets.Condition) []pgdb.Arg {
	return []pgdb.Arg{
		{Param: "p_flags integer", Value: flags(c)},
		{Param: "p_match text[]", Value: c.Match.Tags},
		{Param: "p_none_match text[]", Value: c.NoneMatch.Tags},
		{Param: "p_modified_since timestamptz", Value: atOrNull(c.ModifiedSince)},
		{Param: "p_unmodified_since timestamptz", Value: atOrNull(c.UnmodifiedSince)},
	}
}

// Concurrent transactions for a DeleteAll that names versions: each version needs a transaction.
const deleters = 8

// DeleteAll implements buckets.Store.
func (s *Store) DeleteAll(ctx context.Context, owner buckets.AccountID, b buckets.BucketRef, d buckets.Deletions) ([]buckets.Deleted, error) {
	if err := owner.Check(); err != nil {
		return nil, err
	}
	all := d.All
	each := func() []buckets.Deleted {
		return buckets.DeleteEach(all, deleters, func(of buckets.Deletion) (buckets.Deleted, error) { return s.Delete(ctx, owner, b, d.Delete(&of)) })
	}
	if slices.ContainsFunc(all, func(d buckets.Deletion) bool { return d.Version != "" }) {
		return each(), nil
	}
	order := make([]int, len(all))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(i, j int) int { return strings.Compare(all[i].Name, all[j].Name) })
	args := deletions{owner: owner, bucket: b, names: make([]string, len(all)), now: d.Now, tags: make([]*string, len(all))}
	for n, i := range order {
		args.names[n], args.tags[n] = all[i].Name, orNull(all[i].ETag)
	}
	results, err := s.deleteBatch(ctx, owner, batch{sqlDeleteObjects.Statement, sqlDeleteObjects.Args(args), d.Now, d.Notice}, func(results []int64) (names []string) {
		for n, result := range results {
			if result == 0 {
				names = append(names, args.names[n])
			}
		}
		return names
	})
	if err != nil {
		return nil, err
	}
	done := make([]buckets.Deleted, len(all))
	switch {
	case len(results) == 1 && results[0] == hasVersions:
		return each(), nil
	case len(results) == 1 && results[0] == noBucket:
		for i := range done {
			done[i].Err = buckets.ErrNoBucket
		}
	case len(results) != len(all):
		return nil, errcode.Newf(errcode.Internal, "the buckets database returned %d results for %d deletions", len(results), len(all))
	default:
		for n, i := range order {
			done[i].Err = failed(results[n])
		}
	}
	return done, nil
}

// batch is a call that deletes many objects.
type batch struct {
	pgdb.Statement
	args   []any
	now    buckets.Moment
	notice *buckets.Notice
}

// deleteBatch runs a call and appends events for the deleted objects, which names returns. Their rows are locked until
// the commit, so later writes have later events.
func (s *Store) deleteBatch(ctx context.Context, owner buckets.AccountID, b batch, names func(results []int64) []string) (results []int64, err error) {
	if b.notice == nil {
		_, err = s.db.QueryRow(ctx, b.Statement, b.args, &results)
		return results, err
	}
	var events []buckets.Event
	err = s.db.Tx(ctx, b.Name+"_in_steps", func(tx *pgdb.Tx) error {
		if _, err := tx.QueryRow(b.Statement, b.args, &results); err != nil {
			return err
		}
		events = nil
		for _, name := range names(results) {
			events = append(events, b.notice.OfDeleted(name, buckets.Deleted{}, b.now)...)
		}
		return appendEvents(tx, owner, events)
	})
	if err == nil {
		s.appended(owner, events)
	}
	return results, err
}

// deletions holds the parameters for bucket_delete_objects_v2: an element per object, sorted by name, so that
// concurrent calls lock rows in the same order.
type deletions struct {
	owner  buckets.AccountID
	bucket buckets.BucketRef
	names  []string
	now    buckets.Moment
	tags   []*string
}

// args names and orders the parameters for pgdb.
func (d deletions) args() []pgdb.Arg {
	return []pgdb.Arg{
		{Param: "p_owner uuid", Value: string(d.owner)},
		{Param: "p_bucket text", Value: d.bucket.Name},
		{Param: "p_bucket_id uuid", Value: string(d.bucket.ID)},
		{Param: "p_names text[]", Value: d.names},
		{Param: "p_now timestamptz", Value: at(d.now)},
		{Param: "p_tags text[]", Value: d.tags},
	}
}

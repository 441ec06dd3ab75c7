package postgres

import (
	"cmp"
	"context"
	"errors"

	"github.com/jackc/pgx/v5/pgtype"

	"holdfast/internal/buckets"
	"holdfast/internal/db/pgdb"
)

// SetVersioning implements buckets.Versions.
func (s *Store) SetVersioning(ctx context.Context, owner buckets.AccountID, b buckets.BucketRef, v buckets.Versioning) error {
	if err := owner.Check(); err != nil {
		return err
	}
	if v != buckets.VersioningEnabled && v != buckets.VersioningSuspended {
		return buckets.ErrVersioning
	}
	_, err := s.run(ctx, sqlSetVersioning, string(owner), b.Name, string(b.ID), int16(v))
	return err
}

// SetBucketLock implements buckets.Versions.
func (s *Store) SetBucketLock(ctx context.Context, owner buckets.AccountID, b buckets.BucketRef, l buckets.BucketLock) error {
	if err := owner.Check(); err != nil {
		return err
	}
	text, err := l.Encode()
	if err != nil {
		return err
	}
	_, err = s.run(ctx, sqlSetBucketLock, string(owner), b.Name, string(b.ID), text)
	return err
}

// applyLock applies an update to an object's lock, with the database's clock.
func applyLock(tx *pgdb.Tx, owner buckets.AccountID, b buckets.BucketRef, u *buckets.Update, o *buckets.Object) error {
	if !u.ChecksLock(o) {
		return nil
	}
	var text *string
	var now pgtype.Timestamptz
	if _, err := tx.QueryRow(sqlBucketLock, []any{string(owner), b.Name}, &text, &now); err != nil {
		return err
	}
	l, err := bucketLock(text)
	if err != nil {
		return err
	}
	return u.ApplyLock(o, l, momentOf(now))
}

// versionRow holds the destinations for a version's columns.
type versionRow struct {
	columns    []*string
	key        *string
	marker     bool
	superseded pgtype.Timestamptz
}

// dest returns the destinations in the order of the columns.
func (r *versionRow) dest() []any { return []any{&r.columns, &r.key, &r.marker, &r.superseded} }

// version returns the version and its sort key, which is "" for the current object.
func (r *versionRow) version() (v buckets.Version, key buckets.VersionID, err error) {
	v.Object, err = scanObject(r.columns)
	v.Marker, v.Superseded, r.columns = r.marker, momentOf(r.superseded), nil
	if v.Current = v.Superseded == 0; r.key != nil {
		key = buckets.VersionID(*r.key)
	}
	return v, key, err
}

// nullOr names the null version by NULL.
func nullOr(v buckets.VersionID) *string {
	if v == buckets.NullVersion {
		return nil
	}
	return orNull(v)
}

// Version implements buckets.Versions.
func (s *Store) Version(ctx context.Context, owner buckets.AccountID, b buckets.BucketID, name string, id buckets.VersionID) (v buckets.Version, err error) {
	if err := owner.Check(); err != nil {
		return v, err
	}
	st, args, missing := sqlVersion, []any{string(owner), string(b), name, nullOr(id)}, buckets.ErrNoVersion
	if id == "" {
		st, args, missing = sqlCurrent, args[:3], buckets.ErrNoObject
	}
	var r versionRow
	var body []byte
	var sums sums
	found := false
	err = s.db.ForEach(ctx, st, args, func() { found = false }, func() error {
		if found {
			body = nil
			return nil
		}
		found = true
		v, _, err = r.version()
		v.Inline, body = body, nil
		sums.set(&v.Body)
		return err
	}, sums.dest(append(r.dest(), &body)...)...)
	if err == nil && !found {
		err = missing
	}
	return v, err
}

// updateVersion requires that the caller has locked the name.
func updateVersion(tx *pgdb.Tx, owner buckets.AccountID, b buckets.BucketRef, u buckets.Update) (o buckets.Object, err error) {
	var r versionRow
	st, args := sqlLockVersion, []any{string(owner), string(b.ID), u.Name, string(u.Version)}
	if u.Version == buckets.NullVersion {
		st, args = sqlLockNull, args[:3]
	}
	found, err := tx.QueryRow(st, args, r.dest()...)
	if err != nil {
		return o, err
	}
	if !found {
		return o, buckets.ErrNoVersion
	}
	v, key, err := r.version()
	switch {
	case err != nil:
		return o, err
	case v.Marker:
		return o, buckets.ErrMarker
	}
	if err := u.Condition.CheckWrite(&v.Object); err != nil {
		return o, err
	}
	if err := applyLock(tx, owner, b, &u, &v.Object); err != nil {
		return o, err
	}
	o = u.Apply(v.Object)
	properties, err := o.Properties.Encode()
	if err != nil {
		return o, err
	}
	_, err = tx.Exec(sqlUpdateVersion.Statement, sqlUpdateVersion.Args(updatedVersion{updated{owner, b.ID, o, properties}, key})...)
	return o, err
}

// updatedVersion holds the parameters for an update of a version.
type updatedVersion struct {
	updated
	key buckets.VersionID
}

// args names and orders the parameters for pgdb.
func (u updatedVersion) args() []pgdb.Arg {
	return append(u.updated.args(), pgdb.Arg{Param: "version uuid", Value: string(u.key)})
}

// versionDeletion holds the parameters for bucket_delete_version_v1.
type versionDeletion struct {
	owner  buckets.AccountID
	bucket buckets.BucketRef
	buckets.Delete
}

// args names and orders the parameters for pgdb.
func (d versionDeletion) args() []pgdb.Arg {
	args := []pgdb.Arg{
		{Param: "p_owner uuid", Value: string(d.owner)},
		{Param: "p_bucket text", Value: d.bucket.Name},
		{Param: "p_bucket_id uuid", Value: orNull(d.bucket.ID)},
		{Param: "p_name text", Value: d.Name},
		{Param: "p_version uuid", Value: nullOr(d.Version)},
		{Param: "p_now timestamptz", Value: at(d.Now)},
	}
	return append(append(args, conditionArgs(&d.Condition)...),
		pgdb.Arg{Param: "p_noncurrent boolean", Value: d.Noncurrent},
		pgdb.Arg{Param: "p_bypass boolean", Value: d.Bypass},
	)
}

// scanDeletedVersion reads the code, the deleted version, and whether it was a marker. If a lock prevents the deletion,
// the second column holds the properties with the lock.
func scanDeletedVersion(columns []*string) (done buckets.Deleted, err error) {
	err = resultOf(columns)
	if l, ok := errors.AsType[*buckets.LockedError](err); ok && len(columns) == 2 {
		r := textRow{columns: columns}
		l.Lock, err = r.properties(1).Lock, cmp.Or(r.err, err)
	}
	if err != nil {
		return done, err
	}
	n := len(columns)
	if done.Marker = *columns[n-1] == "true"; !done.Marker {
		done.Object, err = scanObject(columns[1 : n-1])
	}
	return done, err
}

// ListVersions implements lifecycle.Store.
func (s *Store) ListVersions(ctx context.Context, owner buckets.AccountID, b buckets.BucketID, q buckets.VersionQuery) (page buckets.VersionPage, err error) {
	if err := owner.Check(); err != nil {
		return page, err
	}
	null := buckets.FirstVersion
	if q.AfterVersion == buckets.NullVersion {
		if _, err := s.db.QueryRow(ctx, sqlNull, []any{string(owner), string(b), q.After}, &null); err != nil {
			return page, err
		}
	}
	return buckets.NewVersionLister(q, null).Fill(func(from buckets.VersionPosition, limit int, add func(buckets.Version, buckets.VersionID) bool) (int, error) {
		type row struct {
			buckets.Version
			key buckets.VersionID
		}
		var rows []row
		var r versionRow
		st, args := sqlListVersions, []any{string(owner), string(b), from.Name, string(from.Noncurrent()), limit, from.Inclusive}
		if q.Noncurrent {
			st, args = sqlListNoncurrent, args[:5]
		}
		err := s.db.ForEach(ctx, st, args, func() { rows = nil }, func() error {
			v, key, err := r.version()
			rows = append(rows, row{v, key})
			return err
		}, r.dest()...)
		for i := range rows {
			if !add(rows[i].Version, rows[i].key) {
				break
			}
		}
		return len(rows), err
	})
}

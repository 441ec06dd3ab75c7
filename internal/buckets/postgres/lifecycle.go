package postgres

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/jackc/pgx/v5/pgtype"

	"holdfast/internal/buckets"
	"holdfast/internal/db/pgdb"
	"holdfast/internal/errcode"
)

var (
	sqlDueLifecycles = pgdb.Statement{Name: "buckets.due_lifecycles", Wide: true, SQL: `
		SELECT s.bucket_id::text, s.settings #>> '{lifecycle,bucket}', s.owner::text, NULL::timestamptz, s.settings::text, 0::smallint, NULL::text FROM manta_bucket_settings s
		LEFT JOIN manta_bucket_lifecycle l ON l.owner = s.owner AND l.bucket_id = s.bucket_id
		WHERE s.settings #>> '{lifecycle,rules}' IS NOT NULL AND (s.owner, s.bucket_id) > ($1::uuid, $2::uuid)
			AND (l.due IS NULL OR l.due <= $3::timestamptz
				OR l.rules <> timestamptz 'epoch' + (s.settings #>> '{lifecycle,changed}')::bigint * interval '1 microsecond')
		ORDER BY s.owner, s.bucket_id LIMIT $4::bigint`}
	sqlLifecycleRun    = pgdb.Statement{Name: "buckets.lifecycle_run", Key: 1, SQL: `SELECT run::text FROM manta_bucket_lifecycle WHERE owner = $1::uuid AND bucket_id = $2::uuid`}
	sqlSetLifecycleRun = pgdb.Statement{Name: "buckets.set_lifecycle_run", Key: 1, SQL: `
		INSERT INTO manta_bucket_lifecycle (owner, bucket_id, rules, due, run) VALUES ($1::uuid, $2::uuid, $3::timestamptz, $4::timestamptz, $5::jsonb)
		ON CONFLICT (owner, bucket_id) DO UPDATE SET rules = EXCLUDED.rules, due = EXCLUDED.due, run = EXCLUDED.run`}
	sqlRemoveLifecycle = pgdb.Statement{Name: "buckets.remove_lifecycle", Key: 1, SQL: `DELETE FROM manta_bucket_lifecycle WHERE owner = $1::uuid AND bucket_id = $2::uuid`}
	sqlExpire          = pgdb.NewNamed(pgdb.Statement{Name: "buckets.expire", Key: 1, SQL: `SELECT bucket_expire_v2(...)`}, expiring.args)
	sqlClock           = pgdb.Statement{Name: "buckets.clock", SQL: `SELECT clock_timestamp()`}
)

// DueLifecycles implements buckets.Lifecycles.
func (s *Store) DueLifecycles(ctx context.Context, after buckets.BucketKey, now buckets.Moment, limit int) ([]buckets.Bucket, error) {
	owner, bucket := string(after.Owner), string(after.Bucket)
	if after == (buckets.BucketKey{}) {
		owner, bucket = nilUUID, nilUUID
	}
	return s.readBuckets(ctx, sqlDueLifecycles, owner, bucket, at(now), limit)
}

// LifecycleRun implements buckets.Lifecycles.
func (s *Store) LifecycleRun(ctx context.Context, b buckets.BucketKey) (run buckets.LifecycleRun, err error) {
	if err := b.Owner.Check(); err != nil {
		return run, err
	}
	var text string
	found, err := s.db.QueryRow(ctx, sqlLifecycleRun, []any{string(b.Owner), string(b.Bucket)}, &text)
	if err != nil || !found {
		return run, err
	}
	if err := json.Unmarshal([]byte(text), &run); err != nil {
		return run, errcode.Wrap(errcode.Internal, "decode a run of lifecycle rules", err)
	}
	return run, nil
}

// SetLifecycleRun implements buckets.Lifecycles.
func (s *Store) SetLifecycleRun(ctx context.Context, b buckets.BucketKey, run buckets.LifecycleRun) error {
	if err := b.Owner.Check(); err != nil {
		return err
	}
	text, err := json.Marshal(run)
	if err != nil {
		return errcode.Wrap(errcode.Internal, "encode a run of lifecycle rules", err)
	}
	_, err = s.db.Exec(ctx, sqlSetLifecycleRun, string(b.Owner), string(b.Bucket), at(run.Rules), at(run.Due), string(text))
	return err
}

// Expire implements buckets.Lifecycles.
func (s *Store) Expire(ctx context.Context, owner buckets.AccountID, b buckets.BucketRef, e buckets.Expired) ([]bool, error) {
	if err := owner.Check(); err != nil {
		return nil, err
	}
	x := expiring{owner: owner, bucket: b, now: e.Now}
	for _, o := range e.Objects {
		var tags *string
		if len(o.Tags) > 0 {
			text, err := json.Marshal(o.Tags)
			if err != nil {
				return nil, errcode.Wrap(errcode.Internal, "encode the tags of an object", err)
			}
			tags = textOrNull(text)
		}
		x.names, x.ids, x.modified, x.tags = append(x.names, o.Name), append(x.ids, string(o.ID)), append(x.modified, at(o.Modified)), append(x.tags, tags)
	}
	results, err := s.deleteBatch(ctx, owner, batch{sqlExpire.Statement, sqlExpire.Args(x), e.Now, e.Notice}, func(results []int64) (names []string) {
		for _, n := range results {
			if n > 0 {
				names = append(names, e.Objects[n-1].Name)
			}
		}
		return names
	})
	if err != nil {
		return nil, err
	}
	deleted := make([]bool, len(e.Objects))
	if len(results) == 1 && results[0] == hasVersions {
		for i, o := range e.Objects {
			done, err := s.expireVersion(ctx, objectKey{owner, b, o.Name}, o, e)
			if deleted[i] = done; err != nil {
				return deleted, err
			}
		}
		return deleted, nil
	}
	for _, n := range results {
		if err := failed(n); err != nil {
			return nil, err
		}
		deleted[n-1] = true
	}
	return deleted, nil
}

// expireVersion replaces an unchanged object with a delete marker, unless that exceeds the quota or replaces a locked
// null version.
func (s *Store) expireVersion(ctx context.Context, k objectKey, o *buckets.Object, e buckets.Expired) (done bool, err error) {
	err = twice(func(all bool) error {
		return s.notifying(ctx, "buckets.expire_version", k, func(tx *pgdb.Tx) ([]buckets.Event, error) {
			done = false
			current, err := head(tx, k.owner, k.bucket.ID, o.Name)
			if err != nil || current == nil || !buckets.SameExpired(current, o) {
				return nil, err
			}
			var columns []*string
			args := sqlDelete.Args(deletion{k.owner, k.bucket, buckets.Delete{Name: o.Name, Now: e.Now}, buckets.ObjectID(buckets.NewUUID()), all})
			if _, err := tx.QueryRow(sqlDelete.Statement, args, &columns); err != nil {
				return nil, err
			}
			deleted, err := scanDeleted(columns)
			done = err == nil
			return e.Notice.OfDeleted(o.Name, deleted, e.Now), err
		})
	})
	_, full := errors.AsType[*buckets.QuotaError](err)
	if _, locked := errors.AsType[*buckets.LockedError](err); full || locked {
		return false, nil
	}
	return done, err
}

// expiring holds the parameters that delete objects if they did not change: an element per object.
type expiring struct {
	owner      buckets.AccountID
	bucket     buckets.BucketRef
	names, ids []string
	modified   []time.Time
	tags       []*string
	now        buckets.Moment
}

// args names and orders the parameters for pgdb.
func (e expiring) args() []pgdb.Arg {
	return []pgdb.Arg{
		{Param: "p_owner uuid", Value: string(e.owner)},
		{Param: "p_bucket text", Value: e.bucket.Name},
		{Param: "p_bucket_id uuid", Value: string(e.bucket.ID)},
		{Param: "p_names text[]", Value: e.names},
		{Param: "p_ids text[]::uuid[]", Value: e.ids},
		{Param: "p_modified timestamptz[]", Value: e.modified},
		{Param: "p_tags text[]", Value: e.tags},
		{Param: "p_now timestamptz", Value: at(e.now)},
	}
}

// Clock implements buckets.Lifecycles.
func (s *Store) Clock(ctx context.Context) (buckets.Moment, error) {
	var now pgtype.Timestamptz
	_, err := s.db.QueryRow(ctx, sqlClock, nil, &now)
	return momentOf(now), err
}

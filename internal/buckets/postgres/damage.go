package postgres

import (
	"context"

	"github.com/jackc/pgx/v5/pgtype"

	"holdfast/internal/buckets"
	"holdfast/internal/db/pgdb"
)

const damageColumns = `node, path, problem, state, first_seen, last_seen, attempts, next_attempt, error, owner, bucket_id, id, name, upload_id, number`

var (
	sqlMark = pgdb.NewNamed(pgdb.Statement{Name: "buckets.mark", SQL: `
		INSERT INTO manta_bucket_damage AS d (` + damageColumns + `)
			VALUES (@node, @path, @problem, @state, @first_seen, @last_seen, @attempts, @next_attempt, @error, @owner, @bucket_id, @id, @name, @upload_id, @number)
		ON CONFLICT (node, path) DO UPDATE SET problem = EXCLUDED.problem, last_seen = greatest(d.last_seen, EXCLUDED.last_seen),
			name = CASE EXCLUDED.name WHEN '' THEN d.name ELSE EXCLUDED.name END,
			upload_id = CASE EXCLUDED.name WHEN '' THEN d.upload_id ELSE EXCLUDED.upload_id END,
			number = CASE EXCLUDED.name WHEN '' THEN d.number ELSE EXCLUDED.number END`}, markArgs)
	sqlMarked = pgdb.Statement{Name: "buckets.marked", SQL: `SELECT ` + damageColumns + ` FROM manta_bucket_damage
		WHERE (node, path) > ($1::text, $2::text) AND ($3::text = '' OR state = $3::text) ORDER BY node, path LIMIT $4::bigint`}
	sqlDueMarks = pgdb.Statement{Name: "buckets.due_marks", SQL: `SELECT ` + damageColumns + ` FROM manta_bucket_damage
		WHERE next_attempt <= $1::timestamptz ORDER BY next_attempt LIMIT $2::bigint`}
	sqlNoteAttempt = pgdb.NewNamed(pgdb.Statement{Name: "buckets.note_attempt", SQL: `
		UPDATE manta_bucket_damage SET state = @state, attempts = @attempts, next_attempt = @next_attempt, error = @error,
			name = @name, upload_id = @upload_id, number = @number
		WHERE node = @node AND path = @path`}, attemptArgs)
	sqlUnmark = pgdb.Statement{Name: "buckets.unmark", SQL: `
		DELETE FROM manta_bucket_damage WHERE node = $1::text AND path = $2::text AND last_seen <= $3::timestamptz`}
	sqlCountMarks = pgdb.Statement{Name: "buckets.count_marks", SQL: `
		SELECT node, state, count(*), min(first_seen) FROM manta_bucket_damage GROUP BY node, state ORDER BY node, state`}

	sqlScrubs = pgdb.Statement{Name: "buckets.scrubs", SQL: `
		SELECT node, began, position, done, copies, bytes, found, total, ended FROM manta_bucket_scrub ORDER BY node`}
	sqlSetScrub = pgdb.NewNamed(pgdb.Statement{Name: "buckets.set_scrub", SQL: `
		INSERT INTO manta_bucket_scrub (node, began, position, done, copies, bytes, found, total, ended)
		VALUES (@node, @began, @position, @done, @copies, @bytes, @found, @total, @ended)
		ON CONFLICT (node) DO UPDATE SET began = EXCLUDED.began, position = EXCLUDED.position, done = EXCLUDED.done, copies = EXCLUDED.copies,
			bytes = EXCLUDED.bytes, found = EXCLUDED.found, total = EXCLUDED.total, ended = EXCLUDED.ended`}, scrubArgs)
)

// Mark implements buckets.Damages.
func (s *Store) Mark(ctx context.Context, all []buckets.Damage) error {
	return s.db.Tx(ctx, "buckets.mark", func(tx *pgdb.Tx) error {
		for i := range all {
			_, err := tx.Exec(sqlMark.Statement, sqlMark.Args(all[i])...)
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// Marked implements buckets.Damages.
func (s *Store) Marked(ctx context.Context, q buckets.DamageQuery) ([]buckets.Damage, error) {
	return s.damages(ctx, sqlMarked, q.After.Node, q.After.Path, string(q.State), q.Limit)
}

// DueMarks implements buckets.Damages.
func (s *Store) DueMarks(ctx context.Context, now buckets.Moment, limit int) ([]buckets.Damage, error) {
	return s.damages(ctx, sqlDueMarks, at(now), limit)
}

// damages reads marked copies with a statement.
func (s *Store) damages(ctx context.Context, st pgdb.Statement, args ...any) (all []buckets.Damage, err error) {
	var d buckets.Damage
	var state, owner, bucket, id, upload string
	var first, last, next pgtype.Timestamptz
	err = s.db.ForEach(ctx, st, args, func() { all = nil }, func() error {
		d.State, d.FirstSeen, d.LastSeen, d.Next = buckets.DamageState(state), momentOf(first), momentOf(last), momentOf(next)
		d.Owner, d.Bucket, d.ID, d.Upload = buckets.AccountID(owner), buckets.BucketID(bucket), buckets.ObjectID(id), buckets.UploadID(upload)
		all = append(all, d)
		return nil
	}, &d.Node, &d.Path, &d.Problem, &state, &first, &last, &d.Attempts, &next, &d.Error, &owner, &bucket, &id, &d.Name, &upload, &d.Number)
	return all, err
}

// NoteAttempt implements buckets.Damages.
func (s *Store) NoteAttempt(ctx context.Context, d buckets.Damage) error {
	_, err := s.db.Exec(ctx, sqlNoteAttempt.Statement, sqlNoteAttempt.Args(d)...)
	return err
}

// attemptArgs are the parameters that NoteAttempt and Mark share.
func attemptArgs(d buckets.Damage) []pgdb.Arg {
	return []pgdb.Arg{
		{Param: "node text", Value: d.Node},
		{Param: "path text", Value: d.Path},
		{Param: "state text", Value: string(d.State)},
		{Param: "attempts integer", Value: d.Attempts},
		{Param: "next_attempt timestamptz", Value: at(d.Next)},
		{Param: "error text", Value: d.Error},
		{Param: "name text", Value: d.Name},
		{Param: "upload_id text", Value: string(d.Upload)},
		{Param: "number integer", Value: d.Number},
	}
}

// markArgs are the parameters for Mark.
func markArgs(d buckets.Damage) []pgdb.Arg {
	return append(attemptArgs(d),
		pgdb.Arg{Param: "problem text", Value: d.Problem},
		pgdb.Arg{Param: "first_seen timestamptz", Value: at(d.FirstSeen)},
		pgdb.Arg{Param: "last_seen timestamptz", Value: at(d.LastSeen)},
		pgdb.Arg{Param: "owner text", Value: string(d.Owner)},
		pgdb.Arg{Param: "bucket_id text", Value: string(d.Bucket)},
		pgdb.Arg{Param: "id text", Value: string(d.ID)},
	)
}

// Unmark implements buckets.Damages.
func (s *Store) Unmark(ctx context.Context, all []buckets.Damage) error {
	return s.db.Tx(ctx, "buckets.unmark", func(tx *pgdb.Tx) error {
		for i := range all {
			if _, err := tx.Exec(sqlUnmark, all[i].Node, all[i].Path, at(all[i].LastSeen)); err != nil {
				return err
			}
		}
		return nil
	})
}

// CountMarks implements buckets.Damages.
func (s *Store) CountMarks(ctx context.Context) (all []buckets.DamageCount, err error) {
	var n buckets.DamageCount
	var state string
	var oldest pgtype.Timestamptz
	err = s.db.ForEach(ctx, sqlCountMarks, nil, func() { all = nil }, func() error {
		n.State, n.Oldest = buckets.DamageState(state), momentOf(oldest)
		all = append(all, n)
		return nil
	}, &n.Node, &state, &n.Copies, &oldest)
	return all, err
}

// Scrubs implements buckets.Scrubs.
func (s *Store) Scrubs(ctx context.Context) (all []buckets.Scrub, err error) {
	var p buckets.Scrub
	var began, ended pgtype.Timestamptz
	err = s.db.ForEach(ctx, sqlScrubs, nil, func() { all = nil }, func() error {
		p.Began, p.Ended = momentOf(began), momentOf(ended)
		all = append(all, p)
		return nil
	}, &p.Node, &began, &p.After, &p.Done, &p.Copies, &p.Bytes, &p.Found, &p.Total, &ended)
	return all, err
}

// SetScrub implements buckets.Scrubs.
func (s *Store) SetScrub(ctx context.Context, p buckets.Scrub) error {
	_, err := s.db.Exec(ctx, sqlSetScrub.Statement, sqlSetScrub.Args(p)...)
	return err
}

// scrubArgs are the parameters for SetScrub.
func scrubArgs(p buckets.Scrub) []pgdb.Arg {
	return []pgdb.Arg{
		{Param: "node text", Value: p.Node},
		{Param: "began timestamptz", Value: at(p.Began)},
		{Param: "position text", Value: p.After},
		{Param: "done boolean", Value: p.Done},
		{Param: "copies bigint", Value: p.Copies},
		{Param: "bytes bigint", Value: p.Bytes},
		{Param: "found bigint", Value: p.Found},
		{Param: "total bigint", Value: p.Total},
		{Param: "ended timestamptz", Value: atOrNull(p.Ended)},
	}
}

package postgres

import (
	"context"

	"github.com/jackc/pgx/v5/pgtype"

	"holdfast/internal/buckets"
	"holdfast/internal/db/pgdb"
)

const damageColumns = `node, path, problem, state, first_seen, last_seen, attempts, next_attempt, error, owner, bucket_id, id, name, upload_id, number`

var (
	sqlMark = pgdb.Statement{Name: "buckets.mark", SQL: `
		INSERT INTO manta_bucket_damage AS d (` + damageColumns + `) VALUES ($1::text, $2::text, $3::text, $4::text, $5::timestamptz, $6::timestamptz,
			$7::integer, $8::timestamptz, $9::text, $10::text, $11::text, $12::text, $13::text, $14::text, $15::integer)
		ON CONFLICT (node, path) DO UPDATE SET problem = EXCLUDED.problem, last_seen = greatest(d.last_seen, EXCLUDED.last_seen),
			name = CASE EXCLUDED.name WHEN '' THEN d.name ELSE EXCLUDED.name END,
			upload_id = CASE EXCLUDED.name WHEN '' THEN d.upload_id ELSE EXCLUDED.upload_id END,
			number = CASE EXCLUDED.name WHEN '' THEN d.number ELSE EXCLUDED.number END`}
	sqlMarked = pgdb.Statement{Name: "buckets.marked", SQL: `SELECT ` + damageColumns + ` FROM manta_bucket_damage
		WHERE (node, path) > ($1::text, $2::text) AND ($3::text = '' OR state = $3::text) ORDER BY node, path LIMIT $4::bigint`}
	sqlDueMarks = pgdb.Statement{Name: "buckets.due_marks", SQL: `SELECT ` + damageColumns + ` FROM manta_bucket_damage
		WHERE next_attempt <= $1::timestamptz ORDER BY next_attempt LIMIT $2::bigint`}
	sqlNoteAttempt = pgdb.Statement{Name: "buckets.note_attempt", SQL: `
		UPDATE manta_bucket_damage SET state = $3::text, attempts = $4::integer, next_attempt = $5::timestamptz, error = $6::text,
			name = $7::text, upload_id = $8::text, number = $9::integer
		WHERE node = $1::text AND path = $2::text`}
	sqlUnmark = pgdb.Statement{Name: "buckets.unmark", SQL: `
		DELETE FROM manta_bucket_damage WHERE node = $1::text AND path = $2::text AND last_seen <= $3::timestamptz`}
	sqlCountMarks = pgdb.Statement{Name: "buckets.count_marks", SQL: `
		SELECT node, state, count(*), min(first_seen) FROM manta_bucket_damage GROUP BY node, state ORDER BY node, state`}

	sqlScrubs = pgdb.Statement{Name: "buckets.scrubs", SQL: `
		SELECT node, began, position, done, copies, bytes, found, total, ended FROM manta_bucket_scrub ORDER BY node`}
	sqlSetScrub = pgdb.Statement{Name: "buckets.set_scrub", SQL: `
		INSERT INTO manta_bucket_scrub (node, began, position, done, copies, bytes, found, total, ended)
		VALUES ($1::text, $2::timestamptz, $3::text, $4::boolean, $5::bigint, $6::bigint, $7::bigint, $8::bigint, $9::timestamptz)
		ON CONFLICT (node) DO UPDATE SET began = EXCLUDED.began, position = EXCLUDED.position, done = EXCLUDED.done, copies = EXCLUDED.copies,
			bytes = EXCLUDED.bytes, found = EXCLUDED.found, total = EXCLUDED.total, ended = EXCLUDED.ended`}
)

// Mark implements buckets.Damages.
func (s *Store) Mark(ctx context.Context, all []buckets.Damage) error {
	return s.db.Tx(ctx, "buckets.mark", func(tx *pgdb.Tx) error {
		for i := range all {
			d := &all[i]
			_, err := tx.Exec(sqlMark, d.Node, d.Path, d.Problem, string(d.State), at(d.FirstSeen), at(d.LastSeen), d.Attempts, at(d.Next), d.Error,
				string(d.Owner), string(d.Bucket), string(d.ID), d.Name, string(d.Upload), d.Number)
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
	_, err := s.db.Exec(ctx, sqlNoteAttempt, d.Node, d.Path, string(d.State), d.Attempts, at(d.Next), d.Error, d.Name, string(d.Upload), d.Number)
	return err
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
	var ended any
	if p.Ended != 0 {
		ended = at(p.Ended)
	}
	_, err := s.db.Exec(ctx, sqlSetScrub, p.Node, at(p.Began), p.After, p.Done, p.Copies, p.Bytes, p.Found, p.Total, ended)
	return err
}

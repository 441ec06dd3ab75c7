package sqlite

import (
	"context"

	"zombiezen.com/go/sqlite"

	"holdfast/internal/buckets"
	"holdfast/internal/db/sqlitedb"
)

const (
	damageColumns = `node, path, problem, state, first_seen, last_seen, attempts, next_attempt, error, owner, bucket_id, id, name, upload_id, number`

	sqlMark = `INSERT INTO manta_bucket_damage (` + damageColumns + `) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
		ON CONFLICT (node, path) DO UPDATE SET problem = excluded.problem, last_seen = max(last_seen, excluded.last_seen),
			name = CASE excluded.name WHEN '' THEN name ELSE excluded.name END,
			upload_id = CASE excluded.name WHEN '' THEN upload_id ELSE excluded.upload_id END,
			number = CASE excluded.name WHEN '' THEN number ELSE excluded.number END`
	sqlMarked = `SELECT ` + damageColumns + ` FROM manta_bucket_damage
		WHERE (node, path) > (?1, ?2) AND (?3 = '' OR state = ?3) ORDER BY node, path LIMIT +?4`
	sqlDueMarks    = `SELECT ` + damageColumns + ` FROM manta_bucket_damage WHERE next_attempt <= ?1 ORDER BY next_attempt LIMIT +?2`
	sqlNoteAttempt = `UPDATE manta_bucket_damage SET state = ?3, attempts = ?4, next_attempt = ?5, error = ?6, name = ?7, upload_id = ?8, number = ?9
		WHERE node = ?1 AND path = ?2`
	sqlUnmark     = `DELETE FROM manta_bucket_damage WHERE node = ? AND path = ? AND last_seen <= ?`
	sqlCountMarks = `SELECT node, state, count(*), min(first_seen) FROM manta_bucket_damage GROUP BY node, state ORDER BY node, state`

	sqlScrubs   = `SELECT node, began, position, done, copies, bytes, found, total, ended FROM manta_bucket_scrub ORDER BY node`
	sqlSetScrub = `INSERT OR REPLACE INTO manta_bucket_scrub (node, began, position, done, copies, bytes, found, total, ended) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)`
)

// scanDamage reads the columns in sqlMarks.
func scanDamage(r *sqlite.Stmt) buckets.Damage {
	return buckets.Damage{
		Copy: buckets.Copy{Node: r.ColumnText(0), Path: r.ColumnText(1)}, Problem: r.ColumnText(2), State: buckets.DamageState(r.ColumnText(3)),
		FirstSeen: buckets.Moment(r.ColumnInt64(4)), LastSeen: buckets.Moment(r.ColumnInt64(5)),
		Attempts: r.ColumnInt(6), Next: buckets.Moment(r.ColumnInt64(7)), Error: r.ColumnText(8),
		Owner: buckets.AccountID(r.ColumnText(9)), Bucket: buckets.BucketID(r.ColumnText(10)), ID: buckets.ObjectID(r.ColumnText(11)),
		Name: r.ColumnText(12), Upload: buckets.UploadID(r.ColumnText(13)), Number: r.ColumnInt(14),
	}
}

// Mark implements buckets.Damages.
func (s *Store) Mark(ctx context.Context, all []buckets.Damage) error {
	return s.db.Write(ctx, "mark_damage", func(c *sqlite.Conn) error {
		for i := range all {
			d := &all[i]
			err := sqlitedb.Exec(c, sqlMark, d.Node, d.Path, d.Problem, string(d.State), d.FirstSeen, d.LastSeen, d.Attempts, d.Next, d.Error,
				d.Owner, d.Bucket, d.ID, d.Name, d.Upload, d.Number)
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
	return s.damages(ctx, sqlDueMarks, now, limit)
}

// damages reads marked copies with a query.
func (s *Store) damages(ctx context.Context, sql string, args ...any) (all []buckets.Damage, err error) {
	err = s.db.Read(ctx, "damages", func(c *sqlite.Conn) error {
		all, err = sqlitedb.QueryAll(c, sql, scanDamage, args...)
		return err
	})
	return all, err
}

// NoteAttempt implements buckets.Damages.
func (s *Store) NoteAttempt(ctx context.Context, d buckets.Damage) error {
	return s.db.Write(ctx, "note_attempt", func(c *sqlite.Conn) error {
		return sqlitedb.Exec(c, sqlNoteAttempt, d.Node, d.Path, string(d.State), d.Attempts, d.Next, d.Error, d.Name, d.Upload, d.Number)
	})
}

// Unmark implements buckets.Damages.
func (s *Store) Unmark(ctx context.Context, all []buckets.Damage) error {
	return s.db.Write(ctx, "unmark_damage", func(c *sqlite.Conn) error {
		for i := range all {
			if err := sqlitedb.Exec(c, sqlUnmark, all[i].Node, all[i].Path, all[i].LastSeen); err != nil {
				return err
			}
		}
		return nil
	})
}

// CountMarks implements buckets.Damages.
func (s *Store) CountMarks(ctx context.Context) (all []buckets.DamageCount, err error) {
	err = s.db.Read(ctx, "count_damage", func(c *sqlite.Conn) error {
		all, err = sqlitedb.QueryAll(c, sqlCountMarks, func(r *sqlite.Stmt) buckets.DamageCount {
			return buckets.DamageCount{
				Node: r.ColumnText(0), State: buckets.DamageState(r.ColumnText(1)), Copies: r.ColumnInt64(2), Oldest: buckets.Moment(r.ColumnInt64(3)),
			}
		})
		return err
	})
	return all, err
}

// Scrubs implements buckets.Scrubs.
func (s *Store) Scrubs(ctx context.Context) (all []buckets.Scrub, err error) {
	err = s.db.Read(ctx, "scrubs", func(c *sqlite.Conn) error {
		all, err = sqlitedb.QueryAll(c, sqlScrubs, func(r *sqlite.Stmt) buckets.Scrub {
			return buckets.Scrub{
				Node: r.ColumnText(0), Began: buckets.Moment(r.ColumnInt64(1)), After: r.ColumnText(2), Done: r.ColumnBool(3),
				Copies: r.ColumnInt64(4), Bytes: r.ColumnInt64(5), Found: r.ColumnInt64(6), Total: r.ColumnInt64(7), Ended: buckets.Moment(r.ColumnInt64(8)),
			}
		})
		return err
	})
	return all, err
}

// SetScrub implements buckets.Scrubs.
func (s *Store) SetScrub(ctx context.Context, p buckets.Scrub) error {
	return s.db.Write(ctx, "set_scrub", func(c *sqlite.Conn) error {
		return sqlitedb.Exec(c, sqlSetScrub, p.Node, p.Began, p.After, p.Done, p.Copies, p.Bytes, p.Found, p.Total, p.Ended)
	})
}

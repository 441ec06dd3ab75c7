package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"time"

	"zombiezen.com/go/sqlite"

	"holdfast/internal/db/sqlitedb"
	store "holdfast/internal/syncstorage/sqlite"
)

// The statements of the room, which each work of the limit runs as a step of
// the group-commit writer, or on a snapshot.
const (
	liteState  = `SELECT modified, count, total_bytes FROM user_collections WHERE user_id = ? AND collection_id = ?`
	liteHeader = `SELECT sortindex, modified, expiry, length(payload) FROM bsos
		WHERE user_id = ? AND collection_id = ? AND bso_id = ?`
	liteUpsert = `INSERT INTO bsos (user_id, collection_id, bso_id, modified, payload) VALUES (?, ?, ?, ?, ?)
		ON CONFLICT DO UPDATE SET sortindex = excluded.sortindex, modified = excluded.modified,
			expiry = excluded.expiry, payload = excluded.payload`
	liteSetUser = `INSERT INTO user_collections (user_id, collection_id, modified) VALUES (?, 0, ?)
		ON CONFLICT DO UPDATE SET modified = excluded.modified`
	liteSetCollection = `UPDATE user_collections SET modified = ?, count = count + ?, total_bytes = total_bytes + ?
		WHERE user_id = ? AND collection_id = ?`
	liteAddCollection = `INSERT INTO user_collections (user_id, collection_id, modified) VALUES (?, ?, ?)`

	liteList = `SELECT bso_id, modified, sortindex, payload FROM bsos
		WHERE user_id = ? AND collection_id = ? AND (expiry IS NULL OR expiry > ?)
		ORDER BY modified DESC, bso_id DESC LIMIT -1 OFFSET 0`
	liteInfo = `SELECT c.name, u.modified FROM user_collections u LEFT JOIN collections c USING (collection_id)
		WHERE u.user_id = ? AND u.modified > 0`

	liteAddBatch = `INSERT INTO batches (user_id, collection_id, batch_id, expiry) VALUES (?, ?, 'b', 4102444800000)`
	liteStage    = `INSERT INTO batch_bsos (user_id, collection_id, batch_id, batch_bso_id, payload) VALUES (?, ?, 'b', ?, ?)
		ON CONFLICT DO UPDATE SET sortindex = coalesce(excluded.sortindex, sortindex),
			ttl = coalesce(excluded.ttl, ttl), payload = coalesce(excluded.payload, payload)`
	liteCountBatch = `UPDATE batches SET count = count + ?, total_bytes = total_bytes + ?
		WHERE user_id = ? AND collection_id = ? AND batch_id = 'b'`
	liteMove = `INSERT INTO bsos (user_id, collection_id, bso_id, sortindex, modified, payload)
		SELECT user_id, collection_id, batch_bso_id, sortindex, ?, payload FROM batch_bsos
		WHERE user_id = ? AND collection_id = ? AND batch_id = 'b'`
	liteUnstage = `DELETE FROM batches WHERE user_id = ? AND collection_id = ? AND batch_id = 'b'`
)

// liteLimit is SQLite by the group-commit writer alone, in a file of its own:
// a file has one writer.
type liteLimit struct {
	engine  *engine
	dir     string
	db      *sqlitedb.DB
	payload []byte
	ids     []string // of a batch, or of a collection where that is larger
	batch   int
}

func openSQLite(ctx context.Context, e *engine, users, batch int) (limit, error) {
	dir, err := os.MkdirTemp("", "holdfast-bench-")
	if err != nil {
		return nil, err
	}
	db, err := sqlitedb.Open(ctx, sqlitedb.Options{Path: file(dir)})
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	l := &liteLimit{engine: e, dir: dir, db: db, payload: []byte(payload(500)), ids: ids(max(batch, listRecords)), batch: batch}
	if err := l.fill(ctx, users); err != nil {
		return nil, errors.Join(err, l.close())
	}
	return l, nil
}

func (l *liteLimit) close() error { return errors.Join(l.db.Close(), os.RemoveAll(l.dir)) }

func (l *liteLimit) settle(ctx context.Context) error { return l.engine.settle(ctx, file(l.dir)) }

func (l *liteLimit) fill(ctx context.Context, users int) error {
	set, err := store.Migrations()
	if err != nil {
		return err
	}
	if _, err := l.db.Migrate(ctx, set); err != nil {
		return err
	}
	for i := range int64(users) {
		err := l.db.Write(ctx, "fill", func(c *sqlite.Conn) error {
			for name, n := range l.engine.records() {
				user, coll, now := firstUser+i, collectionIDs[name], time.Now().UnixMilli()
				if err := lite(c, liteAddCollection, nil, user, coll, now); err != nil {
					return err
				}
				if err := l.upsert(c, user, coll, l.ids[:n]); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func (l *liteLimit) window(ctx context.Context, work string, callers int, d time.Duration) (float64, error) {
	step, ok := map[string]step{
		workPut: l.put, workPost: l.post,
		workList: func(ctx context.Context, _, _ int) error { return l.list(ctx, anyOf(callers)) },
		workInfo: func(ctx context.Context, _, _ int) error { return l.info(ctx, anyOf(callers)) },
	}[work]
	if !ok {
		return 0, unknown(work)
	}
	return rate(ctx, callers, lasting(d), step)
}

// put is all that the room does for a PUT, reading included.
func (l *liteLimit) put(ctx context.Context, caller, i int) error {
	user, coll := firstUser+int64(caller), collectionIDs[putCollection]
	return l.db.Write(ctx, workPut, func(c *sqlite.Conn) error {
		for _, id := range []int64{0, coll} {
			if err := lite(c, liteState, nil, user, id); err != nil {
				return err
			}
		}
		name := l.ids[i%putRecords]
		if err := lite(c, liteHeader, nil, user, coll, name); err != nil {
			return err
		}
		return l.upsert(c, user, coll, l.ids[i%putRecords:][:1])
	})
}

func (l *liteLimit) post(ctx context.Context, caller, _ int) error {
	return l.db.Write(ctx, workPost, func(c *sqlite.Conn) error {
		return l.upsert(c, firstUser+int64(caller), collectionIDs[postCollection], l.ids[:postRecords])
	})
}

// upsert writes records and moves the stamps.
func (l *liteLimit) upsert(c *sqlite.Conn, user, coll int64, ids []string) error {
	now := time.Now().UnixMilli()
	for _, id := range ids {
		if err := lite(c, liteUpsert, nil, user, coll, id, now, l.payload); err != nil {
			return err
		}
	}
	return stamps(c, user, coll, now)
}

func stamps(c *sqlite.Conn, user, coll, now int64) error {
	if err := lite(c, liteSetCollection, nil, now, int64(0), int64(0), user, coll); err != nil {
		return err
	}
	return lite(c, liteSetUser, nil, user, now)
}

// anyOf is a user of the works. A caller gets back the connection that it has
// just used; reading for another user each time makes it meet there what the
// server's connections, which go from caller to caller, have in their caches.
func anyOf(users int) int64 { return firstUser + rand.Int64N(int64(users)) }

func (l *liteLimit) list(ctx context.Context, user int64) error {
	return l.db.Read(ctx, workList, func(c *sqlite.Conn) error {
		var all []found
		err := lite(c, liteList, func(s *sqlite.Stmt) {
			f := found{id: s.ColumnText(0), modified: time.UnixMilli(s.ColumnInt64(1)), payload: make([]byte, s.ColumnLen(3))}
			if !s.ColumnIsNull(2) {
				index := s.ColumnInt64(2)
				f.sortindex = &index
			}
			s.ColumnBytes(3, f.payload)
			all = append(all, f)
		}, user, collectionIDs[listCollection], time.Now().UnixMilli())
		return checked(len(all), listRecords, err)
	})
}

func (l *liteLimit) info(ctx context.Context, user int64) error {
	return l.db.Read(ctx, workInfo, func(c *sqlite.Conn) error {
		rows := 0
		err := lite(c, liteInfo, func(s *sqlite.Stmt) {
			rows++
			_, _ = s.ColumnText(0), s.ColumnInt64(1)
		}, user)
		return checked(rows, infoRows, err)
	})
}

func (l *liteLimit) stage(ctx context.Context, user int64, i int) error {
	return l.db.Write(ctx, workAppend, func(c *sqlite.Conn) error {
		coll := collectionIDs[batchCollection]
		if i == 0 {
			if err := lite(c, liteAddCollection, nil, user, coll, int64(0)); err != nil {
				return err
			}
			if err := lite(c, liteAddBatch, nil, user, coll); err != nil {
				return err
			}
		}
		staged := l.ids[i*100 : min(i*100+100, l.batch)]
		for _, id := range staged {
			if err := lite(c, liteStage, nil, user, coll, id, l.payload); err != nil {
				return err
			}
		}
		return lite(c, liteCountBatch, nil, int64(len(staged)), int64(len(staged)*len(l.payload)), user, coll)
	})
}

func (l *liteLimit) commit(ctx context.Context, user int64) error {
	return l.db.Write(ctx, workCommit, func(c *sqlite.Conn) error {
		coll, now := collectionIDs[batchCollection], time.Now().UnixMilli()
		if err := lite(c, liteMove, nil, now, user, coll); err != nil {
			return err
		}
		if moved := c.Changes(); moved != l.batch {
			return fmt.Errorf("moved %d rows, want %d", moved, l.batch)
		}
		// With the batch its records go.
		if err := lite(c, liteUnstage, nil, user, coll); err != nil {
			return err
		}
		return stamps(c, user, coll, now)
	})
}

// lite runs a statement, which the connection keeps, and hands each row to fn.
func lite(c *sqlite.Conn, sql string, fn func(*sqlite.Stmt), args ...any) error {
	stmt, err := c.Prepare(sql)
	if err != nil {
		return err
	}
	for i, arg := range args {
		switch v := arg.(type) {
		case int64:
			stmt.BindInt64(i+1, v)
		case string:
			stmt.BindText(i+1, v)
		case []byte:
			stmt.BindBytes(i+1, v)
		default:
			return errors.New("no binding for the argument's type")
		}
	}
	for {
		found, err := stmt.Step()
		if err != nil || !found {
			return errors.Join(err, stmt.Reset())
		}
		if fn != nil {
			fn(stmt)
		}
	}
}

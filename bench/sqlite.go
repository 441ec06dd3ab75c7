package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
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
	liteUnstage = `DELETE FROM batch_bsos WHERE user_id = ? AND collection_id = ? AND batch_id = 'b'`
)

// liteLimit is SQLite by the group-commit writer alone, in a file of its own:
// a file has one writer.
type liteLimit struct {
	dir     string
	db      *sqlitedb.DB
	payload []byte
	ids     []string
}

func openSQLite(ctx context.Context) (limit, error) {
	dir, err := os.MkdirTemp("", "holdfast-bench-")
	if err != nil {
		return nil, err
	}
	db, err := sqlitedb.Open(ctx, sqlitedb.Options{Path: filepath.Join(dir, "limit.db")})
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	l := &liteLimit{dir: dir, db: db, payload: []byte(payload()), ids: ids(0, batchRecords)}
	if err := l.fill(ctx); err != nil {
		return nil, errors.Join(err, l.close())
	}
	return l, nil
}

func (l *liteLimit) name() string { return "sqlite" }

func (l *liteLimit) databaseURL() string { return "" }

func (l *liteLimit) close() error { return errors.Join(l.db.Close(), os.RemoveAll(l.dir)) }

// fill makes what server.fill makes.
func (l *liteLimit) fill(ctx context.Context) error {
	set, err := store.Migrations()
	if err != nil {
		return err
	}
	if _, err := l.db.Migrate(ctx, set); err != nil {
		return err
	}
	for i := range int64(users) {
		err := l.db.Write(ctx, "fill", func(c *sqlite.Conn) error {
			for name, n := range map[string]int{putCollection: putRecords, postCollection: postRecords, listCollection: listRecords} {
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
	step, ok := map[string]func(ctx context.Context, caller, i int) error{
		workPut: l.put, workPost: l.post, workList: l.list, workInfo: l.info,
	}[work]
	if !ok {
		return 0, unknown(work)
	}
	return rate(ctx, callers, d, step)
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

func (l *liteLimit) list(ctx context.Context, caller, _ int) error {
	return l.db.Read(ctx, workList, func(c *sqlite.Conn) error {
		var payload []byte
		rows := 0
		err := lite(c, liteList, func(s *sqlite.Stmt) {
			rows++
			_, _, _ = s.ColumnText(0), s.ColumnInt64(1), s.ColumnIsNull(2)
			if n := s.ColumnLen(3); n > len(payload) {
				payload = make([]byte, n)
			}
			s.ColumnBytes(3, payload)
		}, firstUser+int64(caller), collectionIDs[listCollection], time.Now().UnixMilli())
		return checked(rows, listRecords, err)
	})
}

func (l *liteLimit) info(ctx context.Context, caller, _ int) error {
	return l.db.Read(ctx, workInfo, func(c *sqlite.Conn) error {
		rows := 0
		err := lite(c, liteInfo, func(s *sqlite.Stmt) {
			rows++
			_, _ = s.ColumnText(0), s.ColumnInt64(1)
		}, firstUser+int64(caller))
		return checked(rows, infoRows, err)
	})
}

func (l *liteLimit) begin(ctx context.Context, user int64) error {
	return l.db.Write(ctx, "begin", func(c *sqlite.Conn) error {
		coll := collectionIDs[batchCollection]
		if err := lite(c, liteAddCollection, nil, user, coll, int64(0)); err != nil {
			return err
		}
		return lite(c, liteAddBatch, nil, user, coll)
	})
}

func (l *liteLimit) stage(ctx context.Context, user int64, from int) error {
	return l.db.Write(ctx, workAppend, func(c *sqlite.Conn) error {
		coll := collectionIDs[batchCollection]
		for _, id := range l.ids[from : from+100] {
			if err := lite(c, liteStage, nil, user, coll, id, l.payload); err != nil {
				return err
			}
		}
		return lite(c, liteCountBatch, nil, int64(100), int64(100*len(l.payload)), user, coll)
	})
}

func (l *liteLimit) commit(ctx context.Context, user int64) error {
	return l.db.Write(ctx, workCommit, func(c *sqlite.Conn) error {
		coll, now := collectionIDs[batchCollection], time.Now().UnixMilli()
		if err := lite(c, liteMove, nil, now, user, coll); err != nil {
			return err
		}
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

package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"zombiezen.com/go/sqlite"

	store "holdfast/internal/syncstorage/sqlite"
)

// Copied from the service; see TestStatements.
const (
	liteCounters      = `SELECT modified, count, total_bytes, collection_id, quota FROM user_collections WHERE user_id = ?`
	liteHeader        = `SELECT rowid, sortindex, modified, expiry, length(payload) FROM bsos WHERE user_id = ? AND collection_id = ? AND bso_id = ?`
	liteUpdate        = `UPDATE bsos SET sortindex = ?, modified = ?, expiry = ?, payload = ? WHERE rowid = ?`
	liteSetUser       = `UPDATE user_collections SET modified = ? WHERE user_id = ? AND collection_id = 0`
	liteSetCollection = `UPDATE user_collections SET modified = ?, count = count + ?, total_bytes = total_bytes + ? WHERE user_id = ? AND collection_id = ?`
	liteAddCollection = `INSERT INTO user_collections (user_id, collection_id, modified) VALUES (?, ?, ?)`
	liteInfo          = `SELECT c.name, u.modified FROM user_collections u LEFT JOIN collections c USING (collection_id) WHERE u.user_id = ? AND u.modified > 0`
)

// Statements without the service's lookups and decisions.
const (
	liteUpsert = `INSERT INTO bsos (user_id, collection_id, bso_id, modified, payload) VALUES (?, ?, ?, ?, ?)
		ON CONFLICT DO UPDATE SET sortindex = excluded.sortindex, modified = excluded.modified,
			expiry = excluded.expiry, payload = excluded.payload`
	liteList = `SELECT bso_id, modified, sortindex, payload FROM bsos
		WHERE user_id = ? AND collection_id = ? AND (expiry IS NULL OR expiry > ?)
		ORDER BY modified DESC, bso_id DESC LIMIT -1 OFFSET 0`

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

type syncSQLite struct {
	syncLimit
	liteFile
	payload []byte
}

func openSyncSQLite(ctx context.Context, base syncLimit, users int) (limit, error) {
	f, err := openLite(ctx, syncFile(""), store.Migrations)
	if err != nil {
		return nil, err
	}
	l := &syncSQLite{base, f, []byte(payload(500))}
	for user := range int64(users) {
		err := l.db.Write(ctx, "fill", func(c *sqlite.Conn) error {
			for name, n := range l.records {
				for _, coll := range []int64{0, collectionIDs[name]} {
					if err := lite(c, liteAddCollection+` ON CONFLICT DO NOTHING`, nil, 1+user, coll, int64(0)); err != nil {
						return err
					}
				}
				if err := l.upsert(c, 1+user, collectionIDs[name], l.ids[:n]); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return nil, errors.Join(err, l.close())
		}
	}
	return l, nil
}

func (l *syncSQLite) settle(ctx context.Context) error { return l.engine.settle(ctx, l.path) }

func (l *syncSQLite) window(ctx context.Context, operation string, callers int, d time.Duration) (float64, error) {
	step, ok := map[string]step{
		workPut: l.put, workPost: l.post,
		workList: func(ctx context.Context, _, _ int) error { return l.list(ctx, anyOf(callers), listCollection) },
		workPage: func(ctx context.Context, _, _ int) error { return l.list(ctx, anyOf(callers), postCollection) },
		workInfo: func(ctx context.Context, _, _ int) error { return l.info(ctx, anyOf(callers)) },
	}[operation]
	if !ok {
		return 0, unknown(operation)
	}
	return rate(ctx, callers, lasting(d), step)
}

func (l *syncSQLite) put(ctx context.Context, caller, i int) error {
	user, coll, now := 1+int64(caller), collectionIDs[putCollection], time.Now().UnixMilli()
	var row int64
	judge := func(c *sqlite.Conn) error {
		if err := lite(c, liteCounters, nil, user); err != nil {
			return err
		}
		return lite(c, liteHeader, func(s *sqlite.Stmt) { row = s.ColumnInt64(0) }, user, coll, l.ids[i%putRecords])
	}
	return l.db.WriteChecked(ctx, workPut, judge, func(c *sqlite.Conn) error {
		if err := lite(c, liteUpdate, nil, nil, now, nil, l.payload, row); err != nil {
			return err
		}
		return stamps(c, user, coll, now)
	})
}

func (l *syncSQLite) post(ctx context.Context, caller, _ int) error {
	return l.db.Write(ctx, workPost, func(c *sqlite.Conn) error {
		return l.upsert(c, 1+int64(caller), collectionIDs[postCollection], l.ids[:postRecords])
	})
}

func (l *syncSQLite) upsert(c *sqlite.Conn, user, coll int64, ids []string) error {
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
	return lite(c, liteSetUser, nil, now, user)
}

// A caller gets its last connection again. Varying users make its cache similar to the server's caches, because the
// server's connections serve all callers.
func anyOf(users int) int64 { return 1 + rand.Int64N(int64(users)) }

func (l *syncSQLite) list(ctx context.Context, user int64, collection string) error {
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
		}, user, collectionIDs[collection], time.Now().UnixMilli())
		return checked(len(all), l.records[collection], err)
	})
}

func (l *syncSQLite) info(ctx context.Context, user int64) error {
	return l.db.Read(ctx, workInfo, func(c *sqlite.Conn) error {
		rows := 0
		err := lite(c, liteInfo, func(s *sqlite.Stmt) {
			rows++
			_, _ = s.ColumnText(0), s.ColumnInt64(1)
		}, user)
		return checked(rows, infoRows, err)
	})
}

func (l *syncSQLite) stage(ctx context.Context, user int64, i int) error {
	return l.db.Write(ctx, workAppend, func(c *sqlite.Conn) error {
		coll := collectionIDs[batchCollection]
		if i == 0 {
			for _, id := range []int64{0, coll} {
				if err := lite(c, liteAddCollection, nil, user, id, int64(0)); err != nil {
					return err
				}
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

func (l *syncSQLite) commit(ctx context.Context, user int64) error {
	return l.db.Write(ctx, workCommit, func(c *sqlite.Conn) error {
		coll, now := collectionIDs[batchCollection], time.Now().UnixMilli()
		if err := lite(c, liteMove, nil, now, user, coll); err != nil {
			return err
		}
		if moved := c.Changes(); moved != l.batch {
			return fmt.Errorf("moved %d rows, want %d", moved, l.batch)
		}
		if err := lite(c, liteUnstage, nil, user, coll); err != nil {
			return err
		}
		return stamps(c, user, coll, now)
	})
}

package main

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"holdfast/internal/db/pgdb"
	store "holdfast/internal/syncstorage/postgres"
	"holdfast/internal/testdb"
)

// What a POST, a listing and a batch are when nothing is asked, locked or
// decided. The limit of a PUT is in pgbench.go.
const (
	pgAddCollection = `INSERT INTO user_collections (user_id, collection_id, modified) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING`
	pgUpsert        = `
		WITH c AS (UPDATE user_collections SET modified = $3 WHERE user_id = $1 AND collection_id = $2)
		INSERT INTO bsos (user_id, collection_id, bso_id, payload, modified)
		SELECT $1, $2, u.id, u.payload, $3 FROM unnest($4::text[], $5::bytea[]) AS u (id, payload)
		ON CONFLICT (user_id, collection_id, bso_id) DO UPDATE SET payload = EXCLUDED.payload, modified = EXCLUDED.modified`

	pgList = `SELECT bso_id, sortindex, modified, payload FROM bsos
		WHERE user_id = $1 AND collection_id = $2 AND (expiry IS NULL OR expiry > $3) ORDER BY modified DESC, bso_id DESC`
	pgInfo = `SELECT n.name, c.modified FROM user_collections c LEFT JOIN collections n ON n.collection_id = c.collection_id
		WHERE c.user_id = $1 AND c.modified > 'epoch'`

	pgAddBatch = `INSERT INTO batches (user_id, collection_id, batch_id, expiry) VALUES ($1, $2, 'b', '2100-01-01')`
	pgStage    = `
		WITH c AS (UPDATE batches SET count = count + 100, total_bytes = total_bytes + 50000 WHERE user_id = $1 AND collection_id = $2 AND batch_id = 'b')
		INSERT INTO batch_bsos (user_id, collection_id, batch_id, batch_bso_id, payload)
		SELECT $1, $2, 'b', u.id, u.payload FROM unnest($3::text[], $4::bytea[]) AS u (id, payload)
		ON CONFLICT (user_id, collection_id, batch_id, batch_bso_id) DO UPDATE SET payload = EXCLUDED.payload`
	pgMove = `INSERT INTO bsos (user_id, collection_id, bso_id, sortindex, payload, modified)
		SELECT user_id, collection_id, batch_bso_id, sortindex, payload, $3 FROM batch_bsos
		WHERE user_id = $1 AND collection_id = $2 AND batch_id = 'b'`
	pgUnstage = `DELETE FROM batch_bsos WHERE user_id = $1 AND collection_id = $2 AND batch_id = 'b'`
	pgStamp   = `UPDATE user_collections SET modified = $3 WHERE user_id = $1 AND collection_id = $2`
)

// pgLimit is a PostgreSQL server, which commits durably and is Holdfast's too,
// by a connection for each caller.
type pgLimit struct {
	server   *testdb.PostgresServer
	conns    []*pgx.Conn
	ids      []string
	payloads [][]byte // 100
}

func openPostgres(ctx context.Context) (limit, error) {
	server, err := testdb.StartPostgres(testdb.PostgresOptions{Durable: true})
	if err != nil {
		return nil, err
	}
	l := &pgLimit{server: server, ids: ids(0, batchRecords)}
	for range 100 {
		l.payloads = append(l.payloads, []byte(payload()))
	}
	if err := l.fill(ctx); err != nil {
		return nil, errors.Join(err, l.close())
	}
	return l, nil
}

func (l *pgLimit) name() string { return "postgres" }

func (l *pgLimit) databaseURL() string { return l.server.URL() }

func (l *pgLimit) close() error {
	var errs []error
	for _, c := range l.conns {
		errs = append(errs, c.Close(context.Background())) // also after an interruption
	}
	l.server.Remove()
	return errors.Join(errs...)
}

// fill makes what server.fill makes, for the limit's users.
func (l *pgLimit) fill(ctx context.Context) error {
	set, err := store.Migrations()
	if err != nil {
		return err
	}
	db, err := pgdb.Open(ctx, pgdb.Options{URL: l.server.URL()})
	if err != nil {
		return err
	}
	defer db.Close()
	if _, err := db.Migrate(ctx, set); err != nil {
		return err
	}
	for i := range users {
		conn, err := pgx.Connect(ctx, l.server.URL())
		if err != nil {
			return err
		}
		l.conns = append(l.conns, conn)
		for name, n := range map[string]int{putCollection: putRecords, postCollection: postRecords, listCollection: listRecords} {
			coll := collectionIDs[name]
			// The user's own row, which the server has too.
			if _, err := conn.Exec(ctx, pgAddCollection, firstUser+i, 0, now()); err != nil {
				return err
			}
			if _, err := conn.Exec(ctx, pgAddCollection, firstUser+i, coll, now()); err != nil {
				return err
			}
			for from := 0; from < n; from += 100 {
				if _, err := conn.Exec(ctx, pgUpsert, firstUser+i, coll, now(), l.ids[from:from+100], l.payloads); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// now is a moment as the tables keep it.
func now() time.Time { return time.Now().UTC() }

func (l *pgLimit) window(ctx context.Context, work string, callers int, d time.Duration) (float64, error) {
	switch work {
	case workPut:
		return pgbench(ctx, l.server.URL(), callers, d)
	case workPost:
		return rate(ctx, callers, d, l.post)
	case workList:
		return rate(ctx, callers, d, l.list)
	case workInfo:
		return rate(ctx, callers, d, l.info)
	}
	return 0, unknown(work)
}

func (l *pgLimit) post(ctx context.Context, caller, _ int) error {
	_, err := l.conns[caller].Exec(ctx, pgUpsert, firstUser+caller, collectionIDs[postCollection], now(), l.ids[:postRecords], l.payloads)
	return err
}

func (l *pgLimit) list(ctx context.Context, caller, _ int) error {
	rows, err := l.conns[caller].Query(ctx, pgList, firstUser+caller, collectionIDs[listCollection], now())
	if err != nil {
		return err
	}
	var (
		id        string
		sortindex *int64
		modified  time.Time
		payload   []byte
	)
	n := 0
	_, err = pgx.ForEachRow(rows, []any{&id, &sortindex, &modified, &payload}, func() error { n++; return nil })
	return checked(n, listRecords, err)
}

func (l *pgLimit) info(ctx context.Context, caller, _ int) error {
	rows, err := l.conns[caller].Query(ctx, pgInfo, firstUser+caller)
	if err != nil {
		return err
	}
	var (
		name     *string
		modified time.Time
	)
	n := 0
	_, err = pgx.ForEachRow(rows, []any{&name, &modified}, func() error { n++; return nil })
	return checked(n, infoRows, err)
}

func (l *pgLimit) begin(ctx context.Context, user int64) error {
	if _, err := l.conns[0].Exec(ctx, pgAddCollection, user, collectionIDs[batchCollection], now()); err != nil {
		return err
	}
	_, err := l.conns[0].Exec(ctx, pgAddBatch, user, collectionIDs[batchCollection])
	return err
}

func (l *pgLimit) stage(ctx context.Context, user int64, from int) error {
	_, err := l.conns[0].Exec(ctx, pgStage, user, collectionIDs[batchCollection], l.ids[from:from+100], l.payloads)
	return err
}

func (l *pgLimit) commit(ctx context.Context, user int64) error {
	coll := collectionIDs[batchCollection]
	return pgx.BeginFunc(ctx, l.conns[0], func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, pgMove, user, coll, now()); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, pgUnstage, user, coll); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, pgStamp, user, coll, now())
		return err
	})
}

package main

import (
	"context"
	"fmt"
	"io"
	"net/http"

	"holdfast/internal/workload/sync"
)

func syncRowsHead(o *options, out io.Writer) { rowsHead(o, out, o.window, o.size.rowsPayload) }

func (w *syncLoad) rows() *rows {
	return &rows{
		service: w, grow: w.grow,
		rewrite: func(bytes int) func(context.Context, *caller, int) error {
			body := []byte(sync.JSON(sync.Record{Payload: payload(bytes)}))
			return func(ctx context.Context, c *caller, i int) error {
				_, err := c.send(ctx, http.MethodPut, "/storage/"+putCollection+"/"+id(i), body, "")
				return err
			}
		},
		check: func(ctx context.Context, c *caller, records int) error {
			got, err := c.send(ctx, http.MethodGet, "/info/collection_counts", nil, "")
			if err != nil {
				return err
			}
			if want := fmt.Sprintf(`{"%s":%d}`, putCollection, records); string(got) != want {
				return fmt.Errorf("a user has %s, want %s", got, want)
			}
			_, err = c.send(ctx, http.MethodGet, "/storage/"+putCollection+"?ids="+id(0)+","+id(records-1), nil, "2")
			return err
		},
	}
}

func (w *syncLoad) measureRows(ctx context.Context, o *options, e *engine, out io.Writer) error {
	return onServer(ctx, o, e, nil, func(s *server) error {
		r := w.rows()
		have, err := r.growing(ctx, o, s, o.size.users, out)
		if err != nil {
			return err
		}
		big := have + 1
		if err := r.grow(ctx, s, big, 1, o.size.ofOne, o.size.rowsPayload); err != nil {
			return err
		}
		of := func(records, number int) *line {
			return &line{rows: have*o.size.manyRecords + o.size.ofOne, records: records, numbers: []int{number}, bytes: o.size.rowsPayload}
		}
		return r.measure(ctx, o, s, o.window, []*line{of(o.size.manyRecords, 1), of(o.size.ofOne, big)}, out)
	})
}

// Parameters: first user, users, records per user, bytes per payload, collection, payload.
var (
	liteGrow = []string{`
		WITH RECURSIVE u (id) AS (SELECT %[1]d UNION ALL SELECT id + 1 FROM u WHERE id < %[1]d + %[2]d - 1)
		INSERT INTO user_collections (user_id, collection_id, modified, count, total_bytes)
		SELECT id, c.collection_id, 1700000000000, c.count, c.count * %[4]d
		FROM u CROSS JOIN (SELECT 0 AS collection_id, 0 AS count UNION ALL SELECT %[5]d, %[3]d) c`, `
		WITH RECURSIVE r (i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM r WHERE i < %[2]d * %[3]d - 1)
		INSERT INTO bsos (user_id, collection_id, bso_id, modified, payload)
		SELECT %[1]d + i / %[3]d, %[5]d, 100000000000 + i %% %[3]d, 1600000000000 + i %% %[3]d * 10, CAST('%[6]s' AS BLOB) FROM r`,
	}
	pgGrow = []string{
		`SET session_replication_role = replica`, // no foreign key checks
		`INSERT INTO user_collections (user_id, collection_id, modified, count, total_bytes)
		SELECT u, c.id, timestamp '2023-11-14', c.n, c.n * %[4]d
		FROM generate_series(%[1]d, %[1]d + %[2]d - 1) u CROSS JOIN (VALUES (0, 0), (%[5]d, %[3]d)) c (id, n)`,
		`INSERT INTO bsos (user_id, collection_id, bso_id, modified, payload)
		SELECT %[1]d + i / %[3]d, %[5]d, (100000000000 + i %% %[3]d)::text, timestamp '2020-09-13' + i %% %[3]d * interval '10 milliseconds', '%[6]s'::bytea
		FROM generate_series(0, %[2]d::bigint * %[3]d - 1) i`,
		`VACUUM ANALYZE user_collections, bsos`, `CHECKPOINT`, // so that no background work remains
	}
)

func (w *syncLoad) grow(ctx context.Context, s *server, first, users, records, bytes int) error {
	args := []any{first, users, records, bytes, collectionIDs[putCollection], payload(bytes)}
	return s.past(ctx, syncFile(s.data()), script(liteGrow, args...), script(pgGrow, args...))
}

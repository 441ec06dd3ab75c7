package app_test

import (
	"strings"
	"testing"

	"holdfast/internal/testdb"
)

// manyRecords fill sync storage with spans that need several transactions, with payloads larger than a pipe's buffer,
// and with a user whose records exceed a span.
var manyRecords = map[string]string{
	"sqlite": `
		WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 30)
		INSERT INTO user_collections (user_id, collection_id, modified, count, total_bytes) SELECT i, 1, 1700000000000 + i, 0, 0 FROM n;
		WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 110000)
		INSERT INTO bsos (user_id, collection_id, bso_id, modified, payload) SELECT 7, 1, 'b' || i, 1700000000000 + i, CAST('x' || i AS BLOB) FROM n;
		WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 30)
		INSERT INTO bsos (user_id, collection_id, bso_id, sortindex, modified, payload) SELECT i, 1, 'large', i, 1700000000000, zeroblob(100000 * (i % 31)) FROM n`,
	"postgres": `
		INSERT INTO user_collections (user_id, collection_id, modified, count, total_bytes) SELECT i, 1, timestamp '2023-11-14' + i * interval '1 ms', 0, 0 FROM generate_series(1, 30) i;
		INSERT INTO bsos (user_id, collection_id, bso_id, modified, payload) SELECT 7, 1, 'b' || i, timestamp '2023-11-14', ('x' || i)::bytea FROM generate_series(1, 110000) i;
		INSERT INTO bsos (user_id, collection_id, bso_id, sortindex, modified, payload)
		SELECT i, 1, 'large', i, timestamp '2023-11-14', convert_to(repeat('y', 100000 * (i % 31)), 'UTF8') FROM generate_series(1, 30) i`,
}

// once makes the first insert of a record fail with a PostgreSQL serialization error. A sequence is not rolled back.
const once = `CREATE SEQUENCE tries;
	CREATE FUNCTION refuse_once() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
		IF nextval('tries') = 1 THEN RAISE EXCEPTION 'repeat' USING ERRCODE = '40001'; END IF;
		RETURN NEW;
	END $$;
	CREATE TRIGGER refuse_once BEFORE INSERT ON bsos FOR EACH ROW EXECUTE FUNCTION refuse_once()`

// TestCopyManyRecords copies more rows than a transaction holds. After a serialization error in the target, rows are
// read again.
func TestCopyManyRecords(t *testing.T) {
	testdb.CheckOnly(t, "the size of the data is the point; other tests copy every kind of row")
	t.Parallel()
	for name, fill := range manyRecords {
		source := sqliteURL(t)
		if name == "postgres" {
			source = testdb.PostgresDatabase(t)
		}
		openOne(t, "syncstorage", source)
		execute(t, source, fill)
		for _, target := range []string{sqliteURL(t), testdb.PostgresDatabase(t)} {
			to, _, _ := strings.Cut(target, ":")
			t.Run(name+" to "+to, func(t *testing.T) {
				c := newCopy(t, "syncstorage", source, target)
				if to == "postgres" {
					execute(t, target, once)
				}
				var done, total int64
				c.Progress = func(what string, n, of int64) {
					if what == "rows" {
						done, total = n, of
					}
				}
				if err := c.Run(t.Context()); err != nil {
					t.Fatal(err)
				}
				const want = 30 + 30 + 110_000
				if total < want || done != total {
					t.Errorf("%d of %d rows are reported, want at least %d", done, total, want)
				}
				wantEqual(t, c)
				if err := c.Source.Rows(nil).Reopen(t.Context(), c.Service, c.Groups); err != nil {
					t.Fatal(err)
				}
			})
		}
	}
}

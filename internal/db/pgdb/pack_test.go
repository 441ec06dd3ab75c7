package pgdb_test

import (
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"holdfast/internal/db/pgdb"
	"holdfast/internal/db/rows"
	"holdfast/internal/testdb"
)

var ofAllKinds = &rows.Table{Name: "kinds", Key: 1, Columns: rows.Columns(`id integer, i4 integer, i2 integer, name text, short text, bin bytes, uid uuid, doc json,
	raw rawjson, ms millis, ms_utc millisutc, us micros, labels map, words texts, uids uuids, flag bool, day date, ratio real`)}

const createAllKinds = `CREATE EXTENSION IF NOT EXISTS hstore; CREATE TABLE kinds (id BIGINT PRIMARY KEY, i4 INTEGER, i2 SMALLINT, name TEXT, short VARCHAR(10), bin BYTEA, uid UUID, doc JSONB,
	raw JSON, ms TIMESTAMPTZ, ms_utc TIMESTAMP, us TIMESTAMPTZ, labels HSTORE, words TEXT[], uids UUID[], flag BOOLEAN, day DATE, ratio REAL)`

const aUUID = "01890a5d-ac96-774b-bcce-b302099a8057"

func row(id int64, change func(rows.Row)) rows.Row {
	r := rows.Row{
		id, int64(math.MinInt32), int64(math.MaxInt16), "é\n\t\\N", "", []byte{0, 255, '\\'}, aUUID, `{"a":[1,2.5,"x"],"b":{}}`,
		` {"b": 1, "a":1}`, int64(-1), int64(1_700_000_000_123), int64(1_700_000_000_123_456), `{"k":"v","q":"\"a,b\""}`, `["","a b","c,\"d\""]`, `["` + aUUID + `"]`,
		int64(1), "2026-02-28", rows.FormatReal(0.1),
	}
	if change != nil {
		change(r)
	}
	return r
}

func pack(all ...rows.Row) *rows.Batch {
	var b rows.Batch
	for _, r := range all {
		b.Add(r.Pack(nil))
	}
	return &b
}

func readAll(t *testing.T, db rows.Database) (all []string) {
	t.Helper()
	if err := db.View(t.Context(), func(v rows.View) error {
		all = nil
		return v.Each(ofAllKinds, 1, rows.All, func(p rows.Packed) error { all = append(all, string(p)); return nil })
	}); err != nil {
		t.Fatal(err)
	}
	return all
}

func TestPacked(t *testing.T) {
	t.Parallel()
	url := testdb.PostgresDatabase(t)
	testdb.Script(t, url, createAllKinds)
	nulls := make(rows.Row, len(ofAllKinds.Columns))
	nulls[0] = int64(2)
	want := []rows.Row{
		row(1, nil), nulls,
		row(3, func(r rows.Row) {
			r[1], r[2], r[3], r[5] = int64(0), int64(-1), strings.Repeat("long ", 20_000), []byte{}
			r[9], r[10], r[11] = int64(-62_135_596_800_000), int64(253_402_300_799_999), int64(-1)
			r[12], r[13], r[14], r[15], r[16], r[17] = `{}`, `[]`, `[]`, int64(0), "0001-01-01", rows.FormatReal(-1e30)
		}),
	}
	many := slices.Clone(want) // more rows than Put writes without a temporary table
	for i := len(many) + 1; i <= 60; i++ {
		many = append(many, row(int64(i), nil))
	}
	for _, mode := range []string{"cache_statement", "exec"} {
		db := open(t, pgdb.Options{URL: testdb.WithParameter(t, url, "default_query_exec_mode", mode)}).Rows()
		for name, write := range map[string]func(rows.Update) error{
			"COPY":   func(u rows.Update) error { return u.Insert(ofAllKinds, pack(want...).Reader()) },
			"INSERT": func(u rows.Update) error { return u.Put(ofAllKinds, pack(want...)) },
			"many": func(u rows.Update) error {
				return errors.Join(u.Put(ofAllKinds, pack(many...)), u.Put(ofAllKinds, pack(many...)))
			},
		} {
			if err := db.Update(t.Context(), func(u rows.Update) error {
				if err := u.Delete(ofAllKinds, 1, rows.All); err != nil {
					return err
				}
				return write(u)
			}); err != nil {
				t.Fatalf("%s %s: %v", name, mode, err)
			}
			got := readAll(t, db)
			if name == "many" && len(got) != len(many) {
				t.Errorf("%s %s: %d rows, want %d", name, mode, len(got), len(many))
			}
			for i, r := range want {
				if w := string(r.Pack(nil)); i >= len(got) || got[i] != w {
					t.Errorf("%s %s: row %d: %v, want %v", name, mode, i+1, rows.Packed(got[min(i, len(got)-1)]).Row(), r)
				}
			}
		}
	}
}

func TestPackedOutOfRange(t *testing.T) {
	t.Parallel()
	url := testdb.PostgresDatabase(t)
	testdb.Script(t, url, createAllKinds)
	db := open(t, pgdb.Options{URL: url}).Rows()
	column := func(name string) int {
		return slices.IndexFunc(ofAllKinds.Columns, func(c rows.Column) bool { return c.Name == name })
	}
	for name, value := range map[string]any{
		"i4": int64(math.MaxInt32 + 1), "i2": int64(math.MinInt16 - 1), "uid": aUUID[1:], "ms": int64(math.MaxInt64), "ms_utc": int64(math.MinInt64),
		"us": int64(math.MinInt64), "doc": "{", "day": "yesterday", "short": "more than ten", "name": "\x00", "uids": `["x"]`,
	} {
		err := db.Update(t.Context(), func(u rows.Update) error {
			return u.Insert(ofAllKinds, pack(row(1, func(r rows.Row) { r[column(name)] = value })).Reader())
		})
		if err == nil {
			t.Errorf("%s = %v was stored", name, value)
		}
	}
	if got := readAll(t, db); len(got) > 0 {
		t.Errorf("%d rows after errors", len(got))
	}
	for name, value := range map[string]string{"ms": "infinity", "ms_utc": "-infinity", "us": "infinity"} {
		testdb.Script(t, url, `DELETE FROM kinds; INSERT INTO kinds (id, `+name+`) VALUES (1, '`+value+`')`)
		err := db.View(t.Context(), func(v rows.View) error {
			return v.Each(ofAllKinds, 1, rows.All, func(rows.Packed) error { return nil })
		})
		if err == nil || !strings.Contains(err.Error(), name+" is infinite") {
			t.Errorf("%s = %s: %v", name, value, err)
		}
	}
}

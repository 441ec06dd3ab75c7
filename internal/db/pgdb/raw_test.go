package pgdb_test

import (
	"bytes"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"

	"holdfast/internal/db/pgdb"
	"holdfast/internal/db/rows"
	"holdfast/internal/testdb"
)

func sum(t *testing.T, db rows.Database, of *rows.Table, owner int, span rows.Span) (d rows.Digest) {
	t.Helper()
	if err := db.View(t.Context(), func(v rows.View) (err error) {
		d, err = v.(rows.RawView).Sum(of, owner, span)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return d
}

func dump(t *testing.T, db rows.Database, of *rows.Table, owner int, span rows.Span) (data []byte, n int64) {
	t.Helper()
	if err := db.View(t.Context(), func(v rows.View) (err error) {
		var b bytes.Buffer
		n, err = v.(rows.RawView).Dump(&b, of, owner, span)
		data = b.Bytes()
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return data, n
}

func loadRaw(t *testing.T, db rows.Database, from io.Reader, into *rows.Table) error {
	t.Helper()
	return db.Update(t.Context(), func(u rows.Update) error { return u.(rows.RawUpdate).Load(from, into) })
}

func TestRaw(t *testing.T) {
	t.Parallel()
	var urls [2]string
	var dbs [2]rows.Database
	for i := range dbs {
		urls[i] = testdb.PostgresDatabase(t)
		testdb.Script(t, urls[i], createAllKinds)
		dbs[i] = open(t, pgdb.Options{URL: urls[i]}).Rows()
	}
	nulls := make(rows.Row, len(ofAllKinds.Columns))
	nulls[0] = int64(-2)
	if err := dbs[0].Update(t.Context(), func(u rows.Update) error {
		return u.Insert(ofAllKinds, pack(nulls, row(1, nil), row(7, nil)).Reader())
	}); err != nil {
		t.Fatal(err)
	}
	span := rows.Span{After: rows.Row{int64(-3)}, Until: rows.Row{int64(1)}}
	data, n := dump(t, dbs[0], ofAllKinds, 1, span)
	if n != 2 {
		t.Errorf("%d rows were written", n)
	}
	if err := loadRaw(t, dbs[1], bytes.NewReader(data), ofAllKinds); err != nil {
		t.Fatal(err)
	}
	if got, want := readAll(t, dbs[1]), readAll(t, dbs[0])[:2]; !slices.Equal(got, want) {
		t.Errorf("rows are %q, want %q", got, want)
	}
	want := sum(t, dbs[0], ofAllKinds, 1, span)
	if got := sum(t, dbs[1], ofAllKinds, 1, span); got != want || got.Rows != 2 || got.Lo == 0 {
		t.Errorf("the sum is %v, want %v", got, want)
	}
	if all := sum(t, dbs[0], ofAllKinds, 1, rows.All); all == want || all.Rows != 3 {
		t.Errorf("the sum of all rows is %v, that of two %v", all, want)
	}
	for column, other := range map[string]string{
		"id": "3", "i4": "0", "i2": "0", "name": "'E'", "short": "' '", "bin": `'\x00'`, "uid": "gen_random_uuid()", "doc": `'{"a":[1,2.50,"x"],"b":{}}'`,
		"raw": `'{"b":1, "a":1}'`, "ms": "ms + interval '1 ms'", "ms_utc": "ms_utc + interval '1 ms'", "us": "us + interval '1 us'",
		"labels": `'k=>V'`, "words": `'{a}'`, "uids": `'{}'`, "flag": "false", "day": "'2026-02-27'", "ratio": "0.11",
	} {
		for _, value := range []string{other, "NULL"} {
			if value == "NULL" && column == "id" {
				continue
			}
			testdb.Script(t, urls[1], `CREATE TABLE before AS TABLE kinds; UPDATE kinds SET `+column+` = `+value+` WHERE id = 1`)
			if got := sum(t, dbs[1], ofAllKinds, 1, rows.All); got == want {
				t.Errorf("%s = %s does not change the sum", column, value)
			}
			testdb.Script(t, urls[1], `TRUNCATE kinds; INSERT INTO kinds TABLE before; DROP TABLE before`)
		}
	}
	if err := loadRaw(t, dbs[1], bytes.NewReader(data[:len(data)-30]), ofAllKinds); err == nil {
		t.Error("a part of a row was loaded")
	}
	broken := errors.New("the source has ended")
	if err := loadRaw(t, dbs[1], io.MultiReader(bytes.NewReader(data[:50]), errReader{broken}), ofAllKinds); !errors.Is(err, broken) {
		t.Errorf("the error of the reader is %v", err)
	}
	if got := sum(t, dbs[1], ofAllKinds, 1, rows.All); got != want {
		t.Errorf("the sum after failures is %v, want %v", got, want)
	}
}

type errReader struct{ error }

func (r errReader) Read([]byte) (int, error) { return 0, r.error }

func TestRawOwners(t *testing.T) {
	t.Parallel()
	url := testdb.PostgresDatabase(t)
	testdb.Script(t, url, `CREATE TABLE things (name TEXT COLLATE "C" PRIMARY KEY)`)
	db := open(t, pgdb.Options{URL: url}).Rows()
	things := &rows.Table{Name: "things", Key: 1, Columns: rows.Columns(`name text`)}
	names := []string{`'`, `$1`, `\`, `\'`, `a'; DROP TABLE things; --`, "é\n"}
	var all []rows.Row
	for _, name := range names {
		all = append(all, rows.Row{name})
	}
	if err := db.Update(t.Context(), func(u rows.Update) error { return u.Insert(things, pack(all...).Reader()) }); err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		data, n := dump(t, db, things, 1, rows.Span{Only: rows.Row{name}})
		if n != 1 || !strings.Contains(string(data), name) {
			t.Errorf("%q: %d rows in %q", name, n, data)
		}
	}
	data, n := dump(t, db, things, 1, rows.Span{Among: all[:3], After: rows.Row{`'`}})
	if n != 1 || !strings.Contains(string(data), `\`) {
		t.Errorf("%d rows in %q", n, data)
	}
}

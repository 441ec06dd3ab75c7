package app_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"holdfast/internal/clock"
	"holdfast/internal/db/pgdb"
	"holdfast/internal/db/spannerdb"
	"holdfast/internal/db/sqlitedb"
	ss "holdfast/internal/syncstorage"
	"holdfast/internal/syncstorage/postgres"
	"holdfast/internal/syncstorage/spanner"
	"holdfast/internal/syncstorage/sqlite"
	"holdfast/internal/testdb"
	"holdfast/internal/testdb/opened"
	"holdfast/internal/testdb/spannertest"
)

var today = time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)

func newService(t *testing.T, store ss.Store, change func(*ss.Config)) *ss.Service {
	t.Helper()
	conf := ss.DefaultConfig()
	if change != nil {
		change(&conf)
	}
	s, err := ss.NewService(ss.Options{Store: store, Config: conf, Clock: clock.System, Connections: 4})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func onSQLite(t *testing.T) ss.Store {
	t.Helper()
	return sqlite.New(opened.SQLite(t, sqlitedb.Options{}, sqlite.Migrations))
}

func onPostgres(t *testing.T) ss.Store {
	t.Helper()
	return postgres.New(opened.Postgres(t, pgdb.Options{URL: testdb.PostgresDatabase(t)}, postgres.Migrations))
}

func onSpanner(t *testing.T) ss.Store {
	t.Helper()
	emulator, database := spannertest.Database(t)
	db, err := spannerdb.Open(t.Context(), spannerdb.Options{EmulatorHost: emulator, Database: database, MaxTransactions: 10})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(db.Close)
	set, err := spanner.Migrations()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := db.Migrate(t.Context(), set); err != nil {
		t.Fatal(err)
	}
	return spanner.New(db)
}

func owner(uid int64) ss.Owner {
	return ss.Owner{UID: uid, FxAUID: fmt.Sprintf("account%d", uid), FxAKID: "1-qqo"}
}

// fill stores 250 records in a collection, an empty collection, texts that JSON escapes, TTLs and sort indexes.
func fill(t *testing.T, s *ss.Service, o ss.Owner) {
	t.Helper()
	post := func(collection string, us ...ss.Update) {
		t.Helper()
		items := make([]ss.Item, len(us))
		for i := range us {
			items[i].Update = us[i]
		}
		if _, err := s.Post(t.Context(), o, ss.Request{Collection: collection, Now: ss.At(today)}, ss.BatchQuery{}, items); err != nil {
			t.Fatal(err)
		}
	}
	for n := range 3 {
		var us []ss.Update
		for i := range 100 {
			if id := fmt.Sprintf("h%03d", 100*n+i); n < 2 || i < 50 {
				us = append(us, ss.Update{ID: id, Payload: ss.Some([]byte(strings.Repeat(id, 200)))})
			}
		}
		post("history", us...)
	}
	post("bookmarks",
		ss.Update{ID: "..", SortIndex: ss.Some[int64](-5), Payload: ss.Some([]byte("ż \u2028 <&> \\ \" \x00 \t"))},
		ss.Update{ID: "empty"}, ss.Update{ID: "~ ", Payload: ss.Some([]byte("{}")), TTL: ss.Some[int64](3600)},
		ss.Update{ID: "soon", Payload: ss.Some([]byte("expires at once")), TTL: ss.Some[int64](0)})
	post("tabs")
	post("mine", ss.Update{ID: "x", Payload: ss.Some([]byte("a name of its own"))})
}

func export(t *testing.T, s *ss.Service, o ss.Owner) string {
	t.Helper()
	var b bytes.Buffer
	if _, err := s.WriteExport(t.Context(), o, ss.ExportHeader{Account: "someone", At: ss.At(today)}, &b, func(int64) {}); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func runImport(ctx context.Context, s *ss.Service, o ss.Owner, from io.Reader, opts ss.ImportOptions) (ss.Imported, error) {
	im, err := s.NewImport(from, func() time.Time { return today })
	if err != nil {
		return ss.Imported{}, err
	}
	return im.Run(ctx, o, opts)
}

var preserve = ss.ImportOptions{Preserve: true}

// TestTransferBetweenEngines checks that another engine's export after an import is byte-identical, except for the
// order of collections with custom names.
func TestTransferBetweenEngines(t *testing.T) {
	t.Parallel()
	first := newService(t, onSQLite(t), nil)
	fill(t, first, owner(1))
	want := export(t, first, owner(1))
	if n := strings.Count(want, "\n"); n != 1+4+254+1 {
		t.Fatalf("the export has %d lines", n)
	}
	for i, to := range []struct {
		name string
		open func(*testing.T) ss.Store
	}{{"SQLite", onSQLite}, {"PostgreSQL", onPostgres}, {"Spanner", onSpanner}} {
		t.Run(to.name, func(t *testing.T) {
			t.Parallel()
			there, o := newService(t, to.open(t), nil), owner(int64(10+i))
			done, err := runImport(t.Context(), there, o, strings.NewReader(want), preserve)
			if err != nil || done.Records != 254 || done.Written != done.Records || done.Collections != 4 {
				t.Fatalf("%+v, %v", done, err)
			}
			got := export(t, there, o)
			if got != want {
				t.Errorf("the export is another:\n%.2000s\nwant\n%.2000s", got, want)
			}
			back, home := newService(t, onSQLite(t), nil), owner(1)
			if _, err := runImport(t.Context(), back, home, strings.NewReader(got), preserve); err != nil {
				t.Fatal(err)
			}
			if again := export(t, back, home); again != want {
				t.Errorf("back again the export is another:\n%.2000s", again)
			}

			// Without preserved times, all records are newer than browsers know.
			if done, err = runImport(t.Context(), there, owner(20), strings.NewReader(want), ss.ImportOptions{}); err != nil || done.Written != 254 {
				t.Fatalf("%+v, %v", done, err)
			}
			old, err1 := there.Collections(t.Context(), o, ss.Precondition{})
			anew, err2 := there.Collections(t.Context(), owner(20), ss.Precondition{})
			if err := errors.Join(err1, err2); err != nil || len(anew.Stamps) != len(old.Stamps) {
				t.Errorf("%+v, %v", anew, err)
			}
			b, err := there.Get(t.Context(), owner(20), ss.Request{Collection: "bookmarks", Now: ss.At(today)}, "~ ")
			if err != nil || string(b.Payload) != "{}" || b.Expiry < ss.At(today.Add(time.Hour)) || b.Expiry > ss.At(today.Add(time.Hour+2*time.Second)) {
				t.Errorf("%+v, %v", b, err)
			}
		})
	}
}

type failing struct{ io.Reader }

var errAway = errors.New("away")

func (r failing) Read(p []byte) (int, error) {
	n, err := r.Reader.Read(p)
	if errors.Is(err, io.EOF) {
		err = errAway
	}
	return n, err
}

// TestImportCut checks that a truncated import fails with both numbers, and can be resumed with Merge.
func TestImportCut(t *testing.T) {
	t.Parallel()
	s := newService(t, onSQLite(t), nil)
	fill(t, s, owner(1))
	whole := export(t, s, owner(1))
	lines := strings.SplitAfter(whole, "\n")
	for i, cut := range []int{len(lines[0]), len(lines[0]) + 5, len(whole) / 3, len(whole) / 2, len(whole) - len(lines[len(lines)-2]), len(whole) - 5} {
		o := owner(int64(100 + i))
		done, err := runImport(t.Context(), s, o, strings.NewReader(whole[:cut]), preserve)
		if err == nil || !strings.Contains(err.Error(), fmt.Sprintf("the export ends early: %d of 254 records received", done.Records)) {
			t.Fatalf("cut at %d: %+v, %v", cut, done, err)
		}
		if done.Written != done.Records {
			t.Errorf("cut at %d: %d of %d records were written", cut, done.Written, done.Records)
		}
		if done.Records > 0 {
			if _, err := runImport(t.Context(), s, o, strings.NewReader(whole), preserve); !errors.Is(err, ss.ErrNotEmpty) {
				t.Errorf("cut at %d, again: %v", cut, err)
			}
		}
		if _, err := runImport(t.Context(), s, o, strings.NewReader(whole), ss.ImportOptions{Preserve: true, Merge: true}); err != nil {
			t.Errorf("cut at %d, with Merge: %v", cut, err)
		}
		if got := export(t, s, o); got != whole {
			t.Errorf("cut at %d, the export is another:\n%.2000s", cut, got)
		}
	}
	if _, err := runImport(t.Context(), s, owner(200), failing{strings.NewReader(whole[:len(whole)/2])}, preserve); !errors.Is(err, errAway) {
		t.Errorf("a reader that fails: %v", err)
	}
	ctx, stop := context.WithCancel(t.Context())
	first := strings.NewReader(whole[:len(whole)/2])
	done, err := runImport(ctx, s, owner(201), io.MultiReader(first, stopping{stop}, strings.NewReader(whole[len(whole)/2:])), preserve)
	if err == nil || done.Written == 0 || done.Written == 254 {
		t.Errorf("one that is stopped: %+v, %v", done, err)
	}
	if _, err := runImport(t.Context(), s, owner(201), strings.NewReader(whole), ss.ImportOptions{Preserve: true, Merge: true}); err != nil || export(t, s, owner(201)) != whole {
		t.Errorf("one that was stopped, again: %v", err)
	}
}

type stopping struct{ stop func() }

func (s stopping) Read([]byte) (int, error) { s.stop(); return 0, io.EOF }

// TestImportRace checks that an import fails if a browser writes or deletes between two steps.
func TestImportRace(t *testing.T) {
	t.Parallel()
	s := newService(t, onSQLite(t), nil)
	fill(t, s, owner(1))
	whole := export(t, s, owner(1))
	for i, race := range []func(ss.Owner) error{
		func(o ss.Owner) error {
			_, err := s.Put(t.Context(), o, ss.Request{Collection: "clients", Now: ss.At(today)}, ss.Item{Update: ss.Update{ID: "a"}})
			return err
		},
		func(o ss.Owner) error { return s.DeleteAll(t.Context(), o, ss.Precondition{}) },
	} {
		o, half := owner(int64(300+i)), len(whole)*2/3
		var raced error
		between := stopping{func() { raced = race(o) }}
		done, err := runImport(t.Context(), s, o, io.MultiReader(strings.NewReader(whole[:half]), between, strings.NewReader(whole[half:])), preserve)
		if !errors.Is(err, ss.ErrImportRace) || raced != nil || done.Written == 0 {
			t.Errorf("race %d: %+v, %v, %v", i, done, err, raced)
		}
	}
}

func TestImportOfNonsense(t *testing.T) {
	t.Parallel()
	s := newService(t, onSQLite(t), func(c *ss.Config) {
		c.Limits.MaxRecordPayloadBytes, c.MaxNames, c.EnforceQuota, c.Limits.MaxUserQuota = 1024, 1, true, 2000
	})
	const (
		header = `{"export":1,"records":1,"exportedAt":1}`
		tabs   = `{"collection":"tabs","modified":1700000000000}`
		end    = `{"complete":true,"collections":1,"records":1}`
		record = `{"collection":"tabs","id":"a","payload":"x","modified":1700000000000}`
	)
	with := func(old, fresh string) []string {
		return []string{header, tabs, strings.Replace(record, old, fresh, 1), end}
	}
	for i, tc := range []struct {
		name  string
		lines []string
		want  string
	}{
		{"sound", []string{header, tabs, "", record, end}, ""},
		{"nothing", nil, "the file is empty"},
		{"no header", []string{tabs, record, end}, `line 1: expected the first line of an export`},
		{"another version", []string{`{"export":2,"records":1}`}, "line 1: expected"},
		{"no JSON", []string{"PK\x03\x04"}, "line 1: expected"},
		{"two headers", []string{header, header}, "line 2: expected a JSON object"},
		{"a broken line", []string{header, tabs, `{"collection":"tabs"`, record, end}, "line 3: expected a JSON object"},
		{"two objects", []string{header, tabs, record + record, end}, "line 3: expected a JSON object"},
		{"a list", []string{header, `[]`}, "line 2: expected a JSON object"},
		{"an unknown member", with(`"payload"`, `"ttl":5,"payload"`), "line 3: expected a JSON object"},
		{"a record before its collection", []string{header, record, end}, "line 2: a record in tabs must follow"},
		{"a record of another collection", with(`"tabs"`, `"forms"`), "line 3: a record in forms must follow"},
		{"a collection twice", []string{header, tabs, record, tabs, end}, "line 4: collection tabs came before"},
		{"no collection", []string{header, `{"modified":1700000000000}`}, "line 2: collection must be"},
		{"a bad collection", []string{header, `{"collection":"a/b","modified":1700000000000}`}, "line 2: collection must be"},
		{"a collection of no time", []string{header, `{"collection":"tabs"}`}, "line 2: modified must be"},
		{"a record twice", []string{header, tabs, record, record, end}, "line 4: records must be in the order of their ids"},
		{"the wrong order", []string{header, tabs, strings.Replace(record, `"a"`, `"b"`, 1), record, end}, "line 4: records must be in the order"},
		{"an empty id", with(`"a"`, `""`), "line 3: id must be"},
		{"an id that is no ASCII", with(`"a"`, `"ż"`), "line 3: id must be"},
		{"a long id", with(`"a"`, `"`+strings.Repeat("a", 65)+`"`), "line 3: id must be"},
		{"no payload", with(`"payload":"x",`, ""), "line 3: expected either payload or payloadBase64"},
		{"two payloads", with(`"payload"`, `"payloadBase64":"eA==","payload"`), "line 3: expected either"},
		{"a large payload", with(`"x"`, `"`+strings.Repeat("x", 1025)+`"`), "line 3: the payload is 1025 bytes; this server accepts 1024"},
		{"a huge line", with(`"x"`, `"`+strings.Repeat("x", 1<<20)+`"`), "line 3: is longer than 10240 bytes"},
		{"a large sortindex", with(`"payload"`, `"sortindex":1000000000,"payload"`), "line 3: sortindex must be"},
		{"a sortindex that is no integer", with(`"payload"`, `"sortindex":1.5,"payload"`), "line 3: expected a JSON object"},
		{"a time before 1970", with("1700000000000", "-10"), "line 3: modified must be"},
		{"a time that is no stamp", with("1700000000000", "1700000000001"), "line 3: modified must be"},
		{"a time in the far future", []string{header, `{"collection":"tabs","modified":99999999999990}`}, "line 2: modified is more than a day ahead"},
		{"a time after the collection's", with("1700000000000", "1700000000010"), "line 3: modified is later"},
		{"a negative expiry", with(`"payload"`, `"expiry":-1,"payload"`), "line 3: expiry"},
		{"more than the end", []string{header, tabs, record, end, record}, "line 5: follows the line with complete"},
		{"an end that is none", []string{header, tabs, record, `{"complete":true}`}, "line 4: complete must have"},
		{"no end", []string{header, tabs, record}, "1 of 1 records received, and the line with complete is missing"},
		{"a wrong end", []string{header, tabs, record, `{"complete":true,"collections":1,"records":2}`}, "1 collections and 1 records came, and its last line counts 1 and 2"},
		{"names without end", []string{header, `{"collection":"n1","modified":1700000000000}`, `{"collection":"n2","modified":1700000000000}`, `{"collection":"n3","modified":1700000000000}`},
			"too many collection names"},
		{"over the quota", []string{
			header, tabs, strings.Replace(record, `"x"`, `"`+strings.Repeat("x", 1000)+`"`, 1),
			strings.Replace(strings.Replace(record, `"a"`, `"b"`, 1), `"x"`, `"`+strings.Repeat("x", 1001)+`"`, 1), end,
		}, "quota"},
	} {
		for _, opts := range []ss.ImportOptions{preserve, {}} {
			o := owner(int64(1000 + 2*i))
			if opts.Preserve {
				o = owner(int64(1001 + 2*i))
			}
			text := ""
			if tc.lines != nil {
				text = strings.Join(tc.lines, "\n") + "\n"
			}
			_, err := runImport(t.Context(), s, o, strings.NewReader(text), opts)
			if tc.want == "" && err != nil || tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)) {
				t.Errorf("%s, %+v: %v, want %q", tc.name, opts, err, tc.want)
			}
		}
	}
}

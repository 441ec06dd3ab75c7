//test:unraced SQLite takes twenty times as long under the race detector

package sqlite_test

import (
	"errors"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	zombiezen "zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"holdfast/internal/clock"
	"holdfast/internal/db/sqlitedb"
	"holdfast/internal/errcode"
	"holdfast/internal/outbox"
	"holdfast/internal/outbox/sqlite"
	"holdfast/internal/outbox/storetest"
	"holdfast/internal/testdb"
	"holdfast/internal/testdb/opened"
)

func open(t testing.TB, path string) *sqlitedb.DB {
	t.Helper()
	return opened.SQLite(t, sqlitedb.Options{Path: path}, nil)
}

var errUndo = errors.New("undo")

func create(t testing.TB) (path string, h storetest.Harness) {
	return createTable(t, storetest.Table)
}

func createTable(t testing.TB, table outbox.Table) (path string, h storetest.Harness) {
	path = filepath.Join(testdb.SQLite(t), "service.db")
	db := open(t, path)
	o := sqlite.New(table)
	write := func(t testing.TB, fn func(*zombiezen.Conn) error) {
		t.Helper()
		if err := db.Write(t.Context(), "test", fn); err != nil && !errors.Is(err, errUndo) {
			t.Error(err)
		}
	}
	write(t, func(c *zombiezen.Conn) error { return sqlitex.ExecuteScript(c, o.DDL(), nil) })
	return path, storetest.Harness{
		Box: func(t testing.TB) outbox.Box { return o.Open(open(t, path), clock.System) },
		Append: func(t testing.TB, undo bool, events ...outbox.Event) {
			write(t, func(c *zombiezen.Conn) error {
				for _, e := range events {
					if err := o.Append(c, e); err != nil {
						return err
					}
				}
				if undo {
					return errUndo
				}
				return nil
			})
		},
		Lapse: func(t testing.TB) {
			write(t, func(c *zombiezen.Conn) error {
				return sqlitex.Execute(c, `UPDATE test_outbox_relay SET held_until = ?1`, &sqlitex.ExecOptions{Args: []any{time.Now().UnixMicro()}})
			})
		},
	}
}

func TestOutbox(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t testing.TB) storetest.Harness {
		_, h := create(t)
		return h
	})
}

func TestOutboxByTopic(t *testing.T) {
	t.Parallel()
	storetest.RunByTopic(t, func(t testing.TB) storetest.Harness {
		table := storetest.Table
		table.ByTopic = true
		path, h := createTable(t, table)
		h.Topic = func(t testing.TB, topic string) outbox.Box {
			return sqlite.New(table).OpenTopic(open(t, path), clock.System, topic)
		}
		h.Box = func(t testing.TB) outbox.Box { return h.Topic(t, storetest.Topic) }
		return h
	})
}

func TestCrash(t *testing.T) {
	t.Parallel()
	storetest.Crash(t, create, func(t testing.TB, path string) outbox.Box {
		return sqlite.New(storetest.Table).Open(open(t, path), clock.System)
	})
}

func TestAppendRefuses(t *testing.T) {
	t.Parallel()
	path, h := create(t)
	db, o := open(t, path), sqlite.New(storetest.Table)
	good := outbox.Event{Owner: "a", Stream: "b", Seq: 1, Payload: []byte(`{}`), At: time.UnixMicro(1).UTC()}
	h.Append(t, false, good)
	for name, change := range map[string]func(*outbox.Event){
		"no payload":          func(e *outbox.Event) { e.Seq, e.Payload = 2, nil },
		"a truncated payload": func(e *outbox.Event) { e.Seq, e.Payload = 2, []byte(`{"a":`) },
		"no number":           func(e *outbox.Event) { e.Seq = 0 },
	} {
		e := good
		change(&e)
		err := db.Write(t.Context(), "test", func(c *zombiezen.Conn) error { return o.Append(c, e) })
		if !errcode.Is(err, errcode.Internal) {
			t.Errorf("%s: %v", name, err)
		}
	}
	everything := outbox.Query{Parts: 1<<outbox.Partitions - 1, Limit: 1000, Now: time.Now()}
	if events, _, err := h.Box(t).Next(t.Context(), everything); err != nil || len(events) != 1 {
		t.Errorf("%v, %v", events, err)
	}
}

func BenchmarkOutbox(b *testing.B) {
	path, h := create(b)
	db, o := open(b, path), sqlite.New(storetest.Table)
	e := outbox.Event{Owner: fmt.Sprintf("%036d", 1), Stream: fmt.Sprintf("%036d", 2), Topic: "put", Key: "settings/theme", Payload: []byte(`{"caller":"session","revision":17,"schemaVersion":3}`), At: time.Now()}
	b.Run("append", func(b *testing.B) {
		b.ReportAllocs()
		err := db.WriteAlone(b.Context(), "test", func(c *zombiezen.Conn) error {
			for b.Loop() {
				e.Seq++
				if err := o.Append(c, e); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			b.Fatal(err)
		}
	})
	storetest.Drain(b, outbox.Options{Box: h.Box(b), Clock: clock.System}, func(n int) {
		err := db.WriteAlone(b.Context(), "test", func(c *zombiezen.Conn) error {
			for range n {
				e.Seq++
				if err := o.Append(c, e); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			b.Fatal(err)
		}
	})
}

func createKept(t testing.TB) (storetest.Harness, outbox.Retaining) {
	path := filepath.Join(testdb.SQLite(t), "service.db")
	db := open(t, path)
	write := func(t testing.TB, fn func(*zombiezen.Conn) error) {
		t.Helper()
		if err := db.Write(t.Context(), "test", fn); err != nil && !errors.Is(err, errUndo) {
			t.Error(err)
		}
	}
	write(t, func(c *zombiezen.Conn) error {
		return sqlitex.ExecuteScript(c, sqlite.RetainingDDL("test_outbox"), nil)
	})
	return storetest.Harness{
		Box: func(t testing.TB) outbox.Box {
			return storetest.AsBox(sqlite.OpenRetaining(open(t, path), "test_outbox", clock.System))
		},
		Append: func(t testing.TB, undo bool, events ...outbox.Event) {
			write(t, func(c *zombiezen.Conn) error {
				for _, e := range events {
					r := storetest.NewKeptRow(e)
					if err := sqlitedb.Exec(c, `INSERT INTO test_outbox (id, ordering_key, topic, subject, payload, headers, retention_class, created_at)
						VALUES (?, ?, ?, ?, ?, ?, ?, ?)`, r.ID, r.OrderingKey, r.Topic, r.Subject, r.Payload, r.Headers, r.Class, r.At.UnixMicro()); err != nil {
						return err
					}
				}
				if undo {
					return errUndo
				}
				return nil
			})
		},
		Lapse: func(t testing.TB) {
			write(t, func(c *zombiezen.Conn) error {
				return sqlitex.Execute(c, `UPDATE test_outbox_relay SET held_until = ?1`, &sqlitex.ExecOptions{Args: []any{time.Now().UnixMicro()}})
			})
		},
	}, sqlite.OpenRetaining(db, "test_outbox", clock.System)
}

func TestKept(t *testing.T) {
	t.Parallel()
	storetest.RunRetaining(t, createKept)
}

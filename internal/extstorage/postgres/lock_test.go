package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"holdfast/internal/canonjson"
	"holdfast/internal/db/pgdb"
	"holdfast/internal/errcode"
	ext "holdfast/internal/extstorage"
	"holdfast/internal/extstorage/postgres"
	"holdfast/internal/testdb"
	"holdfast/internal/testdb/opened"
)

// These tests hold two writers at an install's lock and release them together. If a write decided on data read before
// the lock, both would succeed.

type lockTest struct {
	*testdb.Locks
	store *postgres.Store
	url   string
}

func newLockTest(t *testing.T) *lockTest {
	t.Helper()
	url := testdb.PostgresDatabase(t)
	store := open(t, pgdb.Options{URL: url, MaxConns: 4})
	return &lockTest{Locks: testdb.NewLocks(t, url), store: store, url: url} // the cleanup releases the locks first
}

var install = owner(1)

var holdInstall = `SELECT 1 FROM ext_storage_usage WHERE ` + ofInstall + ` FOR UPDATE`

var ofInstall = `tenant_id = '` + string(install.Tenant) + `' AND extension_install_id = '` + string(install.Install) + `'`

func putOf(key ext.Key) ext.Op {
	return ext.Op{Namespace: "toys", Key: key, Value: `12345`, Metadata: canonjson.EmptyObject}
}

func write(ops ...ext.Op) ext.Write {
	return ext.Write{Ops: ops, Now: start, Quota: ext.DefaultQuota()}
}

func apply(t testing.TB, s *postgres.Store, w ext.Write) error {
	t.Helper()
	_, err := s.Apply(t.Context(), install, w)
	return err
}

func TestTwoWaiters(t *testing.T) {
	t.Parallel()
	guarded := func(op ext.Op, g ext.Precondition) ext.Write {
		op.Precondition = g
		return write(op)
	}
	under := func(q ext.Quota, op ext.Op) ext.Write {
		w := write(op)
		w.Quota = q
		return w
	}
	for _, c := range []struct {
		name string
		w    func(i int) ext.Write
		code errcode.Code
	}{
		{"create", func(int) ext.Write {
			return guarded(putOf("new"), ext.Precondition{Revision: ext.Some[ext.Revision](0)})
		}, errcode.Conflict},
		{"create by header", func(int) ext.Write {
			return guarded(putOf("new"), ext.Precondition{NoneMatch: ext.Tags{Set: true, Any: true}})
		}, errcode.Precondition},
		{"change", func(int) ext.Write {
			return guarded(putOf("there"), ext.Precondition{Revision: ext.Some[ext.Revision](1)})
		}, errcode.Conflict},
		{"change by header", func(int) ext.Write {
			return guarded(putOf("there"), ext.Precondition{Match: ext.Tags{Set: true, Seqs: []ext.Seq{1}}})
		}, errcode.Precondition},
		{"delete", func(int) ext.Write {
			return guarded(ext.Op{Kind: ext.Delete, Namespace: "toys", Key: "there"}, ext.Precondition{Match: ext.Tags{Set: true, Any: true}})
		}, errcode.Precondition},
		{"batch", func(i int) ext.Write {
			return write(putOf(ext.Key(fmt.Sprint(i))), guarded(putOf("new"), ext.Precondition{Revision: ext.Some[ext.Revision](0)}).Ops[0])
		}, errcode.Conflict},
		{"last bytes", func(i int) ext.Write {
			return under(ext.Quota{Bytes: 14, Keys: 9, Namespaces: 9}, putOf(ext.Key(fmt.Sprint(i))))
		}, errcode.Quota},
		{"last key", func(i int) ext.Write {
			return under(ext.Quota{Bytes: 99, Keys: 2, Namespaces: 9}, putOf(ext.Key(fmt.Sprint(i))))
		}, errcode.Quota},
		{"last namespace", func(i int) ext.Write {
			op := putOf("a")
			op.Namespace = ext.Namespace(fmt.Sprint(i))
			return under(ext.Quota{Bytes: 99, Keys: 9, Namespaces: 2}, op)
		}, errcode.Quota},
		{"same key once", func(i int) ext.Write {
			w := write(putOf("new"))
			w.IdempotencyKey = &ext.IdempotencyKey{Key: "k", Request: [32]byte{byte(i)}}
			return w
		}, errcode.Conflict},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := newLockTest(t)
			if err := apply(t, a.store, write(putOf("there"))); err != nil {
				t.Fatal(err)
			}
			answers := a.Race(t, holdInstall, `COMMIT`, func(i int) error { return apply(t, a.store, c.w(i)) })
			lost := errors.Join(answers[0], answers[1])
			if (answers[0] == nil) == (answers[1] == nil) || !errcode.Is(lost, c.code) {
				t.Errorf("the results are %v and %v; one must be %v", answers[0], answers[1], c.code)
			}
			if audit, err := a.store.Audit(t.Context(), install); err != nil || !audit.Right() {
				t.Errorf("the counters are %+v, %v", audit, err)
			}
		})
	}
}

func TestTwoAtOnce(t *testing.T) {
	t.Parallel()
	a := newLockTest(t)
	if err := apply(t, a.store, write(putOf("there"))); err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	versions := map[ext.SchemaVersion]bool{}
	answers := a.Race(t, holdInstall, `COMMIT`, func(int) error {
		schema, err := a.store.Register(t.Context(), install, ext.Schema{Namespace: "toys", Document: []byte(`true`), CreatedAt: start}, ext.DefaultQuota())
		mu.Lock()
		defer mu.Unlock()
		versions[schema.Version] = true
		return err
	})
	if err := errors.Join(answers[:]...); err != nil || !versions[1] || !versions[2] {
		t.Errorf("Register: %v, %v", versions, err)
	}
	answers = a.Race(t, holdInstall, `COMMIT`, func(i int) error {
		_, err := a.store.SetStatus(t.Context(), install, ext.SchemaID{Namespace: "toys", Version: ext.SchemaVersion(1 + i)}, ext.Active, start)
		return err
	})
	if err := errors.Join(answers[:]...); err != nil {
		t.Errorf("SetStatus: %v", err)
	}
	page, err := a.store.Schemas(t.Context(), install, ext.SchemaQuery{Namespace: "toys", Limit: 100})
	all := page.Schemas
	if err != nil || len(all) != 2 || (all[0].Status == ext.Active) == (all[1].Status == ext.Active) {
		t.Errorf("the schemas are %+v, %v", all, err)
	}
	// The put waited during the activation, so the schema did not validate it.
	a.Exec(t, `UPDATE ext_storage_schemas SET status = 'deprecated' WHERE `+ofInstall)
	answers = a.Race(t, holdInstall, `UPDATE ext_storage_schemas SET status = 'active' WHERE schema_version = 1 AND `+ofInstall+`; COMMIT`,
		func(int) error { return apply(t, a.store, write(putOf("new"))) })
	if !errors.Is(answers[0], ext.ErrSchemaChanged) || !errors.Is(answers[1], ext.ErrSchemaChanged) {
		t.Errorf("put: %v", answers)
	}
}

// TestFirstWriters checks that first writers are serialized without a lock row, even if the writer that inserts the
// row rolls back.
func TestFirstWriters(t *testing.T) {
	t.Parallel()
	create := putOf("new")
	create.Precondition.Revision = ext.Some[ext.Revision](0)
	for _, end := range []string{`COMMIT`, `ROLLBACK`} {
		t.Run(end, func(t *testing.T) {
			a := newLockTest(t)
			answers := a.Race(t, `INSERT INTO ext_storage_usage VALUES ('`+string(install.Tenant)+`', '`+string(install.Install)+`')`, end,
				func(int) error { return apply(t, a.store, write(create)) })
			if (answers[0] == nil) == (answers[1] == nil) {
				t.Errorf("the results are %v and %v; one must succeed", answers[0], answers[1])
			}
		})
	}
}

func TestWaiterIsEnded(t *testing.T) {
	t.Parallel()
	a := newLockTest(t)
	if err := apply(t, a.store, write(putOf("there"))); err != nil {
		t.Fatal(err)
	}
	answers := a.Race(t, holdInstall, `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
		WHERE datname = current_database() AND wait_event_type = 'Lock'`, func(int) error {
		return apply(t, a.store, write(putOf("new")))
	})
	a.Exec(t, `COMMIT`)
	for _, err := range answers {
		if !errcode.Is(err, errcode.Unavailable) {
			t.Errorf("answered %v", err)
		}
	}
	if _, err := a.store.Get(t.Context(), install, "toys", "new", start); !errors.Is(err, ext.ErrNoRecord) {
		t.Errorf("the record: %v", err)
	}
	if err := apply(t, a.store, write(putOf("new"))); err != nil {
		t.Errorf("the next write: %v", err)
	}
}

// TestOthersDoNotWait checks that a held lock blocks neither other installs, even of the same tenant, nor reads.
func TestOthersDoNotWait(t *testing.T) {
	t.Parallel()
	a := newLockTest(t)
	if err := apply(t, a.store, write(putOf("there"))); err != nil {
		t.Fatal(err)
	}
	a.Exec(t, `BEGIN`)
	a.Exec(t, holdInstall)
	ctx, cancel := context.WithTimeout(t.Context(), testdb.Patient(30*time.Second))
	defer cancel()
	sibling := ext.Owner{Tenant: install.Tenant, Install: owner(2).Install}
	for _, o := range []ext.Owner{owner(2), sibling} {
		for range 2 {
			if _, err := a.store.Apply(ctx, o, write(putOf("a"), putOf("b"))); err != nil {
				t.Errorf("%v: %v", o, err)
			}
		}
	}
	if _, err := a.store.Get(ctx, install, "toys", "there", start); err != nil {
		t.Error(err)
	}
	if page, err := a.store.List(ctx, install, ext.Query{Namespace: "toys", Limit: 9, Now: start}); err != nil || len(page.Records) != 1 {
		t.Errorf("%+v, %v", page, err)
	}
	if feed, err := a.store.Changes(ctx, install, 0, 9); err != nil || feed.Last != 1 {
		t.Errorf("%+v, %v", feed, err)
	}
	a.Exec(t, `COMMIT`)
}

// TestNoDeadlock runs 16 writers of random batches on two installs, with few keys, expiring records, small quotas, and
// concurrent sweeps. A deadlock would show as errcode.Unavailable or in the server's count.
func TestNoDeadlock(t *testing.T) {
	t.Parallel()
	url := testdb.PostgresDatabase(t)
	s := open(t, pgdb.Options{URL: url, MaxConns: 16})
	var wg sync.WaitGroup
	for n := range uint64(16) {
		wg.Go(func() { mixed(t, s, rand.New(rand.NewPCG(1, n))) })
	}
	wg.Wait()
	for n := byte(1); n <= 2; n++ {
		audit, err := s.Audit(t.Context(), owner(n))
		if err != nil || !audit.Right() {
			t.Errorf("the counters of %d are %+v, %v", n, audit, err)
		}
		feed, err := s.Changes(t.Context(), owner(n), 0, 1_000_000)
		if err != nil || int(feed.Last) != len(feed.Changes) || feed.Last == 0 {
			t.Errorf("the feed of %d has %d changes up to %d: %v", n, len(feed.Changes), feed.Last, err)
		}
	}
	db := opened.Postgres(t, pgdb.Options{URL: url}, nil)
	var deadlocks int64
	if _, err := db.QueryRow(t.Context(), pgdb.Statement{Name: "test", SQL: `
		SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()`}, nil, &deadlocks); err != nil || deadlocks != 0 {
		t.Errorf("%d deadlocks, %v", deadlocks, err)
	}
}

func mixed(t *testing.T, s *postgres.Store, random *rand.Rand) {
	for i := range 40 {
		w := ext.Write{Now: start + ext.Moment(i), Quota: ext.Quota{Bytes: 150, Namespaces: 2, Keys: 5}}
		for range 1 + random.IntN(6) {
			op := putOf(ext.Key(fmt.Sprint(random.IntN(8))))
			op.Namespace = ext.Namespace(fmt.Sprint(random.IntN(3)))
			op.Kind = ext.OpKind(random.IntN(3))
			if random.IntN(2) == 0 {
				op.ExpiresAt = w.Now + ext.Moment(1+random.IntN(3))
			}
			w.Ops = append(w.Ops, op)
		}
		if _, err := s.Apply(t.Context(), owner(byte(1+random.IntN(2))), w); err != nil && !errcode.Is(err, errcode.Quota) {
			t.Error(err)
		}
		if random.IntN(10) == 0 {
			if _, err := s.Sweep(t.Context(), ext.SweptRecords, w.Now, w.Now, 5); err != nil {
				t.Error(err)
			}
		}
	}
}

//test:unraced compiling gRPC for the race detector takes a minute
//test:check its tests need the Spanner emulator

package spannertest

import (
	"context"
	"testing"
	"time"

	"cloud.google.com/go/spanner/admin/database/apiv1/databasepb"
	"cloud.google.com/go/spanner/admin/instance/apiv1/instancepb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"holdfast/internal/testdb"
)

// databaseIs returns OK or NotFound for a database, instanceIs for its instance.
func databaseIs(t *testing.T, emulator, database string) codes.Code {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), testdb.Patient(30*time.Second))
	defer cancel()
	conn := dial(t, emulator)
	defer conn.Close()
	_, err := databasepb.NewDatabaseAdminClient(conn).GetDatabase(ctx, &databasepb.GetDatabaseRequest{Name: database})
	return status.Code(err)
}

func instances(t *testing.T, emulator string) []*instancepb.Instance {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), testdb.Patient(30*time.Second))
	defer cancel()
	conn := dial(t, emulator)
	defer conn.Close()
	got, err := instancepb.NewInstanceAdminClient(conn).ListInstances(ctx, &instancepb.ListInstancesRequest{Parent: "projects/test"})
	if err != nil {
		t.Fatal(err)
	}
	return got.GetInstances()
}

func TestDatabaseIsEmptyAndDropped(t *testing.T) {
	t.Parallel()
	testdb.Spanner(t) // skips this test, not its subtest, without an emulator
	var emulator, fresh string
	t.Run("use", func(t *testing.T) {
		emulator, fresh = Database(t)
		ctx, cancel := context.WithTimeout(t.Context(), testdb.Patient(30*time.Second))
		defer cancel()
		conn := dial(t, emulator)
		defer conn.Close()
		admin := databasepb.NewDatabaseAdminClient(conn)
		ddl, err := admin.GetDatabaseDdl(ctx, &databasepb.GetDatabaseDdlRequest{Database: fresh})
		if err != nil || len(ddl.GetStatements()) != 0 {
			t.Errorf("a new database has %v, %v", ddl.GetStatements(), err)
		}
		if _, other := Database(t); other == fresh {
			t.Error("the same database twice")
		}
	})
	if code := databaseIs(t, emulator, fresh); code != codes.NotFound {
		t.Errorf("the database still exists: %v", code)
	}
}

func TestNameIsDroppedWhenTheTestMadeIt(t *testing.T) {
	t.Parallel()
	testdb.Spanner(t) // skips this test, not its subtest, without an emulator
	var emulator, made string
	t.Run("use", func(t *testing.T) {
		emulator, made = Name(t)
		if code := databaseIs(t, emulator, made); code != codes.NotFound {
			t.Errorf("before it is made: %v", code)
		}
		Create(t, emulator, made)
		if code := databaseIs(t, emulator, made); code != codes.OK {
			t.Errorf("after it was made: %v", code)
		}
		Name(t) // never created: its cleanup must still succeed
	})
	if code := databaseIs(t, emulator, made); code != codes.NotFound {
		t.Errorf("the database is still there: %v", code)
	}
}

// TestOwnEmulatorComesBackEmpty also checks that dropped databases leave nothing behind.
func TestOwnEmulatorComesBackEmpty(t *testing.T) {
	t.Parallel()
	s := testdb.OwnSpanner(t)
	host, name := s.Host(), NewName()
	for what, end := range map[string]func() error{"stop": s.Stop, "kill": s.Kill} {
		Create(t, host, name)
		if n := len(instances(t, host)); n != 1 {
			t.Errorf("%s: %d instances, 1 was made", what, n)
		}
		if err := end(); err != nil {
			t.Fatal(err)
		}
		if s.PID() != 0 {
			t.Errorf("%s: the emulator runs", what)
		}
		if code := databaseIs(t, host, name); code != codes.Unavailable {
			t.Errorf("%s: %v while it is stopped", what, code)
		}
		if err := s.Start(); err != nil {
			t.Fatal(err)
		}
		if s.Host() != host {
			t.Errorf("%s: the address changed to %s", what, s.Host())
		}
		if code := databaseIs(t, host, name); code != codes.NotFound {
			t.Errorf("%s: %v after its start", what, code)
		}
	}
	Create(t, host, name)
	drop(t, host, name)
	if left := instances(t, host); len(left) != 0 {
		t.Errorf("left over: %v", left)
	}
}

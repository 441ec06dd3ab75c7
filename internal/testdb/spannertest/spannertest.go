// Package spannertest creates test databases in the Spanner emulator.
//
// It is separate from package testdb, which most tests import: compiling and linking gRPC and the admin API into all
// of them would take 20 s with the race detector. It uses the generated stubs instead of Google's client, so it
// ignores the environment (SPANNER_EMULATOR_HOST, credentials).
package spannertest

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"cloud.google.com/go/spanner/admin/database/apiv1/databasepb"
	"cloud.google.com/go/spanner/admin/instance/apiv1/instancepb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"holdfast/internal/ident"
	"holdfast/internal/testdb"
)

const timeout = time.Minute

// Database returns an emulator's host:port and a new database's name (projects/P/instances/I/databases/D), dropped
// when the test ends.
func Database(t testing.TB) (emulator, database string) {
	t.Helper()
	emulator, database = Name(t)
	Create(t, emulator, database)
	return emulator, database
}

// Name returns an emulator's host:port and an unused database name. If the test creates database or instance, they
// are dropped when it ends.
func Name(t testing.TB) (emulator, database string) {
	t.Helper()
	emulator = testdb.Spanner(t)
	// Use an instance per database, because the emulator allows 100 databases in each.
	database = NewName()
	t.Cleanup(func() { drop(t, emulator, database) })
	return emulator, database
}

// NewName returns an unused database name in an unused instance, for tests with their own emulator.
func NewName() string {
	id := "t" + ident.Hex(12) // 2 to 30 characters that begin with a letter
	return "projects/test/instances/" + id + "/databases/" + id
}

// Create creates an empty database and its instance.
func Create(t testing.TB, emulator, database string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), timeout)
	defer cancel()
	conn := dial(t, emulator)
	defer conn.Close()
	part := strings.Split(database, "/")
	project, id := strings.Join(part[:2], "/"), part[3]
	op, err := instancepb.NewInstanceAdminClient(conn).CreateInstance(ctx, &instancepb.CreateInstanceRequest{
		Parent: project, InstanceId: id,
		Instance: &instancepb.Instance{Config: project + "/instanceConfigs/emulator-config", DisplayName: id, NodeCount: 1},
	})
	// The emulator responds when the operation is complete.
	if err != nil || !op.GetDone() || op.GetError() != nil {
		t.Fatalf("instance of %s: %v, %v", database, op, err)
	}
	op, err = databasepb.NewDatabaseAdminClient(conn).CreateDatabase(ctx, &databasepb.CreateDatabaseRequest{
		Parent: strings.Join(part[:4], "/"), CreateStatement: fmt.Sprintf("CREATE DATABASE `%s`", part[5]),
	})
	if err != nil || !op.GetDone() || op.GetError() != nil {
		t.Fatalf("database %s: %v, %v", database, op, err)
	}
}

func drop(t testing.TB, emulator, database string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	conn := dial(t, emulator)
	defer conn.Close()
	_, err := databasepb.NewDatabaseAdminClient(conn).DropDatabase(ctx, &databasepb.DropDatabaseRequest{Database: database})
	if err != nil && status.Code(err) != codes.NotFound {
		t.Errorf("drop %s: %v", database, err)
	}
	instance, _, _ := strings.Cut(database, "/databases/")
	_, err = instancepb.NewInstanceAdminClient(conn).DeleteInstance(ctx, &instancepb.DeleteInstanceRequest{Name: instance})
	if err != nil && status.Code(err) != codes.NotFound {
		t.Errorf("drop %s: %v", instance, err)
	}
}

func dial(t testing.TB, emulator string) *grpc.ClientConn {
	t.Helper()
	conn, err := grpc.NewClient("passthrough:///"+emulator, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithNoProxy())
	if err != nil {
		t.Fatal(err)
	}
	return conn
}

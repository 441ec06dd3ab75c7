package spannerdb

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"cloud.google.com/go/spanner"
	database "cloud.google.com/go/spanner/admin/database/apiv1"
	"cloud.google.com/go/spanner/admin/database/apiv1/databasepb"
	instance "cloud.google.com/go/spanner/admin/instance/apiv1"
	"cloud.google.com/go/spanner/admin/instance/apiv1/instancepb"
	"google.golang.org/grpc/codes"

	"holdfast/internal/clock"
	"holdfast/internal/db/migrate"
	"holdfast/internal/errcode"
)

// longestMigration includes the wait for other schema changes.
const longestMigration = 6 * time.Hour

// A database runs its schema changes in sequence. Some engines reject a concurrent change; it is then retried.
const (
	schemaPause = time.Second
	schemaTries = 300
)

const createLedger = `CREATE TABLE IF NOT EXISTS schema_migrations (
	service    STRING(64)  NOT NULL,
	version    INT64       NOT NULL,
	name       STRING(256) NOT NULL,
	checksum   STRING(64)  NOT NULL,
	applied_at TIMESTAMP   NOT NULL
) PRIMARY KEY (service, version)`

var readLedger = Statement{"migrate.ledger", `
	SELECT version, name, checksum FROM schema_migrations WHERE service = @service ORDER BY version`}

// Pending returns the migrations that Migrate would apply. It changes nothing.
func (db *DB) Pending(ctx context.Context, set migrate.Set) ([]migrate.Migration, error) {
	var ledger []migrate.Applied
	err := db.ForEach(ctx, readLedger, Params{"service": set.Service}, func(r *spanner.Row) error {
		a, err := line(r)
		ledger = append(ledger, a)
		return err
	})
	if spanner.ErrCode(err) == codes.InvalidArgument && errcode.Is(err, errcode.Unavailable) {
		err = nil
	}
	if err != nil {
		return nil, err
	}
	return set.Pending(ledger)
}

// line scans a row of the ledger.
func line(r *spanner.Row) (a migrate.Applied, err error) {
	var version int64
	err = r.Columns(&version, &a.Name, &a.Checksum)
	a.Version = int(version)
	return a, err
}

// Migrate first creates the instance and database on an emulator.
//
// Spanner's schema changes are not transactional: an interrupted migration is applied again, so its statements must be
// idempotent (IF NOT EXISTS). Processes may migrate concurrently.
func (db *DB) Migrate(ctx context.Context, set migrate.Set) (applied []migrate.Migration, err error) {
	ctx, cancel := context.WithTimeout(ctx, longestMigration)
	defer cancel()
	admin, err := database.NewDatabaseAdminClient(ctx, db.opts.client()...)
	if err != nil {
		return nil, errcode.Wrap(errcode.Invalid, "cannot create the Spanner admin client", err)
	}
	defer func() { err = errors.Join(err, admin.Close()) }()
	if db.opts.EmulatorHost != "" {
		if err := db.create(ctx, admin); err != nil {
			return nil, err
		}
	}
	if err := db.alter(ctx, admin, createLedger); err != nil {
		return nil, err
	}
	pending, err := db.Pending(ctx, set)
	if spanner.ErrCode(err) == codes.NotFound {
		// The driver requested its session before the database existed and returns that error only now.
		pending, err = db.Pending(ctx, set)
	}
	if err != nil {
		return nil, err
	}
	for _, m := range pending {
		fresh, err := db.apply(ctx, admin, set, m)
		if err != nil {
			return applied, fmt.Errorf("%s: migration %04d_%s: %w", set.Service, m.Version, m.Name, err)
		}
		if fresh {
			applied = append(applied, m)
		}
	}
	return applied, nil
}

// apply runs a migration: schema changes first, then data changes with the row in the ledger. fresh is false if
// another process was faster.
func (db *DB) apply(ctx context.Context, admin *database.DatabaseAdminClient, set migrate.Set, m migrate.Migration) (fresh bool, err error) {
	ddl, dml := split(m.SQL)
	if len(ddl) > 0 {
		if err := db.alter(ctx, admin, ddl...); err != nil {
			return false, err
		}
	}
	err = db.Write(ctx, "migrate", func(tx *Tx) error {
		var ledger []migrate.Applied
		if err := tx.ForEach(readLedger, Params{"service": set.Service}, func(r *spanner.Row) error {
			a, err := line(r)
			ledger = append(ledger, a)
			return err
		}); err != nil {
			return err
		}
		pending, err := set.Pending(ledger)
		if err != nil {
			return err
		}
		if fresh = len(pending) > 0 && pending[0].Version == m.Version; !fresh {
			return nil
		}
		var changes []Change
		for _, sql := range dml {
			changes = append(changes, Change{Statement: Statement{"migrate.data", sql}, Rows: -1})
		}
		if len(changes) > 0 {
			if err := tx.Exec(changes...); err != nil {
				return err
			}
		}
		return tx.Buffer(spanner.Insert("schema_migrations",
			[]string{"service", "version", "name", "checksum", "applied_at"},
			[]any{set.Service, m.Version, m.Name, m.Checksum, time.Now()}))
	})
	return fresh, err
}

// alter changes the schema and waits until Spanner is done.
func (db *DB) alter(ctx context.Context, admin *database.DatabaseAdminClient, ddl ...string) error {
	for tries := 1; ; tries++ {
		op, err := admin.UpdateDatabaseDdl(ctx, &databasepb.UpdateDatabaseDdlRequest{Database: db.opts.Database, Statements: ddl})
		if err == nil {
			err = op.Wait(ctx)
		}
		switch code := spanner.ErrCode(err); {
		case err == nil:
			return nil
		case code == codes.FailedPrecondition && strings.Contains(err.Error(), "concurrent") && tries < schemaTries && clock.Sleep(ctx, schemaPause):
		case code == codes.FailedPrecondition:
			return errcode.Wrap(errcode.Internal, "Spanner rejected the schema change: "+spanner.ErrDesc(err), err)
		case code == codes.NotFound:
			return errcode.Wrap(errcode.Unavailable, "the database does not exist: create it with gcloud spanner databases create", err)
		case code == codes.PermissionDenied:
			return errcode.Wrap(errcode.Unavailable, "permission to change the tables denied: run holdfast migrate with the role roles/spanner.databaseUser", err)
		default:
			return classify(err)
		}
	}
}

// create creates the instance and the database on an emulator.
func (db *DB) create(ctx context.Context, admin *database.DatabaseAdminClient) (err error) {
	parts := strings.Split(db.opts.Database, "/")
	if len(parts) != 6 {
		return errcode.New(errcode.Invalid, "invalid Spanner database name: expected projects/P/instances/I/databases/D")
	}
	instances, err := instance.NewInstanceAdminClient(ctx, db.opts.client()...)
	if err != nil {
		return errcode.Wrap(errcode.Invalid, "the Spanner admin client cannot be made", err)
	}
	defer func() { err = errors.Join(err, instances.Close()) }()
	project := "projects/" + parts[1]
	made, err := instances.CreateInstance(ctx, &instancepb.CreateInstanceRequest{
		Parent: project, InstanceId: parts[3],
		Instance: &instancepb.Instance{Config: project + "/instanceConfigs/emulator-config", DisplayName: parts[3], NodeCount: 1},
	})
	if err == nil {
		_, err = made.Wait(ctx)
	}
	if err != nil && spanner.ErrCode(err) != codes.AlreadyExists {
		return classify(err)
	}
	op, err := admin.CreateDatabase(ctx, &databasepb.CreateDatabaseRequest{
		Parent: project + "/instances/" + parts[3], CreateStatement: "CREATE DATABASE `" + parts[5] + "`",
	})
	if err == nil {
		_, err = op.Wait(ctx)
	}
	if err != nil && spanner.ErrCode(err) != codes.AlreadyExists {
		return classify(err)
	}
	return nil
}

// split separates schema changes, which Spanner runs first, from data changes. A semicolon at the end of a line ends
// a statement; comments take whole lines.
func split(sql string) (ddl, dml []string) {
	var statement strings.Builder
	for line := range strings.Lines(sql) {
		text := strings.TrimSpace(line)
		if text == "" || strings.HasPrefix(text, "--") {
			continue
		}
		last := strings.HasSuffix(text, ";")
		statement.WriteString(strings.TrimSuffix(text, ";") + "\n")
		if !last {
			continue
		}
		whole := strings.TrimSpace(statement.String())
		statement.Reset()
		switch word, _, _ := strings.Cut(whole, " "); word {
		case "CREATE", "ALTER", "DROP":
			ddl = append(ddl, whole)
		default:
			dml = append(dml, whole)
		}
	}
	return ddl, dml
}

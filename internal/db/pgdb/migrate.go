package pgdb

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"holdfast/internal/clock"
	"holdfast/internal/db/migrate"
	"holdfast/internal/errcode"
)

// migrationLock is an advisory lock key, the bytes "holdfast".
const migrationLock = 0x686f6c6466617374

// longestMigration limits a migration (e.g. an index on a large table) and the wait for another process's migration.
const longestMigration = 6 * time.Hour

// A migration waits for transactions that use a table, and later transactions wait for the migration: during an
// hour-long dump, the server would answer nothing. So it gives up after lockWait, lets others proceed, and retries
// for some minutes.
const (
	lockWait  = 2 * time.Second
	lockPause = time.Second
	lockTries = 100
)

// explained is the SQLSTATE with which our migrations raise errors for operators.
const explained = "HF001"

// oldest is the oldest supported major version of PostgreSQL.
const oldest = 15

var (
	lockSchema   = Statement{Name: "migrate.lock", SQL: `SELECT pg_advisory_xact_lock($1::bigint)`}
	boundNothing = Statement{Name: "migrate.no_timeout", SQL: `SELECT set_config('statement_timeout', '0', true), set_config('lock_timeout', '0', true)`}
	boundLocks   = Statement{Name: "migrate.lock_timeout", SQL: `SELECT set_config('lock_timeout', $1::text, true)`}
	serverNumber = Statement{Name: "migrate.version", SQL: `SELECT current_setting('server_version_num')::int`}
	createLedger = Statement{Name: "migrate.create_ledger", SQL: `
		CREATE TABLE IF NOT EXISTS schema_migrations (
			service    TEXT      NOT NULL,
			version    INTEGER   NOT NULL,
			name       TEXT      NOT NULL,
			checksum   TEXT      NOT NULL,
			applied_at TIMESTAMP NOT NULL DEFAULT (now() AT TIME ZONE 'UTC'),
			PRIMARY KEY (service, version)
		)`}
	readLedger = Statement{Name: "migrate.ledger", SQL: `
		SELECT version, name, checksum FROM schema_migrations WHERE service = $1::text ORDER BY version`}
	addToLedger = Statement{Name: "migrate.record", SQL: `
		INSERT INTO schema_migrations (service, version, name, checksum)
		VALUES ($1::text, $2::int, $3::text, $4::text)`}
	oneConnection = Statement{Name: "migrate.one_connection", SQL: `SELECT set_config('citus.multi_shard_modify_mode', 'sequential', true)`}
	hasCitus      = Statement{Name: "migrate.citus", SQL: `SELECT EXISTS (SELECT 1 FROM pg_extension WHERE extname = 'citus')`}
)

// citusMarker precedes a migration's statements that distribute tables, in the same transaction, if Citus is
// installed.
const citusMarker = "-- citus"

// Migrate applies each pending migration in a transaction, and returns those that it applied, also with an error.
// Processes may migrate concurrently: each transaction takes the lock, which works through a pooler, and rereads the
// ledger. Unavailable errors contain advice for the operator.
func (db *DB) Migrate(ctx context.Context, set migrate.Set) (applied []migrate.Migration, err error) {
	if pending, err := db.Pending(ctx, set); err == nil && len(pending) == 0 {
		return nil, nil
	}
	patient := db.Patient(longestMigration)
	for tries := 1; ; {
		next, err := patient.migrateOne(ctx, set)
		pg, _ := errors.AsType[*pgconn.PgError](err)
		blocked := IsState(err, LockNotAvailable)
		switch {
		case blocked && tries < lockTries && clock.Sleep(ctx, lockPause):
			tries++
		case blocked:
			return applied, errcode.Wrap(errcode.Unavailable, "a long transaction, maybe a dump, locks the table: run holdfast migrate again when it has ended", err)
		case pg != nil && pg.Code == explained:
			return applied, errcode.New(errcode.Unavailable, pg.Message)
		case pg != nil && pg.Code == "42501":
			return applied, errcode.Wrap(errcode.Unavailable, "the role may not change the tables: run holdfast migrate as their owner, or GRANT it CREATE on the schema", err)
		case err != nil || next == nil:
			return applied, err
		default:
			applied, tries = append(applied, *next), 1
		}
	}
}

// migrateOne applies the next migration; nil means that none is pending.
func (db *DB) migrateOne(ctx context.Context, set migrate.Set) (next *migrate.Migration, err error) {
	err = db.Tx(ctx, "migrate", func(tx *Tx) error {
		next = nil
		// The operator may have set timeouts for normal statements.
		if _, err := tx.Exec(boundNothing); err != nil {
			return err
		}
		if _, err := tx.Exec(lockSchema, int64(migrationLock)); err != nil {
			return err
		}
		if _, err := tx.Exec(boundLocks, lockWait.String()); err != nil {
			return err
		}
		if err := checkVersion(tx); err != nil {
			return err
		}
		if _, err := tx.Exec(createLedger); err != nil {
			return err
		}
		ledger, err := tx.ledger(set.Service)
		if err != nil {
			return err
		}
		pending, err := set.Pending(ledger)
		if err != nil || len(pending) == 0 {
			return err
		}
		if err := tx.apply(set.Service, pending[0]); err != nil {
			return fmt.Errorf("%s: migration %04d_%s: %w", set.Service, pending[0].Version, pending[0].Name, err)
		}
		next = &pending[0]
		return nil
	})
	if err != nil {
		return nil, err
	}
	return next, nil
}

// checkVersion refuses a server older than oldest.
func checkVersion(tx *Tx) error {
	var number int
	if _, err := tx.QueryRow(serverNumber, nil, &number); err != nil {
		return err
	}
	if number < oldest*10000 {
		return errcode.Newf(errcode.Unavailable, "PostgreSQL %d or newer is required, but the server has version %d", oldest, number/10000)
	}
	return nil
}

// ledger returns the service's applied migrations.
func (tx *Tx) ledger(service string) (ledger []migrate.Applied, err error) {
	var a migrate.Applied
	err = tx.ForEach(readLedger, []any{service}, func() error {
		ledger = append(ledger, a)
		return nil
	}, &a.Version, &a.Name, &a.Checksum)
	return ledger, development(err)
}

// development recognizes a ledger from before the first release, which has other columns.
func development(err error) error {
	if pg, ok := errors.AsType[*pgconn.PgError](err); ok && pg.Code == "42703" {
		return migrate.ErrDevelopment
	}
	return err
}

// apply runs a migration's statements and records it.
func (tx *Tx) apply(service string, m migrate.Migration) error {
	var citus bool
	if _, err := tx.QueryRow(hasCitus, nil, &citus); err != nil {
		return err
	}
	if citus {
		// Otherwise Citus rejects functions after a change to a distributed table.
		if _, err := tx.Exec(oneConnection); err != nil {
			return err
		}
	}
	plain, distribute := splitCitus(m.SQL)
	if err := tx.script(plain); err != nil {
		return err
	}
	if citus {
		if err := tx.script(distribute); err != nil {
			return fmt.Errorf("distribution by Citus: %w", err)
		}
	}
	_, err := tx.Exec(addToLedger, service, m.Version, m.Name, m.Checksum)
	return err
}

// script runs statements separately: Citus forwards the whole text to its workers, which accept a single
// statement.
func (tx *Tx) script(sql string) error {
	for _, statement := range splitStatements(sql) {
		if _, err := tx.tx.Conn().PgConn().Exec(tx.ctx, statement).ReadAll(); err != nil {
			return err
		}
	}
	return nil
}

var dollarQuote = regexp.MustCompile(`\$[a-z]*\$`)

// splitStatements splits at semicolons that end a line (a comment may follow), outside dollar-quoted bodies, which
// must not nest.
func splitStatements(sql string) (all []string) {
	var statement strings.Builder
	body, code := false, false
	for line := range strings.Lines(sql) {
		text := line
		if !body {
			text, _, _ = strings.Cut(line, "--")
		}
		body = body != (len(dollarQuote.FindAllString(text, -1))%2 == 1)
		text = strings.TrimSpace(text)
		code = code || text != ""
		statement.WriteString(line)
		if !body && strings.HasSuffix(text, ";") {
			all = append(all, statement.String())
			statement.Reset()
			code = false
		}
	}
	if code {
		all = append(all, statement.String())
	}
	return all
}

// splitCitus returns the statements before and after citusMarker.
func splitCitus(sql string) (plain, distribute string) {
	at := 0
	for line := range strings.Lines(sql) {
		if strings.TrimSpace(line) == citusMarker {
			return sql[:at], sql[at+len(line):]
		}
		at += len(line)
	}
	return sql, ""
}

// Pending returns the migrations that Migrate would apply. It changes nothing.
func (db *DB) Pending(ctx context.Context, set migrate.Set) ([]migrate.Migration, error) {
	var (
		ledger []migrate.Applied
		a      migrate.Applied
	)
	err := db.ForEach(ctx, readLedger, []any{set.Service}, func() { ledger = nil }, func() error {
		ledger = append(ledger, a)
		return nil
	}, &a.Version, &a.Name, &a.Checksum)
	if IsState(err, NoTable) {
		err = nil
	}
	if err != nil {
		return nil, development(err)
	}
	return set.Pending(ledger)
}

// IsCitus reports whether the extension Citus is installed.
func (db *DB) IsCitus(ctx context.Context) (citus bool, err error) {
	_, err = db.QueryRow(ctx, hasCitus, nil, &citus)
	return citus, err
}

// Relations counts relations outside PostgreSQL and its extensions.
type Relations struct {
	Tables int  // also views and sequences, without the mark of BeginRestore
	Citus  bool // the extension is installed

	// Powerful means that SQL of the role can run programs or open files on the database server, at once or after
	// SET ROLE or GRANT.
	Powerful bool
}

var relations = Statement{Name: "migrate.relations", SQL: `
	SELECT (SELECT count(*) FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
		WHERE c.relkind IN ('r', 'p', 'v', 'm', 'f', 'S') AND c.relname <> 'unfinished_restore' AND n.nspname !~ '^pg_' AND n.nspname <> 'information_schema'
			AND NOT EXISTS (SELECT 1 FROM pg_depend d WHERE d.classid = 'pg_class'::regclass AND d.objid = c.oid AND d.deptype = 'e')),
		EXISTS (SELECT 1 FROM pg_extension WHERE extname = 'citus'),
		EXISTS (SELECT 1 FROM pg_roles WHERE pg_has_role(current_user, oid, 'MEMBER') AND (rolsuper OR rolcreaterole
			OR rolname IN ('pg_execute_server_program', 'pg_read_server_files', 'pg_write_server_files')))`}

// Relations returns the counts; `holdfast import` refuses databases that are not empty.
func (db *DB) Relations(ctx context.Context) (r Relations, err error) {
	_, err = db.QueryRow(ctx, relations, nil, &r.Tables, &r.Citus, &r.Powerful)
	return r, err
}

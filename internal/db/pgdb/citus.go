package pgdb

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"holdfast/internal/clock"
	"holdfast/internal/db/rows"
	"holdfast/internal/errcode"
)

// On Citus, triggers run on the row's node, in the writing transaction, with that node's tables: each node logs its
// own changes and checks leases by its own clock.

// workerTables creates a worker's tables. Entry numbers differ between nodes and thus identify entries.
const workerTables = `DO $do$ BEGIN
	CREATE TABLE IF NOT EXISTS read_only (service TEXT NOT NULL PRIMARY KEY, holder TEXT NOT NULL, until TIMESTAMPTZ NOT NULL);
	CREATE TABLE IF NOT EXISTS copy_state (service TEXT NOT NULL PRIMARY KEY, state TEXT NOT NULL, log_until TIMESTAMPTZ NOT NULL);
	EXECUTE format('CREATE TABLE IF NOT EXISTS copy_log (id BIGINT GENERATED ALWAYS AS IDENTITY (START WITH %s) PRIMARY KEY,
		service TEXT NOT NULL, table_name TEXT NOT NULL, key TEXT NOT NULL)', (SELECT (groupid::bigint << 40) + 1 FROM pg_dist_local_group));
END $do$`

var (
	// runOnWorkers passes a statement whose arguments are formatted into its text: Citus forwards only texts.
	runOnWorkers = `SELECT nodename || ':' || nodeport, success, coalesce(result, '') FROM run_command_on_workers(format($1::text, VARIADIC $2::text[]))`
	listWorkers  = `SELECT coalesce(string_agg(nodeid::text, ',' ORDER BY nodeid), '') FROM pg_dist_node WHERE isactive AND noderole = 'primary' AND groupid > 0`

	// numbered matches a parameter such as $1.
	numbered = regexp.MustCompile(`\$(\d+)`)
)

// isCitus reports whether the extension Citus is installed.
func isCitus(ctx context.Context, tx pgx.Tx) (citus bool, err error) {
	_, err = queryOne(ctx, tx, hasCitus, nil, []any{&citus})
	return citus, err
}

// onWorkers runs a statement in its own transaction on each Citus worker, if any, and returns values or command tags.
func onWorkers(ctx context.Context, tx pgx.Tx, sql string, args ...any) (results []string, err error) {
	if citus, err := isCitus(ctx, tx); err != nil || !citus {
		return nil, err
	}
	texts := make([]string, len(args))
	for i, a := range args {
		texts[i] = fmt.Sprint(a)
	}
	sql = numbered.ReplaceAllString(strings.ReplaceAll(sql, "%", "%%"), `%${1}$$L`)
	var node, result string
	var ok bool
	return results, queryEach(ctx, tx, Statement{SQL: runOnWorkers}, []any{sql, texts}, func() error {
		if !ok {
			return errcode.Wrap(errcode.Unavailable, "a worker of Citus is unavailable", fmt.Errorf("%s: %s", node, result))
		}
		results = append(results, result)
		return nil
	}, &node, &ok, &result)
}

// onWorkers runs a statement on each worker and returns the least number of changed rows, at most n, which is the
// number on the coordinator. Without Citus it returns n.
func (tx *Tx) onWorkers(n int64, s Statement, args ...any) (least int64, err error) {
	if err := tx.ready(&s, nil); err != nil {
		return 0, err
	}
	results, err := onWorkers(tx.ctx, tx.tx, s.SQL, args...)
	for _, r := range results {
		n = min(n, pgconn.NewCommandTag(r).RowsAffected())
	}
	return n, err
}

// everywhere runs a statement on the coordinator and on all workers.
func (tx *Tx) everywhere(s Statement, args ...any) error {
	if _, err := tx.Exec(s, args...); err != nil {
		return err
	}
	_, err := tx.onWorkers(0, s, args...)
	return err
}

// prepareWorkers creates the server's tables on Citus workers.
func (tx *Tx) prepareWorkers() error {
	citus, err := isCitus(tx.ctx, tx.tx)
	if err != nil || !citus {
		return err
	}
	if _, err := tx.Exec(lockSchema, int64(migrationLock)); err != nil { // concurrent IF NOT EXISTS may fail
		return err
	}
	_, err = tx.onWorkers(0, Statement{Name: "citus.tables", SQL: workerTables})
	return err
}

// workersOf is the copy_state key for the workers' IDs, which rememberWorkers stores when a log begins.
func workersOf(service string) string { return "workers of " + service }

// rememberWorkers stores which workers exist, for sameWorkers.
func (tx *Tx) rememberWorkers(service string) error {
	citus, err := isCitus(tx.ctx, tx.tx)
	if err != nil || !citus {
		return err
	}
	var workers string
	if _, err := tx.QueryRow(Statement{Name: "citus.workers", SQL: listWorkers}, nil, &workers); err != nil {
		return err
	}
	_, err = tx.Exec(Statement{Name: "citus.remember_workers", SQL: `
		INSERT INTO copy_state (service, state, log_until) VALUES ($1::text, $2::text, 'epoch')
		ON CONFLICT (service) DO UPDATE SET state = EXCLUDED.state`}, workersOf(service), workers)
	return err
}

// errWorkers means that workers changed, so that some changes may be in a log that cannot be read.
var errWorkers = fmt.Errorf("%w: workers of Citus were added or removed since it began; run it again", rows.ErrLapsed)

// sameWorkers returns errWorkers if workers were added or removed since rememberWorkers.
func sameWorkers(ctx context.Context, tx pgx.Tx, service string) error {
	if citus, err := isCitus(ctx, tx); err != nil || !citus {
		return err
	}
	var same bool
	err := tx.QueryRow(ctx, `SELECT state = (`+listWorkers+`) FROM copy_state WHERE service = $1::text`, workersOf(service)).Scan(&same)
	if errors.Is(err, pgx.ErrNoRows) || err == nil && !same {
		return errWorkers
	}
	return err
}

const (
	settlePatience = 90 * time.Second // Citus finishes them once a minute
	settlePause    = 100 * time.Millisecond
)

// Settle waits until each worker committed the coordinator's transactions: a worker that crashed between PREPARE and
// COMMIT PREPARED hides rows. It waits only for transactions that are prepared when it begins.
func (d tables) Settle(ctx context.Context) error {
	var first map[string]bool
	for tries := 0; ; tries++ {
		now, err := d.prepared(ctx)
		if err != nil {
			return err
		}
		if first == nil {
			first = now
		}
		maps.DeleteFunc(first, func(id string, _ bool) bool { return !now[id] })
		switch {
		case len(first) == 0:
			return nil
		case tries > int(settlePatience/settlePause):
			return errcode.New(errcode.Unavailable, "a worker of Citus has prepared a transaction and not ended it: call recover_prepared_transactions() on the coordinator as a superuser, and run the command again")
		case !clock.Sleep(ctx, settlePause):
			return ctx.Err()
		}
	}
}

// prepared returns the IDs of transactions that workers have prepared, with the worker's position in front.
func (d tables) prepared(ctx context.Context) (ids map[string]bool, err error) {
	err = d.db.Tx(ctx, "copy.settle", func(tx *Tx) error {
		lists, err := onWorkers(tx.ctx, tx.tx, `SELECT coalesce(json_agg(gid), '[]') FROM pg_prepared_xacts
			WHERE database = current_database() AND starts_with(gid, 'citus_')`)
		ids = map[string]bool{}
		for node, list := range lists {
			var all []string
			if err := json.Unmarshal([]byte(list), &all); err != nil {
				return err
			}
			for _, id := range all {
				ids[fmt.Sprint(node, id)] = true
			}
		}
		return err
	})
	return ids, err
}

// boundLocksEverywhere bounds lock waits on all nodes and allows triggers on distributed tables, which are risky only
// if they use other distributed rows. One connection per node keeps the lock order the same everywhere.
var boundLocksEverywhere = []string{
	`SET LOCAL citus.propagate_set_commands TO 'local'`,
	`SET LOCAL lock_timeout TO '` + lockWait.String() + `'`,
	`SET LOCAL citus.multi_shard_modify_mode TO 'sequential'`,
	`SET LOCAL citus.enable_unsafe_triggers TO on`,
}

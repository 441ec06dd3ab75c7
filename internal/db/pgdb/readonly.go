package pgdb

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"holdfast/internal/clock"
	"holdfast/internal/db/rows"
	"holdfast/internal/errcode"
)

// eachTable uses a transaction per table: a trigger waits for transactions that write the table, and these may wait
// for each other's tables.
func (d tables) eachTable(ctx context.Context, name string, groups []rows.Group, statements func(t *rows.Table) []string) error {
	for _, g := range groups {
		for _, t := range g.Tables {
			if err := d.locking(ctx, name, statements(t)); err != nil {
				return err
			}
		}
	}
	return nil
}

// locking runs statements that lock a table, and tries again if others hold it: see lockWait.
func (d tables) locking(ctx context.Context, name string, statements []string) error {
	for tries := 1; ; tries++ {
		err := d.db.Tx(ctx, name, func(tx *Tx) error {
			if _, err := tx.Exec(boundLocks, lockWait.String()); err != nil {
				return err
			}
			citus, err := isCitus(ctx, tx.tx)
			if err != nil {
				return err
			}
			all := statements
			if citus {
				all = slices.Concat(boundLocksEverywhere, statements)
			}
			for _, s := range all {
				if err := tx.script(s); err != nil {
					return err
				}
			}
			return nil
		})
		if !IsState(err, LockNotAvailable) || tries == lockTries || !clock.Sleep(ctx, lockPause) {
			return err
		}
	}
}

// Log creates the triggers after the log's state, so that no trigger misses its limits. On Citus it remembers the
// workers.
func (d tables) Log(ctx context.Context, service string, groups []rows.Group) error {
	err := d.db.Tx(ctx, "copy.log", func(tx *Tx) error {
		if err := tx.prepareWorkers(); err != nil {
			return err
		}
		if err := tx.rememberWorkers(service); err != nil {
			return err
		}
		if err := tx.everywhere(Statement{Name: "copy.log_state", SQL: `
			INSERT INTO copy_state (service, state, log_until) VALUES ($1::text, '', clock_timestamp() + $2::bigint * interval '1 millisecond')
			ON CONFLICT (service) DO UPDATE SET log_until = EXCLUDED.log_until`}, service, rows.LogLease.Milliseconds()); err != nil {
			return err
		}
		if err := tx.everywhere(Statement{Name: "copy.log_end", SQL: `
			INSERT INTO copy_state (service, state, log_until) SELECT $1::text, (` + lastEntry + ` + $2::bigint)::text, clock_timestamp() + $3::bigint * interval '1 millisecond'
			ON CONFLICT (service) DO UPDATE SET state = EXCLUDED.state, log_until = EXCLUDED.log_until`},
			rows.EndOf(service), rows.LogAhead, rows.LogLease.Milliseconds()); err != nil {
			return err
		}
		return tx.everywhere(clearLog, service)
	})
	if err != nil {
		return err
	}
	return d.eachTable(ctx, "copy.log", groups, func(t *rows.Table) []string { return logging(service, t) })
}

// lastEntry is the last number, even if its entry was deleted.
const lastEntry = `(SELECT last_value FROM copy_log_id_seq)`

var clearLog = Statement{Name: "copy.clear_log", SQL: `DELETE FROM copy_log WHERE service = $1::text`}

// withoutJIT is for trigger functions. The firing statement may have disabled all scans, as sync_update_v1 does: the
// trigger's queries then look so expensive that PostgreSQL compiles them for each row, taking 1,000 times as long.
const withoutJIT = `SET jit = off`

// logged returns a table's statement triggers, and a trigger for rows whose key changes, although no service
// changes keys.
func logged(t *rows.Table) map[string]string {
	key := t.KeyNames()
	return map[string]string{
		"copy_log_insert": `AFTER INSERT ON ` + relation(t) + ` REFERENCING NEW TABLE AS changed FOR EACH STATEMENT`,
		"copy_log_update": `AFTER UPDATE ON ` + relation(t) + ` REFERENCING NEW TABLE AS changed FOR EACH STATEMENT`,
		"copy_log_delete": `AFTER DELETE ON ` + relation(t) + ` REFERENCING OLD TABLE AS changed FOR EACH STATEMENT`,
		"copy_log_key":    `AFTER UPDATE OF ` + key + ` ON ` + relation(t) + ` FOR EACH ROW`,
	}
}

// logging returns statements that create a table's triggers. Row triggers would double PostgreSQL's time for 100
// rows.
func logging(service string, t *rows.Table) []string {
	add := func(of string) string {
		return `INSERT INTO copy_log (service, table_name, key)
			SELECT '` + service + `', '` + t.Name + `', json_build_array(` + t.KeyNames() + `)::text FROM ` + of + `
			WHERE EXISTS (SELECT FROM copy_state WHERE service = '` + service + `' AND log_until > clock_timestamp())
				AND ` + lastEntry + ` < (SELECT state::bigint FROM copy_state WHERE service = '` + rows.EndOf(service) + `');`
	}
	slow := ""
	if !t.Process {
		// This is decided at the transaction's start: a running transaction continues.
		slow = `
			IF EXISTS (SELECT FROM copy_state WHERE service = '` + rows.SlowOf(service) + `' AND log_until > clock_timestamp()
				AND (extract(epoch FROM transaction_timestamp()) * 1000)::bigint % ` + slowPeriod + ` < state::bigint) THEN
				RAISE EXCEPTION 'the service is read-only' USING ERRCODE = 'HF503';
			END IF;`
	}
	statements := []string{`
		CREATE OR REPLACE FUNCTION copy_log_` + t.Name + `() RETURNS TRIGGER LANGUAGE plpgsql ` + withoutJIT + ` AS $$
		BEGIN
			IF to_regclass('copy_log') IS NULL THEN -- a new worker of Citus: see sameWorkers
				RETURN NULL;
			END IF;` + slow + `
			IF TG_LEVEL = 'STATEMENT' THEN
				` + add("changed") + `
			ELSE
				` + add("(SELECT OLD."+strings.ReplaceAll(t.KeyNames(), ", ", ", OLD.")+") AS before") + `
			END IF;
			RETURN NULL;
		END $$`}
	for name, trigger := range logged(t) {
		statements = append(statements, `CREATE OR REPLACE TRIGGER `+name+` `+trigger+` EXECUTE FUNCTION copy_log_`+t.Name+`()`)
	}
	return statements
}

var slowPeriod = strconv.FormatInt(rows.SlowPeriod.Milliseconds(), 10)

// Slow stores the refused part, which the log's triggers read.
func (d tables) Slow(ctx context.Context, service string, refused time.Duration) error {
	return d.db.Tx(ctx, "copy.slow", func(tx *Tx) error {
		return tx.everywhere(Statement{Name: "copy.slow", SQL: `
			INSERT INTO copy_state (service, state, log_until) VALUES ($1::text, $2::bigint::text, clock_timestamp() + $3::bigint * interval '1 millisecond')
			ON CONFLICT (service) DO UPDATE SET state = EXCLUDED.state, log_until = EXCLUDED.log_until`},
			rows.SlowOf(service), refused.Milliseconds(), rows.SlowLease.Milliseconds())
	})
}

// KeepLog returns ErrLapsed also if workers were added or removed.
func (d tables) KeepLog(ctx context.Context, service string) error {
	keep := Statement{Name: "copy.keep_log", SQL: `
		UPDATE copy_state SET log_until = clock_timestamp() + $2::bigint * interval '1 millisecond',
			state = CASE service WHEN $3::text THEN (` + lastEntry + ` + $4::bigint)::text ELSE state END
		WHERE service IN ($1::text, $3::text) AND log_until > clock_timestamp() + interval '1 hour'
			AND ` + lastEntry + ` + $5::bigint < (SELECT e.state::bigint FROM copy_state AS e WHERE e.service = $3::text)`}
	args := []any{service, rows.LogLease.Milliseconds(), rows.EndOf(service), rows.LogAhead, rows.LogMargin}
	return d.db.Tx(ctx, "copy.keep_log", func(tx *Tx) error {
		if err := sameWorkers(ctx, tx.tx, service); err != nil {
			return err
		}
		n, err := tx.Exec(keep, args...)
		if err == nil && n > 0 {
			n, err = tx.onWorkers(n, keep, args...)
		}
		if err == nil && n < 2 {
			return rows.ErrLapsed
		}
		return err
	})
}

// Unlog removes the triggers before the log, which they would fill again.
func (d tables) Unlog(ctx context.Context, service string, groups []rows.Group) error {
	err := d.eachTable(ctx, "copy.unlog", groups, func(t *rows.Table) []string {
		var statements []string
		for name := range logged(t) {
			statements = append(statements, `DROP TRIGGER IF EXISTS `+name+` ON `+relation(t))
		}
		// CASCADE is for shard placements that Citus has moved but not yet deleted: they have the triggers, too.
		return append(statements, `DROP FUNCTION IF EXISTS copy_log_`+t.Name+`() CASCADE`)
	})
	if err != nil {
		return err
	}
	return d.db.Tx(ctx, "copy.unlog", func(tx *Tx) error {
		if err := tx.prepareWorkers(); err != nil {
			return err
		}
		if err := tx.everywhere(Statement{Name: "copy.end_log", SQL: `UPDATE copy_state SET log_until = 'epoch' WHERE service = $1::text`}, service); err != nil {
			return err
		}
		if err := tx.everywhere(Statement{Name: "copy.end_limits", SQL: `DELETE FROM copy_state WHERE service IN ($1::text, $2::text)`},
			rows.SlowOf(service), rows.EndOf(service)); err != nil {
			return err
		}
		return tx.everywhere(clearLog, service)
	})
}

// end is a lease's end; $3 is its duration in milliseconds, or 0.
const end = `CASE WHEN $3::bigint = 0 THEN '9999-01-01 00:00:00+00'::timestamptz ELSE clock_timestamp() + $3::bigint * interval '1 millisecond' END`

// refuseWrite creates the function of a BEFORE STATEMENT trigger. Its query gets a new snapshot, and the statement
// holds the table lock that Close waits for.
const refuseWrite = `
	CREATE OR REPLACE FUNCTION refuse_write_v1() RETURNS TRIGGER LANGUAGE plpgsql VOLATILE ` + withoutJIT + ` AS $$
	BEGIN
		IF to_regclass('read_only') IS NULL THEN -- a worker that joined Citus since
			RAISE EXCEPTION 'the service is read-only' USING ERRCODE = 'HF503';
		END IF;
		IF EXISTS (SELECT FROM read_only WHERE service = TG_ARGV[0] AND until > clock_timestamp()) THEN
			RAISE EXCEPTION 'the service is read-only' USING ERRCODE = 'HF503';
		END IF;
		RETURN NULL;
	END $$`

// Close sets the lease, then creates the triggers. Each trigger's lock waits for transactions in progress.
func (d tables) Close(ctx context.Context, service, holder string, lease time.Duration, groups []rows.Group) error {
	const (
		set = `
			INSERT INTO read_only AS r (service, holder, since, until) VALUES ($1::text, $2::text, clock_timestamp(), ` + end + `)
			ON CONFLICT (service) DO UPDATE SET holder = EXCLUDED.holder, until = EXCLUDED.until,
				since = CASE WHEN r.holder = EXCLUDED.holder AND r.until > clock_timestamp() THEN r.since ELSE EXCLUDED.since END
			WHERE r.holder = EXCLUDED.holder OR r.until <= clock_timestamp()`
		// Workers only need the end.
		setWorkers = `
			INSERT INTO read_only (service, holder, until) VALUES ($1::text, $2::text, ` + end + `)
			ON CONFLICT (service) DO UPDATE SET holder = EXCLUDED.holder, until = EXCLUDED.until`
	)
	events := "INSERT OR UPDATE OR DELETE OR TRUNCATE"
	err := d.db.Tx(ctx, "read_only.close", func(tx *Tx) error {
		citus, err := isCitus(ctx, tx.tx)
		if err != nil {
			return err
		}
		if citus { // Citus nodes reject triggers on TRUNCATE
			events = "INSERT OR UPDATE OR DELETE"
		}
		if err := tx.prepareWorkers(); err != nil {
			return err
		}
		n, err := tx.Exec(Statement{Name: "read_only.set", SQL: set},
			service, holder, lease.Milliseconds())
		if err == nil && n == 0 {
			return errcode.Newf(errcode.Conflict, "%s is read-only already", service)
		}
		if err != nil {
			return err
		}
		if _, err := tx.onWorkers(0, Statement{Name: "read_only.set_workers", SQL: setWorkers}, service, holder, lease.Milliseconds()); err != nil {
			return err
		}
		return tx.script(refuseWrite)
	})
	if err != nil {
		return err
	}
	// The trigger's lock is granted once all transactions that wrote the table ended; later transactions see the
	// service as read-only.
	return d.eachTable(ctx, "read_only.close", groups, func(t *rows.Table) []string {
		return []string{`CREATE OR REPLACE TRIGGER read_only BEFORE ` + events + ` ON ` + relation(t) + `
			FOR EACH STATEMENT EXECUTE FUNCTION refuse_write_v1('` + service + `')`}
	})
}

// leaseMargin is the minimum time left on a lease that is prolonged. Otherwise the commit could come after its end.
const leaseMargin = 5 * time.Second

func (d tables) Prolong(ctx context.Context, service, holder string, lease time.Duration) error {
	prolong := Statement{Name: "read_only.prolong", SQL: `
		UPDATE read_only SET until = ` + end + `
		WHERE service = $1::text AND holder = $2::text AND until > clock_timestamp() + $4::bigint * interval '1 millisecond'`}
	args := []any{service, holder, lease.Milliseconds(), leaseMargin.Milliseconds()}
	start := time.Now()
	n, err := d.db.Exec(ctx, prolong, args...)
	if err == nil && n > 0 {
		// This comes last, so that ReadOnly returns a holder while a worker refuses writes.
		err = d.db.Tx(ctx, "read_only.prolong_workers", func(tx *Tx) error {
			var err error
			n, err = tx.onWorkers(n, prolong, args...)
			return err
		})
	}
	if err == nil && (n == 0 || time.Since(start) > leaseMargin) {
		return rows.ErrLapsed
	}
	return err
}

// Reopen deletes the lease first: from then on writes succeed, even if dropping the triggers fails.
func (d tables) Reopen(ctx context.Context, service string, groups []rows.Group) error {
	err := d.db.Tx(ctx, "read_only.reopen", func(tx *Tx) error {
		if err := tx.prepareWorkers(); err != nil {
			return err
		}
		return tx.everywhere(Statement{Name: "read_only.reopen", SQL: `DELETE FROM read_only WHERE service = $1::text`}, service)
	})
	if err != nil {
		return err
	}
	return d.eachTable(ctx, "read_only.reopen", groups, func(t *rows.Table) []string {
		return []string{`DROP TRIGGER IF EXISTS read_only ON ` + relation(t)}
	})
}

func (d tables) ReadOnly(ctx context.Context, service string) (h rows.Hold, err error) {
	var since *time.Time
	// A command may read a database that no server of this release has migrated. There the row has no since.
	_, err = d.db.QueryRow(ctx, Statement{Name: "read_only.get", SQL: `
		SELECT holder, until, (to_jsonb(r) ->> 'since')::timestamptz FROM read_only r WHERE service = $1::text AND until > clock_timestamp()`},
		[]any{service}, &h.Holder, &h.Until, &since)
	if since != nil {
		h.Since = *since
	}
	if h.Until.Equal(rows.Forever) {
		h.Until = time.Time{}
	}
	if IsState(err, NoTable) {
		return rows.Hold{}, nil
	}
	return h, err
}

func (v *view) State(service string) (string, error) { return state(v.ctx, v.tx, service, "") }

func (u update) State(service string) (string, error) {
	return state(u.ctx, u.tx, service, " FOR UPDATE")
}

// state reads copy_state; lock is "" or a locking clause.
func state(ctx context.Context, tx pgx.Tx, service, lock string) (state string, err error) {
	err = tx.QueryRow(ctx, `SELECT state FROM copy_state WHERE service = $1::text`+lock, service).Scan(&state)
	if errors.Is(err, pgx.ErrNoRows) {
		err = nil
	}
	return state, err
}

func (u update) SetState(service, state string) error {
	return u.exec(`INSERT INTO copy_state (service, state, log_until) VALUES ($1::text, $2::text, 'epoch')
		ON CONFLICT (service) DO UPDATE SET state = EXCLUDED.state`, service, state)
}

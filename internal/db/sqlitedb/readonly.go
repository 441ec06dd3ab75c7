package sqlitedb

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"zombiezen.com/go/sqlite"

	"holdfast/internal/db/rows"
	"holdfast/internal/errcode"
)

// now is the current time in SQL, in Unix milliseconds.
const now = `CAST(unixepoch('subsec') * 1000 AS INTEGER)`

var operations = []string{"INSERT", "UPDATE", "DELETE"}

// readOnlyTrigger names the trigger that refuses an operation.
func readOnlyTrigger(t *rows.Table, operation string) string {
	return "read_only_" + operation + "_" + t.Name
}

// logTrigger names the trigger that logs an operation.
func logTrigger(t *rows.Table, operation string) string {
	return "copy_log_" + operation + "_" + t.Name
}

func eachTable(groups []rows.Group, fn func(t *rows.Table) error) error {
	for _, g := range groups {
		for _, t := range g.Tables {
			if err := fn(t); err != nil {
				return err
			}
		}
	}
	return nil
}

// Log creates the triggers in the transaction that starts the log, so that they see every later change.
func (d tables) Log(ctx context.Context, service string, groups []rows.Group) error {
	return d.db.WriteAlone(ctx, "copy.log", func(c *sqlite.Conn) error {
		if err := Exec(c, `DELETE FROM copy_log WHERE service = ?`, service); err != nil {
			return err
		}
		if err := Exec(c, `INSERT INTO copy_state (service, state, log_until) VALUES (?1, '', `+now+` + ?2)
			ON CONFLICT (service) DO UPDATE SET log_until = excluded.log_until`, service, rows.LogLease.Milliseconds()); err != nil {
			return err
		}
		if err := Exec(c, `INSERT INTO copy_state (service, state, log_until) VALUES (?1, `+lastEntry+` + ?2, `+now+`)
			ON CONFLICT (service) DO UPDATE SET state = excluded.state`, rows.EndOf(service), rows.LogAhead); err != nil {
			return err
		}
		return eachTable(groups, func(t *rows.Table) error {
			for _, operation := range operations {
				if err := Exec(c, logging(service, t, operation)); err != nil {
					return err
				}
			}
			return nil
		})
	})
}

// lastEntry is the last number, even if its entry was deleted.
const lastEntry = `coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'copy_log'), 0)`

// logEnd selects the entry number at which the log ends.
func logEnd(service string) string {
	return `(SELECT CAST(state AS INTEGER) FROM copy_state WHERE service = '` + rows.EndOf(service) + `')`
}

// logging returns the statement that creates a table's trigger for an operation. An update that changes the key logs
// both keys.
func logging(service string, t *rows.Table, operation string) string {
	add := func(of string) string {
		return `INSERT INTO copy_log (service, table_name, key) SELECT '` + service + `', '` + t.Name + `', ` + key(t, of) +
			` WHERE EXISTS (SELECT 1 FROM copy_state WHERE service = '` + service + `' AND log_until > ` + now + `) AND ` + lastEntry + ` < ` + logEnd(service)
	}
	body := ""
	if operation != "DELETE" {
		body += add("NEW") + "; "
	}
	if operation == "DELETE" {
		body += add("OLD") + "; "
	}
	if operation == "UPDATE" {
		body += add("OLD") + ` AND ` + key(t, "OLD") + ` <> ` + key(t, "NEW") + "; "
	}
	if !t.Process {
		body += `SELECT RAISE(ABORT, 'the service is read-only') FROM copy_state
			WHERE service = '` + rows.SlowOf(service) + `' AND log_until > ` + now + ` AND ` + now + ` % ` + slowPeriod + ` < CAST(state AS INTEGER); `
	}
	return `CREATE TRIGGER IF NOT EXISTS ` + logTrigger(t, operation) + ` AFTER ` + operation + ` ON ` + t.Name + ` BEGIN ` + body + `END`
}

var slowPeriod = strconv.FormatInt(rows.SlowPeriod.Milliseconds(), 10)

// Slow stores the refused part, which the log's triggers read.
func (d tables) Slow(ctx context.Context, service string, refused time.Duration) error {
	return d.db.Write(ctx, "copy.slow", func(c *sqlite.Conn) error {
		return Exec(c, `INSERT INTO copy_state (service, state, log_until) VALUES (?1, ?2, `+now+` + ?3)
			ON CONFLICT (service) DO UPDATE SET state = excluded.state, log_until = excluded.log_until`,
			rows.SlowOf(service), strconv.FormatInt(refused.Milliseconds(), 10), rows.SlowLease.Milliseconds())
	})
}

func (d tables) KeepLog(ctx context.Context, service string) error {
	return d.db.Write(ctx, "copy.keep_log", func(c *sqlite.Conn) error {
		err := Exec(c, `UPDATE copy_state SET log_until = `+now+` + ?2 WHERE service = ?1 AND log_until > `+now+` AND `+lastEntry+` + ?3 < `+logEnd(service),
			service, rows.LogLease.Milliseconds(), rows.LogMargin)
		if err == nil && c.Changes() == 0 {
			return rows.ErrLapsed
		}
		if err != nil {
			return err
		}
		return Exec(c, `UPDATE copy_state SET state = `+lastEntry+` + ?2 WHERE service = ?1`, rows.EndOf(service), rows.LogAhead)
	})
}

func (d tables) Unlog(ctx context.Context, service string, groups []rows.Group) error {
	return d.db.WriteAlone(ctx, "copy.unlog", func(c *sqlite.Conn) error {
		err := eachTable(groups, func(t *rows.Table) error {
			for _, operation := range operations {
				if err := Exec(c, `DROP TRIGGER IF EXISTS `+logTrigger(t, operation)); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
		if err := Exec(c, `DELETE FROM copy_state WHERE service IN (?, ?)`, rows.SlowOf(service), rows.EndOf(service)); err != nil {
			return err
		}
		if err := Exec(c, `UPDATE copy_state SET log_until = 0 WHERE service = ?`, service); err != nil {
			return err
		}
		return Exec(c, `DELETE FROM copy_log WHERE service = ?`, service)
	})
}

// end returns the SQL for a lease's end and its argument.
func end(lease time.Duration) (sql string, arg int64) {
	if lease == 0 {
		return `?`, rows.Forever.UnixMilli()
	}
	return now + ` + ?`, lease.Milliseconds()
}

// Close needs no wait: its transaction runs alone, and later writes find the trigger.
func (d tables) Close(ctx context.Context, service, holder string, lease time.Duration, groups []rows.Group) error {
	return d.db.WriteAlone(ctx, "read_only.close", func(c *sqlite.Conn) error {
		until, arg := end(lease)
		if err := Exec(c, `INSERT INTO read_only AS r (service, holder, since, until) VALUES (?, ?, `+now+`, `+until+`)
			ON CONFLICT (service) DO UPDATE SET holder = excluded.holder, until = excluded.until,
				since = CASE WHEN r.holder = excluded.holder AND r.until > `+now+` THEN r.since ELSE excluded.since END
			WHERE r.holder = excluded.holder OR r.until <= `+now, service, holder, arg); err != nil {
			return err
		}
		if c.Changes() == 0 {
			return errcode.Newf(errcode.Conflict, "%s is read-only already", service)
		}
		return eachTable(groups, func(t *rows.Table) error {
			for _, operation := range operations {
				if err := Exec(c, `CREATE TRIGGER IF NOT EXISTS `+readOnlyTrigger(t, operation)+` BEFORE `+operation+` ON `+t.Name+
					` WHEN EXISTS (SELECT 1 FROM read_only WHERE service = '`+service+`' AND until > `+now+`)
					BEGIN SELECT RAISE(ABORT, 'the service is read-only'); END`); err != nil {
					return err
				}
			}
			return nil
		})
	})
}

func (d tables) Prolong(ctx context.Context, service, holder string, lease time.Duration) error {
	return d.db.Write(ctx, "read_only.prolong", func(c *sqlite.Conn) error {
		until, arg := end(lease)
		err := Exec(c, `UPDATE read_only SET until = `+until+` WHERE service = ? AND holder = ? AND until > `+now, arg, service, holder)
		if err == nil && c.Changes() == 0 {
			return rows.ErrLapsed
		}
		return err
	})
}

func (d tables) Reopen(ctx context.Context, service string, groups []rows.Group) error {
	return d.db.WriteAlone(ctx, "read_only.reopen", func(c *sqlite.Conn) error {
		if err := Exec(c, `DELETE FROM read_only WHERE service = ?`, service); err != nil {
			return err
		}
		return eachTable(groups, func(t *rows.Table) error {
			for _, operation := range operations {
				if err := Exec(c, `DROP TRIGGER IF EXISTS `+readOnlyTrigger(t, operation)); err != nil {
					return err
				}
			}
			return nil
		})
	})
}

func (d tables) ReadOnly(ctx context.Context, service string) (h rows.Hold, err error) {
	err = d.db.Read(ctx, "read_only.get", func(c *sqlite.Conn) error {
		// A command may read a file that a server of this release has not migrated.
		since := `NULL`
		if _, _, err := QueryRow(c, `SELECT 1 FROM pragma_table_info('read_only') WHERE name = 'since'`, func(*sqlite.Stmt) bool {
			since = `since`
			return true
		}); err != nil {
			return err
		}
		_, _, err := QueryRow(c, `SELECT holder, until, `+since+` FROM read_only WHERE service = ? AND until > `+now, func(s *sqlite.Stmt) bool {
			h = rows.Hold{Holder: s.ColumnText(0), Until: time.UnixMilli(s.ColumnInt64(1))}
			if !s.ColumnIsNull(2) {
				h.Since = time.UnixMilli(s.ColumnInt64(2))
			}
			return true
		}, service)
		return err
	})
	if h.Until.Equal(rows.Forever) {
		h.Until = time.Time{}
	}
	if err != nil {
		return rows.Hold{}, fmt.Errorf("read-only: %w", err)
	}
	return h, nil
}

package spannerdb

import (
	"context"
	"encoding/json"
	"errors"
	"hash/crc32"
	"math/rand/v2"
	"time"

	"cloud.google.com/go/spanner"
	"google.golang.org/grpc/codes"

	"holdfast/internal/db/rows"
	"holdfast/internal/errcode"
)

// writeShards is the number of a service's rows in write_control, a table in each copyable service's migrations.
// Spanner lacks triggers, so each write reads a row in its transaction. The row contains whether the service is
// read-only and whether to log. Changing all rows conflicts with every running write, and later writes see the
// change.
const writeShards = 512

// Shard returns the write_control row for an owner's writes.
func Shard(owner ...string) int64 {
	var sum uint32
	for _, text := range owner {
		sum = crc32.Update(sum, crc32.IEEETable, []byte(text))
	}
	return int64(sum % writeShards)
}

// ErrReadOnly means that the service is read-only.
var ErrReadOnly = rows.ErrReadOnly

// LogMutations is the number of mutations in a LogChanges call.
const LogMutations = 3

// LogChanges logs the keys that a write changed, by table, for a copy. Call it if the write's row in write_control
// says so.
func (tx *Tx) LogChanges(service string, changes map[string][][]any) error {
	text, err := json.Marshal(changes)
	if err != nil {
		return err
	}
	tx.Predict(LogMutations)
	return tx.Buffer(spanner.Insert("copy_log", []string{"id", "service", "changes"}, []any{rand.Int64(), service, string(text)}))
}

// setControl sets columns in all of a service's rows in write_control.
func setControl(tx *Tx, service string, columns []string, values ...any) error {
	all := make([]*spanner.Mutation, writeShards)
	for i := range all {
		all[i] = spanner.InsertOrUpdate("write_control", append([]string{"service", "shard"}, columns...), append([]any{service, int64(i)}, values...))
	}
	tx.Predict(writeShards * (2 + len(columns)))
	return tx.Buffer(all...)
}

// controlled is a row of write_control.
type controlled struct {
	holder string    // "": the service is writable
	since  time.Time // when the service became read-only; zero if unknown
	until  time.Time // end of the lease
	log    time.Time // end of the log
	now    time.Time // time at the server
}

var readControl = Statement{"read_only.get", `
	SELECT holder, read_only_until, log_until, CURRENT_TIMESTAMP(), read_only_since FROM write_control WHERE service = @service AND shard = 0`}

// getControl reads a service's row through each, which runs the query.
func getControl(each func(Statement, Params, func(*spanner.Row) error) error, service string) (c controlled, err error) {
	err = each(readControl, Params{"service": service}, func(r *spanner.Row) error {
		var holder spanner.NullString
		var until, log, since spanner.NullTime
		err := r.Columns(&holder, &until, &log, &c.now, &since)
		c.until, c.log = until.Time, log.Time
		if until.Time.After(c.now) {
			c.holder, c.since = holder.StringVal, since.Time
		}
		return err
	})
	return c, err
}

// end returns the end of a lease.
func end(now time.Time, lease time.Duration) time.Time {
	if lease == 0 {
		return rows.Forever
	}
	return now.Add(lease)
}

// Log clears the log before it starts, in other transactions, because it may be large.
func (d tables) Log(ctx context.Context, service string, _ []rows.Group) error {
	if err := d.clearLog(ctx, service); err != nil {
		return err
	}
	return d.db.Write(ctx, "copy.log", func(tx *Tx) error {
		c, err := currentTime(tx)
		if err != nil {
			return err
		}
		return setControl(tx, service, []string{"log_until"}, c.Add(rows.LogLease))
	})
}

// currentTime returns the time at the server.
func currentTime(tx *Tx) (now time.Time, err error) {
	err = tx.ForEach(Statement{"copy.time", `SELECT CURRENT_TIMESTAMP()`}, nil, func(r *spanner.Row) error { return r.Columns(&now) })
	return now, err
}

// clearLog may leave entries added while it runs, which is harmless.
func (d tables) clearLog(ctx context.Context, service string) error {
	if err := d.db.enterAlone(ctx); err != nil {
		return err
	}
	defer d.db.leaveAlone()
	return d.deleteAll(ctx, `copy_log WHERE service = @service`, Params{"service": service})
}

// deleteAll uses as many transactions as needed. On an emulator, no other transaction of this process may be open.
func (d tables) deleteAll(ctx context.Context, from string, p Params) error {
	return d.db.UpdateAll(ctx, "copy.delete", `DELETE FROM `+from, p)
}

// KeepLog writes at most once a minute, because the write conflicts with all others.
func (d tables) KeepLog(ctx context.Context, service string) error {
	return d.db.Write(ctx, "copy.keep_log", func(tx *Tx) error {
		c, err := getControl(tx.ForEach, service)
		if err != nil {
			return err
		}
		if c.log.Before(c.now.Add(time.Hour)) {
			return rows.ErrLapsed
		}
		if c.log.After(c.now.Add(rows.LogLease - time.Minute)) {
			return nil
		}
		return setControl(tx, service, []string{"log_until"}, c.now.Add(rows.LogLease))
	})
}

func (d tables) Unlog(ctx context.Context, service string, _ []rows.Group) error {
	if err := d.db.Write(ctx, "copy.unlog", func(tx *Tx) error {
		return setControl(tx, service, []string{"log_until"}, spanner.NullTime{})
	}); err != nil {
		return err
	}
	return d.clearLog(ctx, service)
}

// Slow is unsupported: a write checks permission with a query, not in a trigger.
func (tables) Slow(context.Context, string, time.Duration) error { return errors.ErrUnsupported }

// Close waits for no transaction: those in progress conflict with the new rows and run again.
func (d tables) Close(ctx context.Context, service, holder string, lease time.Duration, _ []rows.Group) error {
	return d.db.Write(ctx, "read_only.close", func(tx *Tx) error {
		c, err := getControl(tx.ForEach, service)
		if err != nil {
			return err
		}
		if c.holder != "" && c.holder != holder {
			return errcode.Newf(errcode.Conflict, "%s is read-only already", service)
		}
		now, err := currentTime(tx) // without a row, c has no time
		if err != nil {
			return err
		}
		since := spanner.NullTime{Time: now, Valid: true}
		if c.holder != "" {
			since = spanner.NullTime{Time: c.since, Valid: !c.since.IsZero()}
		}
		return setControl(tx, service, []string{"holder", "read_only_until", "read_only_since"}, holder, end(now, lease), since)
	})
}

// leaseMargin is the minimum time left on a lease that is prolonged. Otherwise the commit could come after its end.
const leaseMargin = 5 * time.Second

func (d tables) Prolong(ctx context.Context, service, holder string, lease time.Duration) error {
	start := time.Now()
	err := d.db.Write(ctx, "read_only.prolong", func(tx *Tx) error {
		c, err := getControl(tx.ForEach, service)
		if err != nil {
			return err
		}
		if c.holder != holder || c.until.Before(c.now.Add(leaseMargin)) {
			return rows.ErrLapsed
		}
		return setControl(tx, service, []string{"holder", "read_only_until"}, holder, end(c.now, lease))
	})
	if err == nil && time.Since(start) > leaseMargin {
		return rows.ErrLapsed
	}
	return err
}

func (d tables) Reopen(ctx context.Context, service string, _ []rows.Group) error {
	return d.db.Write(ctx, "read_only.reopen", func(tx *Tx) error {
		return setControl(tx, service, []string{"holder", "read_only_until", "read_only_since"}, spanner.NullString{}, spanner.NullTime{}, spanner.NullTime{})
	})
}

func (d tables) ReadOnly(ctx context.Context, service string) (rows.Hold, error) {
	c, err := getControl(func(s Statement, p Params, fn func(*spanner.Row) error) error { return d.db.ForEach(ctx, s, p, fn) }, service)
	if spanner.ErrCode(err) == codes.InvalidArgument && errcode.Is(err, errcode.Unavailable) {
		return rows.Hold{}, nil // no table, or a database that no server of this release has migrated
	}
	if err != nil || c.holder == "" {
		return rows.Hold{}, err
	}
	h := rows.Hold{Holder: c.holder, Since: c.since, Until: c.until}
	if h.Until.Equal(rows.Forever) {
		h.Until = time.Time{}
	}
	return h, nil
}

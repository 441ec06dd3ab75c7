package spannerdb

import (
	"context"
	"fmt"
	"strings"
	"time"

	"cloud.google.com/go/spanner"
	"google.golang.org/grpc/codes"

	"holdfast/internal/errcode"
	"holdfast/internal/work"
)

// Statement is SQL with a name for metrics, e.g. "sync.put".
type Statement struct {
	Name string
	SQL  string
}

// Params are a statement's parameters by name, without "@".
type Params = map[string]any

func (s Statement) with(p Params) spanner.Statement { return spanner.Statement{SQL: s.SQL, Params: p} }

// ForEach calls fn for each row that a query returns on a snapshot.
func (db *DB) ForEach(ctx context.Context, s Statement, p Params, fn func(*spanner.Row) error) error {
	start := time.Now()
	return db.observe(s.Name, start, db.each(ctx, s, p, fn))
}

func (db *DB) each(ctx context.Context, s Statement, p Params, fn func(*spanner.Row) error) error {
	meter := work.Of(ctx)
	meter.Wait()
	defer meter.Resume()
	if err := db.fault(s.Name); err != nil {
		return err
	}
	if err := db.enter(ctx, db.slots); err != nil {
		return err
	}
	defer leave(db.slots)
	ctx, cancel := context.WithTimeout(ctx, db.opts.Timeout)
	defer cancel()
	client := db.client.Load()
	err := client.Single().Query(ctx, s.with(p)).Do(fn)
	db.renew(client, err)
	return err
}

// Tx is a read-write transaction; see DB.Write.
type Tx struct {
	db        *DB
	name      string
	ctx       context.Context
	tx        *spanner.ReadWriteTransaction
	predicted int // mutations

	unpredicted bool // some were not predicted
}

// Write runs fn in a read-write transaction and commits if fn returns nil. If Spanner aborts it, Write calls fn
// again, which must start from scratch.
func (db *DB) Write(ctx context.Context, name string, fn func(*Tx) error) error {
	start := time.Now()
	return db.observe(name, start, db.write(ctx, name, fn))
}

// UpdateAll runs a DML statement as partitioned DML, which has no limit of mutations. The statement is not atomic, may
// run twice for a row, and must be idempotent.
func (db *DB) UpdateAll(ctx context.Context, name, sql string, p Params) error {
	start := time.Now()
	ctx, cancel := context.WithTimeout(ctx, longestMigration)
	defer cancel()
	if err := db.enter(ctx, db.slots); err != nil {
		return err
	}
	defer leave(db.slots)
	err := db.repeatLost(func() error {
		_, err := db.client.Load().PartitionedUpdate(ctx, spanner.Statement{SQL: sql, Params: p})
		return err
	})
	return db.observe(name, start, err)
}

// isLostByEmulator reports whether an emulator aborted the transaction in favor of another process. Spanner returns
// ABORTED instead, and the driver retries.
func isLostByEmulator(err error) bool {
	switch spanner.ErrCode(err) {
	case codes.NotFound:
		return strings.Contains(spanner.ErrDesc(err), "Transaction not found")
	case codes.FailedPrecondition:
		return strings.Contains(spanner.ErrDesc(err), "Invalid transaction ID")
	default:
		return false
	}
}

// enterAlone waits on an emulator until no other multi-statement transaction of this process is open, because a
// read-write transaction ends all others of its session.
func (db *DB) enterAlone(ctx context.Context) error {
	if db.alone == nil {
		return nil
	}
	return db.enter(ctx, db.alone)
}

func (db *DB) leaveAlone() {
	if db.alone != nil {
		leave(db.alone)
	}
}

// repeatLost runs fn again while an emulator lost its transaction.
func (db *DB) repeatLost(fn func() error) error {
	err := fn()
	for db.alone != nil && isLostByEmulator(err) {
		err = fn()
	}
	return err
}

func (db *DB) write(ctx context.Context, name string, fn func(*Tx) error) error {
	meter := work.Of(ctx)
	meter.Wait()
	defer meter.Resume()
	if err := db.enter(ctx, db.slots); err != nil {
		return err
	}
	defer leave(db.slots)
	if err := db.enterAlone(ctx); err != nil {
		return err
	}
	defer db.leaveAlone()
	ctx, cancel := context.WithTimeout(ctx, db.opts.Timeout)
	defer cancel()
	var predicted int
	var unpredicted bool
	client := db.client.Load()
	var answer spanner.CommitResponse
	err := db.repeatLost(func() (err error) {
		answer, err = client.ReadWriteTransactionWithOptions(ctx, func(ctx context.Context, tx *spanner.ReadWriteTransaction) error {
			t := &Tx{db: db, name: name, ctx: ctx, tx: tx}
			if err := fn(t); err != nil {
				return err
			}
			predicted, unpredicted = t.predicted, t.unpredicted
			return db.fault("commit")
		}, spanner.TransactionOptions{
			TransactionTag: name,
			CommitOptions:  spanner.CommitOptions{ReturnCommitStats: db.opts.Mutations != nil},
		})
		return err
	})
	db.renew(client, err)
	if err == nil && db.opts.Mutations != nil && !unpredicted {
		db.opts.Mutations(name, predicted, int(answer.CommitStats.GetMutationCount()))
	}
	return err
}

// ForEach calls fn for every row. The rows stay locked until the commit.
func (tx *Tx) ForEach(s Statement, p Params, fn func(*spanner.Row) error) error {
	if err := tx.db.fault(s.Name); err != nil {
		return err
	}
	return tx.tx.Query(tx.ctx, s.with(p)).Do(fn)
}

// Predict adds mutations that the commit will have, by Spanner's rules for counting; see syncstorage/budget.
func (tx *Tx) Predict(mutations int) { tx.predicted += mutations }

// Predicted returns the sum so far.
func (tx *Tx) Predicted() int { return tx.predicted }

// Buffer adds mutations, sent with the commit in a single message. The transaction's own statements do not see them.
func (tx *Tx) Buffer(ms ...*spanner.Mutation) error { return tx.tx.BufferWrite(ms) }

// Change is a DML statement.
type Change struct {
	Statement
	Params Params
	Rows   int // number of rows that must change; -1 means any number
}

// Exec runs DML statements in one message. It fails if a statement changes another number of rows than expected.
func (tx *Tx) Exec(changes ...Change) error {
	statements := make([]spanner.Statement, len(changes))
	for i, c := range changes {
		if err := tx.db.fault(c.Name); err != nil {
			return err
		}
		statements[i] = c.with(c.Params)
	}
	rows, err := tx.tx.BatchUpdate(tx.ctx, statements)
	if err != nil {
		return err
	}
	for i, c := range changes {
		if c.Rows >= 0 && rows[i] != int64(c.Rows) {
			return errcode.Wrap(errcode.Internal, "internal error", fmt.Errorf("%s has changed %d rows, not %d", c.Name, rows[i], c.Rows))
		}
	}
	return nil
}

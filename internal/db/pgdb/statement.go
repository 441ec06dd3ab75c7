package pgdb

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"holdfast/internal/work"
)

// Statement is SQL with a name for metrics, e.g. "sync.put". It casts its parameters, because not every driver mode
// asks the server for types.
type Statement struct {
	Name string // for metrics and Options.Fault: a constant
	SQL  string // with $1, $2, … and their types, e.g. $1::bigint

	// Key is the number of the parameter with the distribution column, a bigint or UUID: on Citus it selects the node
	// that runs the statement. 0 means none. Without Citus it has no effect, as Wide.
	Key int

	// Wide means that the statement uses every Citus node.
	Wide bool
}

// Unprepared returns args with an instruction for the driver, to be passed in place of args: db.QueryRow(ctx, s,
// Unprepared(a, b), &x), or Unprepared(a, b)... to Exec. The server then plans for actual values: a prepared statement may
// get a generic plan from its sixth call on.
func Unprepared(args ...any) []any { return append([]any{pgx.QueryExecModeExec}, args...) }

// QueryRow scans the first row into dest, as pgx does, and reports whether there was one. Without a row dest keeps its
// values, and there is no error. args may be nil. Their Go types must fit the SQL types: an int for a text is an error.
func (db *DB) QueryRow(ctx context.Context, s Statement, args []any, dest ...any) (found bool, err error) {
	err = db.alone(ctx, s.Name, db.nodeOf(&s, args), func(ctx context.Context, c *pgx.Conn) error {
		found, err = queryOne(ctx, c, s, args, dest)
		return err
	})
	return found, err
}

// Exec runs a statement and returns the number of rows that it changed. Like Tx, the methods for a single statement try
// again after a deadlock or a serialization failure. The server rolled back the failed try, so a statement takes effect
// at most once.
func (db *DB) Exec(ctx context.Context, s Statement, args ...any) (changed int64, err error) {
	err = db.alone(ctx, s.Name, db.nodeOf(&s, args), func(ctx context.Context, c *pgx.Conn) error {
		changed, err = exec(ctx, c, s, args)
		return err
	})
	return changed, err
}

// ForEach scans every row into dest and calls fn, until fn returns an error, which ForEach returns. It calls start, which
// must not be nil, before each try: start must discard earlier rows. fn must not call db.
func (db *DB) ForEach(ctx context.Context, s Statement, args []any, start func(), fn func() error, dest ...any) error {
	return db.alone(ctx, s.Name, db.nodeOf(&s, args), func(ctx context.Context, c *pgx.Conn) error {
		start()
		return queryEach(ctx, c, s, args, fn, dest...)
	})
}

// querier is a connection or a transaction.
type querier interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

// alone runs a statement outside Tx: a transaction by itself. With Options.Fault it uses an explicit transaction, so
// that a test can fail between the statement and the commit.
func (db *DB) alone(ctx context.Context, name string, on *node, fn func(context.Context, *pgx.Conn) error) error {
	return db.run(ctx, name, on, func(ctx context.Context, s *session) error {
		if db.opts.Fault == nil {
			return fn(ctx, s.Conn)
		}
		return db.transaction(ctx, s.Conn, func(pgx.Tx) error {
			if err := db.fault(name); err != nil {
				return err
			}
			return fn(ctx, s.Conn)
		}, func(tx pgx.Tx) error { return tx.Commit(ctx) })
	})
}

// queryOne scans the first row into dest.
func queryOne(ctx context.Context, q querier, s Statement, args, dest []any) (bool, error) {
	rows, err := q.Query(ctx, s.SQL, args...)
	if err != nil {
		return false, err
	}
	defer rows.Close()
	found := rows.Next()
	if found {
		if err := rows.Scan(dest...); err != nil {
			return false, err
		}
		rows.Close() // Err is complete only after Close
	}
	return found, rows.Err()
}

// exec returns the number of changed rows.
func exec(ctx context.Context, q querier, s Statement, args []any) (int64, error) {
	rows, err := q.Query(ctx, s.SQL, args...)
	if err != nil {
		return 0, err
	}
	rows.Close()
	return rows.CommandTag().RowsAffected(), rows.Err()
}

// queryEach scans each row and calls fn.
func queryEach(ctx context.Context, q querier, s Statement, args []any, fn func() error, dest ...any) error {
	rows, err := q.Query(ctx, s.SQL, args...)
	if err != nil {
		return err
	}
	meter, first := work.Of(ctx), true
	_, err = pgx.ForEachRow(rows, dest, func() error {
		if first {
			first = false
			meter.Resume() // from here on, mainly this process does the work
		}
		return fn()
	})
	if !first {
		meter.Wait()
	}
	return err
}

// Tx runs fn in a transaction and commits if fn returns nil; otherwise it rolls back and returns fn's error. After a
// deadlock, a serialization failure, or on Citus a wait for a node, Tx calls fn again, at most five times in all and after
// a pause of up to 50 ms, so fn must start from scratch and have no effect elsewhere. Each try has StatementTimeout. The
// transaction reads committed rows unless the first statement of fn is SET TRANSACTION ISOLATION LEVEL. name is for
// metrics.
//
// fn must return the errors of tx: after a failed statement PostgreSQL refuses the commit. It must not call db, which would
// wait for a second connection. If fn panics, the transaction is rolled back. After Unavailable the commit may have
// succeeded, if the connection was lost or ctx ended meanwhile.
func (db *DB) Tx(ctx context.Context, name string, fn func(tx *Tx) error) error {
	return db.run(ctx, name, nil, func(ctx context.Context, s *session) error {
		t := &Tx{db: db, ctx: ctx, slot: &s.slot}
		err := db.transaction(ctx, s.Conn, func(tx pgx.Tx) error { t.tx = tx; return fn(t) }, t.commit)
		if t.full != nil {
			return t.full
		}
		return err
	})
}

// transaction runs fn and commit, or rolls back.
func (db *DB) transaction(ctx context.Context, c *pgx.Conn, fn func(pgx.Tx) error, commit func(pgx.Tx) error) error {
	tx, err := c.Begin(ctx)
	if err != nil {
		return err
	}
	if err = fn(tx); err == nil {
		err = db.fault("commit")
	}
	if err == nil {
		err = commit(tx)
	}
	if err == nil || errors.Is(err, pgx.ErrTxCommitRollback) {
		return err
	}
	if undo := tx.Rollback(ctx); undo != nil && !errors.Is(undo, pgx.ErrTxClosed) {
		// The server also rolls back when the connection closes, and the pool closes connections returned inside a
		// transaction.
		return errors.Join(err, undo)
	}
	return err
}

// Tx is a transaction; see DB.Tx. Its methods are like the methods of DB with the same name, without retries, and use the
// context of DB.Tx. Their errors get an errcode only when DB.Tx returns; IsState accepts them before. A Tx is not safe for
// concurrent use, and not valid after fn returned.
type Tx struct {
	db  *DB
	ctx context.Context
	tx  pgx.Tx

	queued pgx.Batch  // see Queue
	slot   *nodeSlot  // on the first node that a statement names
	full   *fullError // the node is full: DB.retry starts again with its slot
}

// Queue adds a statement whose result does not matter. It saves a round trip: the next statement or the commit sends
// it and returns its error. Slices in args must not change until then. Queued statements run in order.
func (tx *Tx) Queue(s Statement, args ...any) error {
	if err := tx.enter(&s, tx.db.nodeOf(&s, args)); err != nil {
		return err
	}
	tx.queued.Queue(s.SQL, args...)
	return nil
}

// flush sends the queued statements.
func (tx *Tx) flush() error {
	if tx.queued.Len() == 0 {
		return nil
	}
	batch := tx.queued
	tx.queued = pgx.Batch{}
	return tx.tx.SendBatch(tx.ctx, &batch).Close()
}

// commit sends the queued statements and the commit in one message.
func (tx *Tx) commit(t pgx.Tx) error {
	if tx.queued.Len() == 0 {
		return t.Commit(tx.ctx)
	}
	tx.queued.Queue("commit").Exec(func(tag pgconn.CommandTag) error {
		if tag.String() == "ROLLBACK" {
			return pgx.ErrTxCommitRollback
		}
		return nil
	})
	return tx.flush()
}

// enter takes a slot on the statement's node, unless the transaction has one.
func (tx *Tx) enter(s *Statement, on *node) error {
	if err := tx.slot.take(on); err != nil {
		tx.full, _ = errors.AsType[*fullError](err)
		return err
	}
	return tx.db.fault(s.Name)
}

// ready prepares for a statement with a result: the queued ones must have succeeded before.
func (tx *Tx) ready(s *Statement, on *node) error {
	if err := tx.flush(); err != nil {
		return err
	}
	return tx.enter(s, on)
}

func (tx *Tx) QueryRow(s Statement, args []any, dest ...any) (found bool, err error) {
	if err := tx.ready(&s, tx.db.nodeOf(&s, args)); err != nil {
		return false, err
	}
	return queryOne(tx.ctx, tx.tx, s, args, dest)
}

func (tx *Tx) Exec(s Statement, args ...any) (changed int64, err error) {
	if err := tx.ready(&s, tx.db.nodeOf(&s, args)); err != nil {
		return 0, err
	}
	return exec(tx.ctx, tx.tx, s, args)
}

func (tx *Tx) Call(s Statement, a *Args) (result []int64, err error) {
	if err := tx.ready(&s, tx.db.nodeOfCall(&s, a)); err != nil {
		return nil, err
	}
	return call(tx.ctx, tx.tx.Conn(), s, a, tx.db.prepares)
}

// ForEach scans every row into dest and calls fn, which may not run other statements.
func (tx *Tx) ForEach(s Statement, args []any, fn func() error, dest ...any) error {
	if err := tx.ready(&s, tx.db.nodeOf(&s, args)); err != nil {
		return err
	}
	return queryEach(tx.ctx, tx.tx, s, args, fn, dest...)
}

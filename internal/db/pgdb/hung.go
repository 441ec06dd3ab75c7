package pgdb

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"holdfast/internal/clock"
)

// pulse knows whether the server answers. A busy server keeps requests waiting, too, but it ends statements, and it
// answers a question on a connection of its own.
type pulse struct {
	life  context.Context
	limit time.Duration // without an answer, until the server is taken for hung
	ask   func(context.Context) error

	answered atomic.Int64 // end of the latest statement, in nanoseconds since 1970
	silent   atomic.Bool  // the latest question was not answered

	mu     sync.Mutex
	asking bool
}

// Hung reports whether the server does not answer: no statement has ended for Options.ConnectTimeout, and a new
// connection has got no answer. The first call after a third of that time without an answer only starts the question.
func (db *DB) Hung() bool { return db.pulse.hung(time.Now()) }

// beat records an answer.
func (p *pulse) beat() {
	p.answered.Store(time.Now().UnixNano())
}

func (p *pulse) hung(now time.Time) bool {
	quiet := now.Sub(time.Unix(0, p.answered.Load()))
	if quiet < p.limit/3 {
		return false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.asking {
		p.asking = true
		go p.examine()
	}
	return p.silent.Load() && quiet >= p.limit
}

// examine asks until the server answers.
func (p *pulse) examine() {
	for {
		ctx, cancel := context.WithTimeout(p.life, p.limit/2)
		err := p.ask(ctx)
		silent := err != nil && ctx.Err() != nil && p.life.Err() == nil // a refusal is an answer
		cancel()
		p.mu.Lock()
		p.silent.Store(silent)
		p.asking = silent
		p.mu.Unlock()
		if !silent || !clock.Sleep(p.life, min(p.limit/3, probePause)) {
			return
		}
	}
}

// ask sends a statement on a connection of its own, because all connections of the pool may wait.
func (db *DB) ask(ctx context.Context) error {
	conn, err := pgx.ConnectConfig(ctx, db.pool.Config().ConnConfig)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(ctx) }() // best effort
	_, err = conn.Exec(ctx, `SELECT 1`, pgx.QueryExecModeSimpleProtocol)
	return err
}

// answers reports whether a statement has ended because the server has answered it.
func answers(err error) bool {
	_, refused := errors.AsType[*pgconn.PgError](err)
	return err == nil || refused
}

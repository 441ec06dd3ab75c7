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

// pulse distinguishes a hung server from a busy server, which also makes requests wait, but finishes statements and
// answers a probe.
type pulse struct {
	life  context.Context
	limit time.Duration               // Options.ConnectTimeout
	ask   func(context.Context) error // sends a probe on a new connection

	answered atomic.Int64 // end of the latest statement, Unix nanoseconds
	silent   atomic.Bool  // the latest probe got no answer

	mu     sync.Mutex
	asking bool // a goroutine probes
}

// Hung reports whether no statement finished within Options.ConnectTimeout and a new connection got no answer.
func (db *DB) Hung() bool { return db.pulse.hung(time.Now()) }

// beat records that a statement ended.
func (p *pulse) beat() {
	p.answered.Store(time.Now().UnixNano())
}

// hung starts a probe if no statement ended for a third of the limit, so that its result is known at the limit.
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

// examine probes until the server answers.
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

// ask uses a new connection, because all callers of the pool may be waiting.
func (db *DB) ask(ctx context.Context) error {
	conn, err := pgx.ConnectConfig(ctx, db.pool.Config().ConnConfig)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(ctx) }()
	_, err = conn.Exec(ctx, `SELECT 1`, pgx.QueryExecModeSimpleProtocol)
	return err
}

// answers reports whether the server answered, even with an error.
func answers(err error) bool {
	_, refused := errors.AsType[*pgconn.PgError](err)
	return err == nil || refused
}

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
	limit time.Duration
	ask   func(context.Context) error

	answered atomic.Int64 // end of the latest statement, Unix nanoseconds
	silent   atomic.Bool

	mu     sync.Mutex
	asking bool
}

// Hung reports whether no statement finished within Options.ConnectTimeout and a new connection got no answer.
func (db *DB) Hung() bool { return db.pulse.hung(time.Now()) }

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

func answers(err error) bool {
	_, refused := errors.AsType[*pgconn.PgError](err)
	return err == nil || refused
}

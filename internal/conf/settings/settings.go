// Package settings defines settings that services embed in their Config, with shared names, defaults and checks.
package settings

import (
	"time"

	"holdfast/internal/conf"
)

// Database says which database a service uses, and how. Package engine opens it.
type Database struct {
	DatabaseURL           string        `toml:"database_url" secret:"true" doc:"Database URL: sqlite:PATH, postgres://user@host/database (also a Citus cluster) or, for syncstorage only, spanner://projects/P/instances/I/databases/D. Empty: a SQLite file in the data folder, named after the service."`
	PoolMaxSize           int           `toml:"database_pool_max_size" doc:"Maximum number of PostgreSQL connections, or concurrent Spanner transactions."`
	PoolConnectionTimeout time.Duration `toml:"database_pool_connection_timeout" doc:"Maximum wait for a database connection (Spanner: for a transaction) or a busy Citus worker. After it, the request gets 503."`
	StatementTimeout      time.Duration `toml:"database_statement_timeout" doc:"Time limit for a PostgreSQL statement with lock waits, or a Spanner transaction with retries. After it, the request gets 503. It also limits waiting for a turn at the database; if PostgreSQL does not answer, database_pool_connection_timeout does."`
	PoolLifespan          time.Duration `toml:"database_pool_connection_lifespan" doc:"Replace PostgreSQL connections at this age. 0: an hour."`
	PoolMaxIdle           time.Duration `toml:"database_pool_connection_max_idle" doc:"Close PostgreSQL connections that are idle this long. 0: 30 minutes."`
}

// DefaultDatabase selects a SQLite file.
func DefaultDatabase() Database {
	return Database{PoolMaxSize: 10, PoolConnectionTimeout: 3 * time.Second, StatementTimeout: 30 * time.Second}
}

// Check returns problems with keys relative to the service's section.
func (d *Database) Check() (problems conf.Problems) {
	if d.PoolMaxSize < 1 {
		problems.Addf("database_pool_max_size", "must be at least 1")
	}
	positive(&problems, "database_pool_connection_timeout", d.PoolConnectionTimeout)
	positive(&problems, "database_statement_timeout", d.StatementTimeout)
	notNegative(&problems, "database_pool_connection_lifespan", d.PoolLifespan)
	notNegative(&problems, "database_pool_connection_max_idle", d.PoolMaxIdle)
	return problems
}

// Sweep configures when a service deletes expired data.
type Sweep struct {
	SweepEvery time.Duration `toml:"sweep_interval" doc:"How often to delete expired data; processes that share a database take turns. 0: only with holdfast sweep. No effect on Spanner, which deletes expired data itself."`
	SweepAfter time.Duration `toml:"sweep_after" doc:"Delete data this long after it expires. Expired data is invisible at once, so a clock wrong by less than this destroys nothing. No effect on Spanner."`
	SweepLimit int           `toml:"sweep_limit" unit:"rows" doc:"Maximum number of rows deleted per step. No effect on Spanner."`
}

// DefaultSweep deletes data a day after its expiry, because a clock with the wrong time zone is off by less than a
// day.
func DefaultSweep() Sweep {
	return Sweep{SweepEvery: 5 * time.Minute, SweepAfter: 24 * time.Hour, SweepLimit: 500}
}

// Check returns problems with keys relative to the service's section.
func (s *Sweep) Check() (problems conf.Problems) {
	notNegative(&problems, "sweep_interval", s.SweepEvery)
	notNegative(&problems, "sweep_after", s.SweepAfter)
	if s.SweepLimit < 1 {
		problems.Addf("sweep_limit", "must be at least 1")
	}
	return problems
}

// positive adds a problem unless d is above 0.
func positive(p *conf.Problems, key string, d time.Duration) {
	if d <= 0 {
		p.Addf(key, "must be more than 0")
	}
}

// notNegative adds a problem if d is below 0.
func notNegative(p *conf.Problems, key string, d time.Duration) {
	if d < 0 {
		p.Addf(key, "must not be negative")
	}
}

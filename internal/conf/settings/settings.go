// Package settings defines settings that services embed in their Config, with shared names, defaults and checks.
package settings

import (
	"time"

	"holdfast/internal/conf"
)

// Database configures a service's database and connections.
type Database struct {
	DatabaseURL           string        `toml:"database_url" secret:"true" doc:"Database of the service: sqlite:PATH, postgres://user@host/database (also a Citus cluster) or, for syncstorage only, spanner://projects/P/instances/I/databases/D. Empty: a SQLite file in the data folder, named after the service."`
	PoolMaxSize           int           `toml:"database_pool_max_size" doc:"Maximum number of PostgreSQL connections; on Spanner, of concurrent transactions."`
	PoolConnectionTimeout time.Duration `toml:"database_pool_connection_timeout" doc:"How long a request waits for a connection (on Spanner: for a transaction), or for a worker of Citus that is busy, before it gets 503."`
	StatementTimeout      time.Duration `toml:"database_statement_timeout" doc:"How long a PostgreSQL statement may take, lock waits included, or a Spanner transaction with its retries, before the request gets 503. A request also waits at most this long for its turn at the database, and no longer than database_pool_connection_timeout if PostgreSQL does not answer."`
	PoolLifespan          time.Duration `toml:"database_pool_connection_lifespan" doc:"Age at which a PostgreSQL connection is replaced. 0: an hour."`
	PoolMaxIdle           time.Duration `toml:"database_pool_connection_max_idle" doc:"How long a PostgreSQL connection may be idle before it is closed. 0: 30 minutes."`
}

// DefaultDatabase selects the embedded database.
func DefaultDatabase() Database {
	return Database{PoolMaxSize: 10, PoolConnectionTimeout: 3 * time.Second, StatementTimeout: 30 * time.Second}
}

// Check validates the settings.
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
	SweepEvery time.Duration `toml:"sweep_interval" doc:"How often expired data is deleted, by one of the processes that share the database. 0: only by holdfast sweep. No effect on Spanner, which deletes it itself."`
	SweepAfter time.Duration `toml:"sweep_after" doc:"How long after its expiry data is deleted. Until then it is only invisible, so a clock that is wrong by less than this destroys nothing. No effect on Spanner."`
	SweepLimit int           `toml:"sweep_limit" unit:"rows" doc:"Maximum number of rows that one step of a sweep deletes. No effect on Spanner."`
}

// DefaultSweep deletes data a day after its expiry, because a clock with the wrong time zone is off by less than a
// day.
func DefaultSweep() Sweep {
	return Sweep{SweepEvery: 5 * time.Minute, SweepAfter: 24 * time.Hour, SweepLimit: 500}
}

// Check validates the settings.
func (s *Sweep) Check() (problems conf.Problems) {
	notNegative(&problems, "sweep_interval", s.SweepEvery)
	notNegative(&problems, "sweep_after", s.SweepAfter)
	if s.SweepLimit < 1 {
		problems.Addf("sweep_limit", "must be at least 1")
	}
	return problems
}

func positive(p *conf.Problems, key string, d time.Duration) {
	if d <= 0 {
		p.Addf(key, "must be more than 0")
	}
}

func notNegative(p *conf.Problems, key string, d time.Duration) {
	if d < 0 {
		p.Addf(key, "must not be negative")
	}
}

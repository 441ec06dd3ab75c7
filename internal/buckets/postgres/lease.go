package postgres

import (
	"context"
	"time"

	"holdfast/internal/buckets"
	"holdfast/internal/db/pgdb"
)

const leaseEnd = `clock_timestamp() + $4::bigint * interval '1 microsecond'`

var (
	// If a lease ends later than a new lease would, it was granted before the clock was set back. clock_timestamp
	// returns the current time even after waiting for a lock.
	sqlLease = pgdb.Statement{Name: "buckets.lease", SQL: `
		INSERT INTO manta_bucket_lease AS l (name, holder, process, expires) VALUES ($1::text, $2::text, $3::text, ` + leaseEnd + `)
		ON CONFLICT (name) DO UPDATE SET holder = EXCLUDED.holder, process = EXCLUDED.process, expires = ` + leaseEnd + `
		WHERE l.holder = EXCLUDED.holder OR l.expires <= clock_timestamp() OR l.expires > ` + leaseEnd}
	sqlLeased = pgdb.Statement{Name: "buckets.leased", SQL: `
		SELECT holder, process, (extract(epoch FROM expires - clock_timestamp()) * 1000000)::bigint FROM manta_bucket_lease WHERE name = $1::text`}
	sqlEndLease = pgdb.Statement{Name: "buckets.end_lease", SQL: `DELETE FROM manta_bucket_lease WHERE name = $1::text AND holder = $2::text`}
)

// Lease implements buckets.Leases.
func (s *Store) Lease(ctx context.Context, l buckets.Lease) (buckets.Lease, error) {
	for {
		n, err := s.db.Exec(ctx, sqlLease, l.Name, l.Holder, l.Process, l.Left.Microseconds())
		if err != nil || n > 0 {
			return l, err
		}
		other := buckets.Lease{Name: l.Name}
		var left int64
		found, err := s.db.QueryRow(ctx, sqlLeased, []any{l.Name}, &other.Holder, &other.Process, &left)
		other.Left = time.Duration(left) * time.Microsecond
		if err != nil || found && other.Left > 0 {
			return other, err
		}
	}
}

// EndLease implements buckets.Leases.
func (s *Store) EndLease(ctx context.Context, name, holder string) error {
	_, err := s.db.Exec(ctx, sqlEndLease, name, holder)
	return err
}

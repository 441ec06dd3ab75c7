package postgres

import (
	"context"
	"time"

	"holdfast/internal/db/pgdb"
	"holdfast/internal/guest/tenants"
	"holdfast/internal/inbox"
	inboxpg "holdfast/internal/inbox/postgres"
)

var received = inboxpg.New("bff_consumer.inbox")

var (
	sqlClock       = pgdb.Statement{Name: "guest.clock", SQL: `SELECT clock_timestamp()`}
	sqlSuspended   = pgdb.Statement{Name: "guest.suspended", SQL: `SELECT suspended FROM bff_consumer.tenant_suspended_cache WHERE tenant_id = $1`}
	sqlSuspensions = pgdb.Statement{Name: "guest.suspended_tenants", SQL: `
		SELECT tenant_id::text, suspended, reason, last_event_at, last_event_id FROM bff_consumer.tenant_suspended_cache
		WHERE (suspended OR $1::boolean) AND tenant_id > coalesce(nullif($2::text, ''), '00000000-0000-0000-0000-000000000000')::uuid
		ORDER BY tenant_id LIMIT nullif($3::bigint, 0)`}
	// sqlSetSuspension implements tenants.Suspension.NewerThan. A transaction that waited for another event about the
	// tenant compares with the new row.
	sqlSetSuspension = pgdb.NewNamed(pgdb.Statement{Name: "guest.set_suspension", SQL: `
		INSERT INTO bff_consumer.tenant_suspended_cache AS t
			(tenant_id, suspended, suspended_at, reason, last_event_at, last_event_id, refreshed_at)
			VALUES (@tenant, @suspended, @at, @reason, @at, @event, @now)
		ON CONFLICT (tenant_id) DO UPDATE SET suspended = excluded.suspended, reason = excluded.reason,
			suspended_at = CASE WHEN excluded.suspended THEN excluded.suspended_at ELSE t.suspended_at END,
			last_event_at = excluded.last_event_at, last_event_id = excluded.last_event_id, refreshed_at = excluded.refreshed_at
		WHERE (excluded.last_event_at, excluded.last_event_id) > (t.last_event_at, t.last_event_id)`}, suspension.args)
)

// Receive implements tenants.Store.
func (s *Store) Receive(ctx context.Context, e inbox.Event, state tenants.Suspension) (result inbox.Result, err error) {
	err = s.db.Tx(ctx, "guest.receive", func(t *pgdb.Tx) error {
		var now time.Time
		if _, err := t.QueryRow(sqlClock, nil, &now); err != nil {
			return err
		}
		result, err = received.Receive(t, &e, now, func() (bool, error) {
			n, err := t.Exec(sqlSetSuspension.Statement, sqlSetSuspension.Args(suspension{state, now})...)
			return n == 1, err
		})
		return err
	})
	return result, err
}

// suspension holds the parameters for a suspension.
type suspension struct {
	tenants.Suspension
	now time.Time
}

// args names and orders the parameters for pgdb.
func (s suspension) args() []pgdb.Arg {
	return []pgdb.Arg{
		{Param: "tenant", Value: s.Tenant},
		{Param: "suspended", Value: s.Suspended},
		{Param: "reason", Value: s.Reason},
		{Param: "at", Value: s.At},
		{Param: "event", Value: s.Event},
		{Param: "now", Value: s.now},
	}
}

// Quarantine implements tenants.Store.
func (s *Store) Quarantine(ctx context.Context, e inbox.Event, reason string) error {
	return s.db.Tx(ctx, "guest.quarantine", func(t *pgdb.Tx) error {
		var now time.Time
		if _, err := t.QueryRow(sqlClock, nil, &now); err != nil {
			return err
		}
		return received.Quarantine(t, &e, reason, now)
	})
}

// Quarantined implements tenants.Store.
func (s *Store) Quarantined(ctx context.Context, limit int) ([]inbox.Quarantine, error) {
	return received.Quarantined(ctx, s.db, limit)
}

// Suspended implements tenants.Store.
func (s *Store) Suspended(ctx context.Context, tenant string) (yes bool, err error) {
	_, err = s.db.QueryRow(ctx, sqlSuspended, []any{tenant}, &yes)
	return yes, err
}

// SuspendedTenants implements tenants.Store.
func (s *Store) SuspendedTenants(ctx context.Context, after string, limit int) ([]tenants.Suspension, error) {
	return s.suspensions(ctx, false, after, limit)
}

// TenantStates implements tenants.Store.
func (s *Store) TenantStates(ctx context.Context) ([]tenants.Suspension, error) {
	return s.suspensions(ctx, true, "", 0)
}

// suspensions reads tenants after a tenant, with reinstated ones if wanted.
func (s *Store) suspensions(ctx context.Context, reinstated bool, after string, limit int) (all []tenants.Suspension, err error) {
	var row tenants.Suspension
	err = s.db.ForEach(ctx, sqlSuspensions, []any{reinstated, after, limit}, func() { all = nil }, func() error {
		row.At = row.At.UTC()
		all = append(all, row)
		return nil
	}, &row.Tenant, &row.Suspended, &row.Reason, &row.At, &row.Event)
	return all, err
}

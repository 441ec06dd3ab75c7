package sqlite

import (
	"context"
	"time"

	"zombiezen.com/go/sqlite"

	"holdfast/internal/db/sqlitedb"
	"holdfast/internal/guest/tenants"
	"holdfast/internal/inbox"
	inboxsqlite "holdfast/internal/inbox/sqlite"
)

var received = inboxsqlite.New("bff_consumer_inbox")

const (
	sqlSuspended   = `SELECT suspended FROM bff_consumer_tenant_suspended_cache WHERE tenant_id = ?`
	sqlSuspensions = `SELECT tenant_id, suspended, reason, last_event_at, last_event_id FROM bff_consumer_tenant_suspended_cache
		WHERE (suspended OR ?1) AND tenant_id > ?2 ORDER BY tenant_id LIMIT CASE WHEN ?3 = 0 THEN -1 ELSE ?3 END`
	// sqlSetSuspension implements tenants.Suspension.NewerThan.
	sqlSetSuspension = `INSERT INTO bff_consumer_tenant_suspended_cache AS t
		(tenant_id, suspended, suspended_at, reason, last_event_at, last_event_id, refreshed_at) VALUES (?1, ?2, ?4, ?3, ?4, ?5, ?6)
		ON CONFLICT (tenant_id) DO UPDATE SET suspended = excluded.suspended, reason = excluded.reason,
			suspended_at = CASE WHEN excluded.suspended THEN excluded.suspended_at ELSE t.suspended_at END,
			last_event_at = excluded.last_event_at, last_event_id = excluded.last_event_id, refreshed_at = excluded.refreshed_at
		WHERE (excluded.last_event_at, excluded.last_event_id) > (t.last_event_at, t.last_event_id)`
)

// Receive implements tenants.Store.
func (s *Store) Receive(ctx context.Context, e inbox.Event, state tenants.Suspension) (result inbox.Result, err error) {
	err = s.db.Write(ctx, "receive", func(c *sqlite.Conn) error {
		now := s.now()
		result, err = received.Receive(c, &e, now, func() (bool, error) {
			err := sqlitedb.Exec(c, sqlSetSuspension, state.Tenant, state.Suspended, state.Reason, state.At.UnixMicro(), state.Event, now.UnixMicro())
			return c.Changes() == 1, err
		})
		return err
	})
	return result, err
}

// Quarantine implements tenants.Store.
func (s *Store) Quarantine(ctx context.Context, e inbox.Event, reason string) error {
	return s.db.Write(ctx, "quarantine", func(c *sqlite.Conn) error { return received.Quarantine(c, &e, reason, s.now()) })
}

// Quarantined implements tenants.Store.
func (s *Store) Quarantined(ctx context.Context, limit int) (all []inbox.Quarantine, err error) {
	err = s.db.Read(ctx, "quarantined", func(c *sqlite.Conn) error {
		all, err = received.Quarantined(c, limit)
		return err
	})
	return all, err
}

// suspended returns false for an unknown tenant.
func suspended(c *sqlite.Conn, tenant string) (bool, error) {
	yes, _, err := sqlitedb.QueryRow(c, sqlSuspended, func(r *sqlite.Stmt) bool { return r.ColumnBool(0) }, tenant)
	return yes, err
}

// Suspended implements tenants.Store.
func (s *Store) Suspended(ctx context.Context, tenant string) (yes bool, err error) {
	err = s.db.Read(ctx, "suspended", func(c *sqlite.Conn) error {
		yes, err = suspended(c, tenant)
		return err
	})
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
	err = s.db.Read(ctx, "suspended_tenants", func(c *sqlite.Conn) error {
		all, err = sqlitedb.QueryAll(c, sqlSuspensions, func(r *sqlite.Stmt) tenants.Suspension {
			return tenants.Suspension{
				Tenant: r.ColumnText(0), Suspended: r.ColumnBool(1), Reason: r.ColumnText(2), At: time.UnixMicro(r.ColumnInt64(3)).UTC(), Event: r.ColumnText(4),
			}
		}, reinstated, after, limit)
		return err
	})
	return all, err
}

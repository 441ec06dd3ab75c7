package postgres

import (
	"context"
	"encoding/json"
	"errors"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"holdfast/internal/db/pgdb"
	ext "holdfast/internal/extstorage"
)

var (
	sqlClose = pgdb.Statement{Name: "ext.close", Key: 1, SQL: `
		SELECT ext_close_v1(p_tenant => $1::uuid, p_install => $2::uuid, p_now => $3::timestamptz)`}

	sqlDelete = pgdb.NewNamed(pgdb.Statement{Name: "ext.delete_some", Key: 1, SQL: `SELECT ext_delete_v1(...)`}, deletion.args)
	sqlReopen = pgdb.Statement{Name: "ext.reopen", Key: 1, SQL: `
		SELECT ext_reopen_v1(p_tenant => $1::uuid, p_install => $2::uuid, p_now => $3::timestamptz)`}

	// sqlNextInstall searches every table, because damaged or old data may lack counters.
	sqlNextInstall = pgdb.Statement{Name: "ext.next_install", Key: 1, SQL: `
		SELECT extension_install_id::text FROM (` + eachTable(func(table string) string {
		return `(SELECT extension_install_id FROM ` + table + `
			WHERE tenant_id = $1::uuid AND extension_install_id > $2::uuid ORDER BY extension_install_id LIMIT 1)`
	}) + `) o ORDER BY extension_install_id LIMIT 1`}

	sqlHoldings       = holdings(`tenant_id = $1::uuid AND extension_install_id = $2::uuid`)
	sqlTenantHoldings = holdings(`tenant_id = $1::uuid AND $2::uuid IS NOT NULL`)
)

// eachTable repeats a query for each table with an owner.
func eachTable(query func(table string) string) string {
	var queries []string
	for _, table := range ext.OwnedTables() {
		queries = append(queries, query(table))
	}
	return strings.Join(queries, ` UNION ALL `)
}

// holdings counts an install's or a tenant's rows in each table, as whose selects.
func holdings(whose string) pgdb.Statement {
	count := func(columns, table string) string {
		return ` UNION ALL SELECT ` + columns + ` FROM ` + table + ` WHERE ` + whose
	}
	return pgdb.Statement{Name: "ext.holdings", Key: 1, SQL: `
		SELECT 0::bigint, count(*), coalesce(sum(value_bytes::bigint + metadata_bytes), 0)::bigint, 0::bigint, 0::bigint, 0::bigint, 0::bigint
		FROM ext_storage_records WHERE ` + whose +
		count(`0, 0, 0, count(*), 0, 0, 0`, `ext_storage_schemas`) +
		count(`0, 0, 0, 0, count(*), 0, 0`, `ext_storage_changes`) +
		count(`0, 0, 0, 0, 0, count(*), 0`, `ext_storage_answers`) +
		count(`0, 0, 0, 0, 0, 0, count(*)`, `ext_storage_revoked_tokens`) + `
		UNION ALL
		SELECT count(DISTINCT extension_install_id), 0, 0, 0, 0, 0, 0 FROM (
			SELECT extension_install_id FROM ext_storage_usage WHERE ` + whose + ` AND closed_seq IS NULL
			UNION ALL
			SELECT extension_install_id FROM ext_storage_installs WHERE ` + whose + ` AND deleted_at IS NULL
		) i WHERE extension_install_id <> '00000000-0000-0000-0000-000000000000'`}
}

// refusedClosed recognizes the errors by which functions refuse a deleted install.
func refusedClosed(err error) error {
	pg, ok := errors.AsType[*pgconn.PgError](err)
	// On Citus the constraint name ends with the shard number.
	if ok && (pg.Code == "HF410" || pg.Code == "23514" && strings.HasPrefix(pg.ConstraintName, "ext_storage_usage_closed")) {
		return ext.ErrInstallDeleted
	}
	return err
}

// deletion runs a statement that returns a deletion as JSON, or NULL.
func (s *Store) deletion(ctx context.Context, st pgdb.Statement, args ...any) (d ext.Deletion, found bool, err error) {
	var text []byte
	if _, err := s.db.QueryRow(ctx, st, args, &text); err != nil || text == nil {
		return d, false, err
	}
	answer := struct {
		StartedAt  ext.Moment   `json:"startedAt"`
		FinishedAt ext.Moment   `json:"finishedAt"`
		Deleted    ext.Holdings `json:"deleted"`
	}{}
	if err := json.Unmarshal(text, &answer); err != nil {
		return d, false, unexpected(text)
	}
	return ext.Deletion(answer), true, nil
}

// Close implements extstorage.Deletions.
func (s *Store) Close(ctx context.Context, o ext.Owner, at ext.Moment) (ext.Deletion, error) {
	if err := o.Check(); err != nil {
		return ext.Deletion{}, err
	}
	d, _, err := s.deletion(ctx, sqlClose, string(o.Tenant), string(o.Install), now(at))
	return d, err
}

// DeleteSome implements extstorage.Deletions.
func (s *Store) DeleteSome(ctx context.Context, o ext.Owner, step ext.DeleteStep) (ext.Deletion, error) {
	if err := o.Check(); err != nil {
		return ext.Deletion{}, err
	}
	d, found, err := s.deletion(ctx, sqlDelete.Statement, sqlDelete.Args(deletion{o, step.Limited()})...)
	switch {
	case err != nil:
		return ext.Deletion{}, err
	case !found:
		return ext.Deletion{}, ext.ErrNotClosed
	case d.FinishedAt != 0:
		s.waker.Wake(string(o.Tenant), string(o.Install))
	}
	return d, nil
}

// deletion holds the parameters for ext_delete_v1.
type deletion struct {
	owner ext.Owner
	ext.DeleteStep
}

// args names and orders the parameters for pgdb.
func (d deletion) args() []pgdb.Arg {
	return []pgdb.Arg{
		tenant(d.owner), install(d.owner),
		{Param: "p_now timestamptz", Value: now(d.Now)},
		{Param: "p_rows bigint", Value: d.Rows},
		{Param: "p_bytes bigint", Value: d.Bytes},
		{Param: "p_kept_until timestamptz", Value: now(d.KeptUntil)},
		{Param: "p_caller text", Value: ext.JSONString(d.Caller.Kind)},
		{Param: "p_caller_id text", Value: ext.JSONString(d.Caller.ID)},
	}
}

// NextInstall implements extstorage.Deletions.
func (s *Store) NextInstall(ctx context.Context, t ext.TenantID, after ext.InstallID) (id ext.InstallID, err error) {
	if err := ext.Services(t).Check(); err != nil {
		return "", err
	}
	_, err = s.db.QueryRow(ctx, sqlNextInstall, []any{string(t), string(after)}, &id)
	return id, err
}

// Holdings implements extstorage.Deletions.
func (s *Store) Holdings(ctx context.Context, o ext.Owner) (h ext.Holdings, err error) {
	if err := o.Check(); err != nil {
		return ext.Holdings{}, err
	}
	st := sqlHoldings
	if o == ext.Services(o.Tenant) {
		st = sqlTenantHoldings
	}
	var part ext.Holdings
	err = s.db.ForEach(ctx, st, []any{string(o.Tenant), string(o.Install)}, func() { h = ext.Holdings{} }, func() error {
		h.Add(part)
		return nil
	}, &part.Installs, &part.Records, &part.Bytes, &part.Schemas, &part.Changes, &part.Answers, &part.Tokens)
	if o != ext.Services(o.Tenant) {
		h.Installs = 0
	}
	return h, err
}

// Reopen implements extstorage.Deletions.
func (s *Store) Reopen(ctx context.Context, o ext.Owner, at ext.Moment) (reopened bool, err error) {
	if err := o.Check(); err != nil {
		return false, err
	}
	_, err = s.db.QueryRow(ctx, sqlReopen, []any{string(o.Tenant), string(o.Install), now(at)}, &reopened)
	return reopened, refusedClosed(err)
}

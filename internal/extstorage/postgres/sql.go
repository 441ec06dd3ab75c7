package postgres

import (
	"strings"

	"holdfast/internal/db/pgdb"
	ext "holdfast/internal/extstorage"
)

// Citus delegates a function call to the tenant's node only if the SELECT contains nothing else, so calls are never
// in FROM.
var (
	sqlApply    = pgdb.NewNamed(pgdb.Statement{Name: "ext.apply", Key: 1, SQL: `SELECT ext_apply_v2(...)`}, applying.args)
	sqlApplyAll = pgdb.NewNamed(pgdb.Statement{Name: "ext.apply_all", Key: 1, SQL: `SELECT ext_apply_all_v2(...)`}, applyingAll.args)

	// sqlLock locks an install while the transaction computes. The lock is released if the process dies.
	sqlLock = pgdb.Statement{Name: "ext.lock", Key: 1, SQL: `
		SELECT set_config('idle_in_transaction_session_timeout', '5s', true), (ext_lock_v1(p_tenant => $1::uuid, p_install => $2::uuid, p_now => $3::timestamptz)).seq`}
)

var (
	// sqlRaiseFloors is a statement of its own, because Citus cannot update from a correlated subquery.
	sqlRaiseFloors = pgdb.Statement{Name: "ext.raise_floors", Wide: true, SQL: `
		UPDATE ext_storage_usage u SET schema_floor = s.newest
		FROM (SELECT tenant_id, extension_install_id, max(schema_version) AS newest FROM ext_storage_schemas GROUP BY tenant_id, extension_install_id) s
		WHERE s.tenant_id = u.tenant_id AND s.extension_install_id = u.extension_install_id AND u.schema_floor < s.newest`}
	sqlSkipChanges = pgdb.Statement{Name: "ext.skip_changes", Wide: true, SQL: `
		UPDATE ext_storage_usage SET change_seq = change_seq + $1::bigint, closed_seq = closed_seq + $1::bigint, floor_seq = change_seq + $1::bigint,
			schema_floor = least(schema_floor + $2::bigint, 2147483647)`}
	sqlRaiseFirst = pgdb.Statement{Name: "ext.raise_first", SQL: `UPDATE ext_storage_floor SET seq = seq + $1::bigint`}
	sqlLeap       = pgdb.Statement{Name: "ext.leap", Key: 1, SQL: `
		SELECT ext_leap_v1(p_tenant => $1::uuid, p_install => $2::uuid, p_now => $3::timestamptz, p_after => $4::bigint)`}
	sqlRestore       = pgdb.NewNamed(pgdb.Statement{Name: "ext.restore", Key: 1, SQL: `SELECT ext_restore_v1(...)`}, restored.args)
	sqlRestoreSchema = pgdb.NewNamed(pgdb.Statement{Name: "ext.restore_schema", Key: 1, SQL: `SELECT ext_restore_schema_v1(...)`}, restoredSchema.args)
	sqlExportSchemas = pgdb.Statement{Name: "ext.export_schemas", Key: 1, SQL: `
		SELECT namespace, schema_version, status, created_at, updated_at, coalesce(created_by::text, ''), schema_document::text
		FROM ext_storage_schemas
		WHERE tenant_id = $1::uuid AND extension_install_id = $2::uuid AND (namespace, schema_version) > ($3::text, $4::integer)
		ORDER BY namespace, schema_version LIMIT $5::bigint`}
)

var (
	sqlDueRecords = pgdb.Statement{Name: "ext.sweep_due_records", Wide: true, SQL: `
		SELECT tenant_id::text, extension_install_id::text, 0::bigint, '' FROM ext_storage_records
		WHERE ttl_expires_at <= $1::timestamptz ORDER BY ttl_expires_at LIMIT $2::bigint`}
	sqlDueChanges = pgdb.Statement{Name: "ext.sweep_due_changes", Wide: true, SQL: `
		SELECT tenant_id::text, extension_install_id::text, seq, '' FROM ext_storage_changes
		WHERE at <= $1::timestamptz ORDER BY at, tenant_id, extension_install_id, seq LIMIT $2::bigint`}
	sqlDueAnswers = pgdb.Statement{Name: "ext.sweep_due_answers", Wide: true, SQL: `
		SELECT tenant_id::text, extension_install_id::text, 0::bigint, once_key FROM ext_storage_answers
		WHERE at <= $1::timestamptz ORDER BY at LIMIT $2::bigint`}
	sqlDueTokens = pgdb.Statement{Name: "ext.sweep_due_tokens", Wide: true, SQL: `
		SELECT tenant_id::text, extension_install_id::text, 0::bigint, token_id FROM ext_storage_revoked_tokens
		WHERE expires_at <= $1::timestamptz ORDER BY expires_at LIMIT $2::bigint`}
	sqlSweep         = pgdb.NewNamed(pgdb.Statement{Name: "ext.sweep", Key: 1, SQL: `SELECT ext_sweep_v2(...)`}, sweeping.args)
	sqlDueTombstones = pgdb.Statement{Name: "ext.sweep_due_tombstones", Wide: true, SQL: `
		SELECT i.tenant_id::text, i.extension_install_id::text, 0::bigint, '' FROM ext_storage_installs i
		WHERE i.kept_until <= $1::timestamptz
			AND NOT EXISTS (SELECT FROM ext_storage_outbox e WHERE e.tenant_id = i.tenant_id AND e.extension_install_id = i.extension_install_id
				AND e.part IN (0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15))
			AND NOT EXISTS (SELECT FROM ext_storage_outbox_refused e WHERE e.tenant_id = i.tenant_id AND e.extension_install_id = i.extension_install_id)
		ORDER BY i.kept_until LIMIT $2::bigint`}
	sqlForget = pgdb.Statement{Name: "ext.forget", Key: 1, SQL: `
		SELECT ext_forget_v1(p_tenant => $1::uuid, p_install => $2::uuid, p_due => $3::timestamptz)`}
)

var (
	sqlRegister    = pgdb.NewNamed(pgdb.Statement{Name: "ext.register", Key: 1, SQL: `SELECT ext_register_v1(...)`}, newSchema.args)
	sqlDropSchemas = pgdb.Statement{Name: "ext.drop_schemas", Key: 1, SQL: `
		SELECT ext_drop_schemas_v1(p_tenant => $1::uuid, p_install => $2::uuid, p_namespace => $3::text, p_version => $4::integer, p_now => $5::timestamptz)`}
	sqlSchemaStatus = pgdb.NewNamed(pgdb.Statement{Name: "ext.schema_status", Key: 1, SQL: `SELECT ext_schema_status_v1(...)`}, newStatus.args)
	// sqlSchemas omits documents above the last parameter, whose size is not stored.
	sqlSchemas = pgdb.Statement{Name: "ext.schemas", Key: 1, SQL: `
		SELECT schema_version, status, created_at, updated_at, coalesce(created_by::text, ''),
			CASE WHEN octet_length(document) <= $6::bigint THEN document ELSE '' END, octet_length(document)::bigint
		FROM (
			SELECT schema_version, status, created_at, updated_at, created_by, schema_document::text AS document
			FROM ext_storage_schemas
			WHERE tenant_id = $1::uuid AND extension_install_id = $2::uuid AND namespace = $3::text AND schema_version < $4::bigint
			ORDER BY schema_version DESC LIMIT $5::bigint
		) found
		ORDER BY schema_version DESC`}
	sqlSchema = pgdb.Statement{Name: "ext.schema", Key: 1, SQL: `
		SELECT schema_version, status, created_at, updated_at, coalesce(created_by::text, ''), schema_document::text
		FROM ext_storage_schemas
		WHERE tenant_id = $1::uuid AND extension_install_id = $2::uuid AND namespace = $3::text AND schema_version = $4::integer`}
	sqlActive = pgdb.Statement{Name: "ext.active_schema", Key: 1, SQL: `
		SELECT schema_version, status, created_at, updated_at, coalesce(created_by::text, ''), schema_document::text
		FROM ext_storage_schemas
		WHERE tenant_id = $1::uuid AND extension_install_id = $2::uuid AND namespace = $3::text AND status = 'active'`}
	sqlInstall = pgdb.Statement{Name: "ext.install", Key: 1, SQL: `
		SELECT ` + installColumns + `
		FROM ext_storage_installs i WHERE tenant_id = $1::uuid AND extension_install_id = $2::uuid`}
	// sqlInstallState returns a row for the install, if registered, a row for the tenant, and rows for revoked tokens.
	sqlInstallState = pgdb.Statement{Name: "ext.install_state", Key: 1, SQL: `
		SELECT ` + installColumns + `, CASE WHEN extension_install_id = $2::uuid THEN '' ELSE 'tenant' END, ''
		FROM ext_storage_installs i
		WHERE tenant_id = $1::uuid AND extension_install_id IN ($2::uuid, '00000000-0000-0000-0000-000000000000')
		UNION ALL
		SELECT '', '{}', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, 'token', token_id FROM ext_storage_revoked_tokens
		WHERE tenant_id = $1::uuid AND extension_install_id = $2::uuid AND expires_at > $3::timestamptz`}
	sqlRevokedTokens = pgdb.Statement{Name: "ext.revoked_tokens", Key: 1, SQL: `
		SELECT token_id, expires_at, revoked_at FROM ext_storage_revoked_tokens
		WHERE tenant_id = $1::uuid AND extension_install_id = $2::uuid AND expires_at > $3::timestamptz
		ORDER BY token_id`}
	sqlRevokeToken = pgdb.Statement{Name: "ext.revoke_token", Key: 1, SQL: `
		SELECT ext_revoke_token_v1(p_tenant => $1::uuid, p_install => $2::uuid, p_token => $3::text, p_expires => $4::timestamptz, p_now => $5::timestamptz)`}
	sqlSweepTokens = pgdb.Statement{Name: "ext.sweep_tokens", Key: 1, SQL: `
		DELETE FROM ext_storage_revoked_tokens
		WHERE tenant_id = $1::uuid AND extension_install_id = $2::uuid AND token_id = ANY ($3::text[]) AND expires_at <= $4::timestamptz`}
	sqlSetInstall = pgdb.NewNamed(pgdb.Statement{Name: "ext.set_install", Key: 1, SQL: `SELECT ext_set_install_v1(...)`}, registered.args)
	sqlTenant     = pgdb.Statement{Name: "ext.tenant", Key: 1, SQL: `SELECT ext_tenant_v1(p_tenant => $1::uuid, p_now => $2::timestamptz)`}

	sqlRestoreInstall = pgdb.Statement{Name: "ext.restore_install", Key: 1, SQL: `
		UPDATE ext_storage_installs SET revoked_at = NULL, updated_at = $3::timestamptz
		WHERE tenant_id = $1::uuid AND extension_install_id = $2::uuid`}

	sqlSwapQuota = pgdb.Statement{Name: "ext.swap_quota", Key: 1, SQL: `
		UPDATE ext_storage_installs SET tier = $6::text, overrides = $7::text::jsonb, override_until = $8::timestamptz, updated_at = $9::timestamptz
		WHERE tenant_id = $1::uuid AND extension_install_id = $2::uuid AND tier = $3::text AND overrides = $4::text::jsonb
			AND override_until IS NOT DISTINCT FROM $5::timestamptz AND deleting_at IS NULL
		RETURNING 1::bigint`}
	sqlRevokeInstall = pgdb.Statement{Name: "ext.revoke_install", Key: 1, SQL: `
		SELECT ext_revoke_install_v1(p_tenant => $1::uuid, p_install => $2::uuid, p_now => $3::timestamptz)`}
)

const installColumns = `coalesce(i.tier, ''), coalesce(i.overrides::text, '{}'), i.override_until, i.namespaces::text, i.revoked_at, i.created_at, i.updated_at,
	i.deleting_at, i.deleted_at, coalesce(i.deletion::text, '{}'), i.tokens_after`

// counted excludes tombstones, and rows inserted only to lock a rejected write.
const counted = `(u.bytes_used, u.keys_count, u.namespaces_count, CASE WHEN u.closed_seq IS NULL THEN u.change_seq ELSE 0 END) <> (0, 0, 0, 0)`

// within limits a query to a span of installs. The bounds on the tenant let Citus and the planner prune.
func within(of string) string {
	owner := `(` + of + `.tenant_id, ` + of + `.extension_install_id)`
	return of + `.tenant_id BETWEEN $1::uuid AND $3::uuid AND ` + owner + ` > ($1::uuid, $2::uuid) AND ` + owner + ` <= ($3::uuid, $4::uuid)`
}

// uncounted finds installs with rows in a table but without counters, which only damage causes.
func uncounted(table string) string {
	return `
		SELECT o.tenant_id, o.extension_install_id
		FROM (
			SELECT DISTINCT r.tenant_id, r.extension_install_id FROM ` + table + ` r WHERE ` + within(`r`) + `
		) o
		WHERE NOT EXISTS (
			SELECT FROM ext_storage_usage u
			WHERE u.tenant_id = o.tenant_id AND u.extension_install_id = o.extension_install_id AND ` + within(`u`) + ` AND ` + counted + `
		)`
}

const header = `revision, change_seq, created_at, updated_at, ttl_expires_at, value_bytes, metadata_bytes`

var (
	sqlGet = pgdb.Statement{Name: "ext.get", Key: 1, SQL: `
		SELECT ` + header + `, value::text, coalesce(metadata::text, '')
		FROM ext_storage_records
		WHERE tenant_id = $1::uuid AND extension_install_id = $2::uuid AND namespace = $3::text AND key = $4::text
			AND (ttl_expires_at IS NULL OR ttl_expires_at > $5::timestamptz)`}
	sqlList        = listing(`key`)
	sqlListReverse = listing(`key DESC`)
	sqlExport      = pgdb.NewNamed(pgdb.Statement{Name: "ext.export", Key: 1, SQL: `
		SELECT namespace, key, ` + header + `, CASE WHEN value_bytes <= @sent THEN value::text ELSE '' END, coalesce(metadata::text, '')
		FROM ext_storage_records
		WHERE tenant_id = @tenant AND extension_install_id = @install AND (namespace, key) > (@after_namespace, @after_key)
			AND (ttl_expires_at IS NULL OR ttl_expires_at > @now)
		ORDER BY namespace, key LIMIT @limit`}, exportPage.args)
)

// top sorts after every key.
var top = strings.Repeat("\U0010FFFF", ext.MaxKey+1)

// listing returns the page statement. Its key bounds after, from and before are always set, so that a single plan
// serves every query and reads nothing outside the bounds. Values above @sent are omitted.
func listing(order string) pgdb.Named[listPage] {
	return pgdb.NewNamed(pgdb.Statement{Name: "ext.list", Key: 1, SQL: `
		SELECT key, ` + header + `, CASE WHEN @values AND value_bytes <= @sent THEN value::text ELSE '' END,
			CASE WHEN @metadata THEN coalesce(metadata::text, '') ELSE '' END
		FROM ext_storage_records
		WHERE tenant_id = @tenant AND extension_install_id = @install AND namespace = @namespace
			AND key > @after AND key >= @from AND key < @before
			AND (ttl_expires_at IS NULL OR ttl_expires_at > @now)
		ORDER BY ` + order + ` LIMIT @limit`}, listPage.args)
}

// Joins start at the counters' row, so results come from a snapshot.
var (
	sqlChanges = pgdb.Statement{Name: "ext.changes", Key: 1, SQL: `
		SELECT u.change_seq, c.seq, c.op, c.namespace, c.key, c.revision, c.at
		FROM ext_storage_usage u
		LEFT JOIN LATERAL (
			SELECT seq, op, namespace, key, revision, at FROM ext_storage_changes
			WHERE tenant_id = $1::uuid AND extension_install_id = $2::uuid AND seq > $3::bigint
			ORDER BY seq LIMIT $4::bigint
		) c ON true
		WHERE u.tenant_id = $1::uuid AND u.extension_install_id = $2::uuid
		ORDER BY c.seq`}
	sqlUsage = pgdb.Statement{Name: "ext.usage", Key: 1, SQL: `
		SELECT namespace, count(*), sum(value_bytes::bigint + metadata_bytes)::bigint
		FROM ext_storage_records
		WHERE tenant_id = $1::uuid AND extension_install_id = $2::uuid
			AND (ttl_expires_at IS NULL OR ttl_expires_at > $3::timestamptz)
		GROUP BY namespace ORDER BY namespace`}
	// sqlListUsage repeats the bounds for i; otherwise a merge join would scan all registered installs before the page.
	sqlListUsage = pgdb.Statement{Name: "ext.list_usage", Wide: true, SQL: `
		SELECT u.tenant_id::text, u.extension_install_id::text, u.bytes_used, u.keys_count, u.namespaces_count, ` + installColumns + `
		FROM ext_storage_usage u
		LEFT JOIN ext_storage_installs i ON i.tenant_id = u.tenant_id AND i.extension_install_id = u.extension_install_id
			AND ` + within(`i`) + `
		WHERE ` + within(`u`) + ` AND ` + counted + `
		ORDER BY u.tenant_id, u.extension_install_id LIMIT $5::bigint`}
	sqlListInstalls = pgdb.Statement{Name: "ext.list_installs", Wide: true, SQL: `
		SELECT i.tenant_id::text, i.extension_install_id::text, coalesce(u.bytes_used, 0)::bigint, coalesce(u.keys_count, 0)::bigint,
			coalesce(u.namespaces_count, 0)::bigint, ` + installColumns + `
		FROM ext_storage_installs i
		LEFT JOIN ext_storage_usage u ON i.tenant_id = u.tenant_id AND i.extension_install_id = u.extension_install_id
			AND ` + within(`u`) + `
		WHERE ` + within(`i`) + ` AND (NOT $6::boolean OR i.revoked_at IS NOT NULL)
			AND i.extension_install_id <> '00000000-0000-0000-0000-000000000000'
		ORDER BY i.tenant_id, i.extension_install_id LIMIT $5::bigint`}
	sqlFindUsage = pgdb.Statement{Name: "ext.find_usage", Wide: true, SQL: `
		SELECT u.tenant_id::text, u.extension_install_id::text FROM ext_storage_usage u
		WHERE ` + counted + firstInstalls}
	sqlFindInstalls = pgdb.Statement{Name: "ext.find_installs", Wide: true, SQL: `
		SELECT u.tenant_id::text, u.extension_install_id::text FROM ext_storage_installs u
		WHERE u.extension_install_id <> '00000000-0000-0000-0000-000000000000'` + firstInstalls}
	sqlFindRecords = pgdb.Statement{Name: "ext.find_records", Key: 1, SQL: `
		SELECT n.namespace, r.key
		FROM (
			SELECT namespace FROM ext_storage_namespaces WHERE tenant_id = $1::uuid AND extension_install_id = $2::uuid ORDER BY namespace LIMIT $3::bigint
		) n
		CROSS JOIN LATERAL (
			SELECT key FROM ext_storage_records
			WHERE tenant_id = $1::uuid AND extension_install_id = $2::uuid AND namespace = n.namespace AND key >= $4::text AND key < $5::text
				AND (ttl_expires_at IS NULL OR ttl_expires_at > $6::timestamptz)
			ORDER BY key LIMIT $7::bigint
		) r
		ORDER BY n.namespace, r.key LIMIT $7::bigint`}
	sqlUncounted = pgdb.Statement{Name: "ext.uncounted", Wide: true, SQL: `
		SELECT tenant_id::text, extension_install_id::text
		FROM (` + uncounted(`ext_storage_records`) + ` UNION ` + uncounted(`ext_storage_namespaces`) + `) lost
		ORDER BY lost.tenant_id, lost.extension_install_id LIMIT $5::bigint`}
	// sqlFilled groups its subqueries by install, so that each Citus shard can run them alone.
	sqlFilled = pgdb.Statement{Name: "ext.filled", Wide: true, SQL: `
		SELECT u.bytes_used, u.namespaces_count + coalesce(s.namespaces, 0), coalesce(n.keys, 0)::bigint, ` + installColumns + `
		FROM ext_storage_usage u
		LEFT JOIN ext_storage_installs i ON i.tenant_id = u.tenant_id AND i.extension_install_id = u.extension_install_id
		LEFT JOIN (
			SELECT tenant_id, extension_install_id, max(keys_count) AS keys FROM ext_storage_namespaces GROUP BY tenant_id, extension_install_id
		) n ON n.tenant_id = u.tenant_id AND n.extension_install_id = u.extension_install_id
		LEFT JOIN (
			SELECT s.tenant_id, s.extension_install_id, count(DISTINCT s.namespace) FILTER (WHERE m.namespace IS NULL) AS namespaces
			FROM ext_storage_schemas s
			LEFT JOIN ext_storage_namespaces m ON m.tenant_id = s.tenant_id AND m.extension_install_id = s.extension_install_id AND m.namespace = s.namespace
			GROUP BY s.tenant_id, s.extension_install_id
		) s ON s.tenant_id = u.tenant_id AND s.extension_install_id = u.extension_install_id
		WHERE u.closed_seq IS NULL AND (u.bytes_used >= $1::bigint OR u.namespaces_count + coalesce(s.namespaces, 0) >= $2::bigint
			OR n.keys >= $3::bigint OR i.override_until > $4::timestamptz)`}
	// sqlTotals uses ORDER BY so that the count of expired records uses its index. Citus then queries every shard and
	// supports no subqueries among the columns.
	sqlTotals = pgdb.Statement{Name: "ext.totals", Wide: true, SQL: `
		SELECT installs, bytes, keys, namespaces, over_soft, expired
		FROM (
			SELECT coalesce(sum(installs), 0)::bigint AS installs, coalesce(sum(bytes), 0)::bigint AS bytes, coalesce(sum(keys), 0)::bigint AS keys,
				coalesce(sum(namespaces), 0)::bigint AS namespaces, count(*) FILTER (WHERE bytes > $1::bigint) AS over_soft
			FROM (
				SELECT tenant_id, count(*) AS installs, sum(bytes_used) AS bytes, sum(keys_count) AS keys, sum(namespaces_count) AS namespaces
				FROM ext_storage_usage u WHERE ` + counted + ` GROUP BY tenant_id
			) tenants
		) has, (
			SELECT count(*) AS expired FROM (
				SELECT ttl_expires_at FROM ext_storage_records WHERE ttl_expires_at <= $2::timestamptz ORDER BY ttl_expires_at LIMIT $3::bigint
			) due
		) is_over`}
	sqlAudit = pgdb.Statement{Name: "ext.audit", Key: 1, SQL: `
		SELECT '' AS namespace, bytes_used, keys_count, namespaces_count, 0::bigint AS counted, 0::bigint AS bytes
		FROM ext_storage_usage WHERE tenant_id = $1::uuid AND extension_install_id = $2::uuid
		UNION ALL
		SELECT coalesce(n.namespace, r.namespace), 0, coalesce(n.keys_count, 0), 0, coalesce(r.keys, 0), coalesce(r.bytes, 0)
		FROM (
			SELECT namespace, keys_count FROM ext_storage_namespaces
			WHERE tenant_id = $1::uuid AND extension_install_id = $2::uuid
		) n
		FULL JOIN (
			SELECT namespace, count(*) AS keys, sum(value_bytes::bigint + metadata_bytes)::bigint AS bytes
			FROM ext_storage_records
			WHERE tenant_id = $1::uuid AND extension_install_id = $2::uuid
				AND (ttl_expires_at IS NULL OR ttl_expires_at > coalesce((SELECT counted_at FROM ext_storage_usage
					WHERE tenant_id = $1::uuid AND extension_install_id = $2::uuid), 'epoch'))
			GROUP BY namespace
		) r ON r.namespace = n.namespace
		ORDER BY namespace`}
)

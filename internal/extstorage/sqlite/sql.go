package sqlite

// All statements except the sweep's concern one install. Parameters are numbered where a statement repeats or reorders
// them.

const mine = ` WHERE tenant_id = ?1 AND extension_install_id = ?2 `

const (
	sqlInstallUsage = `SELECT bytes_used, keys_count, namespaces_count, change_seq, counted_at, closed_seq, floor_seq FROM ext_storage_usage` + mine
	// sqlBeginWrite is one statement, at half the cost of three.
	sqlBeginWrite = `SELECT bytes_used, keys_count, namespaces_count, u.change_seq, counted_at, closed_seq, floor_seq,
			(SELECT schema_version FROM ext_storage_schemas` + mine + `AND namespace = ?3 AND status = 'active'),
			revision, r.change_seq, created_at, r.updated_at, ttl_expires_at, value_bytes, metadata_bytes, r.rowid
		FROM ext_storage_usage u LEFT JOIN ext_storage_records r
			ON r.tenant_id = ?1 AND r.extension_install_id = ?2 AND namespace = ?3 AND key = ?4
		WHERE u.tenant_id = ?1 AND u.extension_install_id = ?2`
	sqlAddUsage = `INSERT INTO ext_storage_usage
		(tenant_id, extension_install_id, bytes_used, keys_count, namespaces_count, change_seq, counted_at, updated_at, floor_seq, schema_floor)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, (SELECT seq FROM ext_storage_floor), (SELECT min(seq / 100000, 2147483647) FROM ext_storage_floor))`
	sqlSetUsage = `UPDATE ext_storage_usage SET bytes_used = ?3, keys_count = ?4, namespaces_count = ?5, change_seq = ?6, counted_at = ?7,
		updated_at = ?8` + mine
	sqlExpiring = `SELECT namespace, count(*), sum(value_bytes + metadata_bytes) FROM ext_storage_records` + mine +
		`AND ttl_expires_at > ?3 AND ttl_expires_at <= ?4 GROUP BY namespace`

	sqlSkipChanges = `UPDATE ext_storage_usage AS u
		SET change_seq = change_seq + ?1, closed_seq = closed_seq + ?1, floor_seq = change_seq + ?1,
			schema_floor = min(?2 + max(schema_floor, coalesce((SELECT max(schema_version) FROM ext_storage_schemas s
				WHERE s.tenant_id = u.tenant_id AND s.extension_install_id = u.extension_install_id), 0)), 2147483647)`
	sqlRaiseFirst = `UPDATE ext_storage_floor SET seq = seq + ?1`
	sqlFirst      = `SELECT seq FROM ext_storage_floor`

	sqlNamespaceKeys   = `SELECT keys_count FROM ext_storage_namespaces` + mine + `AND namespace = ?3`
	sqlSetNamespace    = `INSERT OR REPLACE INTO ext_storage_namespaces (tenant_id, extension_install_id, namespace, keys_count) VALUES (?, ?, ?, ?)`
	sqlDeleteNamespace = `DELETE FROM ext_storage_namespaces` + mine + `AND namespace = ?3`
)

const (
	headerColumns = `revision, change_seq, created_at, updated_at, ttl_expires_at, value_bytes, metadata_bytes`

	sqlValue  = `SELECT value FROM ext_storage_records WHERE rowid = ?1`
	sqlHeader = `SELECT ` + headerColumns + `, rowid FROM ext_storage_records` + mine + `AND namespace = ?3 AND key = ?4`
	// sqlInsertRecord or sqlUpdateRecord runs, depending on the row read: an upsert costs as much as both.
	sqlInsertRecord = `INSERT INTO ext_storage_records (tenant_id, extension_install_id, namespace, key, ` + headerColumns + `, value, metadata)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`
	// sqlUpdateRecord updates by rowid, which saves a search by key.
	sqlUpdateRecord = `UPDATE ext_storage_records SET revision = ?2, change_seq = ?3, created_at = ?4, updated_at = ?5, ttl_expires_at = ?6,
		value_bytes = ?7, metadata_bytes = ?8, value = ?9, metadata = ?10 WHERE rowid = ?1`
	sqlUpdateValue = `UPDATE ext_storage_records SET revision = ?2, change_seq = ?3, created_at = ?4, updated_at = ?5, ttl_expires_at = ?6,
		value_bytes = ?7, metadata_bytes = ?8, value = ?9 WHERE rowid = ?1`
	sqlDeleteRow    = `DELETE FROM ext_storage_records WHERE rowid = ?1`
	sqlDeleteRecord = `DELETE FROM ext_storage_records` + mine + `AND namespace = ?3 AND key = ?4`
	sqlAddChange    = `INSERT INTO ext_storage_changes (tenant_id, extension_install_id, seq, op, namespace, key, revision, at)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?)`
)

const (
	sqlAnswer    = `SELECT request, answer FROM ext_storage_answers` + mine + `AND once_key = ?3 AND at > ?4`
	sqlAddAnswer = `INSERT OR REPLACE INTO ext_storage_answers (tenant_id, extension_install_id, once_key, request, answer, at) VALUES (?, ?, ?, ?, ?, ?)`
)

// The last two parameters select values and metadata. With a bare LIMIT ?, SQLite would plan the statement again for
// each number.
const (
	live = `AND (ttl_expires_at IS NULL OR ttl_expires_at > ?3) `

	recordColumns = `namespace, key, ` + headerColumns
	sqlGet        = `SELECT ` + recordColumns + `, metadata, value FROM ext_storage_records` + mine + live + `AND namespace = ?4 AND key = ?5`
	sqlList       = `SELECT ` + recordColumns + `, CASE WHEN ?8 THEN metadata END, CASE WHEN ?9 THEN value END FROM ext_storage_records` + mine + live +
		`AND namespace = ?4 AND key >= ?5 AND key < ?6 ORDER BY key LIMIT ?7 + 0`
	sqlListReverse = `SELECT ` + recordColumns + `, CASE WHEN ?8 THEN metadata END, CASE WHEN ?9 THEN value END FROM ext_storage_records` + mine + live +
		`AND namespace = ?4 AND key >= ?5 AND key < ?6 ORDER BY key DESC LIMIT ?7 + 0`
	sqlExport = `SELECT ` + recordColumns + `, metadata, value FROM ext_storage_records` + mine + live +
		`AND (namespace, key) > (?4, ?5) ORDER BY namespace, key LIMIT ?6 + 0`
	sqlUsage = `SELECT namespace, count(*), sum(value_bytes + metadata_bytes) FROM ext_storage_records` + mine + live +
		`GROUP BY namespace ORDER BY namespace`
	sqlCounters = `SELECT namespace, keys_count FROM ext_storage_namespaces` + mine + `ORDER BY namespace`
	sqlTotals   = `SELECT sum(installs), sum(bytes), sum(keys), sum(namespaces), count(*) FILTER (WHERE bytes > ?1),
			(SELECT count(*) FROM (SELECT 1 FROM ext_storage_records WHERE ttl_expires_at <= ?2 LIMIT ?3))
		FROM (
			SELECT count(*) AS installs, sum(bytes_used) AS bytes, sum(keys_count) AS keys, sum(namespaces_count) AS namespaces
			FROM ext_storage_usage u WHERE ` + counted + ` GROUP BY tenant_id
		)`
	sqlListUsage = `SELECT ` + installColumns + `, u.tenant_id, u.extension_install_id, bytes_used, keys_count, namespaces_count
		FROM ext_storage_usage u
		LEFT JOIN ext_storage_installs i ON i.tenant_id = u.tenant_id AND i.extension_install_id = u.extension_install_id
		WHERE (u.tenant_id, u.extension_install_id) > (?1, ?2) AND (u.tenant_id, u.extension_install_id) <= (?3, ?4) AND ` + counted + `
		ORDER BY u.tenant_id, u.extension_install_id LIMIT ?5 + 0`
	sqlListInstalls = `SELECT ` + installColumns + `, i.tenant_id, i.extension_install_id,
			coalesce(bytes_used, 0), coalesce(keys_count, 0), coalesce(namespaces_count, 0)
		FROM ext_storage_installs i` + countersOfInstalls + pageOfInstalls
	// sqlListRevoked names its index, because without statistics the planner does not know that few installs are revoked.
	sqlListRevoked = `SELECT ` + installColumns + `, i.tenant_id, i.extension_install_id,
			coalesce(bytes_used, 0), coalesce(keys_count, 0), coalesce(namespaces_count, 0)
		FROM ext_storage_installs i INDEXED BY ext_storage_installs_revoked_idx` + countersOfInstalls + ` AND revoked_at IS NOT NULL` + pageOfInstalls
	countersOfInstalls = `
		LEFT JOIN ext_storage_usage u ON i.tenant_id = u.tenant_id AND i.extension_install_id = u.extension_install_id
		WHERE (i.tenant_id, i.extension_install_id) > (?1, ?2) AND (i.tenant_id, i.extension_install_id) <= (?3, ?4)
			AND i.extension_install_id <> '00000000-0000-0000-0000-000000000000'`
	sqlFindUsage    = `SELECT tenant_id, extension_install_id FROM ext_storage_usage u` + withInstall + ` AND ` + counted + firstInstalls
	sqlFindInstalls = `SELECT tenant_id, extension_install_id FROM ext_storage_installs` + withInstall + firstInstalls
	// sqlFindRecords uses CROSS JOIN to search once per namespace, whatever the statistics say.
	sqlFindRecords = `SELECT n.namespace, r.key
		FROM ext_storage_namespaces n
		CROSS JOIN ext_storage_records r ON r.tenant_id = ?1 AND r.extension_install_id = ?2 AND r.namespace = n.namespace AND r.key >= ?4 AND r.key < ?5
		WHERE n.tenant_id = ?1 AND n.extension_install_id = ?2
			AND n.namespace < coalesce((SELECT namespace FROM ext_storage_namespaces` + mine + `ORDER BY namespace LIMIT 1 OFFSET ?3 + 0), x'')
			AND (r.ttl_expires_at IS NULL OR r.ttl_expires_at > ?6)
		ORDER BY n.namespace, r.key LIMIT ?7 + 0`
	withInstall    = ` WHERE extension_install_id >= ?1 AND extension_install_id <= ?2 AND extension_install_id <> '00000000-0000-0000-0000-000000000000'`
	firstInstalls  = ` ORDER BY extension_install_id, tenant_id LIMIT ?3 + 0`
	pageOfInstalls = ` ORDER BY i.tenant_id, i.extension_install_id LIMIT ?5 + 0`
	sqlFilled      = `SELECT ` + installColumns + `, bytes_used, namespaces_count + coalesce(s.namespaces, 0), coalesce(n.keys, 0)
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
		WHERE closed_seq IS NULL AND (bytes_used >= ?1 OR namespaces_count + coalesce(s.namespaces, 0) >= ?2 OR n.keys >= ?3 OR override_until > ?4)`
	// counted excludes tombstones.
	counted = `(u.bytes_used, u.keys_count, u.namespaces_count, CASE WHEN u.closed_seq IS NULL THEN u.change_seq ELSE 0 END) <> (0, 0, 0, 0)`

	sqlChanges = `SELECT seq, op, namespace, key, revision, at FROM ext_storage_changes` + mine + `AND seq > ?3 ORDER BY seq LIMIT ?4 + 0`
)

var sqlUncounted = uncounted(`ext_storage_records`) + ` UNION ` + uncounted(`ext_storage_namespaces`) +
	` ORDER BY tenant_id, extension_install_id LIMIT ?5 + 0`

// uncounted finds installs with rows in a table but without counters, which only damage causes.
func uncounted(table string) string {
	return `SELECT tenant_id, extension_install_id FROM (
			SELECT DISTINCT tenant_id, extension_install_id FROM ` + table + `
			WHERE (tenant_id, extension_install_id) > (?1, ?2) AND (tenant_id, extension_install_id) <= (?3, ?4)
		) o
		WHERE NOT EXISTS (
			SELECT 1 FROM ext_storage_usage u WHERE u.tenant_id = o.tenant_id AND u.extension_install_id = o.extension_install_id AND ` + counted + `
		)`
}

const (
	sqlExpired = `SELECT namespace, key, ` + headerColumns + ` FROM ext_storage_records` + mine +
		`AND ttl_expires_at <= ?3 ORDER BY ttl_expires_at, namespace, key LIMIT ?4`
	sqlExpiredOfClosed = `SELECT namespace, key, ` + headerColumns + `, rowid FROM ext_storage_records` + mine +
		`AND ttl_expires_at <= ?3 ORDER BY namespace, key LIMIT ?4 + 0`
	sqlExpiredOwners = `SELECT tenant_id, extension_install_id, count(*) FROM (
			SELECT tenant_id, extension_install_id FROM ext_storage_records WHERE ttl_expires_at <= ?1 ORDER BY ttl_expires_at LIMIT ?2
		) GROUP BY tenant_id, extension_install_id`
	sqlSweepChanges = `DELETE FROM ext_storage_changes WHERE (tenant_id, extension_install_id, seq) IN (
		SELECT tenant_id, extension_install_id, seq FROM ext_storage_changes WHERE at <= ?1
		ORDER BY at, tenant_id, extension_install_id, seq LIMIT ?2)`
	sqlSweepAnswers = `DELETE FROM ext_storage_answers WHERE (tenant_id, extension_install_id, once_key) IN (
		SELECT tenant_id, extension_install_id, once_key FROM ext_storage_answers WHERE at <= ?1 ORDER BY at LIMIT ?2)`
	sqlSweepTokens = `DELETE FROM ext_storage_revoked_tokens WHERE (tenant_id, extension_install_id, token_id) IN (
		SELECT tenant_id, extension_install_id, token_id FROM ext_storage_revoked_tokens WHERE expires_at <= ?1 ORDER BY expires_at LIMIT ?2)`
)

const (
	schemaColumns    = `schema_version, status, created_at, updated_at, created_by, schema_document`
	sqlActiveVersion = `SELECT schema_version FROM ext_storage_schemas` + mine + `AND namespace = ?3 AND status = 'active'`
	sqlActive        = `SELECT ` + schemaColumns + ` FROM ext_storage_schemas` + mine + `AND namespace = ?3 AND status = 'active'`
	sqlSchema        = `SELECT ` + schemaColumns + ` FROM ext_storage_schemas` + mine + `AND namespace = ?3 AND schema_version = ?4`
	sqlSchemas       = `SELECT ` + schemaColumns + ` FROM ext_storage_schemas` + mine + `AND namespace = ?3 AND schema_version < ?4
		ORDER BY schema_version DESC LIMIT ?5 + 0`
	sqlExportSchemas = `SELECT ` + schemaColumns + `, namespace FROM ext_storage_schemas` + mine +
		`AND (namespace, schema_version) > (?3, ?4) ORDER BY namespace, schema_version LIMIT ?5 + 0`
	sqlLastVersion = `SELECT coalesce(max(schema_version), 0) FROM ext_storage_schemas` + mine + `AND namespace = ?3`
	// sqlFloor is for a namespace's last version ?3. Namespaces without schemas start after the deleted versions. After
	// a restore all namespaces start after the versions that the lost server may have registered.
	sqlFloor       = `SELECT CASE WHEN ?3 = 0 OR floor_seq > 0 THEN schema_floor ELSE 0 END FROM ext_storage_usage` + mine
	sqlNewer       = `SELECT count(*) FROM ext_storage_schemas` + mine + `AND namespace = ?3 AND schema_version > ?4`
	sqlOnlySchemas = `SELECT count(DISTINCT namespace) FROM ext_storage_schemas` + mine +
		`AND namespace NOT IN (SELECT namespace FROM ext_storage_namespaces` + mine + `)`
	sqlHasSchema    = `SELECT 1 FROM ext_storage_schemas` + mine + `AND namespace = ?3`
	sqlDropVersions = `DELETE FROM ext_storage_schemas` + mine + `AND namespace = ?3 AND ?4 IN (0, schema_version)`
	sqlAddSchema    = `INSERT INTO ext_storage_schemas (tenant_id, extension_install_id, namespace, ` + schemaColumns + `)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)`
	sqlDropSchemas = `DELETE FROM ext_storage_schemas` + mine + `AND namespace = ?3 AND status <> 'active' AND schema_version <=
		(SELECT schema_version FROM ext_storage_schemas` + mine + `AND namespace = ?3 ORDER BY schema_version DESC LIMIT 1 OFFSET ?4 + 0)`
	sqlDeprecateActive = `UPDATE ext_storage_schemas SET status = 'deprecated', updated_at = ?4` + mine + `AND namespace = ?3 AND status = 'active'`
	sqlSetStatus       = `UPDATE ext_storage_schemas SET status = ?5, updated_at = ?6` + mine + `AND namespace = ?3 AND schema_version = ?4`
)

const (
	installColumns = `tier, overrides ->> 'bytes', overrides ->> 'namespaces', overrides ->> 'keys',
		override_until, i.namespaces, revoked_at, i.created_at, i.updated_at, deleting_at, deleted_at, deletion, tokens_after`
	sqlInstall    = `SELECT ` + installColumns + ` FROM ext_storage_installs i` + mine
	sqlSetInstall = `INSERT INTO ext_storage_installs (tenant_id, extension_install_id, tier, overrides, override_until, namespaces, created_at, updated_at)
		VALUES (?1, ?2, ?3, json_object('bytes', ?4, 'namespaces', ?5, 'keys', ?6), ?7, ?8, ?9, ?9)
		ON CONFLICT DO UPDATE SET tier = excluded.tier, overrides = excluded.overrides, override_until = excluded.override_until,
			namespaces = excluded.namespaces, revoked_at = CASE WHEN ?10 THEN NULL ELSE revoked_at END, updated_at = excluded.updated_at
		RETURNING revoked_at, created_at, tokens_after`
	sqlRestoreInstall = `UPDATE ext_storage_installs SET revoked_at = NULL, updated_at = ?3` + mine + `RETURNING 1`
	sqlSwapQuota      = `UPDATE ext_storage_installs
		SET tier = ?8, overrides = json_object('bytes', ?9, 'namespaces', ?10, 'keys', ?11), override_until = ?12, updated_at = ?13` + mine + `
			AND tier = ?3 AND coalesce(overrides ->> 'bytes', 0) = ?4 AND coalesce(overrides ->> 'namespaces', 0) = ?5
			AND coalesce(overrides ->> 'keys', 0) = ?6 AND override_until IS ?7 AND deleting_at IS NULL
		RETURNING 1`
	sqlRevokedTokens = `SELECT token_id, expires_at, revoked_at FROM ext_storage_revoked_tokens` + mine + `AND expires_at > ?3 ORDER BY token_id`
	sqlRevokeToken   = `INSERT INTO ext_storage_revoked_tokens (tenant_id, extension_install_id, token_id, expires_at, revoked_at)
		VALUES (?, ?, ?, ?, ?)
		ON CONFLICT DO UPDATE SET expires_at = excluded.expires_at WHERE expires_at < excluded.expires_at`
	sqlRevokeInstall = `INSERT INTO ext_storage_installs (tenant_id, extension_install_id, tier, overrides, revoked_at, created_at, updated_at)
		VALUES (?1, ?2, '', '{}', ?3, ?3, ?3)
		ON CONFLICT DO UPDATE SET revoked_at = excluded.revoked_at, updated_at = excluded.updated_at WHERE revoked_at IS NULL`
)

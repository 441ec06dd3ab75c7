package sqlite

const service = `(SELECT id FROM services WHERE service = 'sync-1.5')`

const userColumns = `u.uid, u.email, u.generation, u.client_state, u.created_at, u.replaced_at, u.nodeid, u.keys_changed_at, n.node`

const (
	sqlAccount = `SELECT ` + userColumns + ` FROM users u LEFT JOIN nodes n ON n.id = u.nodeid
		WHERE u.email = ? AND u.service = ` + service + ` ORDER BY u.created_at DESC, u.uid DESC LIMIT ?`
	sqlInsertUser = `INSERT INTO users (service, email, generation, client_state, created_at, nodeid, keys_changed_at)
		VALUES (` + service + `, ?, ?, ?, ?, ?, ?)`
	// sqlUpdateUser has conditions that protect against processes that write without the lock.
	sqlUpdateUser = `UPDATE users SET generation = ?1, keys_changed_at = ?2
		WHERE email = ?3 AND service = ` + service + ` AND replaced_at IS NULL
			AND generation <= ?1 AND coalesce(keys_changed_at, 0) <= coalesce(?2, keys_changed_at, 0)`
	sqlReplaceOthers = `UPDATE users SET replaced_at = ?
		WHERE email = ? AND service = ` + service + ` AND replaced_at IS NULL AND uid <> ?`
	sqlReplace = `UPDATE users SET replaced_at = ?
		WHERE email = ? AND service = ` + service + ` AND replaced_at IS NULL`
	sqlRetire = `UPDATE users SET replaced_at = ?, generation = 9223372036854775807
		WHERE email = ? AND service = ` + service + ` AND replaced_at IS NULL`
	sqlDelete = `UPDATE users SET generation = -1, replaced_at = coalesce(replaced_at, ?)
		WHERE email = ? AND service = ` + service + ` AND NOT (generation = -1 AND replaced_at IS NOT NULL)`
	sqlAllOfAccount = `SELECT ` + userColumns + ` FROM users u LEFT JOIN nodes n ON n.id = u.nodeid
		WHERE u.email = ? AND u.service = ` + service + ` ORDER BY u.created_at DESC, u.uid DESC`
	sqlGone = `SELECT ` + userColumns + ` FROM users u LEFT JOIN nodes n ON n.id = u.nodeid
		WHERE u.service = ` + service + ` AND u.replaced_at > ? AND u.generation IN (-1, 9223372036854775807)`
	sqlChangePassword = `UPDATE users SET generation = ?1
		WHERE email = ?2 AND service = ` + service + ` AND replaced_at IS NULL AND generation < ?1`
	// sqlListUsers uses + to keep SQLite from using the service index and sorting all users.
	sqlListUsers = `SELECT ` + userColumns + ` FROM users u LEFT JOIN nodes n ON n.id = u.nodeid
		WHERE +u.service = ` + service + ` AND u.uid > ? AND (? OR u.replaced_at IS NULL) ORDER BY u.uid LIMIT ?`
	sqlFindUsers = `SELECT ` + userColumns + ` FROM users u LEFT JOIN nodes n ON n.id = u.nodeid
		WHERE u.email > ? AND u.email < ? AND +u.service = ` + service + ` AND +u.replaced_at IS NULL ORDER BY u.email LIMIT ?`
	sqlDue = `SELECT ` + userColumns + `, EXISTS (
			SELECT 1 FROM users k WHERE k.email = u.email AND k.service = u.service AND k.replaced_at IS NULL
				AND k.client_state = u.client_state AND coalesce(k.keys_changed_at, 0) = coalesce(u.keys_changed_at, 0))
		FROM users u LEFT JOIN nodes n ON n.id = u.nodeid
		WHERE u.service = ` + service + ` AND u.replaced_at < ?2 AND (u.replaced_at < ?1 OR u.generation = -1)
			AND (u.replaced_at, u.uid) > (?3, ?4) AND coalesce(n.downed, 0) = 0
		ORDER BY u.replaced_at, u.uid LIMIT ?5`
	sqlForget = `DELETE FROM users WHERE uid = ? AND service = ` + service + ` AND replaced_at IS NOT NULL RETURNING email`
)

const nodeColumns = `id, node, available, current_load, capacity, downed, backoff`

const (
	sqlNodes    = `SELECT ` + nodeColumns + ` FROM nodes WHERE service = ` + service + ` ORDER BY id`
	sqlTakeNode = `UPDATE nodes SET available = ?, current_load = ? WHERE id = ?`
	sqlAddNode  = `INSERT INTO nodes (service, node, available, current_load, capacity, downed, backoff)
		VALUES (` + service + `, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING RETURNING ` + nodeColumns
	sqlSetNode = `UPDATE nodes SET available = coalesce(?, available), capacity = coalesce(?, capacity),
			downed = coalesce(?, downed), backoff = coalesce(?, backoff)
		WHERE service = ` + service + ` AND node = ? RETURNING ` + nodeColumns
	sqlFirstNode    = `SELECT node FROM first_node`
	sqlSetFirstNode = `INSERT INTO first_node (node) VALUES (?)`
)

const (
	sqlAccess    = `SELECT access FROM account_access WHERE fxa_uid = ?`
	sqlDenied    = `SELECT fxa_uid FROM account_access WHERE access NOT IN ('allow', 'unlisted')`
	sqlSetAccess = `INSERT INTO account_access (fxa_uid, access, note, created_at) VALUES (?, ?, ?, ?)
		ON CONFLICT DO UPDATE SET access = excluded.access, note = excluded.note, created_at = excluded.created_at`
	sqlClearAccess = `DELETE FROM account_access WHERE fxa_uid = ?`
	sqlListAccess  = `SELECT fxa_uid, access, note, created_at FROM account_access WHERE fxa_uid > ? ORDER BY fxa_uid LIMIT ?`
	sqlRefuse      = `INSERT INTO refused_sign_ins (fxa_uid, first_at, last_at, attempts) VALUES (?1, ?2, ?2, 1)
		ON CONFLICT DO UPDATE SET last_at = excluded.last_at, attempts = attempts + 1`
	sqlTrimRefused = `DELETE FROM refused_sign_ins WHERE fxa_uid IN (
		SELECT fxa_uid FROM refused_sign_ins ORDER BY last_at DESC, fxa_uid LIMIT -1 OFFSET ?) RETURNING fxa_uid`
	sqlClearRefused = `DELETE FROM refused_sign_ins WHERE fxa_uid = ?`
	sqlRefused      = `SELECT fxa_uid, first_at, last_at, attempts FROM refused_sign_ins ORDER BY last_at DESC, fxa_uid LIMIT ?`
	// sqlFindAccounts limits each table, so that a short prefix does not read all accounts.
	sqlFindAccounts = `SELECT fxa_uid FROM (SELECT fxa_uid FROM refused_sign_ins WHERE fxa_uid >= ?1 AND fxa_uid < ?2 ORDER BY fxa_uid LIMIT ?3)
		UNION SELECT fxa_uid FROM (SELECT fxa_uid FROM account_access WHERE fxa_uid >= ?1 AND fxa_uid < ?2 ORDER BY fxa_uid LIMIT ?3)
		UNION SELECT fxa_uid FROM (SELECT fxa_uid FROM account_labels WHERE fxa_uid >= ?1 AND fxa_uid < ?2 ORDER BY fxa_uid LIMIT ?3)
		UNION SELECT substr(email, 1, instr(email, '@') - 1) FROM (
			SELECT DISTINCT email FROM users WHERE email >= ?1 AND email < ?2 AND +service = ` + service + ` ORDER BY email LIMIT ?3)
		ORDER BY 1 LIMIT ?3`
)

const (
	sqlSetLabel = `INSERT INTO account_labels (fxa_uid, label, label_key, source, set_at) VALUES (?, ?, ?, 'operator', ?)
		ON CONFLICT DO UPDATE SET label = excluded.label, label_key = excluded.label_key, source = excluded.source, set_at = excluded.set_at`
	sqlSetProfileLabel = `INSERT INTO account_labels (fxa_uid, label, label_key, source, set_at) SELECT ?1, ?2, ?3, 'profile', ?4
		WHERE (EXISTS (SELECT 1 FROM users WHERE email = ?5 AND service = ` + service + ` AND replaced_at IS NULL)
			OR EXISTS (SELECT 1 FROM refused_sign_ins WHERE fxa_uid = ?1))
		ON CONFLICT DO UPDATE SET label = excluded.label, label_key = excluded.label_key, set_at = excluded.set_at WHERE source = 'profile'`
	sqlClearLabel  = `DELETE FROM account_labels WHERE fxa_uid = ?`
	sqlForgetLabel = `DELETE FROM account_labels WHERE fxa_uid = ?1
		AND NOT EXISTS (SELECT 1 FROM users WHERE email = ?2 AND service = ` + service + `)
		AND NOT EXISTS (SELECT 1 FROM account_access WHERE fxa_uid = ?1)`
	sqlForgetProfileLabel = sqlForgetLabel + ` AND source = 'profile'`

	sqlLabelsOf   = `SELECT fxa_uid, label, source = 'profile', set_at FROM account_labels WHERE fxa_uid IN (SELECT value FROM json_each(?))`
	sqlFindLabels = `SELECT ` + userColumns + `, l.fxa_uid, l.label, l.source = 'profile', l.set_at FROM account_labels l
		LEFT JOIN users u ON u.uid = (
			SELECT uid FROM users WHERE email = l.fxa_uid || '@' || ?1 AND service = ` + service + ` AND +replaced_at IS NULL
			ORDER BY created_at DESC, uid DESC LIMIT 1)
		LEFT JOIN nodes n ON n.id = u.nodeid
		WHERE (l.label_key, l.fxa_uid) > (?2, ?3) AND l.label_key < ?4 ORDER BY l.label_key, l.fxa_uid LIMIT ?5`
)

// These statements change the last assigned UID. Its row is missing before the first user.
const (
	sqlFirstUID = `INSERT INTO sqlite_sequence (name, seq) SELECT 'users', 0
		WHERE NOT EXISTS (SELECT 1 FROM sqlite_sequence WHERE name = 'users')`
	sqlSkipUIDs = `UPDATE sqlite_sequence SET seq = seq + ?1 WHERE name = 'users'`
)

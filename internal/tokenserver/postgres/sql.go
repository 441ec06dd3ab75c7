package postgres

import "holdfast/internal/db/pgdb"

const service = `(SELECT id FROM services WHERE service = 'sync-1.5')`

const userColumns = `u.uid, u.email, u.generation, u.client_state, u.created_at, u.replaced_at, u.nodeid, u.keys_changed_at, n.node`

// lockClass separates account locks from other services' advisory locks: the bytes "toke".
const lockClass = `1953458021`

// sqlLock serializes an account's transactions by an advisory lock, because there may be no row yet.
var sqlLock = pgdb.Statement{Name: "token.lock", SQL: `
	SELECT pg_advisory_xact_lock(` + lockClass + `, hashtext($1::text))`}

var (
	sqlSkipUIDs = pgdb.Statement{Name: "token.skip_uids", SQL: `
		SELECT setval(s, nextval(s) + $1::bigint) FROM pg_get_serial_sequence('users', 'uid') AS s`}
	sqlAccountState = pgdb.Statement{Name: "token.account_state", SQL: `
		SELECT a.access, u.* FROM (VALUES (1)) one
		LEFT JOIN account_access a ON a.fxa_uid = $2::text
		LEFT JOIN LATERAL (
			SELECT ` + userColumns + ` FROM users u LEFT JOIN nodes n ON n.id = u.nodeid
			WHERE u.email = $1::text AND u.service = ` + service + `
			ORDER BY u.created_at DESC, u.uid DESC LIMIT $3::int) u ON true
		ORDER BY u.created_at DESC, u.uid DESC`}
	sqlInsertUser = pgdb.NewNamed(pgdb.Statement{Name: "token.insert_user", SQL: `
		INSERT INTO users (service, email, generation, client_state, created_at, nodeid, keys_changed_at)
		VALUES (` + service + `, @email, @generation, @client_state, @created_at, @node, @keys_changed_at)
		RETURNING uid`}, userArgs)
	// sqlUpdateUser has conditions that protect against processes that write without the lock.
	sqlUpdateUser = pgdb.Statement{Name: "token.update_user", SQL: `
		UPDATE users SET generation = $1::bigint, keys_changed_at = $2::bigint
		WHERE email = $3::text AND service = ` + service + ` AND replaced_at IS NULL
			AND generation <= $1::bigint AND coalesce(keys_changed_at, 0) <= coalesce($2::bigint, keys_changed_at, 0)`}
	sqlReplaceOthers = pgdb.Statement{Name: "token.replace_others", SQL: `
		UPDATE users SET replaced_at = $1::bigint
		WHERE email = $2::text AND service = ` + service + ` AND replaced_at IS NULL AND uid <> $3::bigint`}
	sqlReplace = pgdb.Statement{Name: "token.replace", SQL: `
		UPDATE users SET replaced_at = $1::bigint
		WHERE email = $2::text AND service = ` + service + ` AND replaced_at IS NULL`}
	sqlRetire = pgdb.Statement{Name: "token.retire", SQL: `
		UPDATE users SET replaced_at = $1::bigint, generation = 9223372036854775807
		WHERE email = $2::text AND service = ` + service + ` AND replaced_at IS NULL`}
	sqlDelete = pgdb.Statement{Name: "token.delete", SQL: `
		UPDATE users SET generation = -1, replaced_at = coalesce(replaced_at, $1::bigint)
		WHERE email = $2::text AND service = ` + service + ` AND NOT (generation = -1 AND replaced_at IS NOT NULL)`}
	sqlAllOfAccount = pgdb.Statement{Name: "token.all_of_account", SQL: `
		SELECT ` + userColumns + ` FROM users u LEFT JOIN nodes n ON n.id = u.nodeid
		WHERE u.email = $1::text AND u.service = ` + service + ` ORDER BY u.created_at DESC, u.uid DESC`}
	// sqlRevoked returns a row without UID for each denied account, and a row for each storage user.
	sqlRevoked = pgdb.Statement{Name: "token.revoked", SQL: `
		SELECT fxa_uid, NULL FROM account_access WHERE access NOT IN ('allow', 'unlisted')
		UNION ALL
		SELECT email, uid FROM users WHERE service = ` + service + `
			AND replaced_at > $1::bigint AND generation IN (-1, 9223372036854775807)`}
	sqlChangePassword = pgdb.Statement{Name: "token.change_password", SQL: `
		UPDATE users SET generation = $1::bigint
		WHERE email = $2::text AND service = ` + service + ` AND replaced_at IS NULL AND generation < $1::bigint`}
	sqlListUsers = pgdb.Statement{Name: "token.list_users", SQL: `
		SELECT ` + userColumns + ` FROM users u LEFT JOIN nodes n ON n.id = u.nodeid
		WHERE u.service = ` + service + ` AND u.uid > $1::bigint AND ($2::boolean OR u.replaced_at IS NULL)
		ORDER BY u.uid LIMIT $3::bigint`}
	sqlFindUsers = pgdb.Statement{Name: "token.find_users", SQL: `
		SELECT ` + userColumns + ` FROM users u LEFT JOIN nodes n ON n.id = u.nodeid
		WHERE u.email > $1::text AND u.email < $2::text AND u.service = ` + service + ` AND u.replaced_at IS NULL
		ORDER BY u.email LIMIT $3::bigint`}
	sqlDue = pgdb.Statement{Name: "token.due", SQL: `
		SELECT ` + userColumns + `, EXISTS (
			SELECT 1 FROM users k WHERE k.email = u.email AND k.service = u.service AND k.replaced_at IS NULL
				AND k.client_state = u.client_state AND coalesce(k.keys_changed_at, 0) = coalesce(u.keys_changed_at, 0))
		FROM users u LEFT JOIN nodes n ON n.id = u.nodeid
		WHERE u.service = ` + service + ` AND u.replaced_at < $2::bigint AND (u.replaced_at < $1::bigint OR u.generation = -1)
			AND (u.replaced_at, u.uid) > ($3::bigint, $4::bigint) AND coalesce(n.downed, 0) = 0
		ORDER BY u.replaced_at, u.uid LIMIT $5::bigint`}
	sqlReplacedEmail = pgdb.Statement{Name: "token.replaced_email", SQL: `
		SELECT email FROM users WHERE uid = $1::bigint AND service = ` + service + ` AND replaced_at IS NOT NULL`}
	sqlForget = pgdb.Statement{Name: "token.forget", SQL: `
		DELETE FROM users WHERE uid = $1::bigint AND service = ` + service + ` AND replaced_at IS NOT NULL`}
)

const nodeColumns = `id, node, available, current_load, capacity, downed, backoff`

var (
	sqlNodes = pgdb.Statement{Name: "token.nodes", SQL: `
		SELECT ` + nodeColumns + ` FROM nodes WHERE service = ` + service + ` ORDER BY id`}
	// sqlLockNodes locks all nodes, because the choice depends on all of them, always in the same order.
	sqlLockNodes = pgdb.Statement{Name: "token.lock_nodes", SQL: sqlNodes.SQL + ` FOR UPDATE`}
	sqlTakeNode  = pgdb.Statement{Name: "token.take_node", SQL: `
		UPDATE nodes SET available = $1::int, current_load = $2::int WHERE id = $3::bigint`}
	sqlAddNode = pgdb.NewNamed(pgdb.Statement{Name: "token.add_node", SQL: `
		INSERT INTO nodes (service, node, available, current_load, capacity, downed, backoff)
		VALUES (` + service + `, @node, @available, @load, @capacity, @downed, @backoff)
		ON CONFLICT DO NOTHING RETURNING ` + nodeColumns}, nodeArgs)
	sqlSetNode = pgdb.Statement{Name: "token.set_node", SQL: `
		UPDATE nodes SET available = coalesce($1::int, available), capacity = coalesce($2::int, capacity),
			downed = coalesce($3::int, downed), backoff = coalesce($4::int, backoff)
		WHERE service = ` + service + ` AND node = $5::text RETURNING ` + nodeColumns}
	sqlLockFirstNode = pgdb.Statement{Name: "token.lock_first_node", SQL: `LOCK TABLE first_node IN EXCLUSIVE MODE`}
	sqlFirstNode     = pgdb.Statement{Name: "token.first_node", SQL: `SELECT node FROM first_node LIMIT 1`}
	sqlSetFirstNode  = pgdb.Statement{Name: "token.set_first_node", SQL: `INSERT INTO first_node (node) VALUES ($1::text)`}
)

var (
	sqlSetLabel = pgdb.Statement{Name: "token.set_label", SQL: `
		INSERT INTO account_labels (fxa_uid, label, label_key, source, set_at) VALUES ($1::text, $2::text, $3::text, 'operator', $4::bigint)
		ON CONFLICT (fxa_uid) DO UPDATE
		SET label = excluded.label, label_key = excluded.label_key, source = excluded.source, set_at = excluded.set_at`}
	sqlSetProfileLabel = pgdb.Statement{Name: "token.set_profile_label", SQL: `
		INSERT INTO account_labels AS l (fxa_uid, label, label_key, source, set_at) SELECT $1::text, $2::text, $3::text, 'profile', $4::bigint
		WHERE (EXISTS (SELECT 1 FROM users WHERE email = $5::text AND service = ` + service + ` AND replaced_at IS NULL)
			OR EXISTS (SELECT 1 FROM refused_sign_ins WHERE fxa_uid = $1::text))
		ON CONFLICT (fxa_uid) DO UPDATE
		SET label = excluded.label, label_key = excluded.label_key, set_at = excluded.set_at WHERE l.source = 'profile'`}
	sqlClearLabel  = pgdb.Statement{Name: "token.clear_label", SQL: `DELETE FROM account_labels WHERE fxa_uid = $1::text`}
	sqlForgetLabel = pgdb.Statement{Name: "token.forget_label", SQL: `
		DELETE FROM account_labels WHERE fxa_uid = $1::text
			AND NOT EXISTS (SELECT 1 FROM users WHERE email = $2::text AND service = ` + service + `)
			AND NOT EXISTS (SELECT 1 FROM account_access WHERE fxa_uid = $1::text)`}
	sqlForgetProfileLabel = pgdb.Statement{Name: "token.forget_profile_label", SQL: sqlForgetLabel.SQL + ` AND source = 'profile'`}
	sqlLabelsOf           = pgdb.Statement{Name: "token.labels_of", SQL: `
		SELECT fxa_uid, label, source = 'profile', set_at FROM account_labels WHERE fxa_uid = ANY($1::text[])`}
	sqlFindLabels = pgdb.Statement{Name: "token.find_labels", SQL: `
		SELECT u.uid, u.email, u.generation, u.client_state, u.created_at, u.replaced_at, u.nodeid, u.keys_changed_at, u.node,
			l.fxa_uid, l.label, l.source = 'profile', l.set_at FROM account_labels l
		LEFT JOIN LATERAL (
			SELECT ` + userColumns + ` FROM users u LEFT JOIN nodes n ON n.id = u.nodeid
			WHERE u.email = (l.fxa_uid || '@' || $1::text) COLLATE "default" AND u.service = ` + service + ` AND u.replaced_at IS NULL
			ORDER BY u.created_at DESC, u.uid DESC LIMIT 1) u ON true
		WHERE (l.label_key, l.fxa_uid) > ($2::text, $3::text) AND l.label_key < $4::text
		ORDER BY l.label_key, l.fxa_uid LIMIT $5::bigint`}
)

var (
	sqlSetAccess = pgdb.Statement{Name: "token.set_access", SQL: `
		INSERT INTO account_access (fxa_uid, access, note, created_at) VALUES ($1::text, $2::text, $3::text, $4::bigint)
		ON CONFLICT (fxa_uid) DO UPDATE
		SET access = excluded.access, note = excluded.note, created_at = excluded.created_at`}
	sqlClearAccess = pgdb.Statement{Name: "token.clear_access", SQL: `DELETE FROM account_access WHERE fxa_uid = $1::text`}
	sqlListAccess  = pgdb.Statement{Name: "token.list_access", SQL: `
		SELECT fxa_uid, access, note, created_at FROM account_access
		WHERE fxa_uid > $1::text ORDER BY fxa_uid LIMIT $2::bigint`}
	sqlRefuse = pgdb.Statement{Name: "token.refuse", SQL: `
		INSERT INTO refused_sign_ins AS r (fxa_uid, first_at, last_at, attempts) VALUES ($1::text, $2::bigint, $2::bigint, 1)
		ON CONFLICT (fxa_uid) DO UPDATE SET last_at = excluded.last_at, attempts = r.attempts + 1`}
	// sqlTrimRefused also deletes profiles' labels, as sqlForgetProfileLabel does.
	sqlTrimRefused = pgdb.Statement{Name: "token.trim_refused", SQL: `
		WITH oldest AS (
			DELETE FROM refused_sign_ins WHERE fxa_uid IN (
				SELECT fxa_uid FROM refused_sign_ins ORDER BY last_at DESC, fxa_uid OFFSET $1::bigint)
			RETURNING fxa_uid)
		DELETE FROM account_labels l USING oldest o WHERE l.fxa_uid = o.fxa_uid AND l.source = 'profile'
			AND NOT EXISTS (SELECT 1 FROM users WHERE email = (o.fxa_uid || '@' || $2::text) COLLATE "default" AND service = ` + service + `)
			AND NOT EXISTS (SELECT 1 FROM account_access a WHERE a.fxa_uid = o.fxa_uid)`}
	sqlClearRefused = pgdb.Statement{Name: "token.clear_refused", SQL: `DELETE FROM refused_sign_ins WHERE fxa_uid = $1::text`}
	sqlRefused      = pgdb.Statement{Name: "token.refused", SQL: `
		SELECT fxa_uid, first_at, last_at, attempts FROM refused_sign_ins ORDER BY last_at DESC, fxa_uid LIMIT $1::bigint`}
	// sqlFindAccounts limits each table, so that a short prefix does not read all accounts.
	sqlFindAccounts = pgdb.Statement{Name: "token.find_accounts", SQL: `
		SELECT id COLLATE "C" FROM (
			(SELECT fxa_uid AS id FROM refused_sign_ins WHERE fxa_uid >= $1::text AND fxa_uid < $2::text ORDER BY fxa_uid LIMIT $3::bigint)
			UNION (SELECT fxa_uid FROM account_access WHERE fxa_uid >= $1::text AND fxa_uid < $2::text ORDER BY fxa_uid LIMIT $3::bigint)
			UNION (SELECT fxa_uid FROM account_labels WHERE fxa_uid >= $1::text AND fxa_uid < $2::text ORDER BY fxa_uid LIMIT $3::bigint)
			UNION (SELECT split_part(email, '@', 1) COLLATE "C" FROM users
				WHERE email >= $1::text AND email < $2::text AND service = ` + service + ` GROUP BY email ORDER BY email LIMIT $3::bigint)
		) known ORDER BY 1 LIMIT $3::bigint`}
)

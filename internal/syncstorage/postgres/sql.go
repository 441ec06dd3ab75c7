package postgres

import (
	"holdfast/internal/db/pgdb"
	ss "holdfast/internal/syncstorage"
)

var (
	sqlCollectionID = pgdb.Statement{Name: "sync.collection_id", SQL: `
		SELECT collection_id FROM collections WHERE name = $1::text`}
	sqlName = pgdb.Statement{Name: "sync.collection_name", Wide: true, SQL: `
		SELECT sync_name_v1(p_user => $1::bigint, p_name => $2::text, p_max => $3::bigint)`}
)

// Citus delegates a function call to the user's node only if the SELECT contains nothing else, so calls are never in
// FROM.
var (
	sqlPut              = pgdb.NewCall(pgdb.Statement{Name: "sync.put", Key: 1, SQL: `SELECT sync_put_v1(...)`}, put.write)
	sqlPost             = pgdb.NewCall(pgdb.Statement{Name: "sync.post", Key: 1, SQL: `SELECT sync_post_v1(...)`}, post.write)
	sqlAppend           = pgdb.NewCall(pgdb.Statement{Name: "sync.append", Key: 1, SQL: `SELECT sync_append_v1(...)`}, appending.write)
	sqlCommit           = pgdb.NewCall(pgdb.Statement{Name: "sync.commit", Key: 1, SQL: `SELECT sync_commit_v1(...)`}, commit.write)
	sqlDeleteBSO        = pgdb.NewCall(pgdb.Statement{Name: "sync.delete_bso", Key: 1, SQL: `SELECT sync_delete_bso_v1(...)`}, deleteBSO.write)
	sqlDeleteBSOs       = pgdb.NewCall(pgdb.Statement{Name: "sync.delete_bsos", Key: 1, SQL: `SELECT sync_delete_bsos_v1(...)`}, deleteBSOs.write)
	sqlDeleteCollection = pgdb.NewCall(pgdb.Statement{Name: "sync.delete_collection", Key: 1, SQL: `SELECT sync_delete_collection_v1(...)`}, target.write)
	sqlDeleteAll        = pgdb.NewCall(pgdb.Statement{Name: "sync.delete_all", Key: 1, SQL: `SELECT sync_delete_all_v1(...)`}, deleteAll.write)
)

var (
	// sqlTotals reads rows by user key, on Citus on the users' nodes.
	sqlTotals = pgdb.Statement{Name: "sync.totals", Wide: true, SQL: `
		SELECT user_id, max(modified), coalesce(sum(count) FILTER (WHERE collection_id <> 0), 0)::bigint,
			coalesce(sum(total_bytes) FILTER (WHERE collection_id <> 0), 0)::bigint, max(quota)
		FROM user_collections WHERE user_id = ANY ($1::bigint[]) GROUP BY user_id`}
	sqlOwners = pgdb.Statement{Name: "sync.owners", Wide: true, SQL: `
		SELECT DISTINCT user_id FROM user_collections
		WHERE user_id > $1::bigint AND collection_id > 0 AND modified > 'epoch' ORDER BY user_id LIMIT $2::bigint`}
	sqlSetQuota = pgdb.Statement{Name: "sync.set_quota", Key: 1, SQL: `
		INSERT INTO user_collections (user_id, collection_id, modified, quota) VALUES ($1::bigint, 0, 'epoch', $2::bigint)
		ON CONFLICT (user_id, collection_id) DO UPDATE SET quota = EXCLUDED.quota`}
	sqlDropQuota = pgdb.Statement{Name: "sync.drop_quota", Key: 1, SQL: `
		UPDATE user_collections SET quota = NULL WHERE user_id = $1::bigint AND collection_id = 0`}
	sqlExport = pgdb.Statement{Name: "sync.export", Key: 1, SQL: `
		SELECT n.name, c.modified, b.bso_id, b.sortindex, b.modified, b.expiry, b.payload
		FROM user_collections c
		JOIN collections n ON n.collection_id = c.collection_id
		LEFT JOIN bsos b ON b.user_id = c.user_id AND b.collection_id = c.collection_id
			AND (b.expiry IS NULL OR b.expiry > greatest($2::timestamp, c.modified))
		WHERE c.user_id = $1::bigint AND c.modified > 'epoch'
		ORDER BY c.collection_id, b.bso_id`}
	sqlRestore = pgdb.NewCall(pgdb.Statement{Name: "sync.restore", Key: 1, SQL: `SELECT sync_restore_v1(...)`}, restore.write)
)

var (
	sqlDue = pgdb.Statement{Name: "sync.sweep_due", Wide: true, SQL: `
		SELECT DISTINCT user_id FROM (
			(SELECT user_id FROM bsos WHERE expiry <= $1::timestamp ORDER BY expiry LIMIT $2::bigint)
			UNION ALL
			(SELECT user_id FROM batches WHERE expiry <= $1::timestamp ORDER BY expiry LIMIT $2::bigint)
		) due`}
	sqlEndBatches = pgdb.Statement{Name: "sync.end_batches", Wide: true, SQL: `UPDATE batches SET expiry = 'epoch'`}
	sqlSweep      = pgdb.Statement{Name: "sync.sweep", Key: 1, SQL: `
		SELECT sync_sweep_v1(p_user => $1::bigint, p_now => $2::timestamp, p_limit => $3::bigint)`}
)

// A collection whose stamp is the epoch does not exist yet. The greatest() in each statement is syncstorage.Horizon.
var (
	sqlCollections = pgdb.Statement{Name: "sync.collections", Key: 1, SQL: `
		SELECT n.name, c.modified FROM user_collections c LEFT JOIN collections n ON n.collection_id = c.collection_id
		WHERE c.user_id = $1::bigint AND c.modified > 'epoch'`}
	sqlUsage = pgdb.Statement{Name: "sync.usage", Key: 1, SQL: `
		SELECT n.name, c.modified, c.quota, c.count - coalesce(e.count, 0), c.total_bytes - coalesce(e.bytes, 0)
		FROM user_collections c
		LEFT JOIN collections n ON n.collection_id = c.collection_id
		LEFT JOIN (
			SELECT b.collection_id, count(*) AS count, sum(octet_length(b.payload))::bigint AS bytes
			FROM bsos b JOIN user_collections o ON o.user_id = b.user_id AND o.collection_id = b.collection_id
			WHERE b.user_id = $1::bigint AND o.user_id = $1::bigint
				AND b.expiry <= greatest($2::timestamp, (SELECT max(modified) FROM user_collections WHERE user_id = $1::bigint))
				AND b.expiry <= greatest($2::timestamp, o.modified)
			GROUP BY b.collection_id
		) e ON e.collection_id = c.collection_id
		WHERE c.user_id = $1::bigint AND (c.modified > 'epoch' OR c.collection_id = 0)`}
	sqlGet = pgdb.Statement{Name: "sync.get", Key: 1, SQL: `
		SELECT b.sortindex, b.payload, b.modified, b.expiry
		FROM bsos b JOIN user_collections c ON c.user_id = b.user_id AND c.collection_id = b.collection_id
		WHERE b.user_id = $1::bigint AND b.collection_id = $2::integer AND b.bso_id = $3::text
			AND c.user_id = $1::bigint AND c.collection_id = $2::integer
			AND (b.expiry IS NULL OR b.expiry > greatest($4::timestamp, c.modified))`}
)

// listing returns a query's statement. Joining the collection with the page yields stamp and records from a snapshot
// without a transaction. The single user_collections row drives the join, so records keep the order of the inner
// SELECT.
//
// An extra record detects a next page. The number of records and the last record are computed in advance only for
// pages too large to gather, which is estimated from the average record.
func listing(sort ss.Sort, byID bool) pgdb.Named[listed] {
	order, from, limited, args := listOrders[sort], `bsos`, `@limit`, listed.args
	if byID {
		// Use one lookup per ID. Otherwise the planner may scan the whole collection if it seems small.
		from = `(SELECT DISTINCT unnest(@ids) AS id) u CROSS JOIN LATERAL (
				SELECT user_id, collection_id, bso_id, sortindex, payload, modified, expiry FROM bsos
				WHERE user_id = @user AND collection_id = @coll AND bso_id = u.id LIMIT 1
			) AS bsos`
		limited = `least(@limit, cardinality(@ids))`
		args = listed.argsByID
	}
	where := `
			FROM ` + from + `
			WHERE user_id = @user AND collection_id = @coll AND (expiry IS NULL OR expiry > greatest(@now, c.modified))
				AND c.modified > @modified_since AND c.modified <= @unmodified_since
				AND modified > @newer AND modified < @older
				AND ` + order.after
	page := `
			ORDER BY ` + order.by + `
			LIMIT @limit + 1 OFFSET @skip`
	return pgdb.NewNamed(pgdb.Statement{Name: "sync.list", Key: 1, SQL: `
		SELECT c.modified, l.records, l.bso_id, l.sortindex, l.modified, b.bso_id, b.sortindex, b.modified, b.payload
		FROM (
			SELECT modified, total_bytes::float8 * least(` + limited + `, count) / greatest(count, 1) > @large AS large FROM user_collections
			WHERE user_id = @user AND collection_id = @coll AND modified > 'epoch'
		) c
		LEFT JOIN LATERAL (
			SELECT count(*) AS records, max(bso_id) FILTER (WHERE last) AS bso_id,
				max(sortindex) FILTER (WHERE last) AS sortindex, max(modified) FILTER (WHERE last) AS modified
			FROM (SELECT bso_id, sortindex, modified, row_number() OVER (ORDER BY ` + order.by + `) = @limit + @skip AS last` + where + `
				AND c.large` + page + `) AS p
		) l ON c.large
		LEFT JOIN LATERAL (
			SELECT bso_id, sortindex, modified, CASE WHEN @full THEN payload END AS payload` + where + page + `
		) b ON true`}, args)
}

var listOrders = [...]struct{ by, after string }{
	ss.Newest: {
		by:    `modified DESC, bso_id DESC`,
		after: `(modified, bso_id) < (@behind::timestamp, @behind_id)`,
	},
	ss.Oldest: {
		by:    `modified, bso_id`,
		after: `(modified, bso_id) > (@behind::timestamp, @behind_id)`,
	},
	ss.ByIndex: {
		by:    `coalesce(sortindex, -10000000000) DESC, bso_id DESC`,
		after: `(coalesce(sortindex, -10000000000), bso_id) < (@behind::bigint, @behind_id)`,
	},
}

var lists = [...][2]pgdb.Named[listed]{
	ss.Newest:  {listing(ss.Newest, false), listing(ss.Newest, true)},
	ss.Oldest:  {listing(ss.Oldest, false), listing(ss.Oldest, true)},
	ss.ByIndex: {listing(ss.ByIndex, false), listing(ss.ByIndex, true)},
}

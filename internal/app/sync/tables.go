package sync

import "holdfast/internal/db/rows"

// tables are the tables of SQLite and PostgreSQL.
var tables = []rows.Group{
	{Tables: []*rows.Table{
		{Name: "collections", Key: 1, Seeded: true, Numbers: true, Columns: rows.Columns(`collection_id integer, name text`)},
	}},
	{Owner: 1, Tables: []*rows.Table{
		{
			Name: "user_collections", Key: 2,
			Columns: rows.Columns(`user_id integer, collection_id integer, modified millisutc, count integer, total_bytes integer, quota integer`),
			// The row of collection 0 has the last stamp of the user in SQLite, and that of the
			// last deletion of a collection in PostgreSQL, which computes the former.
			Postgres: map[string]string{"modified": `CASE WHEN collection_id = 0
				THEN (SELECT max(u.modified) FROM user_collections u WHERE u.user_id = user_collections.user_id) ELSE modified END`},
			With: func(key rows.Row) rows.Row { return rows.Row{key[0], int64(0)} },
		},
		{Name: "bsos", Key: 3, Columns: rows.Columns(
			`user_id integer, collection_id integer, bso_id text, sortindex integer, modified millisutc, expiry millisutc, payload bytes`)},
		{Name: "batches", Key: 3, Columns: rows.Columns(
			`user_id integer, collection_id integer, batch_id text, expiry millisutc, count integer, total_bytes integer`)},
		{Name: "batch_bsos", Key: 4, Columns: rows.Columns(
			`user_id integer, collection_id integer, batch_id text, batch_bso_id text, sortindex integer, ttl integer, payload bytes`)},
	}},
}

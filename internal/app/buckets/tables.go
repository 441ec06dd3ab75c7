package buckets

import "holdfast/internal/db/rows"

// version has the columns that objects, versions and deleted objects share.
const version = `created micros, modified micros, creator uuid, content_length integer, content_md5 bytes, content_type text,
	headers map, roles uuids, sharks texts, properties json`

// event has the columns that waiting and refused events share.
const event = `owner uuid, stream uuid, seq integer, topic text, key text, payload rawjson, created_at micros`

// part computes outbox.Partition in SQLite.
const part = `((unicode(substr({owner}, -1)) & 15) + 9 * (unicode(substr({owner}, -1)) >> 6) +
	(unicode(substr({stream}, -1)) & 15) + 9 * (unicode(substr({stream}, -1)) >> 6)) % 16`

// tables are the tables of all engines, without holds, because a backup's hold protects only garbage in the source.
// Large tables are split by owner, so that a bucket of any size is copied in many snapshots. Garbage claims belong to
// the source's workers and are not copied.
var tables = []rows.Group{
	{Tables: []*rows.Table{
		// Names are also unique.
		{Name: "manta_bucket_account", Key: 1, First: true, Replace: true, Columns: rows.Columns(`id uuid, name text, created micros, max_objects integer, max_bytes integer`)},
		{Name: "manta_bucket_key", Key: 1, First: true, Columns: rows.Columns(`id text, account uuid, secret bytes, created micros, revoked micros, name text, expires micros, limits json`)},
		{Name: "manta_bucket_node", Key: 1, First: true, Columns: rows.Columns(`id text, url text, state text, added micros`)},
		{Name: "manta_bucket_name", Key: 1, Columns: rows.Columns(`name text, owner uuid, claimed micros, freed micros`)},
		// Read-only mode ends audits and drains, because the source does not learn about bodies written later.
		{Name: "manta_bucket_lease", Key: 1, Process: true, Columns: rows.Columns(`name text, holder text, process text, expires micros`)},
	}},
	{Owner: 2, Tables: []*rows.Table{
		{Name: "manta_bucket", Key: 2, Columns: rows.Columns(`owner uuid, name text, id uuid, created micros, versioning integer, object_lock json`)},
	}},
	{Owner: 2, Tables: []*rows.Table{
		{Name: "manta_bucket_settings", Key: 2, Columns: rows.Columns(`owner uuid, bucket_id uuid, settings json`)},
		{Name: "manta_bucket_lifecycle", Key: 2, Columns: rows.Columns(`owner uuid, bucket_id uuid, rules micros, due micros, run json`)},
		{
			Name: "manta_bucket_usage", Key: 2, First: true, Replace: true,
			Columns: rows.Columns(`owner uuid, bucket_id uuid, objects integer, bytes integer, max_objects integer, max_bytes integer`),
			// PostgreSQL splits usage into slots. If there is a quota, all slots exist.
			PostgresFrom: `SELECT owner, bucket_id, sum(objects)::bigint AS objects, sum(bytes)::bigint AS bytes,
				max(max_objects) AS max_objects, max(max_bytes) AS max_bytes FROM manta_bucket_usage GROUP BY owner, bucket_id`,
			PostgresInsert: `
				INSERT INTO manta_bucket_usage (owner, bucket_id, slot, objects, bytes, max_objects, max_bytes, spare_objects, spare_bytes)
				SELECT $1::text::uuid, $2::text::uuid, n, CASE n WHEN 0 THEN $3::bigint ELSE 0 END, CASE n WHEN 0 THEN $4::bigint ELSE 0 END,
					$5::bigint, $6::bigint, CASE WHEN $5::bigint > 0 THEN greatest($5::bigint - $3::bigint, 0) / 16 END,
					CASE WHEN $6::bigint > 0 THEN greatest($6::bigint - $4::bigint, 0) / 16 END
				FROM generate_series(0, CASE WHEN $5::bigint > 0 OR $6::bigint > 0 THEN 15 ELSE 0 END) AS n`,
		},
	}},
	{Owner: 3, Tables: []*rows.Table{
		{Name: "manta_bucket_object", Key: 3, Columns: rows.Columns(`owner uuid, bucket_id uuid, name text, id uuid, ` + version + `, content_crc32c integer, content_crc64nvme integer, content_frames integer, body bytes`)},
	}},
	{Owner: 3, Tables: []*rows.Table{
		{Name: "manta_bucket_version", Key: 4, Columns: rows.Columns(`owner uuid, bucket_id uuid, name text, version uuid, null_version bool, marker bool, superseded micros, id uuid, ` +
			version + `, content_crc32c integer, content_crc64nvme integer, content_frames integer, body bytes`)},
	}},
	{Owner: 4, Tables: []*rows.Table{
		{Name: "manta_bucket_upload", Key: 4, Columns: rows.Columns(
			`owner uuid, bucket_id uuid, name text, id uuid, created micros, creator uuid, content_type text, headers map, roles uuids, properties json`)},
	}},
	{Owner: 2, Tables: []*rows.Table{
		{Name: "manta_bucket_part", Key: 3, Columns: rows.Columns(`owner uuid, upload_id uuid, number integer, bucket_id uuid, name text, id uuid, created micros,
			content_length integer, content_md5 bytes, checksum json, sharks texts, start integer, content_crc32c integer, content_crc64nvme integer, content_frames integer, body bytes`)},
	}},
	// Version IDs may repeat.
	{Owner: 3, Tables: []*rows.Table{
		{Name: "manta_bucket_deleted_object", Key: 3, Replace: true, Columns: rows.Columns(`owner uuid, bucket_id uuid, id uuid, name text, ` + version + `, deleted_at micros`)},
	}},
	// Event keys differ between engines.
	{Owner: 2, Tables: []*rows.Table{
		{Name: "manta_bucket_event", Key: 3, Replace: true, Unindexed: true, Columns: rows.Columns(event), SQLite: map[string]string{"part": part}},
		{Name: "manta_bucket_event_refused", Key: 3, Columns: rows.Columns(event + `, attempts integer, reason text, refused_at micros, next_at micros`)},
	}},
	{Owner: 2, Tables: []*rows.Table{
		{Name: "manta_bucket_deleted_bucket", Key: 2, Replace: true, Columns: rows.Columns(`owner uuid, id uuid, name text, created micros, deleted_at micros`)},
	}},
}

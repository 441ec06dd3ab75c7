package postgres

import (
	"slices"
	"strings"
	"testing"

	"holdfast/internal/db/pgdb"
	"holdfast/internal/testdb"
	"holdfast/internal/testdb/opened"
)

const object = `id uuid not null
name text not null by C
owner uuid not null
bucket_id uuid not null
created timestamp with time zone not null%
modified timestamp with time zone not null%
creator uuid
content_length bigint
content_md5 bytea
content_type text by default
headers hstore
roles uuid[]
sharks text[] by default
properties jsonb
`

// columns returns the columns in RFD 149, with a default for times.
func columns(defaults string) string {
	return strings.ReplaceAll(strings.ReplaceAll(object, "%", defaults), " by default", "")
}

const now = " default CURRENT_TIMESTAMP"

var documented = map[string]opened.Table{
	"manta_bucket": {
		Columns:     "id uuid not null\nname text not null by C\nowner uuid not null\ncreated timestamp with time zone not null" + now + "\nversioning smallint not null default 0\nobject_lock jsonb",
		Constraints: "PRIMARY KEY (owner, name)",
		Indexes:     "CREATE INDEX manta_bucket_name_idx ON manta_bucket USING btree (name, owner)",
	},
	"manta_bucket_object": {
		Columns:     columns(now) + "body bytea\ncontent_crc32c bigint\ncontent_crc64nvme bigint\ncontent_frames bigint",
		Constraints: "PRIMARY KEY (owner, bucket_id, name)\nCHECK (((octet_length(name) >= 1) AND (octet_length(name) <= 1024)))",
	},
	"manta_bucket_deleted_bucket": {
		Columns: "id uuid not null\nname text not null by C\nowner uuid not null\ncreated timestamp with time zone not null\n" +
			"deleted_at timestamp with time zone not null" + now,
		Constraints: "PRIMARY KEY (owner, id, deleted_at)",
		Indexes: `CREATE INDEX manta_bucket_deleted_bucket_deleted_at_idx ON manta_bucket_deleted_bucket USING btree (deleted_at)
CREATE INDEX manta_bucket_deleted_bucket_id_idx ON manta_bucket_deleted_bucket USING btree (id)`,
	},
	"manta_bucket_deleted_object": {
		Columns:     columns("") + "deleted_at timestamp with time zone not null" + now + "\ngarbage_id uuid not null default gen_random_uuid()\nclaim uuid\nclaim_expires timestamp with time zone",
		Constraints: "PRIMARY KEY (owner, bucket_id, id, garbage_id)",
		Indexes: `CREATE INDEX manta_bucket_deleted_object_claim_idx ON manta_bucket_deleted_object USING btree (claim) WHERE (claim IS NOT NULL)
CREATE INDEX manta_bucket_deleted_object_deleted_at_idx ON manta_bucket_deleted_object USING btree (deleted_at)
CREATE INDEX manta_bucket_deleted_object_id_idx ON manta_bucket_deleted_object USING btree (id)
CREATE INDEX manta_bucket_deleted_object_upload_idx ON manta_bucket_deleted_object USING btree (owner, ((properties #>> '{s3,upload}'::text[]))) ` +
			`WHERE ((properties #>> '{s3,upload}'::text[]) IS NOT NULL)`,
	},
}

// TestTables checks the columns, keys and indexes in RFD 149, on which Manta's tools depend. Other columns must follow.
func TestTables(t *testing.T) {
	t.Parallel()
	db := opened.Postgres(t, pgdb.Options{URL: testdb.PostgresDatabase(t)}, Migrations)
	opened.CheckTables(t, db, documented)
	// Bodies are not compressed again.
	stored := opened.Lines(t, db, `SELECT c.relname || ' ' || a.attstorage::text FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid
		WHERE a.attname = 'body' AND c.relname LIKE 'manta\_%' ORDER BY 1`)
	if want := []string{"manta_bucket_object e", "manta_bucket_part e", "manta_bucket_version e"}; !slices.Equal(stored, want) {
		t.Errorf("the storage of bodies is %v, want %v", stored, want)
	}
	// Citus moves tables online with their primary key.
	if bare := opened.Lines(t, db, `SELECT relname FROM pg_class c WHERE relkind = 'r' AND relname LIKE 'manta\_%' AND NOT EXISTS (
		SELECT FROM pg_index i WHERE i.indrelid = c.oid AND i.indisprimary)`); len(bare) > 0 {
		t.Errorf("tables without a primary key: %v", bare)
	}
}

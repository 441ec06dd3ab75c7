package postgres

import (
	"slices"
	"strings"
	"testing"

	"holdfast/internal/db/pgdb"
	"holdfast/internal/testdb"
	"holdfast/internal/testdb/opened"
)

const (
	owner = "tenant_id, extension_install_id"
	both  = "tenant_id uuid not null\nextension_install_id uuid not null\n"
	times = "created_at timestamp with time zone not null default now()\nupdated_at timestamp with time zone not null default now()\n"
)

// documented contains the tables as documented for operators, and additions.
var documented = map[string]opened.Table{
	"ext_storage_records": {
		Columns: both + `namespace text not null by C
key text not null by C
revision bigint not null default 1
value jsonb not null
metadata jsonb default '{}'::jsonb
ttl_expires_at timestamp with time zone
` + times + `value_bytes integer not null
metadata_bytes integer not null
change_seq bigint not null`,
		// Stricter than documented: keys must not be empty.
		Constraints: `PRIMARY KEY (` + owner + `, namespace, key)
CHECK ((((length(key) >= 1) AND (length(key) <= 128)) AND (key !~ '/'::text)))
CHECK (((length(namespace) <= 64) AND (namespace ~ '^[a-z0-9][a-z0-9-]*$'::text)))
CHECK (((metadata IS NULL) OR (jsonb_typeof(metadata) = 'object'::text)))
CHECK ((revision > 0))`,
		// The primary key replaces the documented ext_storage_namespace_idx with the same columns.
		Indexes: `CREATE INDEX ext_storage_expired_idx ON ext_storage_records USING btree (` + owner + `, namespace, key) WHERE (ttl_expires_at IS NOT NULL)
CREATE INDEX ext_storage_reclaim_idx ON ext_storage_records USING btree (` + owner + `, ttl_expires_at, namespace, key) WHERE (ttl_expires_at IS NOT NULL)
CREATE INDEX ext_storage_sweep_idx ON ext_storage_records USING btree (ttl_expires_at, ` + owner + `) WHERE (ttl_expires_at IS NOT NULL)`,
	},
	"ext_storage_schemas": {
		Columns: both + `namespace text not null by C
schema_version integer not null
schema_document jsonb not null
status text not null
` + times + `created_by uuid`,
		Constraints: `PRIMARY KEY (` + owner + `, namespace, schema_version)
CHECK ((status = ANY (ARRAY['active'::text, 'deprecated'::text, 'draft'::text])))`,
		Indexes: `CREATE INDEX ext_storage_schemas_status_idx ON ext_storage_schemas USING btree (status)
CREATE UNIQUE INDEX ext_storage_schemas_active_idx ON ext_storage_schemas USING btree (` + owner + `, namespace) WHERE (status = 'active'::text)`,
	},
	"ext_storage_usage": {
		Columns: both + `bytes_used bigint not null default 0
keys_count integer not null default 0
namespaces_count integer not null default 0
updated_at timestamp with time zone not null default now()
change_seq bigint not null default 0
counted_at timestamp with time zone not null default '1970-01-01 00:00:00+00'::timestamp with time zone
closed_seq bigint
schema_floor integer not null default 0
floor_seq bigint not null default 0`,
		Constraints: `PRIMARY KEY (` + owner + `)
CHECK (((closed_seq IS NULL) OR (closed_seq = change_seq)))
CHECK ((bytes_used >= 0))
CHECK ((keys_count >= 0))
CHECK ((namespaces_count >= 0))`,
		Indexes: `CREATE INDEX ext_storage_usage_install_idx ON ext_storage_usage USING btree (((extension_install_id)::text) COLLATE "C", tenant_id)`,
	},
}

// TestTables checks the documented columns, keys, checks and indexes that operators' tools rely on. Undocumented
// columns come last.
func TestTables(t *testing.T) {
	t.Parallel()
	url := testdb.PostgresDatabase(t)
	db := opened.Postgres(t, pgdb.Options{URL: url}, Migrations)
	opened.CheckTables(t, db, documented)
	// Every write updates the install's lock row in place, within the same page.
	options := opened.Lines(t, db, `SELECT concat_ws(' ', relname, reloptions::text) FROM pg_class WHERE relname LIKE 'ext\_%' AND reloptions IS NOT NULL ORDER BY 1`)
	if want := []string{
		"ext_storage_namespaces {fillfactor=50}",
		"ext_storage_records {autovacuum_vacuum_scale_factor=0.05,autovacuum_analyze_scale_factor=0.02}",
		"ext_storage_usage {fillfactor=50}",
	}; !slices.Equal(options, want) {
		t.Errorf("the storage parameters are\n%s", strings.Join(options, "\n"))
	}
	if triggers := opened.Lines(t, db, `SELECT tgname::text FROM pg_trigger WHERE NOT tgisinternal`); len(triggers) > 0 {
		t.Errorf("Citus supports no triggers; found %v", triggers)
	}
	// Citus moves tables online by their primary key, which must contain the distribution column.
	owned := opened.Lines(t, db, `SELECT c.relname FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum = 1 AND a.attname = 'tenant_id'
		JOIN pg_index i ON i.indrelid = c.oid AND i.indisprimary AND 1 = ANY (i.indkey) WHERE c.relkind = 'r' ORDER BY 1`)
	if want := slices.Sorted(slices.Values(tables)); !slices.Equal(owned, want) {
		t.Errorf("tables with the tenant in the primary key are %v, want %v", owned, want)
	}
}

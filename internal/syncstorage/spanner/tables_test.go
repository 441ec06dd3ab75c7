package spanner_test

import (
	"strings"
	"testing"
)

// documented are the columns and keys that operators and Mozilla's server expect.
var documented = map[string]struct{ columns, key string }{
	"collections": {
		columns: `collection_id INT64 not null
name STRING(32) not null`,
		key: `collection_id`,
	},
	"user_collections": {
		columns: `fxa_uid STRING(MAX) not null
fxa_kid STRING(MAX) not null
collection_id INT64 not null
modified TIMESTAMP not null
count INT64
total_bytes INT64
quota INT64`,
		key: `fxa_uid, fxa_kid, collection_id`,
	},
	"bsos": {
		columns: `fxa_uid STRING(MAX) not null
fxa_kid STRING(MAX) not null
collection_id INT64 not null
bso_id STRING(MAX) not null
sortindex INT64
payload STRING(MAX) not null
modified TIMESTAMP not null
expiry TIMESTAMP not null`,
		key: `fxa_uid, fxa_kid, collection_id, bso_id`,
	},
	"batches": {
		columns: `fxa_uid STRING(MAX) not null
fxa_kid STRING(MAX) not null
collection_id INT64 not null
batch_id STRING(MAX) not null
expiry TIMESTAMP not null`,
		key: `fxa_uid, fxa_kid, collection_id, batch_id`,
	},
	"batch_bsos": {
		columns: `fxa_uid STRING(MAX) not null
fxa_kid STRING(MAX) not null
collection_id INT64 not null
batch_id STRING(MAX) not null
batch_bso_id STRING(MAX) not null
sortindex INT64
payload STRING(MAX)
ttl INT64`,
		key: `fxa_uid, fxa_kid, collection_id, batch_id, batch_bso_id`,
	},
	"write_control": {
		columns: `service STRING(64) not null
shard INT64 not null
holder STRING(128)
read_only_until TIMESTAMP
log_until TIMESTAMP
read_only_since TIMESTAMP`,
		key: `service, shard`,
	},
}

func TestTables(t *testing.T) {
	t.Parallel()
	db := openDB(t, options(t))
	columns, keys := map[string][]string{}, map[string][]string{}
	for _, row := range all(t, db, `
		SELECT table_name, CONCAT(column_name, ' ', spanner_type, IF(is_nullable = 'NO', ' not null', ''),
			IFNULL(CONCAT(' default ', column_default), ''), IFNULL(CONCAT(' as ', generation_expression), ''))
		FROM information_schema.columns
		WHERE table_schema = '' AND table_name != 'schema_migrations' ORDER BY table_name, ordinal_position`) {
		columns[row[0]] = append(columns[row[0]], row[1])
	}
	for _, row := range all(t, db, `
		SELECT table_name, CONCAT(column_name, IF(column_ordering = 'DESC', ' desc', '')) FROM information_schema.index_columns
		WHERE table_schema = '' AND index_name = 'PRIMARY_KEY' AND table_name != 'schema_migrations' ORDER BY table_name, ordinal_position`) {
		keys[row[0]] = append(keys[row[0]], row[1])
	}
	for table := range columns {
		if _, known := documented[table]; !known {
			t.Errorf("there is a table %s", table)
		}
	}
	for table, want := range documented {
		if got := strings.Join(columns[table], "\n"); got != want.columns {
			t.Errorf("%s has the columns\n%s\nwant\n%s", table, got, want.columns)
		}
		if got := strings.Join(keys[table], ", "); got != want.key {
			t.Errorf("%s has the key %s, want %s", table, got, want.key)
		}
	}
	constraints := all(t, db, `
		SELECT table_name, constraint_type FROM information_schema.table_constraints
		WHERE table_schema = '' AND table_name != 'schema_migrations' AND constraint_type NOT IN ('PRIMARY KEY', 'CHECK')`)
	if len(constraints) > 0 {
		t.Errorf("there are constraints: %q", constraints)
	}
}

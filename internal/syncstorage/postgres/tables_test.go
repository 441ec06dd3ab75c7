package postgres

import (
	"slices"
	"strconv"
	"testing"

	"holdfast/internal/db/pgdb"
	ss "holdfast/internal/syncstorage"
	"holdfast/internal/testdb"
	"holdfast/internal/testdb/opened"
)

// TestTables checks the parts of the catalog that operators, their tools and other releases depend on.
func TestTables(t *testing.T) {
	t.Parallel()
	db := opened.Postgres(t, pgdb.Options{URL: testdb.PostgresDatabase(t)}, Migrations)
	opened.CheckTables(t, db, map[string]opened.Table{
		"collections": {
			// The IDs come from an identity column, or on Citus from a sequence.
			Columns: `collection_id integer not null
name character varying(32) not null by C`,
			Constraints: `UNIQUE (name)
PRIMARY KEY (collection_id)`,
			Indexes: `CREATE UNIQUE INDEX collections_name_key ON collections USING btree (name)`,
		},
		"user_collections": {
			Columns: `user_id bigint not null
collection_id integer not null
modified timestamp without time zone not null
count bigint not null default 0
total_bytes bigint not null default 0
quota bigint`,
			Constraints: `PRIMARY KEY (user_id, collection_id)`,
		},
		"bsos": {
			Columns: `user_id bigint not null
collection_id integer not null
bso_id text not null by C
sortindex bigint
payload bytea not null
modified timestamp without time zone not null
expiry timestamp without time zone`,
			Constraints: `PRIMARY KEY (user_id, collection_id, bso_id)
FOREIGN KEY (user_id, collection_id) REFERENCES user_collections(user_id, collection_id) ON DELETE CASCADE`,
			Indexes: `CREATE INDEX bsos_expiry_idx ON bsos USING btree (expiry, user_id) WHERE (expiry IS NOT NULL)
CREATE INDEX bsos_modified_idx ON bsos USING btree (user_id, collection_id, modified DESC, bso_id DESC)
CREATE INDEX bsos_user_expiry_idx ON bsos USING btree (user_id, expiry) WHERE (expiry IS NOT NULL)`,
		},
		"batches": {
			Columns: `user_id bigint not null
collection_id integer not null
batch_id text not null by C
expiry timestamp without time zone not null
count bigint not null default 0
total_bytes bigint not null default 0`,
			Constraints: `PRIMARY KEY (user_id, collection_id, batch_id)
FOREIGN KEY (user_id, collection_id) REFERENCES user_collections(user_id, collection_id) ON DELETE CASCADE`,
			Indexes: `CREATE INDEX batch_expiry_idx ON batches USING btree (expiry, user_id)`,
		},
		"batch_bsos": {
			Columns: `user_id bigint not null
collection_id integer not null
batch_id text not null by C
batch_bso_id text not null by C
sortindex bigint
payload bytea
ttl bigint`,
			Constraints: `PRIMARY KEY (user_id, collection_id, batch_id, batch_bso_id)
FOREIGN KEY (user_id, collection_id, batch_id) REFERENCES batches(user_id, collection_id, batch_id) ON DELETE CASCADE`,
		},
	})
	tables := opened.Lines(t, db, `SELECT relname::text FROM pg_class WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace ORDER BY 1`)
	if want := []string{"batch_bsos", "batches", "bsos", "collections", "schema_migrations", "user_collections"}; !slices.Equal(tables, want) {
		t.Errorf("the tables are %v, want %v", tables, want)
	}
	// Every write updates a row of user_collections; payloads are ciphertext.
	options := opened.Lines(t, db, `SELECT concat_ws(' ', relname, reloptions::text) FROM pg_class WHERE relkind = 'r' AND reloptions IS NOT NULL ORDER BY 1`)
	if want := []string{"user_collections {fillfactor=70}"}; !slices.Equal(options, want) {
		t.Errorf("the storage parameters are %q, want %q", options, want)
	}
	stored := opened.Lines(t, db, `SELECT concat_ws(' ', attrelid::regclass, attname) FROM pg_attribute JOIN pg_class c ON c.oid = attrelid
		WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace AND attstorage = 'e' ORDER BY 1`)
	if want := []string{"batch_bsos payload", "bsos payload"}; !slices.Equal(stored, want) {
		t.Errorf("the uncompressed columns are %v, want %v", stored, want)
	}
}

func TestCollectionIDs(t *testing.T) {
	t.Parallel()
	db := opened.Postgres(t, pgdb.Options{URL: testdb.PostgresDatabase(t)}, Migrations)
	var want []string
	for _, c := range ss.StandardCollections() {
		want = append(want, strconv.Itoa(int(c.ID))+" "+c.Name)
	}
	s := New(db)
	for i, name := range []string{"first", "second"} {
		w := ss.Write{Collection: name, Now: 1_700_000_000_000, MaxNames: 10}
		if _, err := s.Put(t.Context(), ss.Owner{UID: 1}, w, ss.Update{ID: "a"}); err != nil {
			t.Fatal(err)
		}
		want = append(want, strconv.Itoa(ss.FirstCustomID+i)+" "+name)
	}
	if got := opened.Lines(t, db, `SELECT collection_id || ' ' || name FROM collections ORDER BY collection_id`); !slices.Equal(got, want) {
		t.Errorf("the collections are %q, want %q", got, want)
	}
}

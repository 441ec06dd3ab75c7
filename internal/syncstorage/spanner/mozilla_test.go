package spanner_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"holdfast/internal/db/migrate"
	"holdfast/internal/db/spannerdb"
	ss "holdfast/internal/syncstorage"
	backend "holdfast/internal/syncstorage/spanner"
)

// theirTables are the tables of Mozilla's server, and theirRows its rows for two users without a quota, so without
// counters. 2,100,000,000 s after the write means never. Opening a batch creates its collection with stamp 0.
// Collection 0 stores the last deletion's stamp.
const theirTables = `
CREATE TABLE user_collections (
	fxa_uid STRING(MAX) NOT NULL, fxa_kid STRING(MAX) NOT NULL, collection_id INT64 NOT NULL,
	modified TIMESTAMP NOT NULL, count INT64, total_bytes INT64,
) PRIMARY KEY (fxa_uid, fxa_kid, collection_id);

CREATE TABLE bsos (
	fxa_uid STRING(MAX) NOT NULL, fxa_kid STRING(MAX) NOT NULL, collection_id INT64 NOT NULL,
	bso_id STRING(MAX) NOT NULL, sortindex INT64, payload STRING(MAX) NOT NULL, modified TIMESTAMP NOT NULL, expiry TIMESTAMP NOT NULL,
) PRIMARY KEY (fxa_uid, fxa_kid, collection_id, bso_id),
	INTERLEAVE IN PARENT user_collections ON DELETE CASCADE, ROW DELETION POLICY (OLDER_THAN(expiry, INTERVAL 0 DAY));

CREATE TABLE collections (collection_id INT64 NOT NULL, name STRING(32) NOT NULL) PRIMARY KEY (collection_id);

CREATE UNIQUE INDEX CollectionName ON collections (name);

CREATE TABLE batches (
	fxa_uid STRING(MAX) NOT NULL, fxa_kid STRING(MAX) NOT NULL, collection_id INT64 NOT NULL,
	batch_id STRING(MAX) NOT NULL, expiry TIMESTAMP NOT NULL,
) PRIMARY KEY (fxa_uid, fxa_kid, collection_id, batch_id),
	INTERLEAVE IN PARENT user_collections ON DELETE CASCADE, ROW DELETION POLICY (OLDER_THAN(expiry, INTERVAL 0 DAY));

CREATE TABLE batch_bsos (
	fxa_uid STRING(MAX) NOT NULL, fxa_kid STRING(MAX) NOT NULL, collection_id INT64 NOT NULL,
	batch_id STRING(MAX) NOT NULL, batch_bso_id STRING(MAX) NOT NULL, sortindex INT64, payload STRING(MAX), ttl INT64,
) PRIMARY KEY (fxa_uid, fxa_kid, collection_id, batch_id, batch_bso_id), INTERLEAVE IN PARENT batches ON DELETE CASCADE;

INSERT INTO collections (collection_id, name) VALUES
	(1, 'clients'), (2, 'crypto'), (3, 'forms'), (4, 'history'), (5, 'keys'), (6, 'meta'), (7, 'bookmarks'), (8, 'prefs'),
	(9, 'tabs'), (10, 'passwords'), (11, 'addons'), (12, 'addresses'), (13, 'creditcards'), (101, 'extension-storage');`

const theirRows = `
INSERT INTO user_collections (fxa_uid, fxa_kid, collection_id, modified) VALUES
	('alice', '0000000000001-qqo', 0, TIMESTAMP '2026-01-01T00:00:00.10Z'),
	('alice', '0000000000001-qqo', 7, TIMESTAMP '2026-01-02T00:00:00.20Z'),
	('alice', '0000000000001-qqo', 8, TIMESTAMP '0001-01-01T00:00:00Z'),
	('alice', '0000000000001-qqo', 9, TIMESTAMP '2026-01-03T00:00:00.30Z'),
	('alice', '0000000000001-qqo', 101, TIMESTAMP '2026-01-04T00:00:00.40Z'),
	('bob', '0000000000002-u7s', 7, TIMESTAMP '2026-01-05T00:00:00Z');

INSERT INTO bsos (fxa_uid, fxa_kid, collection_id, bso_id, sortindex, payload, modified, expiry) VALUES
	('alice', '0000000000001-qqo', 7, 'menu', NULL, 'menu', TIMESTAMP '2026-01-01T12:00:00.10Z', TIMESTAMP_ADD(TIMESTAMP '2026-01-01T12:00:00.10Z', INTERVAL 2100000000 SECOND)),
	('alice', '0000000000001-qqo', 7, 'toolbar', 150, 'toolbar', TIMESTAMP '2026-01-02T00:00:00.20Z', TIMESTAMP_ADD(TIMESTAMP '2026-01-02T00:00:00.20Z', INTERVAL 2100000000 SECOND)),
	('alice', '0000000000001-qqo', 9, 'phone', NULL, 'tabs', TIMESTAMP '2026-01-03T00:00:00.30Z', TIMESTAMP '2026-01-24T00:00:00.30Z'),
	('alice', '0000000000001-qqo', 9, 'lost', NULL, 'tabs', TIMESTAMP '2025-12-01T00:00:00Z', TIMESTAMP '2025-12-22T00:00:00Z'),
	('alice', '0000000000001-qqo', 101, 'x', 1, 'ext', TIMESTAMP '2026-01-04T00:00:00.40Z', TIMESTAMP_ADD(TIMESTAMP '2026-01-04T00:00:00.40Z', INTERVAL 2100000000 SECOND)),
	('bob', '0000000000002-u7s', 7, 'menu', NULL, 'of bob', TIMESTAMP '2026-01-05T00:00:00Z', TIMESTAMP_ADD(TIMESTAMP '2026-01-05T00:00:00Z', INTERVAL 2100000000 SECOND));

INSERT INTO batches (fxa_uid, fxa_kid, collection_id, batch_id, expiry) VALUES
	('alice', '0000000000001-qqo', 8, '1d9f4e3c5b6a47988a1b2c3d4e5f6071', TIMESTAMP '2026-01-10T02:00:00Z');

INSERT INTO batch_bsos (fxa_uid, fxa_kid, collection_id, batch_id, batch_bso_id, sortindex, payload, ttl) VALUES
	('alice', '0000000000001-qqo', 8, '1d9f4e3c5b6a47988a1b2c3d4e5f6071', 'prefs', NULL, 'staged', NULL);`

func taken(t *testing.T) (*backend.Store, ss.Timestamp) {
	t.Helper()
	opts := options(t)
	before, err := spannerdb.Open(t.Context(), opts)
	if err != nil {
		t.Fatal(err)
	}
	defer before.Close()
	set := migrate.Set{Service: "theirs", Migrations: []migrate.Migration{{Version: 1, Name: "theirs", SQL: theirTables + theirRows}}}
	if _, err := before.Migrate(t.Context(), set); err != nil {
		t.Fatal(err)
	}
	return backend.New(openDB(t, opts)), ss.Timestamp(time.Date(2026, 1, 10, 0, 0, 0, 0, time.UTC).UnixMilli())
}

func TestMozillasTables(t *testing.T) {
	t.Parallel()
	s, now := taken(t)
	ctx := t.Context()
	alice, bob := ss.Owner{UID: 1, FxAUID: "alice", FxAKID: "0000000000001-qqo"}, ss.Owner{UID: 2, FxAUID: "bob", FxAKID: "0000000000002-u7s"}
	at := func(text string) ss.Timestamp {
		moment, err := time.Parse(time.RFC3339, text)
		if err != nil {
			t.Fatal(err)
		}
		return ss.Timestamp(moment.UnixMilli())
	}

	cs, err := s.Collections(ctx, alice)
	if err != nil {
		t.Fatal(err)
	}
	var stamps []string
	for _, c := range cs.Stamps {
		stamps = append(stamps, fmt.Sprint(c.Name, " ", c.Modified))
	}
	slices.Sort(stamps)
	want := []string{
		fmt.Sprint("bookmarks ", at("2026-01-02T00:00:00.20Z")), fmt.Sprint("extension-storage ", at("2026-01-04T00:00:00.40Z")),
		fmt.Sprint("tabs ", at("2026-01-03T00:00:00.30Z")),
	}
	if !slices.Equal(stamps, want) || cs.Modified != at("2026-01-04T00:00:00.40Z") {
		t.Errorf("the collections are %v, newest %v, want %v", stamps, cs.Modified, want)
	}

	get := func(o ss.Owner, collection, id string) string {
		t.Helper()
		bso, err := s.Get(ctx, o, ss.Request{Collection: collection, Now: now}, id)
		if err != nil {
			return err.Error()
		}
		return fmt.Sprint(string(bso.Payload), " ", bso.SortIndex, " ", bso.Modified, " ", bso.Expiry)
	}
	for _, c := range []struct {
		o              ss.Owner
		collection, id string
		want           ss.BSO
	}{
		{alice, "bookmarks", "menu", ss.BSO{Payload: []byte("menu"), Modified: at("2026-01-01T12:00:00.10Z")}},
		{alice, "bookmarks", "toolbar", ss.BSO{Payload: []byte("toolbar"), SortIndex: ss.Some[int64](150), Modified: at("2026-01-02T00:00:00.20Z")}},
		{alice, "tabs", "phone", ss.BSO{Payload: []byte("tabs"), Modified: at("2026-01-03T00:00:00.30Z"), Expiry: at("2026-01-24T00:00:00.30Z")}},
		{alice, "extension-storage", "x", ss.BSO{Payload: []byte("ext"), SortIndex: ss.Some[int64](1), Modified: at("2026-01-04T00:00:00.40Z")}},
		{bob, "bookmarks", "menu", ss.BSO{Payload: []byte("of bob"), Modified: at("2026-01-05T00:00:00Z")}},
	} {
		want := fmt.Sprint(string(c.want.Payload), " ", c.want.SortIndex, " ", c.want.Modified, " ", c.want.Expiry)
		if got := get(c.o, c.collection, c.id); got != want {
			t.Errorf("%s/%s of %s is %s, want %s", c.collection, c.id, c.o.FxAUID, got, want)
		}
	}
	if got := get(alice, "tabs", "lost"); got != "record not found" {
		t.Errorf("the expired record is %s", got)
	}
}

// TestWritesInMozillasTables also commits a batch opened by Mozilla's server, and counts records without counters.
func TestWritesInMozillasTables(t *testing.T) {
	t.Parallel()
	s, now := taken(t)
	ctx := t.Context()
	alice := ss.Owner{UID: 1, FxAUID: "alice", FxAKID: "0000000000001-qqo"}
	write := func(collection string, i int) ss.Write {
		return ss.Write{Collection: collection, Now: now + ss.Timestamp(1000*i), MaxNames: 10}
	}

	// Omitted fields are kept, and a record that never expires stays so.
	if _, err := s.Put(ctx, alice, write("bookmarks", 1), ss.Update{ID: "toolbar", Payload: ss.Some([]byte("new"))}); err != nil {
		t.Fatal(err)
	}
	bso, err := s.Get(ctx, alice, ss.Request{Collection: "bookmarks", Now: now + 1000}, "toolbar")
	if err != nil || string(bso.Payload) != "new" || bso.SortIndex != ss.Some[int64](150) || bso.Modified != now+1000 || bso.Expiry != 0 {
		t.Errorf("after a put %+v, %v", bso, err)
	}
	w := write("bookmarks", 2)
	w.If = ss.Precondition{UnmodifiedSince: ss.Some(ss.Timestamp(1))}
	if _, err := s.Put(ctx, alice, w, ss.Update{ID: "menu", Payload: ss.Some([]byte("lost"))}); err == nil {
		t.Error("a write succeeded although the record is newer than the precondition allows")
	}
	limits := ss.BatchLimits{Records: 100, Bytes: 1 << 20}
	if _, err := s.Commit(ctx, alice, write("prefs", 3), ss.BatchPart{ID: "1d9f4e3c5b6a47988a1b2c3d4e5f6071", Limits: limits}); err != nil {
		t.Fatal(err)
	}
	if bso, err := s.Get(ctx, alice, ss.Request{Collection: "prefs", Now: now + 3000}, "prefs"); err != nil || string(bso.Payload) != "staged" {
		t.Errorf("after the commit of their batch %+v, %v", bso, err)
	}
	if _, err := s.Put(ctx, alice, write("mine", 4), ss.Update{ID: "a", Payload: ss.Some([]byte("x"))}); err != nil {
		t.Fatal(err)
	}
	// A quota counts only the live records: menu, new, tabs, ext, staged, x, and y.
	w = write("mine", 5)
	w.Quota = ss.Quota{User: 22, Enforce: true}
	if _, err := s.Put(ctx, alice, w, ss.Update{ID: "b", Payload: ss.Some([]byte("y"))}); err != nil {
		t.Errorf("a write that fits into the quota: %v", err)
	}
	w.Now += 1000
	if _, err := s.Put(ctx, alice, w, ss.Update{ID: "c", Payload: ss.Some([]byte("z"))}); err == nil {
		t.Error("a write over the quota succeeded")
	}
	if err := s.DeleteAll(ctx, alice, ss.Precondition{}); err != nil {
		t.Fatal(err)
	}
	if cs, err := s.Collections(ctx, alice); err != nil || len(cs.Stamps) != 0 {
		t.Errorf("after the deletion %+v, %v", cs, err)
	}
	bob := ss.Owner{UID: 2, FxAUID: "bob", FxAKID: "0000000000002-u7s"}
	if bso, err := s.Get(ctx, bob, ss.Request{Collection: "bookmarks", Now: now}, "menu"); err != nil || !strings.HasPrefix(string(bso.Payload), "of") {
		t.Errorf("the other user has %+v, %v", bso, err)
	}
}

package postgres

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"holdfast/internal/buckets"
	"holdfast/internal/db/pgdb"
	"holdfast/internal/testdb"
	"holdfast/internal/testdb/opened"
)

// TestDistribution checks that Citus stores an account's rows on one node, where a request needs only one task.
func TestDistribution(t *testing.T) {
	t.Parallel()
	db := opened.Postgres(t, pgdb.Options{URL: testdb.CitusDatabase(t)}, Migrations)
	opened.WantCitusTables(t, db, "manta_bucket",
		"manta_bucket distributed owner colocated",
		"manta_bucket_account reference <none>",
		"manta_bucket_damage",
		"manta_bucket_deleted_bucket distributed owner colocated",
		"manta_bucket_deleted_object distributed owner colocated",
		"manta_bucket_event distributed owner colocated",
		"manta_bucket_event_refused distributed owner colocated",
		"manta_bucket_event_relay",
		"manta_bucket_hold reference <none>",
		"manta_bucket_key reference <none>",
		"manta_bucket_lease",
		"manta_bucket_lifecycle distributed owner colocated",
		"manta_bucket_name reference <none>",
		"manta_bucket_node reference <none>",
		"manta_bucket_object distributed owner colocated",
		"manta_bucket_part distributed owner colocated",
		"manta_bucket_scrub",
		"manta_bucket_settings distributed owner colocated",
		"manta_bucket_upload distributed owner colocated",
		"manta_bucket_usage distributed owner colocated",
		"manta_bucket_version distributed owner colocated",
		"schema_migrations",
	)
	// These are not delegated, because they are parts of transactions that compute.
	inside := []string{sqlAssemble.Name, sqlUpdate.Name, sqlUpdateVersion.Name, sqlLockVersion.Name, sqlLockNull.Name, sqlRemove.Name}
	for _, h := range ofOwner() {
		if !slices.Contains(inside, h.st.Name) {
			opened.WantOneTask(t, db, h.name, h.st.SQL, h.args...)
		}
	}
}

// TestOneMessage checks that on Citus a frequent operation is one message to the account's node, which sends no further
// messages, and that nothing is committed in two phases.
func TestOneMessage(t *testing.T) {
	t.Parallel()
	url := testdb.CitusDatabase(t)
	opened.Postgres(t, pgdb.Options{URL: url}, Migrations)
	log := testdb.LogCitus(t, url)
	if _, err := log.Exec(t.Context(), `INSERT INTO manta_bucket (id, name, owner) VALUES ($1, 'bucket-0', $2)`, filledBucket, filledOwner); err != nil {
		t.Fatal(err)
	}
	for _, h := range ofOwner() {
		if !slices.Contains([]string{
			"put of a new object", "put", "put with a condition", "put near a quota", "get", "list", "list groups", "create an upload", "put a part",
			"upload with parts", "complete", "delete", "delete objects", "expire", "append events",
		}, h.name) {
			continue
		}
		log.Reset()
		rows, err := log.Query(t.Context(), h.st.SQL, h.args...)
		if err == nil {
			rows.Close()
			err = rows.Err()
		}
		if err != nil {
			t.Errorf("%s: %v", h.name, err)
		}
		if len(log.Sent) != 1 || !strings.HasPrefix(log.Sent[0], "issuing SELECT ") {
			t.Errorf("%s: the messages are\n%s", h.name, strings.Join(log.Sent, "\n"))
		}
	}
}

// TestMessages counts the coordinator's messages for multi-step operations, without those that find the bucket.
func TestMessages(t *testing.T) {
	t.Parallel()
	url := testdb.CitusDatabase(t)
	opened.Postgres(t, pgdb.Options{URL: url}, Migrations)
	watch := testdb.WatchCitus(t, url)
	s := New(opened.Postgres(t, pgdb.Options{URL: watch.URL}, nil))
	const owner = buckets.AccountID(filledOwner)
	b := buckets.BucketRef{Name: "photos", ID: filledBucket}
	must := func(what string, err error) {
		t.Helper()
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
	}
	most := func(what string, n int) {
		t.Helper()
		if sent := watch.Sent(); len(sent) == 0 || len(sent) > n {
			t.Errorf("%s: %d messages, want at most %d:\n%s", what, len(sent), n, strings.Join(sent, "\n"))
		}
	}
	must("CreateAccount", s.CreateAccount(t.Context(), buckets.Account{ID: owner, Name: "main", Created: filledAt}))
	_, err := s.CreateBucket(t.Context(), owner, b, filledAt)
	must("CreateBucket", err)

	c := buckets.Completion{Object: buckets.ObjectID(buckets.NewUUID()), Now: filledAt}
	u := buckets.Upload{ID: filledUpload, Name: "a", Created: filledAt}
	watch.Sent()
	must("CreateUpload", s.CreateUpload(t.Context(), owner, b, u))
	most("create an upload", 1)
	for n := range 30 {
		p := buckets.Part{Number: n + 1, Created: filledAt, Body: buckets.Body{ID: buckets.ObjectID(buckets.NewUUID()), Length: 1, MD5: make([]byte, 16), Inline: []byte{1}}}
		must("PutPart", s.PutPart(t.Context(), buckets.UploadKey{Owner: owner, Bucket: b, Name: "a", ID: u.ID}, p))
		most("put a part", 1)
		if n != 7 {
			c.Parts = append(c.Parts, buckets.PartRef{Number: p.Number, ETag: strings.Repeat("00", 16)})
		}
	}
	w, err := s.Complete(t.Context(), buckets.UploadKey{Owner: owner, Bucket: b, Name: "a", ID: u.ID}, c)
	must("Complete", err)
	if w.Object.Length != 29 {
		t.Errorf("the object is %+v", w.Object)
	}
	most("complete an upload", 2)

	all := make([]buckets.Deletion, 30)
	for n := range all {
		all[n].Name = fmt.Sprint(n)
		o := buckets.Object{Name: all[n].Name, Body: buckets.Body{ID: buckets.ObjectID(buckets.NewUUID()), Length: 1, MD5: make([]byte, 16), Inline: []byte{1}}}
		_, err := s.Put(t.Context(), owner, b, buckets.Put{Object: o, Now: filledAt})
		must("Put", err)
	}
	watch.Sent()
	for range 7 { // the last calls could get a generic plan
		for _, delimiter := range []string{"", "/"} {
			page, err := s.List(t.Context(), owner, b.ID, buckets.Query{Delimiter: delimiter, Limit: 20})
			must("List", err)
			if len(page.Entries) != 20 || !page.More {
				t.Errorf("a page of %d entries, more: %v", len(page.Entries), page.More)
			}
			most("list, delimiter "+delimiter, 1)
		}
	}
	done, err := s.DeleteAll(t.Context(), owner, b, buckets.Deletions{All: all, Now: filledAt})
	must("DeleteAll", err)
	for i := range done {
		must("DeleteAll", done[i].Err)
	}
	most("delete 30 objects", 1)
}

// TestRebalance drains a worker and refills it as in the guide. No acknowledged write may be lost.
func TestRebalance(t *testing.T) {
	t.Parallel()
	url := testdb.CitusDatabase(t)
	testdb.FewShards(t, url)
	s := New(opened.Postgres(t, pgdb.Options{URL: url}, Migrations))
	type account struct {
		id      buckets.AccountID
		bucket  buckets.BucketRef
		written atomic.Int64
	}
	accounts := make([]account, 20)
	for i := range accounts {
		a := &accounts[i]
		a.id = buckets.AccountID(fmt.Sprintf("a0000000-0000-4000-8000-%012d", i))
		a.bucket = buckets.BucketRef{Name: "bucket", ID: buckets.BucketID(buckets.NewUUID())}
		if err := s.CreateAccount(t.Context(), buckets.Account{ID: a.id, Name: fmt.Sprint(i), Created: filledAt}); err != nil {
			t.Fatal(err)
		}
		if _, err := s.CreateBucket(t.Context(), a.id, a.bucket, filledAt); err != nil {
			t.Fatal(err)
		}
	}
	testdb.Rebalance(t, url, func(ctx context.Context, n int) error {
		a := &accounts[n%len(accounts)]
		o := buckets.Object{Name: fmt.Sprint(n), Body: buckets.Body{ID: buckets.ObjectID(buckets.NewUUID()), Length: 3, MD5: make([]byte, 16), Inline: []byte("abc")}}
		_, err := s.Put(ctx, a.id, a.bucket, buckets.Put{Object: o, Now: filledAt})
		if err == nil {
			a.written.Add(1)
		}
		return err
	})
	for i := range accounts {
		a := &accounts[i]
		usage, err := s.Usage(t.Context(), a.id)
		if want := a.written.Load(); err != nil || usage.Total != (buckets.Usage{Objects: want, Bytes: 3 * want}) {
			t.Errorf("account %d has %+v after %d writes, %v", i, usage.Total, want, err)
		}
		if wrong, err := s.Audit(t.Context(), a.id, false); err != nil || len(wrong) > 0 {
			t.Errorf("account %d: %+v, %v", i, wrong, err)
		}
	}
}

// A hung worker must not affect accounts on other workers.
func TestHungWorker(t *testing.T) {
	t.Parallel()
	var keys []string
	for account := range 12 {
		keys = append(keys, fmt.Sprintf("a0000000-0000-4000-8000-%012d", account))
	}
	opened.HungWorker(t, Migrations, "manta_bucket", keys, func(db *pgdb.DB) func(context.Context, int) error {
		s, refs := New(db), make([]buckets.BucketRef, len(keys))
		for i, key := range keys {
			refs[i] = buckets.BucketRef{Name: "bucket", ID: buckets.BucketID(buckets.NewUUID())}
			if err := s.CreateAccount(t.Context(), buckets.Account{ID: buckets.AccountID(key), Name: fmt.Sprint(i), Created: filledAt}); err != nil {
				t.Fatal(err)
			}
			if _, err := s.CreateBucket(t.Context(), buckets.AccountID(key), refs[i], filledAt); err != nil {
				t.Fatal(err)
			}
		}
		return func(ctx context.Context, key int) error {
			owner := buckets.AccountID(keys[key])
			o := buckets.Object{Name: "a", Body: buckets.Body{ID: buckets.ObjectID(buckets.NewUUID()), Length: 3, MD5: make([]byte, 16), Inline: []byte("abc")}}
			if _, err := s.Put(ctx, owner, refs[key], buckets.Put{Object: o, Now: filledAt}); err != nil {
				return err
			}
			_, _, err := s.Find(ctx, owner, "bucket", "a")
			return err
		}
	})
}

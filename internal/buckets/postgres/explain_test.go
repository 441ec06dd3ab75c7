package postgres

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgtype"

	"holdfast/internal/buckets"
	"holdfast/internal/db/pgdb"
	"holdfast/internal/testdb"
	"holdfast/internal/testdb/opened"
)

const fill = `
	CREATE TEMP TABLE bucket AS
		SELECT ('a0000000-0000-4000-8000-' || lpad(a::text, 12, '0'))::uuid AS owner, ('b0000000-0000-4000-8000-' || lpad((2 * a + b)::text, 12, '0'))::uuid AS id, b
		FROM generate_series(1, 60) a, generate_series(0, 1) b;
	ANALYZE bucket;
	INSERT INTO manta_bucket (id, name, owner, created) SELECT id, 'bucket-' || b, owner, '2024-01-01' FROM bucket;
	INSERT INTO manta_bucket_object (id, name, owner, bucket_id, content_length, content_type, sharks)
		SELECT gen_random_uuid(), 'f' || n % 10 || '/' || n, owner, id, 10, 'text/plain', '{a:b}' FROM bucket, generate_series(1, 400) n;
	INSERT INTO manta_bucket_version (owner, bucket_id, name, version, null_version, marker, superseded, id, created, modified, content_length)
		SELECT owner, id, 'f' || n % 10 || '/' || n % 50, gen_random_uuid(), n <= 50, false, '2024-01-01', gen_random_uuid(), '2024-01-01', '2024-01-01', 10
		FROM bucket, generate_series(1, 300) n;
	INSERT INTO manta_bucket_deleted_object (id, name, owner, bucket_id, created, modified, content_length, deleted_at, garbage_id)
		SELECT gen_random_uuid(), 'f/' || n, owner, id, '2024-01-01', '2024-01-01', 10, timestamptz '2024-01-01' + n * interval '1 h', gen_random_uuid()
		FROM bucket, generate_series(1, 100) n;
	INSERT INTO manta_bucket_deleted_bucket SELECT gen_random_uuid(), 'gone', owner, '2024-01-01', timestamptz '2024-01-01' + n * interval '1 h'
		FROM bucket, generate_series(1, 10) n;
	INSERT INTO manta_bucket_upload (id, name, owner, bucket_id, created)
		SELECT ('c0000000-0000-4000-8000-' || lpad(n::text, 12, '0'))::uuid, 'f/' || n, owner, id, timestamptz '2024-01-01' + n * interval '1 h' FROM bucket, generate_series(1, 100) n WHERE b = 0;
	INSERT INTO manta_bucket_part SELECT owner, id, n, bucket_id, name, gen_random_uuid(), '2024-01-01', 10, '' FROM manta_bucket_upload, generate_series(1, 5) n;
	INSERT INTO manta_bucket_usage (owner, bucket_id, slot, objects, bytes) SELECT owner, id, n, 25, 250 FROM bucket, generate_series(0, 15) n;
	INSERT INTO manta_bucket_usage (owner, bucket_id, slot, objects, bytes) SELECT DISTINCT owner, '00000000-0000-0000-0000-000000000000'::uuid, n, 50, 500 FROM bucket, generate_series(0, 15) n;
	INSERT INTO manta_bucket (id, name, owner, created) SELECT gen_random_uuid(), 'bucket-' || n, gen_random_uuid(), '2024-01-01' FROM generate_series(1, 5000) n;
	INSERT INTO manta_bucket_settings SELECT owner, id, '{}' FROM manta_bucket;
	INSERT INTO manta_bucket_event SELECT owner, md5(n::text)::uuid, n, 'hook', 'k', '{}', '2024-01-01' FROM (SELECT owner FROM manta_bucket LIMIT 1) b, generate_series(1, 10000) n;
	INSERT INTO manta_bucket_lifecycle SELECT owner, id, '2024-01-01', '2024-01-01', '{}' FROM manta_bucket;
	UPDATE manta_bucket_settings SET settings = '{"lifecycle":{"rules":[],"bucket":"bucket-0"}}' WHERE owner < '10000000-0000-4000-8000-000000000050';
	INSERT INTO manta_bucket_name SELECT DISTINCT ON (name) name, owner, '2024-01-01', CASE WHEN name < 'bucket-2' THEN timestamptz '2024-01-01' END FROM manta_bucket;
	INSERT INTO manta_bucket_account SELECT gen_random_uuid(), 'a' || n, '2024-01-01', 0, 0 FROM generate_series(1, 3000) n;
	INSERT INTO manta_bucket_key SELECT 'K' || n, gen_random_uuid(), '', '2024-01-01' FROM generate_series(1, 3000) n;
	INSERT INTO manta_bucket_node SELECT 'a:' || n, 'file:///srv', 'active', '2024-01-01' FROM generate_series(1, 3000) n;
	DROP TABLE bucket`

const (
	filledOwner  = "a0000000-0000-4000-8000-000000000050"
	filledBucket = "b0000000-0000-4000-8000-000000000100"
	filledUpload = "c0000000-0000-4000-8000-000000000007"
	filledAt     = buckets.Moment(1_704_067_200_000_000 + 50*3_600_000_000) // 2024-01-01 and 50 hours
)

// step is a statement that delays a request or the sweep, with the indexes that its plan must use.
type step struct {
	name    string
	st      pgdb.Statement
	args    []any
	indexes []string
}

func ofOwner() []step {
	const (
		owner, bucket, id, upload = filledOwner, "bucket-0", filledBucket, filledUpload
		bucketKey                 = "manta_bucket_pkey"
		objects                   = "manta_bucket_object_pkey"
		uploads                   = "manta_bucket_upload_pkey"
		parts                     = "manta_bucket_part_pkey"
		garbage                   = "manta_bucket_deleted_object_pkey"
		usage                     = "manta_bucket_usage_pkey"
		settings                  = "manta_bucket_settings_pkey"
		node                      = "manta_bucket_node_pkey"
		versions                  = "manta_bucket_version_pkey"
		nulls                     = "manta_bucket_version_null_idx"
		body                      = "d0000000-0000-4000-8000-000000000001"
	)
	now := at(filledAt)
	put := func(name string, flags int, all bool) []any {
		return []any{owner, bucket, id, name, now, body, nil, int64(10), []byte{1}, "text/plain", nil, nil, nil, []string{"a:1"}, nil, nil, int64(8), int64(9), int64(10),
			flags, nil, []string{"x"}, nil, nil, all}
	}
	none := pgtype.Timestamptz{}
	return []step{
		{"bucket", sqlBucket, []any{owner, bucket}, []string{settings}},
		{"find", sqlFind, []any{owner, bucket, "f/7"}, []string{settings, objects}},
		{"buckets", sqlListBuckets, []any{owner, "a", "b", 100}, []string{bucketKey, settings}},
		{"put", sqlPut.Statement, put("f1/1", 0, false), []string{objects, node}},
		{"put with a condition", sqlPut.Statement, put("f1/1", conditionSet, false), []string{objects}},
		{"put of a new object", sqlPut.Statement, put("new", 0, false), []string{objects}},
		{"put near a quota", sqlPut.Statement, put("new", 0, true), []string{objects, usage}},
		{"get", sqlGet, []any{owner, id, "f1/1"}, []string{objects}},
		{"delete", sqlDelete.Statement, []any{owner, bucket, id, "f1/1", now, 0, nil, nil, none, none, body, false, false}, []string{objects}},
		{"delete objects", sqlDeleteObjects.Statement, []any{owner, bucket, id, []string{"f1/1", "f2/2", "none"}, now, []*string{nil, nil, nil}}, []string{objects}},
		{"expire", sqlExpire.Statement, []any{owner, bucket, id, []string{"f1/1", "f2/2", "none"}, []string{body, body, body}, []time.Time{now, now, now}, []*string{nil, nil, nil}, now}, []string{objects}},
		{"append events", sqlAppendEvents.Statement, []any{owner, []string{body, body}, []int16{2, 2}, []string{"hook", "hook"}, []string{"b/a", "b/a"}, []string{"{}", "{}"}, now}, []string{"manta_bucket_event_pkey"}},
		{"lifecycle run", sqlLifecycleRun, []any{owner, id}, []string{"manta_bucket_lifecycle_pkey"}},
		{"set a lifecycle run", sqlSetLifecycleRun, []any{owner, id, now, now, "{}"}, nil},
		{"list", sqlList.Statement, []any{owner, id, "", "", "f1", false, 101}, []string{objects}},
		{"list groups", sqlList.Statement, []any{owner, id, "", "/", "", false, 101}, []string{objects}},
		{"update", sqlUpdate.Statement, []any{owner, id, "f1/1", now, "text/html", nil, nil, nil, nil}, []string{objects}},
		{"set versioning", sqlSetVersioning, []any{owner, bucket, id, int16(1)}, nil},
		{"set the object lock", sqlSetBucketLock, []any{owner, bucket, id, "{}"}, nil},
		{"object lock", sqlBucketLock, []any{owner, bucket}, nil},
		{"delete a version", sqlDeleteVersion.Statement, []any{owner, bucket, id, "f1/1", body, now, 0, nil, nil, none, none, false, false}, []string{objects, versions}},
		{"delete the null version", sqlDeleteVersion.Statement, []any{owner, bucket, id, "none", nil, now, 0, nil, nil, none, none, false, false}, []string{objects, nulls}},
		{"null version", sqlNull, []any{owner, id, "f1/1"}, []string{nulls}},
		{"current version", sqlCurrent, []any{owner, id, "f1/1"}, []string{objects, versions}},
		{"version", sqlVersion, []any{owner, id, "f1/1", body}, []string{objects, versions}},
		{"lock a version", sqlLockVersion, []any{owner, id, "f1/1", body}, []string{versions}},
		{"lock the null version", sqlLockNull, []any{owner, id, "f1/1"}, []string{nulls}},
		{"update a version", sqlUpdateVersion.Statement, []any{owner, id, "f1/1", now, "text/html", nil, nil, nil, nil, body}, []string{versions}},
		{"import a marker", sqlSetMarker, []any{owner, id, "f1/1", now}, []string{versions}},
		{"import over a version", sqlSetSuperseded, []any{owner, id, "f1/1", now, now}, []string{versions}},
		{"list versions", sqlListVersions, []any{owner, id, "f1", body, 100, false}, []string{objects, versions}},
		{"list noncurrent versions", sqlListNoncurrent, []any{owner, id, "f1", body, 100}, []string{versions}},
		{"set frames of a version", sqlFrameVersion, []any{owner, id, "f1/1", body, int64(1), int64(2)}, []string{versions}},
		{"delete a bucket", sqlDeleteBucket, []any{owner, bucket, id, now}, []string{objects}},
		{"create an upload", sqlCreateUpload.Statement, []any{owner, bucket, id, "new", upload, now, nil, "", nil, nil, nil, nil}, nil},
		{"upload", sqlUpload, []any{owner, id, "f/7", upload}, []string{uploads}},
		{"listed", sqlListed, []any{owner, id, []string{"f/7", "f/8"}}, []string{"manta_bucket_object_pkey"}},
		{"uploads", sqlListUploads, []any{owner, id, "f/7", upload, 100}, []string{uploads}},
		{"put a part", sqlPutPart.Statement, []any{owner, bucket, id, "f/7", upload, 2, now, body, int64(10), []byte{1}, nil, []string{"a:1"}, nil, int64(7), int64(8), false}, []string{uploads, parts}},
		{"parts", sqlParts, []any{owner, upload, 1, 10}, []string{parts}},
		{"segments", sqlSegments, []any{owner, upload, int64(0), 10}, []string{parts}},
		{"assemble", sqlAssemble.Statement, []any{owner, id, "f/7", upload, []int32{1, 3}, []int64{0, 10}, now}, []string{parts, uploads}},
		{"upload with parts", sqlUploadWithParts, []any{owner, id, "f/7", upload, bucket}, []string{uploads, parts}},
		{"complete", sqlComplete.Statement, append(put("f/7", 0, false), upload, []byte{1}, []int64{1, 3}, []int64{0, 10}), []string{parts, uploads}},
		{"abort", sqlAbort, []any{owner, id, "f/7", upload, now}, []string{parts, uploads}},
		{"set frames", sqlFrameObject, []any{owner, id, "f1/1", body, int64(1), int64(2)}, []string{objects}},
		{"set frames of a part", sqlFramePart, []any{owner, upload, 1, body, int64(1), int64(2)}, []string{parts}},
		{"set nodes", sqlSetSharks.Statement, []any{owner, id, "f1/1", nil, 0, false, body, []string{"a:b"}, []string{"a:1"}}, []string{objects}},
		{"set nodes of a part", sqlSetSharks.Statement, []any{owner, id, "f/7", upload, 1, false, body, []string{"a:b"}, []string{"a:1"}},
			[]string{objects, uploads, parts, "manta_bucket_deleted_object_upload_idx"}},
		{"set nodes of garbage", sqlSetSharks.Statement, []any{owner, id, "f/7", nil, 0, true, body, []string{"a:b"}, []string{"a:1"}}, nil},
		{"remove a bucket", sqlRemoveBucket, []any{owner, id, "gone", now, 10}, []string{uploads, parts}},
		{"remove garbage", sqlRemove.Statement, []any{owner, body, []string{id}, []string{body}, []string{"f/7"}, []string{""}}, nil},
		{"usage", sqlUsage, []any{owner}, nil},
		{"set a quota", sqlSetQuota, []any{owner, bucket, id, int64(5), int64(5)}, nil},
	}
}

func ofAll() []step {
	at := at(filledAt)
	return []step{
		{"find buckets", sqlFindBuckets, []any{"bucket-7", "bucket-7~", 10}, []string{"manta_bucket_name_idx"}},
		{"buckets with CORS rules", sqlBucketsWithCORS, []any{"none", 2}, []string{"manta_bucket_name_idx"}},
		{"name", sqlName, []any{"bucket-7"}, nil},
		{"name holder", sqlNameHolder, []any{"bucket-7"}, nil},
		{"names", sqlListNames, []any{"bucket-7", 10}, nil},
		{"old names", sqlOldNames, []any{at, 10}, nil},
		{"old uploads", sqlOldUploads, []any{at, 10}, []string{"manta_bucket_upload_created_idx"}},
		{"due lifecycles", sqlDueLifecycles, []any{filledOwner, filledBucket, at, 10}, []string{"manta_bucket_settings_lifecycle_idx"}},
		{"garbage", sqlGarbage, []any{at, at, 10}, []string{"manta_bucket_deleted_object_deleted_at_idx"}},
		{"claimed", sqlClaimed, []any{filledUpload, at, true}, []string{"manta_bucket_deleted_object_claim_idx"}},
		{"taken", sqlTaken, []any{filledUpload, []string{filledUpload}, []string{filledUpload}, true}, []string{"manta_bucket_deleted_object_claim_idx"}},
		{"account", sqlAccount, []any{"a7"}, nil},
		{"bucket totals", sqlBucketTotals, []any{filledOwner, []string{"b0000000-0000-4000-8000-000000000051"}}, []string{"manta_bucket_usage_pkey"}},
		{"totals", sqlTotals, []any{[]string{filledOwner, "a0000000-0000-4000-8000-000000000051"}}, []string{"manta_bucket_usage_pkey"}},
		{"accounts", sqlListAccounts, []any{"a7", 10}, nil},
		{"key", sqlKey, []any{"K7"}, nil},
		{"all keys", sqlListKeys, []any{"HF", 10}, []string{"manta_bucket_key_pkey"}},
		{"keys", sqlKeys, []any{filledOwner, "HF", 10}, []string{"manta_bucket_key_account_idx"}},
	}
}

// TestPlans checks the custom plans of first calls and the generic plans of later calls.
func TestPlans(t *testing.T) {
	t.Parallel()
	url := testdb.PostgresDatabase(t)
	opened.Postgres(t, pgdb.Options{URL: url}, Migrations)
	testdb.Script(t, url, fill+`; ANALYZE`)
	e := testdb.Explain(t, url)
	for _, h := range append(ofOwner(), ofAll()...) {
		t.Run(h.name, func(t *testing.T) { e.Uses(t, h.indexes, h.st.SQL, h.args...) })
	}
}

func TestPageCost(t *testing.T) {
	t.Parallel()
	url := testdb.PostgresDatabase(t)
	db := opened.Postgres(t, pgdb.Options{URL: url}, Migrations)
	cost := map[string][]int{}
	for i, n := range []int{1_000, 100_000} {
		testdb.Script(t, url, fmt.Sprintf(`INSERT INTO manta_bucket_object (id, name, owner, bucket_id, content_length)
			SELECT gen_random_uuid(), lpad((n %% 100)::text, 3, '0') || '/' || n, '%s', 'b0000000-0000-4000-8000-00000000000%d', 1 FROM generate_series(1, %d) n`,
			filledOwner, i, n))
		testdb.Script(t, url, `VACUUM ANALYZE manta_bucket_object`)
		bucket := fmt.Sprintf("b0000000-0000-4000-8000-00000000000%d", i)
		for delimiter, from := range map[string]string{"": "050", "/": "010/"} {
			cost[delimiter] = append(cost[delimiter], buffers(t, db, sqlList.SQL, filledOwner, bucket, "", delimiter, from, false, 51))
		}
	}
	t.Logf("pages read for a page of 50 entries: %v without groups, %v with groups", cost[""], cost["/"])
	for delimiter, c := range cost {
		if c[1] > c[0]*2 {
			t.Errorf("delimiter %q: %d pages of the database are read in the small bucket, %d in the large one", delimiter, c[0], c[1])
		}
	}
}

// buffers returns how many database pages a statement reads.
func buffers(t *testing.T, db *pgdb.DB, sql string, args ...any) int {
	t.Helper()
	var plans []struct {
		Plan struct {
			Hit  int `json:"Shared Hit Blocks"`
			Read int `json:"Shared Read Blocks"`
		}
	}
	for range 2 { // the first call reads the catalog
		text := strings.Join(opened.Lines(t, db, `EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) `+sql, args...), "\n")
		if err := json.Unmarshal([]byte(text), &plans); err != nil || len(plans) != 1 {
			t.Fatalf("%s: %v", text, err)
		}
	}
	return plans[0].Plan.Hit + plans[0].Plan.Read
}

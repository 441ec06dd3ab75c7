package s3api_test

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"holdfast/internal/buckets"
	"holdfast/internal/buckets/postgres"
	"holdfast/internal/buckets/sqlite"
	"holdfast/internal/db/pgdb"
	"holdfast/internal/db/sqlitedb"
	"holdfast/internal/testdb"
	"holdfast/internal/testdb/opened"
)

// counted counts PostgreSQL statements, or SQLite reads and writes.
type counted struct {
	mu    sync.Mutex
	count map[string]int
}

func (c *counted) observe(name string, _ time.Duration, _ error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.count[name]++
}

func (c *counted) of(fn func()) map[string]int {
	c.mu.Lock()
	c.count = map[string]int{}
	c.mu.Unlock()
	fn()
	c.mu.Lock()
	defer c.mu.Unlock()
	return maps.Clone(c.count)
}

// TestPlainStatements checks that notifications add no statements to requests for other buckets, or after they are
// removed. A plain write is a single statement.
func TestPlainStatements(t *testing.T) {
	t.Parallel()
	for engine, open := range map[string]func(t *testing.T, c *counted) store{
		"sqlite": func(t *testing.T, c *counted) store {
			return sqlite.New(opened.SQLite(t, sqlitedb.Options{Path: filepath.Join(t.TempDir(), "buckets.db"), Observe: c.observe}, sqlite.Migrations))
		},
		"postgres": func(t *testing.T, c *counted) store {
			return postgres.New(opened.Postgres(t, pgdb.Options{URL: testdb.PostgresDatabase(t), Observe: c.observe}, postgres.Migrations))
		},
	} {
		t.Run(engine, func(t *testing.T) {
			t.Parallel()
			c := &counted{count: map[string]int{}}
			s := serveOn(t, open(t, c))
			now := time.Now().Truncate(time.Microsecond)
			s.options.Clock = func() time.Time { return now } // cached bucket settings do not expire
			s.options.Destinations = []buckets.Destination{{Name: "hook", Kind: "webhook"}}
			s.reopen()
			s.do("PUT", "/photos", "").want(200)
			s.do("PUT", "/noted", "").want(200)
			write := func() map[string]int { return c.of(func() { s.do("PUT", "/photos/k", "x").want(200) }) }
			write() // reads the settings
			write() // reads the lifecycle rules, which are cached for 10 s
			for method, status := range map[string]int{"PUT": 200, "DELETE": 204} {
				count := withoutCached(c.of(func() { s.do(method, "/photos/k", "").want(status) }))
				if count[put[engine][method]] != 1 || len(count) != 1 {
					t.Errorf("%s executes %v, want one statement", method, count)
				}
			}
			before := withoutCached(c.of(func() { s.everyRequest("/photos") }))
			s.do("PUT", "/noted?notification", fmt.Sprintf(configuration, queue("q", hookARN, everyEv, ""))).want(200)
			s.do("PUT", "/noted/k", "x").want(200)
			s.do("PUT", "/photos?notification", fmt.Sprintf(configuration, queue("q", hookARN, everyEv, ""))).want(200)
			s.do("PUT", "/photos/k", "x").want(200)
			s.do("PUT", "/photos?notification", fmt.Sprintf(configuration, "")).want(200)
			write()
			if after := withoutCached(c.of(func() { s.everyRequest("/photos") })); !maps.Equal(after, before) {
				t.Errorf("with events of another bucket %v, before %v", after, before)
			}
			for _, name := range slices.Sorted(maps.Keys(before)) {
				if strings.Contains(name, "event") || strings.Contains(name, "outbox") || strings.Contains(name, "_in_steps") {
					t.Errorf("a bucket without notifications executes %s", name)
				}
			}

			// With notifications, DeleteObjects is one transaction on PostgreSQL.
			s.do("PUT", "/photos?notification", fmt.Sprintf(configuration, queue("q", hookARN, everyEv, ""))).want(200)
			var all strings.Builder
			for n := range 20 {
				s.do("PUT", fmt.Sprint("/photos/", n), "x").want(200)
				fmt.Fprintf(&all, "<Object><Key>%d</Key></Object>", n)
			}
			count := c.of(func() { s.do("POST", "/photos?delete", "<Delete>"+all.String()+"</Delete>").want(200) })
			if engine == "postgres" && count["buckets.delete_objects_in_steps"] != 1 {
				t.Errorf("DeleteObjects executes %v", count)
			}
		})
	}
}

// withoutCached removes reads of buckets, keys and accounts, whose caches expire by the real time.
func withoutCached(count map[string]int) map[string]int {
	for _, name := range []string{"bucket", "buckets.bucket", "key", "buckets.key", "account", "buckets.account_by_id"} {
		delete(count, name)
	}
	return count
}

var put = map[string]map[string]string{
	"sqlite": {"PUT": "put_object", "DELETE": "delete_object"}, "postgres": {"PUT": "buckets.put", "DELETE": "buckets.delete"},
}

func (s *server) everyRequest(bucket string) {
	s.t.Helper()
	for range 2 {
		s.do("PUT", bucket+"/k", "x").want(200)
	}
	s.do("GET", bucket+"/k", "").want(200)
	s.do("HEAD", bucket+"/k", "").want(200)
	s.do("GET", bucket+"?list-type=2", "").want(200)
	s.do("PUT", bucket+"/copy", "", "x-amz-copy-source: "+bucket+"/k").want(200)
	id := s.upload(bucket + "/up")
	s.complete(bucket+"/up", id, s.part(bucket+"/up", id, "1", hello)).want(200)
	s.do("PUT", bucket+"/k?tagging", "<Tagging><TagSet><Tag><Key>a</Key><Value>b</Value></Tag></TagSet></Tagging>").want(200)
	s.do("DELETE", bucket+"/k", "").want(204)
	s.do("POST", bucket+"?delete", "<Delete><Object><Key>copy</Key></Object><Object><Key>up</Key></Object><Object><Key>none</Key></Object></Delete>").want(200)
}

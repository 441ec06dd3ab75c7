package s3api_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"holdfast/internal/auth/sigv4/sigv4test"
	"holdfast/internal/buckets"
	"holdfast/internal/buckets/postgres"
	"holdfast/internal/buckets/sqlite"
	"holdfast/internal/db/pgdb"
	"holdfast/internal/db/sqlitedb"
	"holdfast/internal/suite"
	"holdfast/internal/testdb"
	"holdfast/internal/testdb/opened"
)

// BenchmarkCompared alternates between two kinds of requests, so that a busy machine slows down both: a key with limits
// and the owner's key; overwrites in a bucket with versioning or notifications and in a bucket without.
//
//	bin/testservers -- go test -run ^$ -bench Compared -benchtime 3000x ./internal/buckets/s3api
func BenchmarkCompared(b *testing.B) {
	b.Run("sqlite", func(b *testing.B) {
		compare(b, sqlite.New(opened.SQLite(b, sqlitedb.Options{Path: filepath.Join(b.TempDir(), "buckets.db")}, sqlite.Migrations)))
	})
	b.Run("postgres", func(b *testing.B) {
		compare(b, postgres.New(opened.Postgres(b, pgdb.Options{URL: testdb.PostgresDatabase(b)}, postgres.Migrations)))
	})
}

func compare(b *testing.B, st store) {
	b.Helper()
	s := serveOn(b, st)
	s.options.Limits.Inline = 16 << 10
	s.options.Destinations = []buckets.Destination{{Name: "hook", Kind: "webhook"}}
	s.reopen()
	small := strings.Repeat("x", 4<<10)
	for _, path := range []string{"/photos", "/versions", "/noted"} {
		s.do("PUT", path, "").want(200)
	}
	s.do("PUT", "/photos/small", small).want(200)
	s.do("PUT", "/versions?versioning", versioningOn).want(200)
	s.do("PUT", "/noted?notification", fmt.Sprintf(configuration, queue("all", hookARN, everyEv, ""))).want(200)
	owner, _, err := s.keys.Find(b.Context(), s.main.AccessKeyID)
	if err != nil {
		b.Fatal(err)
	}
	id, secret, err := s.keys.Create(b.Context(), owner.Account.ID, buckets.KeyTerms{Limits: buckets.KeyLimits{
		Buckets: []string{"other", "photos", "versions"}, Prefix: "s", Rights: []buckets.Right{buckets.RightRead, buckets.RightWrite, buckets.RightList},
		Networks: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("127.0.0.0/8")},
	}})
	if err != nil {
		b.Fatal(err)
	}
	limited := sigv4test.Signer{AccessKeyID: id, Secret: secret, Region: region}
	put := func(bucket string) func(n int) (string, string, string) {
		return func(n int) (string, string, string) { return "PUT", fmt.Sprint("/", bucket, "/s", n%500), small }
	}
	get := func(int) (string, string, string) { return "GET", "/photos/small", "" }
	for _, c := range []struct {
		name    string
		keys    [2]sigv4test.Signer
		targets [2]func(n int) (method, target, body string)
	}{
		{"GET 4 KiB by a limited key", [2]sigv4test.Signer{s.main, limited}, [2]func(int) (string, string, string){get, get}},
		{"PUT 4 KiB by a limited key", [2]sigv4test.Signer{s.main, limited}, [2]func(int) (string, string, string){put("photos"), put("photos")}},
		{"PUT 4 KiB with versions", [2]sigv4test.Signer{s.main, s.main}, [2]func(int) (string, string, string){put("photos"), put("versions")}},
		{"PUT 4 KiB with notifications", [2]sigv4test.Signer{s.main, s.main}, [2]func(int) (string, string, string){put("photos"), put("noted")}},
	} {
		b.Run(c.name, func(b *testing.B) {
			var took [2][]time.Duration
			for n := 0; b.Loop(); n++ {
				for i := range 2 {
					side := (n + i) % 2 // neither kind is always first
					method, target, body := c.targets[side](n)
					begun := time.Now()
					s.exchange(b.Context(), c.keys[side], method, target, body)
					if n >= 500 { // from here on all are overwrites
						took[side] = append(took[side], time.Since(begun))
					}
				}
			}
			suite.ReportMedians(b, took, "without", "with")
		})
	}
}

// exchange uses a persistent connection.
func (s *server) exchange(ctx context.Context, key sigv4test.Signer, method, target, body string) {
	s.t.Helper()
	r, err := http.NewRequestWithContext(ctx, method, s.url+target, strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	key.Sign(r, sigv4test.Unsigned, time.Now())
	a, err := http.DefaultClient.Do(r)
	if err != nil {
		s.t.Fatal(err)
	}
	if _, err := io.Copy(io.Discard, a.Body); err != nil || a.Body.Close() != nil || a.StatusCode != http.StatusOK {
		s.t.Fatalf("%s %s: %d %v", method, target, a.StatusCode, err)
	}
}

package e2e

import (
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"holdfast/internal/testdb"
	"holdfast/internal/workload/guest"
	"holdfast/test/binary"
)

// TestGuestRedisAfterRestore restores a database that is older than the hot state in Redis. A wish that the database
// lacks is not shown, and a repeated request whose effect is lost is executed again.
func TestGuestRedisAfterRestore(t *testing.T) {
	t.Parallel()
	for name, restore := range map[string]func(r *redisRestore){
		"SQLite":                 (*redisRestore).fromBackup,
		"backup folder":          (*redisRestore).onBackup,
		"PostgreSQL":             (*redisRestore).fromDump,
		"PostgreSQL, in place":   (*redisRestore).inPlace,
		"copied after a restore": (*redisRestore).copied,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			restore(&redisRestore{t: t, redis: testdb.OwnRedis(t), visitor: &visitor{t: t}})
		})
	}
}

type redisRestore struct {
	t       *testing.T
	redis   *testdb.RedisServer
	visitor *visitor
}

func (r *redisRestore) vars(more ...string) []string {
	return append([]string{
		"HOLDFAST_GUEST__ENABLED=true", "HOLDFAST_GUEST__RATE_LIMITS=false", "HOLDFAST_GUEST__HOT=" + r.redis.URL(), "HOLDFAST_BUCKETS__ENABLED=false",
		"HOLDFAST_GUEST__COOKIE_SECRET=" + strings.Repeat("s", 32), "HOLDFAST_GUEST__HANDOFF_SECRET=" + strings.Repeat("h", 32),
	}, more...)
}

func (r *redisRestore) start(data string, vars ...string) *binary.Server {
	r.t.Helper()
	binary.Migrate(r.t, data, r.vars(vars...)...)
	return binary.Start(r.t, data, r.vars(vars...)...)
}

func (r *redisRestore) want(s *binary.Server, status int, method, path, body, key, part string) {
	r.t.Helper()
	if got, text := r.visitor.send(s, method, path, body, key); got != status || !strings.Contains(text, part) {
		r.t.Errorf("%s %s: %d %s, want %d and %s", method, path, got, text, status, part)
	}
}

const (
	keptWish = "00000001-2222"
	lostWish = "00000002-2222"
)

// begin makes a wish that the backup contains, save makes the backup, and then the lost wish is made.
func (r *redisRestore) begin(s *binary.Server, save func()) {
	r.t.Helper()
	r.want(s, http.StatusCreated, http.MethodPost, "/session", "", "session", "createdAt")
	r.want(s, http.StatusCreated, http.MethodPost, "/wishlist", guest.Wish(1), "kept", "wsh_")
	save()
	r.want(s, http.StatusCreated, http.MethodPost, "/wishlist", guest.Wish(2), "lost", "wsh_")
	r.want(s, http.StatusOK, http.MethodGet, "/wishlist", "", "", lostWish)
	s.Kill()
}

func (r *redisRestore) check(s *binary.Server) {
	r.t.Helper()
	if status, text := r.visitor.send(s, http.MethodGet, "/wishlist", "", ""); status != http.StatusOK || !strings.Contains(text, keptWish) || strings.Contains(text, lostWish) {
		r.t.Errorf("the wishes of the restored server are %d %s", status, text)
	}
	r.want(s, http.StatusCreated, http.MethodPost, "/wishlist", guest.Wish(2), "lost", "wsh_")
	r.redis.Must(r.t, "FLUSHALL") // only the database is left
	r.want(s, http.StatusOK, http.MethodGet, "/wishlist", "", "", lostWish)
}

func (r *redisRestore) run(data string, vars []string, args ...string) {
	r.t.Helper()
	if got := binary.Run(r.t, binary.Environ(append(r.vars(vars...), "HOLDFAST_DATA="+data)...), args...); got.Status != 0 {
		r.t.Fatalf("%v: %d\n%s%s", args, got.Status, got.Stdout, got.Stderr)
	}
}

func (r *redisRestore) backup() string {
	r.t.Helper()
	s, backup := r.start(filepath.Join(r.t.TempDir(), "data")), filepath.Join(r.t.TempDir(), "backup")
	r.begin(s, func() { s.Verb("backup", backup) })
	return backup
}

func (r *redisRestore) fromBackup() {
	data := filepath.Join(r.t.TempDir(), "restored")
	r.run(data, nil, "restore", r.backup())
	r.check(r.start(data))
}

func (r *redisRestore) onBackup() { r.check(r.start(r.backup())) }

func (r *redisRestore) copied() {
	data := filepath.Join(r.t.TempDir(), "restored")
	r.run(data, nil, "restore", r.backup())
	url := testdb.PostgresDatabase(r.t)
	r.run(data, nil, "copy", "guest", "--to", url)
	r.check(r.start(data, guestOn(url)))
}

func guestOn(url string) string { return "HOLDFAST_GUEST__DATABASE_URL=" + url }

func (r *redisRestore) dump(url, file string) {
	r.t.Helper()
	if out, err := exec.Command(binary.Program(r.t, "pg_dump"), "--format=custom", "--file="+file, url).CombinedOutput(); err != nil {
		r.t.Fatalf("%v\n%s", err, out)
	}
}

func (r *redisRestore) fromDump() {
	url, other := testdb.PostgresDatabase(r.t), testdb.PostgresDatabase(r.t)
	data, file := filepath.Join(r.t.TempDir(), "data"), filepath.Join(r.t.TempDir(), "dump")
	s := r.start(data, guestOn(url))
	r.begin(s, func() { r.dump(url, file) })
	r.run(data, []string{guestOn(other)}, "restore", file, "--trust-dump", "--service", "guest")
	r.check(r.start(data, guestOn(other)))
}

// inPlace restores the tables as a recovery to a point in time does, and then prepares the database.
func (r *redisRestore) inPlace() {
	url, data := testdb.PostgresDatabase(r.t), filepath.Join(r.t.TempDir(), "data")
	s := r.start(data, guestOn(url))
	r.begin(s, func() {})
	execute(r.t, url, `DELETE FROM bff_consumer.wishlist_anonymous WHERE property_id::text LIKE '`+lostWish+`%';
		DELETE FROM bff_consumer.idempotency_keys; DELETE FROM bff_consumer.outbox`)
	r.run(data, []string{guestOn(url)}, "finish-restore", "--time", "2026-11-21T15:04:05Z", "--service", "guest")
	r.check(r.start(data, guestOn(url)))
}

package e2e

import (
	"net/http"
	"strings"
	"testing"

	"holdfast/internal/testdb"
	"holdfast/internal/workload/guest"
	"holdfast/test/binary"
)

// TestGuestRedis checks that processes share sessions through Redis. If Redis loses its data or is unavailable, the
// cookie stays valid, and the guest loses preferences but no data in the database.
func TestGuestRedis(t *testing.T) {
	t.Parallel()
	redis := testdb.OwnRedis(t)
	vars := []string{
		"HOLDFAST_GUEST__ENABLED=true", "HOLDFAST_GUEST__HOT=" + redis.URL(),
		"HOLDFAST_GUEST__DATABASE_URL=" + testdb.PostgresDatabase(t), "HOLDFAST_GUEST__COOKIE_SECRET=" + strings.Repeat("s", 32), "HOLDFAST_GUEST__HANDOFF_SECRET=" + strings.Repeat("h", 32),
	}
	data := t.TempDir()
	binary.Migrate(t, data, vars...)
	servers := []*binary.Server{binary.Start(t, data, vars...), binary.Start(t, t.TempDir(), vars...)}
	v := &visitor{t: t}
	n := 0
	want := func(status int, method, path, body, part string) {
		t.Helper()
		for _, s := range servers[n%len(servers):][:1] {
			got, text := v.send(s, method, path, body, "key-"+strings.Repeat("x", n))
			if got != status || !strings.Contains(text, part) {
				t.Fatalf("%s %s: %d %s, want %d and %s", method, path, got, text, status, part)
			}
		}
		n++
	}
	want(http.StatusCreated, http.MethodPost, "/session", "", "createdAt")
	want(http.StatusOK, http.MethodPatch, "/session/preferences", `{"locale":"de-AT"}`, "de-AT")
	want(http.StatusOK, http.MethodGet, "/session", "", "de-AT")
	want(http.StatusOK, http.MethodGet, "/session", "", "de-AT")
	want(http.StatusCreated, http.MethodPost, "/wishlist", guest.Wish(1), "wsh_")
	redis.Must(t, "FLUSHALL")
	for range servers {
		want(http.StatusOK, http.MethodGet, "/session", "", `"preferences":{}`)
		want(http.StatusOK, http.MethodGet, "/wishlist", "", "00000001-2222")
	}
}

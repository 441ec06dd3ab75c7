package fault

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"

	syncload "holdfast/internal/workload/sync"
	"holdfast/test/binary"
)

// syncService is Firefox Sync storage under faults.
func syncService() service {
	return service{
		name: "sync", section: "SYNCSTORAGE", vars: []string{"SYNC_MASTER_SECRET=" + secret},
		spanner: true,
		workload: func(t *testing.T, few bool) workload {
			if few {
				return newSyncWorkload(t, 2)
			}
			return newSyncWorkload(t, 3)
		},
		largeOwner: func(t *testing.T) largeOwner { return &largeSyncUser{newUser(t, secret, probeUser)} },
		someRows:   `SELECT 1 FROM user_collections WHERE collection_id = 0 AND user_id IN (1, 2) FOR UPDATE`,
		locks: []string{
			`SELECT 1 FROM user_collections WHERE collection_id = 0 FOR UPDATE`,
			`LOCK TABLE user_collections IN ACCESS EXCLUSIVE MODE`,
			`LOCK TABLE bsos IN ACCESS EXCLUSIVE MODE`,
		},
		next: nextRelease{migrations: map[string]string{
			"internal/syncstorage/sqlite": `
				ALTER TABLE bsos ADD COLUMN future BIGINT NOT NULL DEFAULT 0;
				UPDATE bsos SET future = length(payload);
				CREATE INDEX bsos_future_idx ON bsos (future, bso_id);`,
			"internal/syncstorage/postgres": `
				ALTER TABLE bsos ADD COLUMN future BIGINT NOT NULL DEFAULT 0;
				CREATE FUNCTION sync_put_v2(
					p_user BIGINT, p_coll INTEGER, p_id TEXT, p_sortindex BIGINT, p_payload BYTEA, p_ttl BIGINT,
					p_now TIMESTAMP, p_modified_since TIMESTAMP, p_unmodified_since TIMESTAMP, p_limit BIGINT, p_user_limit BIGINT, p_enforce BOOLEAN, p_own BOOLEAN
				) RETURNS BIGINT[] LANGUAGE plpgsql VOLATILE AS $$
				DECLARE
					v BIGINT[] := sync_put_v1(p_user, p_coll, p_id, p_sortindex, p_payload, p_ttl,
						p_now, p_modified_since, p_unmodified_since, p_limit, p_user_limit, p_enforce, p_own);
				BEGIN
					IF v[1] = 0 THEN
						UPDATE bsos SET future = future + 1 WHERE user_id = p_user AND collection_id = p_coll AND bso_id = p_id;
					END IF;
					RETURN v;
				END $$;`,
		}, code: map[string][2]string{
			"internal/syncstorage/postgres/sql.go": {"sync_put_v1(", "sync_put_v2("},
		}, written: `SELECT count(*) FROM bsos WHERE future > 0`},
	}
}

// secret is the master secret of the servers.
const secret = "of the fault harness"

const (
	writersPerUser = 3
	probeUser      = 1000 // ID of a user outside of the workloads
)

// syncWorkload is users, each with writers that share the user's timestamps.
type syncWorkload struct {
	users   []*syncload.User
	writers []*syncload.Writer
}

func newSyncWorkload(t *testing.T, users int) *syncWorkload {
	t.Helper()
	s := &syncWorkload{}
	for range users {
		s.join(t, writersPerUser)
	}
	return s
}

// join adds a user and its writers.
func (s *syncWorkload) join(t *testing.T, writers int) {
	t.Helper()
	u := newUser(t, secret, int64(len(s.users)+1))
	s.users = append(s.users, u)
	for range writers {
		s.writers = append(s.writers, syncload.NewWriter(u, len(s.writers)))
	}
}

func (s *syncWorkload) grow(t *testing.T, n int) {
	t.Helper()
	for len(s.writers) < n {
		s.join(t, 11)
	}
}

func (s *syncWorkload) clients(h *harness, l *load) (all []client) {
	for _, w := range s.writers {
		all = append(all, func(choose *rand.Rand) {
			w.Random = choose
			runWriter(h, l, w)
		})
	}
	for _, u := range s.users {
		all = append(all, func(choose *rand.Rand) { readSync(h, l, u, choose) })
	}
	return all
}

func (s *syncWorkload) unanswered() (all []string) {
	for _, w := range s.writers {
		if w.Lost != nil {
			all = append(all, w.Lost.String())
		}
	}
	return all
}

func (s *syncWorkload) check(h *harness) {
	h.t.Helper()
	for _, u := range s.users {
		checkUser(h, u)
	}
}

func (s *syncWorkload) checkCopy(h *harness, begun, ended int64, _ bool) {
	h.t.Helper()
	for _, u := range s.users {
		checkUserMoment(h, u, begun, ended)
		if a, err := sendSync(h, h.server, u, http.MethodPut, "/storage/restored/x", `{}`); err != nil || a.Status != http.StatusOK {
			h.t.Errorf("a write to a copy: %d %s %v", a.Status, a.Body, err)
		}
	}
}

func (s *syncWorkload) finish(*harness) {}

func (s *syncWorkload) probe(h *harness, to *binary.Server) (binary.Answer, error) {
	return sendSync(h, to, newUser(h.t, secret, probeUser), http.MethodPut, "/storage/tabs/x", `{"payload":"x"}`)
}

func (s *syncWorkload) reads(h *harness) (all []func() (binary.Answer, error)) {
	for _, w := range s.writers {
		all = append(all, func() (binary.Answer, error) {
			return sendSync(h, h.serverOf(w.N), w.User, http.MethodGet, "/info/collection_usage", "")
		})
	}
	return all
}

// largeSyncUser is a user with a large collection.
type largeSyncUser struct{ user *syncload.User }

func (g *largeSyncUser) fill(h *instance, bytes int) { fillCollection(h, g.user, "history", bytes) }

func (g *largeSyncUser) download(h *instance) *http.Request {
	return h.request(g.user, http.MethodGet, "/storage/history?full=1", "")
}

func (g *largeSyncUser) upload(h *instance, id string) *http.Request {
	return h.request(g.user, http.MethodPost, "/storage/tabs", fmt.Sprintf(`[{"id":%q,"payload":%q}]`, id, strings.Repeat("x", 100_000)))
}

func (g *largeSyncUser) uploaded(h *instance, id string) *http.Request {
	return h.request(g.user, http.MethodGet, "/storage/tabs/"+id, "")
}

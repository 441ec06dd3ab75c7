// Package sync tests Firefox Sync storage under faults. It contains the workload for all services' fault tests, and
// its own tests.
package sync

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"

	syncload "holdfast/internal/workload/sync"
	"holdfast/test/binary"
	"holdfast/test/fault/harness"
)

func Service() harness.Service {
	return harness.Service{
		Name: "sync", Section: "SYNCSTORAGE", Vars: []string{"SYNC_MASTER_SECRET=" + harness.Secret},
		Spanner: true,
		Workload: func(t *testing.T, few bool) harness.Workload {
			if few {
				return newSyncWorkload(t, 2)
			}
			return newSyncWorkload(t, 3)
		},
		LargeOwner: func(t *testing.T) harness.LargeOwner {
			return &largeSyncUser{harness.NewUser(t, harness.Secret, harness.ProbeUser)}
		},
		Neighbours: harness.Neighbours{
			Table: "bsos", Key: func(n int) string { return fmt.Sprintf("'%d'", harness.ProbeUser+n) },
			Send: func(h *harness.Harness, _ harness.Workload, n int) (binary.Answer, error) {
				u := harness.NewUser(h.T, harness.Secret, int64(harness.ProbeUser+n))
				return sendSync(h, h.Server, u, http.MethodPut, "/storage/tabs/neighbour", `{"payload":"x"}`)
			},
		},
		SomeRows: `SELECT 1 FROM user_collections WHERE collection_id = 0 AND user_id IN (1, 2) FOR UPDATE`,
		Locks: []string{
			`SELECT 1 FROM user_collections WHERE collection_id = 0 FOR UPDATE`,
			`LOCK TABLE user_collections IN ACCESS EXCLUSIVE MODE`,
			`LOCK TABLE bsos IN ACCESS EXCLUSIVE MODE`,
		},
		Next: harness.NextRelease{Migrations: map[string]string{
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
		}, Code: map[string][2]string{
			"internal/syncstorage/postgres/sql.go": {"sync_put_v1(", "sync_put_v2("},
		}, Written: `SELECT count(*) FROM bsos WHERE future > 0`},
	}
}

const writersPerUser = 3

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

func (s *syncWorkload) join(t *testing.T, writers int) {
	t.Helper()
	u := harness.NewUser(t, harness.Secret, int64(len(s.users)+1))
	s.users = append(s.users, u)
	for range writers {
		s.writers = append(s.writers, syncload.NewWriter(u, len(s.writers)))
	}
}

func (s *syncWorkload) Grow(t *testing.T, n int) {
	t.Helper()
	for len(s.writers) < n {
		s.join(t, 11)
	}
}

func (s *syncWorkload) Clients(h *harness.Harness, l *harness.Load) []harness.Client {
	writers := harness.Clients(s.writers, func(w *syncload.Writer, choose *rand.Rand) {
		w.Random = choose
		runWriter(h, l, w)
	})
	return append(writers, harness.Clients(s.users, func(u *syncload.User, choose *rand.Rand) { readSync(h, l, u, choose) })...)
}

func (s *syncWorkload) Unanswered() []string {
	return harness.Unanswered(s.writers, func(w *syncload.Writer) *syncload.Step { return w.Lost })
}

func (s *syncWorkload) Check(h *harness.Harness) {
	h.T.Helper()
	for _, u := range s.users {
		checkUser(h, u)
	}
}

func (s *syncWorkload) CheckCopy(h *harness.Harness, begun, ended int64, _ bool) {
	h.T.Helper()
	for _, u := range s.users {
		checkUserMoment(h, u, begun, ended)
		if a, err := sendSync(h, h.Server, u, http.MethodPut, "/storage/restored/x", `{}`); err != nil || a.Status != http.StatusOK {
			h.T.Errorf("a write to a copy: %d %s %v", a.Status, a.Body, err)
		}
	}
}

func (s *syncWorkload) Finish(*harness.Harness) {}

func (s *syncWorkload) Probe(h *harness.Harness, to *binary.Server) (binary.Answer, error) {
	return sendSync(h, to, harness.NewUser(h.T, harness.Secret, harness.ProbeUser), http.MethodPut, "/storage/tabs/x", `{"payload":"x"}`)
}

func (s *syncWorkload) Reads(h *harness.Harness) (all []func() (binary.Answer, error)) {
	for _, w := range s.writers {
		all = append(all, func() (binary.Answer, error) {
			return sendSync(h, h.ServerOf(w.N), w.User, http.MethodGet, "/info/collection_usage", "")
		})
	}
	return all
}

type largeSyncUser struct{ user *syncload.User }

func (g *largeSyncUser) Fill(h *harness.Instance, bytes int) {
	FillCollection(h, g.user, "history", bytes)
}

func (g *largeSyncUser) Download(h *harness.Instance) *http.Request {
	return h.Request(g.user, http.MethodGet, "/storage/history?full=1", "")
}

func (g *largeSyncUser) Upload(h *harness.Instance, id string) *http.Request {
	return h.Request(g.user, http.MethodPost, "/storage/tabs", fmt.Sprintf(`[{"id":%q,"payload":%q}]`, id, strings.Repeat("x", 100_000)))
}

func (g *largeSyncUser) Uploaded(h *harness.Instance, id string) *http.Request {
	return h.Request(g.user, http.MethodGet, "/storage/tabs/"+id, "")
}

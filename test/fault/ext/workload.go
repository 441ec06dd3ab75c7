// Package ext tests extension storage under faults. It contains the workload for all services' fault tests, and its
// own tests.
package ext

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"holdfast/internal/workload/ext"
	"holdfast/test/binary"
	"holdfast/test/fault/harness"
)

func Service() harness.Service {
	return harness.Service{
		Name: "ext", Section: "EXTSTORAGE", Vars: harness.ExtVars(),
		Workload: func(t *testing.T, few bool) harness.Workload {
			if few {
				return newExtWorkload(t, 1)
			}
			return newExtWorkload(t, 2)
		},
		LargeOwner: func(t *testing.T) harness.LargeOwner { return &largeInstall{NewInstall(t, harness.ProbeUser)} },
		Neighbours: harness.Neighbours{
			Table: "ext_storage_records", Key: func(n int) string { return "'" + neighbourTenant(n) + "'" },
			Send: func(h *harness.Harness, _ harness.Workload, n int) (binary.Answer, error) {
				in := ext.NewInstall(harness.ProbeUser)
				in.Token = tenantToken(h.T, neighbourTenant(n), in.ID, map[string]string{"settings": "rw"}, time.Now().Add(-time.Minute), time.Hour)
				return in.Send(h.T.Context(), h.Client, h.Server.URL, ext.Call{Method: http.MethodPut, Path: "/namespaces/settings/records/neighbour", Body: `{"value":1}`})
			},
		},
		SomeRows: `SELECT 1 FROM ext_storage_usage WHERE extension_install_id = '` + ext.InstallID(1) + `' FOR UPDATE`,
		Locks: []string{
			`SELECT 1 FROM ext_storage_usage FOR UPDATE`,
			`LOCK TABLE ext_storage_records IN ACCESS EXCLUSIVE MODE`,
			`LOCK TABLE ext_storage_outbox IN ACCESS EXCLUSIVE MODE`,
		},
		Next: harness.NextRelease{Migrations: map[string]string{
			"internal/extstorage/sqlite": `
				ALTER TABLE ext_storage_records ADD COLUMN future BIGINT NOT NULL DEFAULT 0;
				ALTER TABLE ext_storage_usage ADD COLUMN future BIGINT;`,
			"internal/extstorage/postgres": `
				ALTER TABLE ext_storage_records ADD COLUMN future BIGINT NOT NULL DEFAULT 0;
				ALTER TABLE ext_storage_usage ADD COLUMN future BIGINT;`,
		}},
	}
}

func neighbourTenant(n int) string {
	return fmt.Sprintf("7e4a4e1c-0000-4000-8000-%012d", harness.ProbeUser+n)
}

const authorsPerInstall = 2

type extWorkload struct {
	installs []*ext.Install
	writers  []*ext.Writer
}

func newExtWorkload(t *testing.T, installs int) *extWorkload {
	t.Helper()
	e := &extWorkload{}
	for range installs {
		e.join(t, authorsPerInstall)
	}
	return e
}

func (e *extWorkload) join(t *testing.T, writers int) {
	t.Helper()
	in := NewInstall(t, len(e.installs)+1)
	e.installs = append(e.installs, in)
	for range writers {
		w := ext.NewWriter(in, len(e.writers))
		in.Writers, e.writers = append(in.Writers, w), append(e.writers, w)
	}
}

func (e *extWorkload) Grow(t *testing.T, n int) {
	t.Helper()
	for len(e.writers) < n {
		e.join(t, 11)
	}
}

func (e *extWorkload) Clients(h *harness.Harness, l *harness.Load) []harness.Client {
	for _, in := range e.installs {
		in.Before = len(in.Feed)
	}
	writers := harness.Clients(e.writers, func(w *ext.Writer, choose *rand.Rand) {
		w.Trail, w.Random = nil, choose
		runExtWriter(h, l, w)
	})
	return append(writers, harness.Clients(e.installs, func(in *ext.Install, choose *rand.Rand) { readExt(h, l, in, choose) })...)
}

func (e *extWorkload) Unanswered() []string {
	return harness.Unanswered(e.writers, func(w *ext.Writer) *ext.Operation { return w.Lost })
}

func (e *extWorkload) Check(h *harness.Harness) {
	h.T.Helper()
	for _, in := range e.installs {
		checkInstall(h, in)
	}
}

func (e *extWorkload) CheckCopy(h *harness.Harness, begun, ended int64, restored bool) {
	h.T.Helper()
	for _, in := range e.installs {
		checkInstallMoment(h, in, begun, ended, restored)
		a := callExt(h, in, http.StatusCreated, ext.Call{Method: http.MethodPut, Path: "/namespaces/settings/records/restored", Body: `{"value":1}`}, nil)
		if seq, err := ext.Seq(a.Header.Get("ETag")); err != nil || restored && in.Before > 0 && seq <= in.Knows() {
			h.T.Errorf("a copy assigns the number %d again, although %d are known: %v", seq, in.Knows(), err)
		}
	}
}

func (e *extWorkload) Finish(h *harness.Harness) {
	h.T.Helper()
	checkAudit(h, e.installs)
}

func (e *extWorkload) Probe(h *harness.Harness, to *binary.Server) (binary.Answer, error) {
	c := ext.Call{Method: http.MethodPut, Path: "/namespaces/settings/records/probe", Body: `{"value":1}`}
	return NewInstall(h.T, harness.ProbeUser).Send(h.T.Context(), h.Client, to.URL, c)
}

func (e *extWorkload) Reads(h *harness.Harness) (all []func() (binary.Answer, error)) {
	for _, w := range slices.Repeat(e.writers, 4) { // readers, and one client for the audit
		all = append(all, func() (binary.Answer, error) {
			return w.Install.Send(h.T.Context(), h.Client, h.ServerOf(w.N).URL, ext.Call{Method: http.MethodGet, Path: "/usage"})
		})
	}
	return all
}

type largeInstall struct{ install *ext.Install }

func (g *largeInstall) Fill(h *harness.Instance, bytes int) {
	const size = 4000
	fillNamespace(h, g.install, "settings", bytes/size+1, size)
}

func (g *largeInstall) request(h *harness.Instance, c ext.Call) *http.Request {
	h.T.Helper()
	req, err := g.install.Request(h.T.Context(), h.Server.URL, c)
	harness.Must(h.T, err)
	return req
}

func (g *largeInstall) Download(h *harness.Instance) *http.Request {
	return g.request(h, ext.Call{Method: http.MethodGet, Path: "/export"})
}

func (g *largeInstall) Upload(h *harness.Instance, id string) *http.Request {
	return g.request(h, ext.Call{Method: http.MethodPut, Path: ext.RecordKey{Namespace: "log", Key: id}.Path(), Body: fmt.Sprintf(`{"value":%q}`, strings.Repeat("x", 60_000))})
}

func (g *largeInstall) Uploaded(h *harness.Instance, id string) *http.Request {
	return g.request(h, ext.Call{Method: http.MethodGet, Path: ext.RecordKey{Namespace: "log", Key: id}.Path()})
}

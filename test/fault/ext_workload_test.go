package fault

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"holdfast/internal/workload/ext"
	"holdfast/test/binary"
)

// extService is extension storage under faults.
func extService() service {
	return service{
		name: "ext", section: "EXTSTORAGE", vars: extVars(),
		workload: func(t *testing.T, few bool) workload {
			if few {
				return newExtWorkload(t, 1)
			}
			return newExtWorkload(t, 2)
		},
		afterRestore: leaveOutNumbers,
		largeOwner:   func(t *testing.T) largeOwner { return &largeInstall{newInstall(t, probeUser)} },
		someRows:     `SELECT 1 FROM ext_storage_usage WHERE extension_install_id = '` + ext.InstallID(1) + `' FOR UPDATE`,
		locks: []string{
			`SELECT 1 FROM ext_storage_usage FOR UPDATE`,
			`LOCK TABLE ext_storage_records IN ACCESS EXCLUSIVE MODE`,
			`LOCK TABLE ext_storage_outbox IN ACCESS EXCLUSIVE MODE`,
		},
		next: nextRelease{migrations: map[string]string{
			"internal/extstorage/sqlite": `
				ALTER TABLE ext_storage_records ADD COLUMN future BIGINT NOT NULL DEFAULT 0;
				ALTER TABLE ext_storage_usage ADD COLUMN future BIGINT;`,
			"internal/extstorage/postgres": `
				ALTER TABLE ext_storage_records ADD COLUMN future BIGINT NOT NULL DEFAULT 0;
				ALTER TABLE ext_storage_usage ADD COLUMN future BIGINT;`,
		}},
	}
}

const authorsPerInstall = 2

// extWorkload is installs, each with writers that share its change numbers.
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

// join adds an install and its writers.
func (e *extWorkload) join(t *testing.T, writers int) {
	t.Helper()
	in := newInstall(t, len(e.installs)+1)
	e.installs = append(e.installs, in)
	for range writers {
		w := ext.NewWriter(in, len(e.writers))
		in.Writers, e.writers = append(in.Writers, w), append(e.writers, w)
	}
}

func (e *extWorkload) grow(t *testing.T, n int) {
	t.Helper()
	for len(e.writers) < n {
		e.join(t, 11)
	}
}

func (e *extWorkload) clients(h *harness, l *load) (all []client) {
	for _, w := range e.writers {
		all = append(all, func(choose *rand.Rand) {
			w.Trail, w.Random = nil, choose
			runExtWriter(h, l, w)
		})
	}
	for _, in := range e.installs {
		in.Before = len(in.Feed)
		all = append(all, func(choose *rand.Rand) { readExt(h, l, in, choose) })
	}
	return all
}

func (e *extWorkload) unanswered() (all []string) {
	for _, w := range e.writers {
		if w.Lost != nil {
			all = append(all, w.Lost.String())
		}
	}
	return all
}

func (e *extWorkload) check(h *harness) {
	h.t.Helper()
	for _, in := range e.installs {
		checkInstall(h, in)
	}
}

func (e *extWorkload) checkCopy(h *harness, begun, ended int64, restored bool) {
	h.t.Helper()
	for _, in := range e.installs {
		checkInstallMoment(h, in, begun, ended, restored)
		a := callExt(h, in, http.StatusCreated, ext.Call{Method: http.MethodPut, Path: "/namespaces/settings/records/restored", Body: `{"value":1}`}, nil)
		if seq, err := ext.Seq(a.Header.Get("ETag")); err != nil || restored && seq <= in.Knows() {
			h.t.Errorf("a copy assigns the number %d again, although %d are known: %v", seq, in.Knows(), err)
		}
	}
}

func (e *extWorkload) finish(h *harness) {
	h.t.Helper()
	checkAudit(h, e.installs)
}

func (e *extWorkload) probe(h *harness, to *binary.Server) (binary.Answer, error) {
	c := ext.Call{Method: http.MethodPut, Path: "/namespaces/settings/records/probe", Body: `{"value":1}`}
	return newInstall(h.t, probeUser).Send(h.t.Context(), h.client, to.URL, c)
}

func (e *extWorkload) reads(h *harness) (all []func() (binary.Answer, error)) {
	for _, w := range slices.Repeat(e.writers, 4) { // and readers, and the audit
		all = append(all, func() (binary.Answer, error) {
			return w.Install.Send(h.t.Context(), h.client, h.serverOf(w.N).URL, ext.Call{Method: http.MethodGet, Path: "/usage"})
		})
	}
	return all
}

// largeInstall is an install with a large namespace.
type largeInstall struct{ install *ext.Install }

func (g *largeInstall) fill(h *instance, bytes int) {
	const size = 4000
	fillNamespace(h, g.install, "settings", bytes/size+1, size)
}

func (g *largeInstall) request(h *instance, c ext.Call) *http.Request {
	h.t.Helper()
	req, err := g.install.Request(h.t.Context(), h.server.URL, c)
	must(h.t, err)
	return req
}

func (g *largeInstall) download(h *instance) *http.Request {
	return g.request(h, ext.Call{Method: http.MethodGet, Path: "/export"})
}

func (g *largeInstall) upload(h *instance, id string) *http.Request {
	return g.request(h, ext.Call{Method: http.MethodPut, Path: ext.Place{"log", id}.Path(), Body: fmt.Sprintf(`{"value":%q}`, strings.Repeat("x", 60_000))})
}

func (g *largeInstall) uploaded(h *instance, id string) *http.Request {
	return g.request(h, ext.Call{Method: http.MethodGet, Path: ext.Place{"log", id}.Path()})
}

// leaveOutNumbers skips change numbers that the original may have assigned after the backup, as
// the guide says.
func leaveOutNumbers(t *testing.T, url string) {
	t.Helper()
	guide, err := os.ReadFile("../../docs/operations.md")
	must(t, err)
	leap := regexp.MustCompile(`(?m)^psql \S+ (--command=)"(UPDATE .*)"$`).FindSubmatch(guide)
	if leap == nil {
		t.Fatal("the guide does not say how to skip change numbers")
	}
	run(t, binary.Program(t, "psql"), url, string(leap[1])+string(leap[2]))
}

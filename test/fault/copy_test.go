package fault

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"holdfast/internal/testdb"
	"holdfast/internal/testdb/spannertest"
	"holdfast/test/binary"
	"holdfast/test/fault/harness"
)

// TestCopyAndSwitch moves services to another engine, repeatedly, while their clients write. It kills the copy and the
// server at any moment and, in two subtests, PostgreSQL and Citus nodes. Clients are refused only briefly, and then
// continue on a server that uses the copy. The source stays read-only.
func TestCopyAndSwitch(t *testing.T) {
	t.Parallel()
	t.Run("Postgres", func(t *testing.T) {
		t.Parallel()
		c := newCopying(t, nil, harness.OnPostgres, harness.OnSQLite)
		c.run(2, c.fault)
	})
	t.Run("KilledPostgres", func(t *testing.T) {
		t.Parallel()
		testdb.SoakOnly(t, "it takes a minute or more")
		c := newCopying(t, []*testdb.PostgresServer{testdb.DurablePostgres(t)}, harness.OnPostgres, harness.OnPostgres, harness.OnSQLite, harness.OnSQLite)
		c.run(8, c.fault)
	})
	t.Run("Citus", func(t *testing.T) {
		t.Parallel()
		testdb.SoakOnly(t, "it takes a minute or more")
		c := newCopying(t, nil, harness.OnCitus, harness.OnSQLite)
		c.run(4, c.fault)
	})
	t.Run("KilledCitus", func(t *testing.T) {
		t.Parallel()
		testdb.SoakOnly(t, "it starts three servers and takes minutes")
		c := newCopying(t, testdb.OwnCitus(t), harness.OnCitus, harness.OnSQLite)
		c.run(8, c.fault)
	})
	t.Run("Spanner", func(t *testing.T) {
		t.Parallel()
		testdb.SoakOnly(t, "the emulator is slow")
		c := newCopying(t, nil, harness.OnSpanner, harness.OnSQLite, harness.OnSpanner, harness.OnSpanner, harness.OnPostgres)
		c.run(10, c.fault)
	})
}

type copying struct {
	*harness.Harness
	services  []*movingService
	own       []*testdb.PostgresServer // servers to kill; may be nil
	base      []string
	forCopy   []string
	length    time.Duration
	databases int
	folder    string // folder for SQLite files; "" for a new folder per file
}

type movingService struct {
	harness.Service
	path    []harness.Engine // engines to move between, in a cycle
	at      int
	source  string
	target  string
	printed string // database_url printed by a complete copy; "" before
}

// newCopying returns a harness with sync and extension storage. Sync copies to the first engine and extension storage
// copies from it, which tests both directions at once. Only sync moves to Spanner.
func newCopying(t *testing.T, own []*testdb.PostgresServer, path ...harness.Engine) *copying {
	t.Helper()
	return newCopyingIn(t, "", own, path...)
}

// newCopyingIn is newCopying with all SQLite files in the same folder.
func newCopyingIn(t *testing.T, folder string, own []*testdb.PostgresServer, path ...harness.Engine) *copying {
	t.Helper()
	c := &copying{Harness: &harness.Harness{T: t}, own: own, length: 500 * time.Millisecond, folder: folder}
	of := services()
	hasSpanner := slices.Contains(path, harness.OnSpanner)
	of = slices.DeleteFunc(of, func(s harness.Service) bool { return s.Name != "sync" && (s.Name != "ext" || hasSpanner) })
	for i, s := range of {
		m := &movingService{Service: s, path: path}
		if i == 0 {
			m.at = len(path) - 1 // the first engine becomes the target
		}
		m.source = c.database(m, path[m.at])
		c.services = append(c.services, m)
	}
	vars := []string{"HOLDFAST_LOG__ACCESS=false"}
	if hasSpanner {
		vars = append(vars, "SPANNER_EMULATOR_HOST="+testdb.Spanner(t))
	}
	data := filepath.Join(folder, "data")
	if folder == "" {
		data = t.TempDir()
	}
	c.Harness = harness.New(t, of, hasSpanner, data, append(vars, c.urls()...)...)
	c.base = slices.DeleteFunc(slices.Clone(c.Vars), func(v string) bool { return strings.Contains(v, "__DATABASE_URL=") })
	if hasSpanner {
		c.Enough = 20
		c.forCopy = c.accounts()
	}
	c.Most = 60 // each round creates a database
	c.Server = c.Serve()
	return c
}

func (c *copying) run(otherwise uint64, what func(round int) harness.Fault) {
	c.Rounds(otherwise, what)
	if c.Tally.Refused.Load() == 0 && !c.T.Failed() {
		c.T.Error("no request was refused")
	}
}

func (c *copying) database(m *movingService, e harness.Engine) string {
	c.T.Helper()
	c.databases++
	switch e {
	case harness.OnPostgres:
		if c.own == nil {
			return testdb.PostgresDatabase(c.T)
		}
		name := fmt.Sprintf("copy_%d", c.databases)
		testdb.Script(c.T, c.own[0].URL(), "CREATE DATABASE "+name)
		u, err := url.Parse(c.own[0].URL())
		harness.Must(c.T, err)
		u.Path = "/" + name
		return u.String()
	case harness.OnCitus:
		if c.own != nil {
			return testdb.CitusCluster(c.own).Database(c.T)
		}
		return testdb.CitusDatabase(c.T)
	case harness.OnSpanner:
		_, name := spannertest.Name(c.T)
		return "spanner://" + name
	}
	folder := c.folder
	if folder == "" {
		folder = testdb.SQLite(c.T)
	}
	return "sqlite:" + filepath.Join(folder, fmt.Sprintf("%s-%d.db", m.Name, c.databases))
}

func (c *copying) urls() (vars []string) {
	for _, m := range c.services {
		vars = append(vars, "HOLDFAST_"+m.Section+"__DATABASE_URL="+m.source)
	}
	return vars
}

// accounts creates the users' accounts, which a copy from or to Spanner requires, and returns their settings.
func (c *copying) accounts() []string {
	c.T.Helper()
	path := filepath.Join(testdb.SQLite(c.T), "accounts.db")
	vars := []string{"HOLDFAST_TOKENSERVER__ENABLED=true", "HOLDFAST_TOKENSERVER__DATABASE_URL=sqlite:" + path}
	binary.Migrate(c.T, c.Data, slices.Concat(c.Vars, vars)...)
	db, err := sqlite.OpenConn(path, sqlite.OpenReadWrite)
	harness.Must(c.T, err)
	for _, uid := range []int64{1, 2, harness.ProbeUser} {
		harness.Must(c.T, sqlitex.Execute(db, `
			INSERT INTO users (uid, service, email, generation, client_state, created_at, replaced_at, nodeid, keys_changed_at)
			VALUES (?1, 1, 'fault-' || ?1 || '@api.accounts.firefox.com', 1, 'aaaa', 1, NULL, 1, 1)`, &sqlitex.ExecOptions{Args: []any{uid}}))
	}
	harness.Must(c.T, db.Close())
	return vars
}

// fault returns a round's fault. Even rounds kill the server or the database during copies. Odd rounds kill the copies
// and rerun them until they are complete.
func (c *copying) fault(round int) harness.Fault {
	choose := c.Choice(round)
	c.target()
	switch {
	case round%2 == 1:
		return c.copyAll(choose)
	case len(c.own) > 1 || c.own != nil && choose.IntN(2) == 0:
		return c.killDatabase(choose)
	}
	return c.killServer(choose)
}

func (c *copying) target() {
	c.T.Helper()
	for _, m := range c.services {
		if m.target == "" {
			m.target = c.database(m, m.next())
		}
	}
}

func (m *movingService) next() harness.Engine { return m.path[(m.at+1)%len(m.path)] }

func (c *copying) killServer(choose *rand.Rand) harness.Fault {
	var all []*copyProcess
	return harness.Fault{Deadly: true, Busy: len(c.own) == 1, Inject: func() {
		for _, m := range c.services {
			all = append(all, c.start(m))
		}
		harness.Pause(nil, c.moment(choose))
		c.Server.Kill()
		if choose.IntN(2) == 0 {
			harness.Pause(nil, c.moment(choose))
			for _, p := range all {
				p.kill()
			}
		}
		for _, p := range all {
			p.wait()
		}
	}, Recover: func() {
		for _, m := range c.services {
			if strings.HasPrefix(m.source, "postgres") {
				harness.Abandoned(c.T, m.source)
			}
		}
		c.Server = c.Serve()
		c.recovered()
	}}
}

// killDatabase kills PostgreSQL or a Citus node during copies. The copies may fail at any moment, also while a service
// is read-only, and sometimes after the database recovers.
func (c *copying) killDatabase(choose *rand.Rand) harness.Fault {
	node := c.own[choose.IntN(len(c.own))]
	return harness.Fault{Busy: len(c.own) == 1, Inject: func() {
		var all []*copyProcess
		for _, m := range c.services {
			p := c.start(m)
			p.mayFail = true
			all = append(all, p)
		}
		wait := c.moment(choose)
		if choose.IntN(2) == 0 {
			p := all[choose.IntN(len(all))]
			p.output.Await(regexp.MustCompile("the service is read-only"), p.ended)
			wait /= 20
		}
		harness.Pause(nil, wait)
		harness.Must(c.T, node.Kill())
		if choose.IntN(2) == 0 {
			harness.Must(c.T, node.Start())
		}
		for _, p := range all {
			p.wait()
		}
	}, Recover: func() {
		if node.PID() == 0 {
			harness.Must(c.T, node.Start())
		}
		c.Server.Await("/readyz", http.StatusOK)
		c.recovered()
	}}
}

// recovered completes the copies if clients cannot write before that.
func (c *copying) recovered() {
	c.T.Helper()
	if c.isReadOnly() {
		for _, m := range c.services {
			c.complete(m)
		}
		if !c.T.Failed() {
			c.change(c.serveCopies())
		}
		return
	}
	for _, m := range c.services {
		if m.path[m.at] == harness.OnCitus {
			c.writableEverywhere(m)
		}
	}
	if strings.HasPrefix(c.services[0].source, "spanner") {
		unblocked(c.Harness, c.Server)
	}
}

// writableEverywhere fails if a Citus worker stays read-only although the coordinator is writable.
func (c *copying) writableEverywhere(m *movingService) {
	c.T.Helper()
	db, err := pgx.Connect(c.T.Context(), m.source)
	harness.Must(c.T, err)
	defer func() { harness.Must(c.T, db.Close(c.T.Context())) }()
	var n int
	harness.Must(c.T, db.QueryRow(c.T.Context(), `SELECT count(*) FROM run_command_on_workers($$
		SELECT count(*) FROM read_only WHERE until > clock_timestamp() + interval '1 minute' $$) WHERE success AND result <> '0'`).Scan(&n))
	if n > 0 {
		c.T.Errorf("%s: %d workers stay read-only", m.Name, n)
	}
}

func (c *copying) isReadOnly() bool {
	c.T.Helper()
	return slices.ContainsFunc(c.Workloads, func(w harness.Workload) bool {
		a, err := w.Probe(c.Harness, c.Server)
		harness.Must(c.T, err)
		return harness.Unavailable(a)
	})
}

func (c *copying) copyAll(choose *rand.Rand) harness.Fault {
	return harness.Fault{Readable: true, Certain: true, Resumes: true, Busy: len(c.own) == 1, Inject: func() {
		for i, m := range c.services {
			c.startAndKill(m, choose)
			c.complete(m)
			c.wantRefused(i, c.Server)
		}
		if c.T.Failed() {
			c.Load.End()
			return
		}
		target := c.serveCopies()
		c.Moved.Store(target)
		c.Await(c.Load.After(20))
		for i := range c.services {
			c.wantRefused(i, c.Server)
		}
	}, Recover: func() { c.change(c.Moved.Swap(nil)) }}
}

func (c *copying) wantRefused(i int, s *binary.Server) {
	c.T.Helper()
	if a, err := c.Workloads[i].Probe(c.Harness, s); err != nil || !harness.Unavailable(a) {
		c.T.Errorf("a write of %s to the source of a complete copy: %d %s %v, want 503 with Retry-After", c.services[i].Name, a.Status, a.Body, err)
	}
}

func (c *copying) serveCopies() *binary.Server {
	c.T.Helper()
	vars := slices.Clone(c.base)
	for _, m := range c.services {
		vars = append(vars, "HOLDFAST_"+m.Section+"__DATABASE_URL="+m.printed)
	}
	return binary.Start(c.T, c.Data, vars...)
}

// change replaces the server by a server that uses the copies. A server with the old settings must also refuse writes.
func (c *copying) change(target *binary.Server) {
	c.T.Helper()
	if target == nil {
		return // the round has failed
	}
	c.Server.Kill()
	old := c.Serve()
	for i := range c.services {
		c.wantRefused(i, old)
	}
	old.Kill()
	c.Server = target
	for _, m := range c.services {
		m.source, m.target, m.printed, m.at = m.printed, "", "", (m.at+1)%len(m.path)
	}
	c.Vars = append(slices.Clone(c.base), c.urls()...)
	for i, w := range c.Workloads {
		if a, err := w.Probe(c.Harness, target); err != nil || a.Status >= http.StatusBadRequest {
			c.T.Errorf("a write of %s to the copy: %d %s %v", c.services[i].Name, a.Status, a.Body, err)
		}
	}
}

type copyProcess struct {
	c      *copying
	cmd    *exec.Cmd
	output *binary.Output
	ended  chan struct{}

	killed, mayFail bool
}

func (c *copying) environ() []string {
	return binary.Environ(slices.Concat(c.Vars, c.forCopy, []string{"HOLDFAST_DATA=" + c.Data})...)
}

func (m *movingService) command() []string {
	return []string{"copy", strings.ToLower(m.Section), "--to", m.target}
}

func (c *copying) start(m *movingService) *copyProcess {
	c.T.Helper()
	p := &copyProcess{c: c, cmd: exec.Command(binary.Path(), m.command()...), output: &binary.Output{}, ended: make(chan struct{})}
	p.cmd.Env, p.cmd.Stdout, p.cmd.Stderr = c.environ(), p.output, p.output
	harness.Must(c.T, p.cmd.Start())
	go func() { _ = p.cmd.Wait(); close(p.ended) }()
	return p
}

func (p *copyProcess) kill() {
	p.killed = true
	_ = p.cmd.Process.Kill() // fails only if the copy has exited
}

// wait fails the test if a copy fails without being killed.
func (p *copyProcess) wait() {
	p.c.T.Helper()
	harness.Pause(p.ended, 4*harness.Bound)
	switch {
	case !harness.Closed(p.ended):
		p.c.T.Errorf("copy did not end:\n%s", p.output)
		p.kill()
		<-p.ended
	case p.mayFail:
	case p.cmd.ProcessState.ExitCode() > 0 || !p.killed && !p.cmd.ProcessState.Success():
		p.c.T.Errorf("copy failed: %v\n%s", p.cmd.ProcessState, p.output)
	}
}

func (c *copying) moment(choose *rand.Rand) time.Duration {
	return time.Duration(choose.Int64N(int64(c.length)))
}

func (c *copying) startAndKill(m *movingService, choose *rand.Rand) {
	p := c.start(m)
	wait := c.moment(choose)
	kind := choose.IntN(3)
	if last := []string{"", "the service is read-only", "everything is copied"}[kind]; last != "" {
		p.output.Await(regexp.MustCompile(last), p.ended)
		wait /= 20
	}
	harness.Pause(p.ended, wait)
	p.kill()
	p.wait()
	// Sometimes wait until the lease has expired and clients write again.
	if kind == 1 && c.own != nil && choose.IntN(10) == 0 && strings.Count(p.output.String(), "copied") == 0 {
		acknowledged := c.Load.After(50)
		if harness.Pause(acknowledged, 2*harness.Bound); !harness.Closed(acknowledged) {
			c.T.Errorf("no writes after the lease of a killed copy expired:\n%s", p.output)
		}
	}
}

var printed = regexp.MustCompile(`(?m)^\[(\w+)\]\ndatabase_url = (".*")$`)

func (c *copying) complete(m *movingService) {
	c.T.Helper()
	start := time.Now()
	r := binary.Run(c.T, c.environ(), m.command()...)
	c.length = min(c.length, max(time.Since(start), 100*time.Millisecond))
	found := printed.FindStringSubmatch(r.Stdout)
	if r.Status != 0 || found == nil || found[1] != strings.ToLower(m.Section) {
		c.T.Errorf("copy: status %d\n%s%s", r.Status, r.Stdout, r.Stderr)
		return
	}
	var err error
	m.printed, err = strconv.Unquote(found[2])
	harness.Must(c.T, err)
}

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
)

// Services are copied to another engine while their clients write, again and again. The copy and
// the server are killed at any moment, and so are PostgreSQL and nodes of Citus in two of the tests. In the end clients
// are refused for a short time, and go on at a server that uses the copy. The source stays
// read-only.
func TestCopyAndSwitch(t *testing.T) {
	t.Parallel()
	t.Run("Postgres", func(t *testing.T) {
		t.Parallel()
		c := newCopying(t, nil, onPostgres, onSQLite)
		c.run(2, c.fault)
	})
	t.Run("KilledPostgres", func(t *testing.T) {
		t.Parallel()
		testdb.SoakOnly(t, "it takes a minute or more")
		c := newCopying(t, []*testdb.PostgresServer{testdb.DurablePostgres(t)}, onPostgres, onPostgres, onSQLite, onSQLite)
		c.run(8, c.fault)
	})
	t.Run("Citus", func(t *testing.T) {
		t.Parallel()
		testdb.SoakOnly(t, "it takes a minute or more")
		c := newCopying(t, nil, onCitus, onSQLite)
		c.run(4, c.fault)
	})
	t.Run("KilledCitus", func(t *testing.T) {
		t.Parallel()
		testdb.SoakOnly(t, "it starts three servers and takes minutes")
		c := newCopying(t, testdb.OwnCitus(t), onCitus, onSQLite)
		c.run(8, c.fault)
	})
	t.Run("Spanner", func(t *testing.T) {
		t.Parallel()
		testdb.SoakOnly(t, "the emulator is slow")
		c := newCopying(t, nil, onSpanner, onSQLite, onSpanner, onSpanner, onPostgres)
		c.run(10, c.fault)
	})
}

// copying is a harness whose services move between databases.
type copying struct {
	*harness
	services  []*movingService
	own       []*testdb.PostgresServer // to be killed: one, or the nodes of Citus; may be nil
	base      []string                 // the settings without the databases
	forCopy   []string                 // settings of the copy only
	length    time.Duration
	databases int
	folder    string // of SQLite files; "": a new one for each
}

// movingService is a service that is copied.
type movingService struct {
	service
	path    []engine // where it goes, over and over
	at      int      // in path
	source  string   // database_url
	target  string
	printed string // the database_url that a complete copy has printed; "" until then
}

// newCopying returns a harness with sync and extension storage. The first engine is the target of
// the first copy of sync and the source of that of extension storage, so both directions take
// place at once. Only sync goes to Spanner.
func newCopying(t *testing.T, own []*testdb.PostgresServer, path ...engine) *copying {
	t.Helper()
	return newCopyingIn(t, "", own, path...)
}

// newCopyingIn is newCopying with all files in a folder.
func newCopyingIn(t *testing.T, folder string, own []*testdb.PostgresServer, path ...engine) *copying {
	t.Helper()
	c := &copying{harness: &harness{t: t}, own: own, length: 500 * time.Millisecond, folder: folder}
	of := services()
	hasSpanner := slices.Contains(path, onSpanner)
	of = slices.DeleteFunc(of, func(s service) bool { return s.name != "sync" && (s.name != "ext" || hasSpanner) })
	for i, s := range of {
		m := &movingService{service: s, path: path}
		if i == 0 {
			m.at = len(path) - 1 // so that the first engine is the target
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
	c.harness = harnessOf(t, of, hasSpanner, data, append(vars, c.urls()...)...)
	c.base = slices.DeleteFunc(slices.Clone(c.vars), func(v string) bool { return strings.Contains(v, "__DATABASE_URL=") })
	if hasSpanner {
		c.enough = 20
		c.forCopy = c.accounts()
	}
	c.most = 60 // each makes a database
	c.server = c.serve()
	return c
}

// run runs rounds, in which some client must be refused.
func (c *copying) run(otherwise uint64, what func(round int) fault) {
	c.rounds(otherwise, what)
	if c.tally.refused.Load() == 0 && !c.t.Failed() {
		c.t.Error("no request was refused")
	}
}

// database returns the database_url of a new database.
func (c *copying) database(m *movingService, e engine) string {
	c.t.Helper()
	c.databases++
	switch e {
	case onPostgres:
		if c.own == nil {
			return testdb.PostgresDatabase(c.t)
		}
		name := fmt.Sprintf("copy_%d", c.databases)
		testdb.Script(c.t, c.own[0].URL(), "CREATE DATABASE "+name)
		u, err := url.Parse(c.own[0].URL())
		must(c.t, err)
		u.Path = "/" + name
		return u.String()
	case onCitus:
		if c.own != nil {
			return testdb.CitusCluster(c.own).Database(c.t)
		}
		return testdb.CitusDatabase(c.t)
	case onSpanner:
		_, name := spannertest.Name(c.t)
		return "spanner://" + name
	}
	folder := c.folder
	if folder == "" {
		folder = testdb.SQLite(c.t)
	}
	return "sqlite:" + filepath.Join(folder, fmt.Sprintf("%s-%d.db", m.name, c.databases))
}

// urls returns the settings of the databases.
func (c *copying) urls() (vars []string) {
	for _, m := range c.services {
		vars = append(vars, "HOLDFAST_"+m.section+"__DATABASE_URL="+m.source)
	}
	return vars
}

// accounts creates the accounts of the users, which a copy from or to Spanner needs, and returns
// the settings that lead there.
func (c *copying) accounts() []string {
	c.t.Helper()
	path := filepath.Join(testdb.SQLite(c.t), "accounts.db")
	vars := []string{"HOLDFAST_TOKENSERVER__ENABLED=true", "HOLDFAST_TOKENSERVER__DATABASE_URL=sqlite:" + path}
	binary.Migrate(c.t, c.data, slices.Concat(c.vars, vars)...)
	db, err := sqlite.OpenConn(path, sqlite.OpenReadWrite)
	must(c.t, err)
	for _, uid := range []int64{1, 2, probeUser} {
		must(c.t, sqlitex.Execute(db, `
			INSERT INTO users (uid, service, email, generation, client_state, created_at, replaced_at, nodeid, keys_changed_at)
			VALUES (?1, 1, 'fault-' || ?1 || '@api.accounts.firefox.com', 1, 'aaaa', 1, NULL, 1, 1)`, &sqlitex.ExecOptions{Args: []any{uid}}))
	}
	must(c.t, db.Close())
	return vars
}

// fault returns the fault of a round: first the server is killed while copies run, then the copies
// are killed and run again until they are complete.
func (c *copying) fault(round int) fault {
	choose := c.choice(round)
	c.target()
	switch {
	case round%2 == 1:
		return c.copyAll(choose)
	case len(c.own) > 1 || c.own != nil && choose.IntN(2) == 0:
		return c.killDatabase(choose)
	}
	return c.killServer(choose)
}

// target chooses the targets of new copies.
func (c *copying) target() {
	c.t.Helper()
	for _, m := range c.services {
		if m.target == "" {
			m.target = c.database(m, m.next())
		}
	}
}

func (m *movingService) next() engine { return m.path[(m.at+1)%len(m.path)] }

// killServer kills the server while copies run. They may be killed, too, or go on without it.
func (c *copying) killServer(choose *rand.Rand) fault {
	var all []*copyProcess
	return fault{deadly: true, busy: len(c.own) == 1, inject: func() {
		for _, m := range c.services {
			all = append(all, c.start(m))
		}
		pause(nil, c.moment(choose))
		c.server.Kill()
		if choose.IntN(2) == 0 {
			pause(nil, c.moment(choose))
			for _, p := range all {
				p.kill()
			}
		}
		for _, p := range all {
			p.wait()
		}
	}, recover: func() {
		for _, m := range c.services {
			if strings.HasPrefix(m.source, "postgres") {
				abandoned(c.t, m.source)
			}
		}
		c.server = c.serve()
		c.recovered()
	}}
}

// killDatabase kills PostgreSQL or a node of Citus while copies run, which may fail then: at any
// moment, or when a service is read-only. Sometimes it is there again before they end.
func (c *copying) killDatabase(choose *rand.Rand) fault {
	node := c.own[choose.IntN(len(c.own))]
	return fault{busy: len(c.own) == 1, inject: func() {
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
		pause(nil, wait)
		must(c.t, node.Kill())
		if choose.IntN(2) == 0 {
			must(c.t, node.Start())
		}
		for _, p := range all {
			p.wait()
		}
	}, recover: func() {
		if node.PID() == 0 {
			must(c.t, node.Start())
		}
		c.server.Await("/readyz", http.StatusOK)
		c.recovered()
	}}
}

// recovered completes the copies if clients cannot write until then.
func (c *copying) recovered() {
	c.t.Helper()
	if c.isReadOnly() {
		for _, m := range c.services {
			c.complete(m)
		}
		if !c.t.Failed() {
			c.change(c.serveCopies())
		}
		return
	}
	for _, m := range c.services {
		if m.path[m.at] == onCitus {
			c.writableEverywhere(m)
		}
	}
	if strings.HasPrefix(c.services[0].source, "spanner") {
		c.unblocked(c.server)
	}
}

// writableEverywhere fails if a worker of Citus stays read-only without the coordinator.
func (c *copying) writableEverywhere(m *movingService) {
	c.t.Helper()
	db, err := pgx.Connect(c.t.Context(), m.source)
	must(c.t, err)
	defer func() { must(c.t, db.Close(c.t.Context())) }()
	var n int
	must(c.t, db.QueryRow(c.t.Context(), `SELECT count(*) FROM run_command_on_workers($$
		SELECT count(*) FROM read_only WHERE until > clock_timestamp() + interval '1 minute' $$) WHERE success AND result <> '0'`).Scan(&n))
	if n > 0 {
		c.t.Errorf("%s: %d workers stay read-only", m.name, n)
	}
}

// isReadOnly reports whether a service refuses writes.
func (c *copying) isReadOnly() bool {
	c.t.Helper()
	return slices.ContainsFunc(c.workloads, func(w workload) bool {
		a, err := w.probe(c.harness, c.server)
		must(c.t, err)
		return unavailable(a)
	})
}

// copyAll completes the copies, and lets the clients go on at a server that uses them.
func (c *copying) copyAll(choose *rand.Rand) fault {
	return fault{readable: true, certain: true, resumes: true, busy: len(c.own) == 1, inject: func() {
		for i, m := range c.services {
			c.startAndKill(m, choose)
			c.complete(m)
			c.wantRefused(i, c.server)
		}
		if c.t.Failed() {
			c.load.end()
			return
		}
		target := c.serveCopies()
		c.moved.Store(target)
		c.await(c.load.after(20))
		for i := range c.services {
			c.wantRefused(i, c.server)
		}
	}, recover: func() { c.change(c.moved.Swap(nil)) }}
}

// wantRefused fails unless a server refuses the writes of a workload.
func (c *copying) wantRefused(i int, s *binary.Server) {
	c.t.Helper()
	if a, err := c.workloads[i].probe(c.harness, s); err != nil || !unavailable(a) {
		c.t.Errorf("a write of %s to the source of a complete copy: %d %s %v, want 503 with Retry-After", c.services[i].name, a.Status, a.Body, err)
	}
}

// serveCopies starts a server with the settings that the copies have printed.
func (c *copying) serveCopies() *binary.Server {
	c.t.Helper()
	vars := slices.Clone(c.base)
	for _, m := range c.services {
		vars = append(vars, "HOLDFAST_"+m.section+"__DATABASE_URL="+m.printed)
	}
	return binary.Start(c.t, c.data, vars...)
}

// change replaces the server by one that uses the copies. A server that starts with the old
// settings refuses writes, too.
func (c *copying) change(target *binary.Server) {
	c.t.Helper()
	if target == nil {
		return // the round has failed
	}
	c.server.Kill()
	old := c.serve()
	for i := range c.services {
		c.wantRefused(i, old)
	}
	old.Kill()
	c.server = target
	for _, m := range c.services {
		m.source, m.target, m.printed, m.at = m.printed, "", "", (m.at+1)%len(m.path)
	}
	c.vars = append(slices.Clone(c.base), c.urls()...)
	for i, w := range c.workloads {
		if a, err := w.probe(c.harness, target); err != nil || a.Status >= http.StatusBadRequest {
			c.t.Errorf("a write of %s to the copy: %d %s %v", c.services[i].name, a.Status, a.Body, err)
		}
	}
}

// copyProcess is a running copy.
type copyProcess struct {
	c      *copying
	cmd    *exec.Cmd
	output *binary.Output
	ended  chan struct{}

	killed, mayFail bool
}

// environ returns the environment of a copy.
func (c *copying) environ() []string {
	return binary.Environ(slices.Concat(c.vars, c.forCopy, []string{"HOLDFAST_DATA=" + c.data})...)
}

func (m *movingService) command() []string {
	return []string{"copy", strings.ToLower(m.section), "--to", m.target}
}

// start starts the copy of a service.
func (c *copying) start(m *movingService) *copyProcess {
	c.t.Helper()
	p := &copyProcess{c: c, cmd: exec.Command(binary.Path(), m.command()...), output: &binary.Output{}, ended: make(chan struct{})}
	p.cmd.Env, p.cmd.Stdout, p.cmd.Stderr = c.environ(), p.output, p.output
	must(c.t, p.cmd.Start())
	go func() { _ = p.cmd.Wait(); close(p.ended) }() // the exit status is in ProcessState
	return p
}

func (p *copyProcess) kill() {
	p.killed = true
	_ = p.cmd.Process.Kill() // it may have ended
}

// wait waits for the end of the copy, which succeeds unless it was killed.
func (p *copyProcess) wait() {
	p.c.t.Helper()
	pause(p.ended, 4*bound)
	switch {
	case !closed(p.ended):
		p.c.t.Errorf("a copy did not end:\n%s", p.output)
		p.kill()
		<-p.ended
	case p.mayFail:
	case p.cmd.ProcessState.ExitCode() > 0 || !p.killed && !p.cmd.ProcessState.Success():
		p.c.t.Errorf("a copy: %v\n%s", p.cmd.ProcessState, p.output)
	}
}

// moment chooses a moment of a copy.
func (c *copying) moment(choose *rand.Rand) time.Duration {
	return time.Duration(choose.Int64N(int64(c.length)))
}

// startAndKill kills a copy at any moment, or near its end.
func (c *copying) startAndKill(m *movingService, choose *rand.Rand) {
	p := c.start(m)
	wait := c.moment(choose)
	kind := choose.IntN(3)
	if last := []string{"", "the service is read-only", "everything is copied"}[kind]; last != "" {
		p.output.Await(regexp.MustCompile(last), p.ended)
		wait /= 20
	}
	pause(p.ended, wait)
	p.kill()
	p.wait()
	// Sometimes clients go on when the lease has ended.
	if kind == 1 && c.own != nil && choose.IntN(10) == 0 && strings.Count(p.output.String(), "copied") == 0 {
		acknowledged := c.load.after(50)
		if pause(acknowledged, 2*bound); !closed(acknowledged) {
			c.t.Errorf("no writes after the lease of a copy that was killed:\n%s", p.output)
		}
	}
}

// printed matches what to set when the copy is complete.
var printed = regexp.MustCompile(`(?m)^\[(\w+)\]\ndatabase_url = (".*")$`)

// complete runs the copy of a service to its end.
func (c *copying) complete(m *movingService) {
	c.t.Helper()
	start := time.Now()
	r := binary.Run(c.t, c.environ(), m.command()...)
	c.length = min(c.length, max(time.Since(start), 100*time.Millisecond))
	found := printed.FindStringSubmatch(r.Stdout)
	if r.Status != 0 || found == nil || found[1] != strings.ToLower(m.section) {
		c.t.Errorf("copy: status %d\n%s%s", r.Status, r.Stdout, r.Stderr)
		return
	}
	var err error
	m.printed, err = strconv.Unquote(found[2])
	must(c.t, err)
}

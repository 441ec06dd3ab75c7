package fault

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"holdfast/internal/testdb"
	"holdfast/internal/workload/buckets"
	"holdfast/test/binary"
	bucketsfault "holdfast/test/fault/buckets"
	extfault "holdfast/test/fault/ext"
	guestfault "holdfast/test/fault/guest"
	"holdfast/test/fault/harness"
	syncfault "holdfast/test/fault/sync"
	accountsfault "holdfast/test/fault/tokenserver"
	"holdfast/test/powercut"
)

type powered struct {
	*harness.Harness
	machine *powercut.Machine
}

// diskSize is a disk's size; only written data uses memory. After a hundred power cuts a disk contains many bodies and
// parts without an object, because only an audit removes them.
const diskSize = 2 << 30

func (p *powered) cut(choose *rand.Rand, others ...*os.Process) {
	p.machine.Cut(choose)
	p.Server.Signal(syscall.SIGKILL)
	for _, o := range others {
		_ = o.Kill() // fails only if the process has exited
	}
	p.machine.Release()
	<-p.Server.Ended
}

func (p *powered) begin() {
	p.T.Helper()
	p.Server = p.Serve()
	if os.Getenv(settled) != "" {
		p.machine.Sync()
	}
}

// settled is the environment variable that makes the first start's data durable.
const settled = "FAULT_SETTLED"

func (p *powered) restart(round int) {
	p.T.Helper()
	p.machine.Restart(round%10 == 0)
	p.Server = p.Serve()
	if round%5 != 4 {
		return
	}
	if r := binary.Run(p.T, p.Server.Env, "sweep"); r.Status != 0 {
		p.T.Errorf("sweep: status %d\n%s%s", r.Status, r.Stdout, r.Stderr)
	}
}

func (p *powered) fault(round int) harness.Fault {
	return harness.Fault{Deadly: true, Busy: true, Inject: func() { p.cut(p.Choice(round)) }, Recover: func() { p.restart(round) }}
}

// newPowered returns a harness for services with SQLite on disk 0. Storage nodes are on disks 1 and 2; disk 3 holds
// backups.
func newPowered(t *testing.T, copies int, vars []string, names ...string) *powered {
	t.Helper()
	p := &powered{machine: powercut.New(t, diskSize, diskSize, diskSize, 2*diskSize)}
	var of []harness.Service
	for _, s := range []harness.Service{syncfault.Service(), accountsfault.Service(), extfault.Service(), bucketsfault.Service(), guestfault.Service()} {
		if !slices.Contains(names, s.Name) {
			continue
		}
		if s.Name == "buckets" {
			b := p.onNodes(copies)
			s.Workload = func(*testing.T, bool) harness.Workload { return b }
			vars = append(vars, "HOLDFAST_CONFIG="+b.Configuration(t))
		}
		of = append(of, s)
	}
	testdb.SQLite(t) // counts the test
	p.Harness = harness.New(t, of, false, filepath.Join(p.machine.Disk(0).Dir, "new", "data"), append(vars, "HOLDFAST_LOG__ACCESS=false")...)
	p.Enough = 400
	return p
}

// onNodes returns a workload with bodies of all sizes, some uploaded in parts, on two nodes. Each node uses its own
// disk: on the database's disk, syncing one file may make others durable.
func (p *powered) onNodes(copies int) *bucketsfault.Workload {
	b := bucketsfault.NewWorkload(6)
	b.Sizes, b.Copies = buckets.Sizes{Large: true, Parts: true}, copies
	for n := 1; n <= 2; n++ {
		b.Nodes = append(b.Nodes, &bucketsfault.Node{ID: fmt.Sprintf("here:%d", n), Dir: filepath.Join(p.machine.Disk(n).Dir, "node")})
	}
	return b
}

// TestPowerCut cuts the power while clients write to all services. All acknowledged writes must survive.
func TestPowerCut(t *testing.T) {
	t.Parallel()
	if !needsPower(t) {
		return
	}
	p := newPowered(t, 1, nil, "sync", "tokenserver", "ext", "buckets", "guest")
	p.Server = p.Serve()
	p.Rounds(100, p.fault)
}

// TestPowerCutOfOne gives each service its own machine, so that no other service's sync makes its files durable.
func TestPowerCutOfOne(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"sync", "tokenserver", "ext", "buckets", "guest"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if !needsPower(t) {
				return
			}
			p := newPowered(t, 2, nil, name)
			p.begin()
			p.Rounds(100, p.fault)
		})
	}
}

// TestPowerCutAtFirstStart cuts the power soon after the first start. The databases are in PostgreSQL on another
// machine, so the data folder contains only the secrets, and no other file's sync makes them durable.
func TestPowerCutAtFirstStart(t *testing.T) {
	t.Parallel()
	if !needsPower(t) {
		return
	}
	var checked int64
	rounds := min(int(harness.Number(t, "FAULT_ROUNDS", 20)), 20)
	for round := range rounds {
		t.Run(fmt.Sprint(round), func(t *testing.T) {
			p := &powered{machine: powercut.New(t, 64<<20)}
			of := []harness.Service{accountsfault.Service(), extfault.Service()} // accounts need the secrets that the start generates
			vars := append(harness.Settings(of, "DATABASE_URL", testdb.PostgresDatabase(t)), "HOLDFAST_EXTSTORAGE__AUDIT=log", "HOLDFAST_LOG__ACCESS=false")
			p.Harness = harness.New(t, of, true, filepath.Join(p.machine.Disk(0).Dir, "new", "data"), vars...)
			p.Enough = 20
			p.Server = p.Serve()
			p.Round(round, p.fault(round))
			checked += p.Tally.Acknowledged
		})
		if t.Failed() {
			return
		}
	}
	t.Logf("%d first starts: %d acknowledgements checked", rounds, checked)
}

// TestPowerCutOfCopy cuts the power while sync and extension storage are copied to PostgreSQL on another machine. The
// copy continues after the restart, and the writes acknowledged before and after the switch form one history.
func TestPowerCutOfCopy(t *testing.T) {
	t.Parallel()
	if !needsPower(t) {
		return
	}
	machine := powercut.New(t, diskSize)
	c := newCopyingIn(t, machine.Disk(0).Dir, nil, harness.OnPostgres, harness.OnSQLite)
	c.length = time.Second
	c.run(60, func(round int) harness.Fault {
		choose := c.Choice(round)
		c.target()
		if round%3 == 2 {
			return c.copyAll(choose)
		}
		p := &powered{c.Harness, machine}
		var all []*copyProcess
		return harness.Fault{Deadly: true, Inject: func() {
			var processes []*os.Process
			for _, m := range c.services {
				all = append(all, c.start(m))
				processes = append(processes, all[len(all)-1].cmd.Process)
			}
			harness.Pause(nil, c.moment(choose))
			for _, one := range all {
				one.killed = true
			}
			p.cut(choose, processes...)
			for _, one := range all {
				one.wait()
			}
		}, Recover: func() {
			for _, m := range c.services {
				if strings.HasPrefix(m.source, "postgres") {
					harness.Abandoned(t, m.source)
				}
			}
			p.restart(round)
			c.recovered()
		}}
	})
}

// TestPowerCutOfBackup cuts the power during a backup to another disk, or just after it. A folder with a backup's
// final name must be a complete backup, and a backup that succeeded must exist.
func TestPowerCutOfBackup(t *testing.T) {
	t.Parallel()
	if !needsPower(t) {
		return
	}
	p := newPowered(t, 1, nil, "sync", "tokenserver", "ext", "buckets", "guest")
	p.Server = p.Serve()
	p.Most = 20 // a killed backup's hold keeps garbage, so the disks fill up
	length := time.Second
	complete, whole := 0, 0 // restored backups, and backups that succeeded before the power cut
	p.Rounds(50, func(round int) harness.Fault {
		choose := p.Choice(round)
		b := &backup{Harness: p.Harness, dir: filepath.Join(p.machine.Disk(3).Dir, fmt.Sprint(round))}
		ended := false
		return harness.Fault{Deadly: true, Busy: true, Inject: func() {
			b.begun = b.Clock.Add(1)
			start := time.Now()
			cmd := exec.Command(binary.Path(), "backup", b.dir)
			cmd.Env = b.Server.Env
			var said bytes.Buffer
			cmd.Stdout, cmd.Stderr = &said, &said
			harness.Must(t, cmd.Start())
			done := make(chan struct{})
			go func() { _ = cmd.Wait(); close(done) }()
			wait := time.Duration(choose.Int64N(int64(length)))
			if choose.IntN(2) == 0 {
				wait = harness.Bound
			}
			harness.Pause(done, wait)
			if ended = harness.Closed(done); ended {
				whole++
				length = min(length, time.Since(start))
				if !cmd.ProcessState.Success() {
					t.Errorf("backup: %v: %s", cmd.ProcessState, said.String())
				}
			}
			p.cut(choose, cmd.Process)
			<-done
			b.ended = b.Clock.Add(1)
		}, Recover: func() {
			p.restart(round)
			if _, err := os.Stat(b.dir); err == nil {
				complete++
				b.restore()
			} else if ended {
				t.Errorf("backup that had succeeded: %v", err)
			}
			// A removed folder reappears if the power was cut before the removal was durable.
			left, err := filepath.Glob(filepath.Join(filepath.Dir(b.dir), "[0-9]*"))
			harness.Must(t, err)
			for _, folder := range left {
				harness.Must(t, os.RemoveAll(folder))
			}
		}}
	})
	t.Logf("%d backups had ended before the power was cut; %d were restored", whole, complete)
	if whole == 0 {
		t.Error("no backup ended before the power was cut")
	}
}

// TestPowerCutOfNodes stores bodies on disks that lose power, and their rows in PostgreSQL on another machine, so that
// each committed row needs its body.
func TestPowerCutOfNodes(t *testing.T) {
	t.Parallel()
	if !needsPower(t) {
		return
	}
	url := testdb.PostgresDatabase(t)
	p := newPowered(t, 1, harness.Settings([]harness.Service{bucketsfault.Service()}, "DATABASE_URL", url), "buckets")
	p.begin()
	p.Rounds(100, func(round int) harness.Fault {
		f := p.fault(round)
		restart := f.Recover
		f.Recover = func() {
			harness.Abandoned(t, url)
			restart()
		}
		return f
	})
}

// TestPowerCutIsNoticed checks that the power cut tests detect a server that does not sync: SQLite with synchronous =
// OFF, or bodies without fsync.
func TestPowerCutIsNoticed(t *testing.T) {
	t.Parallel()
	if os.Getenv("FAULT_POWER") == "" {
		t.Skip("make soak PART=power runs it")
	}
	program := filepath.Join(t.TempDir(), "holdfast")
	script := fmt.Sprintf("#!/bin/sh\n%s='%s' exec '%s' \"$@\"\n", withoutSyncs, binary.Path(), os.Args[0])
	harness.Must(t, os.WriteFile(program, []byte(script), 0o700))
	for _, test := range []string{"TestPowerCutOfOne/sync", "TestPowerCutOfOne/ext", "TestPowerCutOfNodes"} {
		t.Run(test, func(t *testing.T) {
			t.Parallel()
			cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+test+"$", "-test.timeout=10m")
			cmd.Env = append(os.Environ(), "FAULT_ROUNDS=20", settled+"=1", "HOLDFAST_BIN="+program, binary.ProgramsVar+"="+binary.Programs())
			out, err := cmd.CombinedOutput()
			round := regexp.MustCompile(`in round \d+`).Find(out)
			if err == nil || round == nil || strings.Contains(string(out), "mount: exit status") {
				t.Errorf("server without syncs was not noticed: %v\n%s", err, out)
			}
			t.Logf("noticed %s: %.300s", round, firstError.Find(out))
		})
	}
}

var firstError = regexp.MustCompile(`(?m)^ {12,}\w+_test\.go:\d+: .*$`)

// needsPower skips power cut tests unless `make soak PART=power` runs them, which fails if a requirement is missing.
// It reports whether this process runs in its own mount namespace.
func needsPower(t *testing.T) bool {
	t.Helper()
	if os.Getenv("FAULT_POWER") == "" {
		t.Skip("make soak PART=power runs it")
	}
	if missing := powercut.Missing(); missing != "" {
		t.Fatalf("this system cannot simulate a power cut: it lacks %s", missing)
	}
	return harness.Private(t)
}

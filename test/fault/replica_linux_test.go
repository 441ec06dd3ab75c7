package fault

import (
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"sync"
	"testing"
	"time"

	"holdfast/internal/testdb"
	"holdfast/test/binary"
	"holdfast/test/fault/harness"
)

// TestReplica kills a server under load and deletes its data folder. The replica must restore each database at one
// moment: all data acknowledged before the restore point, no partial write, and a body for each row. The replica is in
// a folder, in another Holdfast server's buckets, or in MinIO; in some rounds it is unavailable, slow or full, which
// must not make a request fail.
func TestReplica(t *testing.T) {
	t.Parallel()
	if !harness.Private(t) {
		return
	}
	for name, open := range map[string]func(*testing.T) *place{"Folder": folderPlace, "Buckets": bucketPlace, "MinIO": minioPlace} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := open(t)
			key, public := binary.Key(t)
			h := newHarness(t, testdb.SQLite(t), append(slices.Clone(p.vars),
				"HOLDFAST_REPLICA__URL="+p.url, "HOLDFAST_REPLICA__RECIPIENTS="+public, "HOLDFAST_REPLICA__INTERVAL=100ms")...)
			r := &replicated{Harness: h, place: p, key: key, seen: []reading{{}}}
			h.Server = h.Serve()
			h.Rounds(4, func(round int) harness.Fault { return r.fault(round) })
			if r.behind == 0 && h.Tally.Rounds > 3 {
				t.Error("no restore point was older than a fault of the replica")
			}
			t.Logf("%s; the restore points were up to %v older than the kill", name, r.oldest.Round(time.Millisecond))
		})
	}
}

type place struct {
	url    string
	vars   []string
	faults map[string]func() // by name: away, slow, full
	heal   func()
}

func folderPlace(t *testing.T) *place {
	t.Helper()
	d := harness.NewDisk(t, "256m")
	dir, gone := filepath.Join(d.Dir, "replica"), filepath.Join(d.Dir, "gone")
	harness.Must(t, os.Mkdir(dir, 0o700))
	undo := func() {}
	return &place{url: "file://" + dir, heal: func() { undo(); undo = func() {} }, faults: map[string]func(){
		"away": func() { // empty, like an unmounted disk
			harness.Must(t, errors.Join(os.Rename(dir, gone), os.Mkdir(dir, 0o700)))
			undo = func() { harness.Must(t, errors.Join(os.RemoveAll(dir), os.Rename(gone, dir))) }
		},
		"full": func() {
			d.Fill(1)
			undo = d.Free
		},
	}}
}

func behindNetwork(t *testing.T, b binary.Bucket) *place {
	t.Helper()
	n := harness.NetworkTo(t, "tcp", b.Address)
	b.Address = n.Listener.Addr().String()
	return &place{url: b.URL(), vars: b.Vars(), heal: n.Heal, faults: map[string]func(){
		"away": n.Cut, "silent": n.Silence, "slow": func() { n.Slow(50 * time.Millisecond) },
	}}
}

func bucketPlace(t *testing.T) *place {
	t.Helper()
	return behindNetwork(t, binary.Start(t, t.TempDir()).NewBucket(t, "replica"))
}

// minioPlace returns a MinIO bucket if MinIO is installed.
func minioPlace(t *testing.T) *place {
	t.Helper()
	testdb.SoakOnly(t, "MinIO is compiled for it")
	return behindNetwork(t, binary.MinIO(t, "replica"))
}

type replicated struct {
	*harness.Harness
	*place
	key string

	seen   []reading
	behind int           // rounds with a restore point older than the fault
	oldest time.Duration // restore point's maximum age at the kill
}

type reading struct {
	at    time.Time
	clock int64
}

func (r *replicated) watch(stop <-chan struct{}) {
	ticks := time.NewTicker(2 * time.Millisecond)
	defer ticks.Stop()
	for {
		r.seen = append(r.seen, reading{time.Now(), r.Clock.Load()})
		select {
		case <-stop:
			return
		case <-ticks.C:
		}
	}
}

func (r *replicated) clockAt(at time.Time) int64 {
	i, exact := slices.BinarySearchFunc(r.seen, at, func(a reading, at time.Time) int { return a.at.Compare(at) })
	if !exact {
		i-- // the first reading has no time
	}
	return r.seen[i].clock
}

// fault kills the server, in most rounds after the replica has started to fail.
func (r *replicated) fault(round int) harness.Fault {
	r.Server.AwaitReplica() // the writers know only the states since the round's start
	var names []string
	for name := range r.faults {
		names = append(names, name)
	}
	slices.Sort(names)
	choose := r.Choice(round)
	moment := time.Duration(choose.Int64N(int64(time.Second)))
	name := append([]string{""}, names...)[round%(len(names)+1)]
	stop := make(chan struct{})
	var watching sync.WaitGroup
	watching.Go(func() { r.watch(stop) })
	var failed, killed time.Time
	return harness.Fault{Deadly: true, Inject: func() {
		if round == 0 {
			r.Server.AwaitReplica() // the writers make their buckets in the first round
		}
		failed = time.Now()
		if name != "" {
			r.faults[name]()
			harness.Pause(nil, 300*time.Millisecond)
		}
		r.Await(r.Load.After(10)) // writes continue
		harness.Pause(nil, moment)
		if name != "" && round/(len(names)+1)%2 == 1 { // the replica continues, too
			r.heal()
			name = ""
			r.Await(r.Load.After(10))
			harness.Pause(nil, moment)
		}
		killed = time.Now()
		r.Server.Kill()
	}, Recover: func() {
		close(stop)
		watching.Wait()
		r.heal()
		at := r.restore()
		r.oldest = max(r.oldest, killed.Sub(at))
		if name != "" && at.Before(failed) {
			r.behind++
		}
		r.Server = r.Serve()
	}}
}

var asOf = regexp.MustCompile(`as of (\S+ \S+ UTC)\n`)

// restore compares the restored data with the acknowledgements, and returns the restore point.
func (r *replicated) restore() time.Time {
	r.T.Helper()
	away := r.Data + ".away"
	signer := binary.Signer(r.T, r.Data)
	harness.Must(r.T, os.Rename(r.Data, away))
	data := filepath.Join(r.T.TempDir(), "restored")
	env := binary.Environ(append(slices.Clone(r.Vars), "HOLDFAST_DATA="+data)...)
	done := binary.Run(r.T, env, "restore", r.url, "--identity", r.key, "--signed-by", signer)
	if done.Status != 0 {
		r.T.Fatalf("restore: status %d\n%s%s", done.Status, done.Stdout, done.Stderr)
	}
	found := asOf.FindStringSubmatch(done.Stdout)
	if found == nil {
		r.T.Fatalf("restore does not print the restore point:\n%s", done.Stdout)
	}
	at, err := time.Parse("2006-01-02 15:04:05.000 UTC", found[1])
	harness.Must(r.T, err)
	vars := append(slices.Clone(r.Vars), "HOLDFAST_REPLICA__URL=")
	serveAs(r.Harness, binary.Start(r.T, data, vars...), r.clockAt(at), r.Clock.Add(1), true)
	harness.Must(r.T, errors.Join(os.RemoveAll(data), os.Rename(away, r.Data)))
	if r.T.Failed() {
		r.T.Logf("%s%s", done.Stdout, done.Stderr)
	}
	return at
}

package buckets

import (
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"syscall"
	"testing"
	"time"

	"holdfast/internal/testdb"
	"holdfast/test/binary"
	"holdfast/test/fault/harness"
	"holdfast/test/fault/harness/brokers"
)

// TestBucketsDisks breaks one of three storage nodes with two copies per body: it is full, read-only or missing. No
// request may be refused. If two are full or read-only, the server refuses new bodies with 503 or 507, but reads
// succeed. It uses all nodes again as soon as the fault ends.
func TestBucketsDisks(t *testing.T) {
	t.Parallel()
	if !harness.Private(t) {
		return
	}
	var disks []*harness.Disk
	var folders []string
	for range 3 {
		d := harness.NewDisk(t, "64m")
		disks, folders = append(disks, d), append(folders, d.Dir)
	}
	h, b := newBuckets(t, folders, testdb.SQLite(t))
	b.Sizes.Parts = false // the disks are small
	h.Server = h.Serve()
	two := 0
	h.Rounds(5, func(round int) harness.Fault {
		choose := h.Choice(round)
		at := choose.IntN(3)
		d, n, other := disks[at], b.Nodes[at], disks[(at+1)%3]
		f := harness.Fault{Readable: true}
		refused := h.Tally.Refused.Load()
		f.Recover = func() {
			if now := h.Tally.Refused.Load(); round%5 < 3 && now > refused {
				t.Errorf("%d requests were refused, although two nodes work", now-refused)
			}
			h.Server.Verb("sweep")
		}
		switch round % 5 {
		case 0:
			f.Inject = func() {
				d.Fill(choose.IntN(40))
				h.Await(h.Load.After(30))
				d.Free()
			}
		case 1:
			f.Inject = func() {
				remount(d, syscall.MS_RDONLY)
				h.Await(h.Load.After(20))
				r := binary.Run(t, h.Server.Env, "check")
				if r.Status != 1 || !regexp.MustCompile(`WRONG +buckets nodes +`+n.ID+`, .*: it is read-only`).MatchString(r.Stdout) {
					t.Errorf("check: status %d, expected a read-only node\n%s%s", r.Status, r.Stdout, r.Stderr)
				}
				remount(d, 0)
			}
		case 2:
			f.Inject = func() { b.away(h, n) }
		default:
			two++
			f.Inject = func() {
				undo := []func(){exhaust(d, choose), exhaust(other, choose)}
				harness.Pause(h.Load.Refused, harness.Bound)
				h.Tally.Held++
				for _, u := range undo {
					u()
				}
			}
		}
		return f
	})
	if two > 0 {
		h.Injected()
	}
}

func exhaust(d *harness.Disk, choose *rand.Rand) (undo func()) {
	if choose.IntN(2) == 0 {
		d.Fill(0)
		return d.Free
	}
	remount(d, syscall.MS_RDONLY)
	return func() { remount(d, 0) }
}

// remount changes a disk's mount flags while no file is open for writing.
func remount(d *harness.Disk, flags uintptr) {
	d.T.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(harness.Bound); ; <-tick.C {
		err := syscall.Mount("", d.Dir, "", syscall.MS_REMOUNT|flags, "")
		if !errors.Is(err, syscall.EBUSY) || time.Now().After(deadline) {
			harness.Must(d.T, err)
			return
		}
	}
}

// away moves a node folder away, waits until the server notices, and moves it back after some writes.
func (b *Workload) away(h *harness.Harness, n *Node) {
	h.T.Helper()
	away := filepath.Join(filepath.Dir(n.Dir), "away")
	harness.Must(h.T, os.Rename(n.Dir, away))
	h.Server.AwaitMetric(`holdfast_buckets_node_up{node="` + n.ID + `"} 0`)
	h.Await(h.Load.After(20))
	harness.Must(h.T, os.Rename(away, n.Dir))
}

// TestBucketsEventsFullDisk fills the embedded database's disk while clients write. A refused write publishes no
// event. Each acknowledged write publishes its event later, in order per object, although the relay could not record
// its publications.
func TestBucketsEventsFullDisk(t *testing.T) {
	t.Parallel()
	if !harness.Private(t) {
		return
	}
	testdb.SQLite(t) // counts the test
	d := harness.NewDisk(t, "64m")
	b := brokers.NATS(t, describeObject(t))
	n := notifiedIn(t, filepath.Join(d.Dir, "data"), "", b.URL, "HOLDFAST_LOG__ACCESS=false")
	n.outage(b, func() { d.Fill(0) }, d.Free)
}

package fault

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
)

// One of three storage nodes with two copies of each body is full, read-only or gone: no request is
// refused. If two of them are full or read-only, bodies are refused with 503 or 507, and everything
// can be read. All are used again as soon as the fault ends.
func TestBucketsDisks(t *testing.T) {
	t.Parallel()
	if !private(t) {
		return
	}
	var disks []*disk
	var folders []string
	for range 3 {
		d := newDisk(t, "64m")
		disks, folders = append(disks, d), append(folders, d.dir)
	}
	h, b := newBuckets(t, folders, testdb.SQLite(t))
	b.sizes.Parts = false // the disks are small
	h.server = h.serve()
	two := 0
	h.rounds(5, func(round int) fault {
		choose := h.choice(round)
		at := choose.IntN(3)
		d, n, other := disks[at], b.nodes[at], disks[(at+1)%3]
		f := fault{readable: true}
		refused := h.tally.refused.Load()
		f.recover = func() {
			if now := h.tally.refused.Load(); round%5 < 3 && now > refused {
				t.Errorf("%d requests were refused, although two nodes work", now-refused)
			}
			h.server.Verb("sweep")
		}
		switch round % 5 {
		case 0:
			f.inject = func() {
				d.fill(choose.IntN(40))
				h.await(h.load.after(30))
				d.free()
			}
		case 1:
			f.inject = func() {
				d.remount(syscall.MS_RDONLY)
				h.await(h.load.after(20))
				r := binary.Run(t, h.server.Env, "check")
				if r.Status != 1 || !regexp.MustCompile(`WRONG +buckets nodes +`+n.id+`, .*: it is read-only`).MatchString(r.Stdout) {
					t.Errorf("check: status %d, expected a read-only node\n%s%s", r.Status, r.Stdout, r.Stderr)
				}
				d.remount(0)
			}
		case 2:
			f.inject = func() { b.away(h, n) }
		default:
			two++
			f.inject = func() {
				undo := []func(){d.exhaust(choose), other.exhaust(choose)}
				pause(h.load.refused, bound)
				h.tally.held++
				for _, u := range undo {
					u()
				}
			}
		}
		return f
	})
	if two > 0 {
		h.injected()
	}
}

// exhaust makes a disk full or read-only.
func (d *disk) exhaust(choose *rand.Rand) (undo func()) {
	if choose.IntN(2) == 0 {
		d.fill(0)
		return d.free
	}
	d.remount(syscall.MS_RDONLY)
	return func() { d.remount(0) }
}

// remount mounts a disk again with flags, when no file is open for writing.
func (d *disk) remount(flags uintptr) {
	d.t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(bound); ; <-tick.C {
		err := syscall.Mount("", d.dir, "", syscall.MS_REMOUNT|flags, "")
		if !errors.Is(err, syscall.EBUSY) || time.Now().After(deadline) {
			must(d.t, err)
			return
		}
	}
}

// away moves the folder of a node away until the server has noticed, and some time longer.
func (b *bucketsWorkload) away(h *harness, n *storageNode) {
	h.t.Helper()
	away := filepath.Join(filepath.Dir(n.dir), "away")
	must(h.t, os.Rename(n.dir, away))
	h.server.AwaitMetric(`holdfast_buckets_node_up{node="` + n.id + `"} 0`)
	h.await(h.load.after(20))
	must(h.t, os.Rename(away, n.dir))
}

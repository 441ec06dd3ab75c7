package guest

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"holdfast/internal/testdb"
	"holdfast/internal/workload/guest"
	"holdfast/test/binary"
	"holdfast/test/fault/harness"
)

// TestGuestFullDisk fills the embedded database's disk and then makes it read-only. Changes are refused, reads are
// not, and a server does not start on the disk. Afterwards no acknowledged change is lost, and a refused change
// succeeds when repeated.
func TestGuestFullDisk(t *testing.T) {
	t.Parallel()
	if !harness.Private(t) {
		return
	}
	testdb.SQLite(t) // counts the test
	d := harness.NewDisk(t, "32m")
	hook := newGuestHook(t)
	data := filepath.Join(d.Dir, "data")
	vars := []string{
		"HOLDFAST_GUEST__ENABLED=true", "HOLDFAST_SYNCSTORAGE__ENABLED=false", "HOLDFAST_TOKENSERVER__ENABLED=false",
		"HOLDFAST_GUEST__RATE_LIMITS=false", "HOLDFAST_GUEST__EVENTS=" + hook.URL,
	}
	g := &guests{t: t, servers: []*binary.Server{binary.Start(t, data, vars...)}}
	v := g.visitor("full")
	want := map[string][]string{}
	done := func(event string) { want[v.Session()] = append(want[v.Session()], event) }
	for round := range min(int(harness.Number(t, "FAULT_ROUNDS", 1)), 4) { // the wishlist size limits the rounds
		n := 20 * round
		done(v.add(n))
		d.Fill(round)
		refused := &guest.Change{Call: guest.Call{Method: http.MethodPost, Path: "/wishlist"}}
		for { // the log file still uses its allocated space
			n++
			refused.Key, refused.Body = fmt.Sprint("refused-", n), g.site().Wish(n)
			status, h, text := v.send(0, refused.Method, refused.Path, refused.Body, refused.Key)
			if status == http.StatusServiceUnavailable && h.Get("Retry-After") != "" {
				break
			}
			if status != http.StatusCreated {
				t.Fatalf("add on a full disk: %d %s", status, text)
			}
			v.live[g.site().Item(n)] = true
			done("wishlist.added.v1 " + g.site().Item(n))
			if n > 20*round+15 {
				t.Fatal("no change was refused on a full disk")
			}
		}
		v.compare(0, "on a full disk")
		g.servers[0].Kill()
		d.Free()
		remount := func(flags uintptr) {
			harness.Must(t, syscall.Mount("", d.Dir, "", syscall.MS_REMOUNT|flags, ""))
		}
		remount(syscall.MS_RDONLY)
		cmd := exec.CommandContext(t.Context(), binary.Path(), "serve")
		cmd.Env = g.servers[0].Env
		if out, err := cmd.CombinedOutput(); err == nil || !strings.Contains(string(out), "read-only") {
			t.Errorf("serve on a read-only disk: %v\n%s", err, out)
		}
		remount(0)
		g.servers[0] = binary.Start(t, data, vars...)
		v.compare(0, "after the disk was full and read-only")
		if status, text := v.patiently(0, refused); status != http.StatusCreated {
			t.Errorf("a refused change, repeated: %d %s", status, text)
		}
		v.live[g.site().Item(n)] = true
		done("wishlist.added.v1 " + g.site().Item(n))
		hook.await(t, "after the disk was full and read-only", want)
	}
}

// TestGuestDiskError triggers a file system error, which makes the kernel remount the file system read-only while the
// server runs. Changes are refused, reads are not. After a repair no acknowledged change is lost, and a refused change
// succeeds when repeated.
func TestGuestDiskError(t *testing.T) {
	t.Parallel()
	if !harness.Private(t) {
		return
	}
	testdb.SQLite(t) // counts the test
	d := newErrorDisk(t)
	hook := newGuestHook(t)
	data := filepath.Join(d.dir, "data")
	vars := []string{
		"HOLDFAST_GUEST__ENABLED=true", "HOLDFAST_SYNCSTORAGE__ENABLED=false", "HOLDFAST_TOKENSERVER__ENABLED=false",
		"HOLDFAST_EXTSTORAGE__ENABLED=false", "HOLDFAST_BUCKETS__ENABLED=false",
		"HOLDFAST_GUEST__RATE_LIMITS=false", "HOLDFAST_GUEST__EVENTS=" + hook.URL,
	}
	g := &guests{t: t, servers: []*binary.Server{binary.Start(t, data, vars...)}}
	v := g.visitor("disk-error")
	want := map[string][]string{}
	done := func(event string) { want[v.Session()] = append(want[v.Session()], event) }
	for round := range min(int(harness.Number(t, "FAULT_ROUNDS", 1)), 20) { // the wishlist size limits the rounds
		for n := range 3 {
			done(v.add(4*round + n))
		}
		d.fail()
		refused := &guest.Change{Call: guest.Call{Method: http.MethodPost, Path: "/wishlist", Key: fmt.Sprint("read-only-", round), Body: g.site().Wish(4*round + 3)}}
		for range 3 {
			if status, h, text := v.send(0, refused.Method, refused.Path, refused.Body, refused.Key); status != http.StatusServiceUnavailable || h.Get("Retry-After") == "" {
				t.Errorf("add on a read-only file system: %d %v %s", status, h, text)
			}
			v.compare(0, "on a read-only file system")
		}
		g.servers[0].Kill()
		d.repair()
		g.servers[0] = binary.Start(t, data, vars...)
		v.compare(0, "after the file system was repaired")
		if status, text := v.patiently(0, refused); status != http.StatusCreated {
			t.Errorf("a refused change, repeated: %d %s", status, text)
		}
		v.live[g.site().Item(4*round+3)] = true
		done("wishlist.added.v1 " + g.site().Item(4*round+3))
		hook.await(t, "after the file system was repaired", want)
	}
}

// errorDisk is an ext4 file system that the kernel makes read-only after an error.
type errorDisk struct {
	t          *testing.T
	image, dir string
}

// newErrorDisk skips the test without loop devices or ext4.
func newErrorDisk(t *testing.T) *errorDisk {
	t.Helper()
	d := &errorDisk{t: t, image: filepath.Join(t.TempDir(), "image"), dir: t.TempDir()}
	harness.Must(t, os.WriteFile(d.image, nil, 0o600))
	harness.Must(t, os.Truncate(d.image, 64<<20))
	if out, err := exec.CommandContext(t.Context(), "mkfs.ext4", "-q", "-F", d.image).CombinedOutput(); err != nil {
		t.Skipf("needs mkfs.ext4: %v %s", err, out)
	}
	if err := d.mount(); err != nil {
		t.Skipf("needs permission to mount ext4 on a loop device: %v", err)
	}
	t.Cleanup(func() { harness.Must(t, syscall.Unmount(d.dir, syscall.MNT_DETACH)) })
	if _, err := os.Stat(d.trigger()); errors.Is(err, fs.ErrNotExist) {
		t.Skipf("needs a kernel that simulates errors of ext4: %v", err)
	}
	return d
}

func (d *errorDisk) mount() error {
	out, err := exec.CommandContext(d.t.Context(), "mount", "-t", "ext4", "-o", "loop,errors=remount-ro", d.image, d.dir).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%w: %s", err, bytes.TrimSpace(out))
	}
	return nil
}

// trigger returns the file that simulates an error.
func (d *errorDisk) trigger() string {
	d.t.Helper()
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	harness.Must(d.t, err)
	device := regexp.MustCompile(` ` + regexp.QuoteMeta(d.dir) + ` .* /dev/(\S+) `).FindSubmatch(mounts)
	if device == nil {
		d.t.Fatalf("%s is not mounted", d.dir)
	}
	return "/sys/fs/ext4/" + string(device[1]) + "/trigger_fs_error"
}

func (d *errorDisk) fail() {
	d.t.Helper()
	harness.Must(d.t, os.WriteFile(d.trigger(), []byte("a test"), 0))
	if err := os.WriteFile(filepath.Join(d.dir, "probe"), nil, 0o600); !errors.Is(err, syscall.EROFS) {
		d.t.Fatalf("the file system is not read-only: %v", err)
	}
}

func (d *errorDisk) repair() {
	d.t.Helper()
	harness.Must(d.t, syscall.Unmount(d.dir, 0))
	out, err := exec.CommandContext(d.t.Context(), "e2fsck", "-p", d.image).CombinedOutput()
	if exit := (*exec.ExitError)(nil); err != nil && (!errors.As(err, &exit) || exit.ExitCode() > 1) { // exit status 1: errors were corrected
		d.t.Fatalf("e2fsck: %v %s", err, out)
	}
	harness.Must(d.t, d.mount())
}

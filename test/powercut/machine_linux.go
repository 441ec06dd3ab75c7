package powercut

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"
)

// Machine is a set of disks that lose power together.
type Machine struct {
	t     testing.TB
	disks []*Disk

	mu       sync.Mutex
	isOff    bool
	released chan struct{} // closed by Release; nil if the power is on
}

// Disk is an ext4 disk.
type Disk struct {
	Dir string // mount point

	size    int64
	file    string
	platter *platter
	opened  sync.WaitGroup
	server  *fuse.Server
	mounted bool
}

// Missing returns the requirements that this system lacks, or "".
func Missing() string {
	if os.Geteuid() != 0 {
		return "root, who may mount file systems"
	}
	for _, device := range []string{"/dev/fuse", loopControl} {
		f, err := os.OpenFile(device, os.O_RDWR, 0)
		if err != nil {
			return device + ": " + err.Error()
		}
		_ = f.Close()
	}
	for _, program := range []string{"mkfs.ext4", "e2fsck", "mount", "umount"} {
		if _, err := exec.LookPath(program); err != nil {
			return program + " of the package e2fsprogs or mount"
		}
	}
	return ""
}

// New returns a machine with disks of these sizes in bytes, which are unmounted and detached when the test ends. Run
// the test in its own mount namespace, so that a killed process leaves nothing behind: unmounting a file system
// detaches its loop device.
func New(t testing.TB, sizes ...int64) *Machine {
	t.Helper()
	m := &Machine{t: t}
	for _, size := range sizes {
		m.disks = append(m.disks, m.disk(size))
	}
	return m
}

func (m *Machine) Disk(n int) *Disk { return m.disks[n] }

func (m *Machine) Sync() {
	m.t.Helper()
	for _, d := range m.disks {
		dir, err := os.Open(d.Dir)
		m.must(err)
		m.must(errors.Join(unix.Syncfs(int(dir.Fd())), dir.Close()))
	}
}

func (m *Machine) Flushes(n int) int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.disks[n].platter.flushes
}

// Cut cuts the power and drops random unflushed data. Writes and flushes then hang until Release.
func (m *Machine) Cut(choose *rand.Rand) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.isOff, m.released = true, make(chan struct{})
	for _, d := range m.disks {
		d.platter.cut(choose)
	}
}

// Release makes writes and flushes fail. Kill all processes first, so that none sees an error that a power failure
// would not cause.
func (m *Machine) Release() {
	m.mu.Lock()
	defer m.mu.Unlock()
	close(m.released)
}

// powered waits while writes hang. It returns true with the mutex locked, or false if there is no power.
func (m *Machine) powered() bool {
	m.mu.Lock()
	if !m.isOff {
		return true
	}
	released := m.released
	m.mu.Unlock()
	<-released
	return false
}

// Restart mounts the disks after a cut, while no process uses them. If checked is true, it verifies the file systems
// after journal replay.
func (m *Machine) Restart(checked bool) {
	m.t.Helper()
	for _, d := range m.disks {
		m.must(d.unmount())
	}
	m.mu.Lock()
	m.isOff, m.released = false, nil
	m.mu.Unlock()
	for _, d := range m.disks {
		m.must(d.mount())
		if checked {
			m.must(d.unmount())
			m.must(d.check())
			m.must(d.mount())
		}
	}
}

func (m *Machine) must(err error) {
	m.t.Helper()
	if err != nil {
		m.t.Fatal(err)
	}
}

func (m *Machine) disk(size int64) *Disk {
	m.t.Helper()
	root := m.t.TempDir()
	d := &Disk{Dir: filepath.Join(root, "mnt"), file: filepath.Join(root, "fuse", "disk"), size: size}
	m.must(os.Chmod(filepath.Dir(root), 0o755))
	m.must(errors.Join(os.Mkdir(d.Dir, 0o755), os.Mkdir(filepath.Dir(d.file), 0o700)))
	var err error
	d.platter, err = newPlatter(size)
	m.must(err)
	m.t.Cleanup(d.platter.free)
	top := &fs.Inode{}
	d.server, err = fs.Mount(filepath.Dir(d.file), top, &fs.Options{
		MountOptions: fuse.MountOptions{DirectMountStrict: true, MaxWrite: 1 << 20, FsName: "powercut", Name: "powercut"},
		OnAdd: func(ctx context.Context) {
			file := top.NewPersistentInode(ctx, &node{machine: m, disk: d}, fs.StableAttr{Mode: fuse.S_IFREG})
			top.AddChild(filepath.Base(d.file), file, true)
		},
	})
	m.must(err)
	m.must(closeOnExec("/dev/fuse"))
	m.t.Cleanup(func() {
		if err := d.server.Unmount(); err != nil {
			m.t.Error(err)
		}
	})
	m.t.Cleanup(func() {
		m.mu.Lock()
		if m.released != nil && !isClosed(m.released) {
			close(m.released) // the test failed between Cut and Release
		}
		m.mu.Unlock()
		if err := d.unmount(); err != nil {
			m.t.Error(err)
		}
	})
	m.must(d.run("mkfs.ext4", "-q", "-F", "-m", "0", "-E", "nodiscard,lazy_itable_init=0,lazy_journal_init=0", "-N", "16384", d.file))
	m.must(d.mount())
	return d
}

// closeOnExec prevents child processes from inheriting a device. The kernel ends a FUSE file system when the last
// process closes the device, so nothing hangs if this process is killed.
func closeOnExec(device string) error {
	const folder = "/proc/self/fd"
	all, err := os.ReadDir(folder)
	if err != nil {
		return err
	}
	for _, e := range all {
		fd, err := strconv.Atoi(e.Name())
		if err != nil {
			return err
		}
		if to, err := os.Readlink(filepath.Join(folder, e.Name())); err == nil && to == device {
			unix.CloseOnExec(fd)
		}
	}
	return nil
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

const loopControl = "/dev/loop-control"

// mount mounts the disk in another process, because this process serves the storage and could not be killed while the
// kernel reads.
func (d *Disk) mount() error {
	backing, err := os.OpenFile(d.file, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer backing.Close()
	loop, err := attach(backing)
	if err != nil {
		return err
	}
	defer loop.Close()
	if err := runProgram("mount", "-t", "ext4", loop.Name(), d.Dir); err != nil {
		return err
	}
	d.mounted = true
	return nil
}

// attach retries, because other processes may take loop devices concurrently.
func attach(backing *os.File) (*os.File, error) {
	control, err := os.OpenFile(loopControl, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	defer control.Close()
	for range 100 {
		n, err := unix.IoctlRetInt(int(control.Fd()), unix.LOOP_CTL_GET_FREE)
		if err != nil {
			return nil, err
		}
		name := fmt.Sprintf("/dev/loop%d", n)
		if err := unix.Mknod(name, unix.S_IFBLK|0o600, int(unix.Mkdev(7, uint32(n)))); err != nil && !errors.Is(err, unix.EEXIST) {
			return nil, err
		}
		loop, err := os.OpenFile(name, os.O_RDWR, 0)
		if err != nil {
			return nil, err
		}
		config := unix.LoopConfig{Fd: uint32(backing.Fd()), Size: sector}
		config.Info.Flags = unix.LO_FLAGS_AUTOCLEAR | unix.LO_FLAGS_DIRECT_IO
		if err = unix.IoctlLoopConfigure(int(loop.Fd()), &config); err == nil {
			return loop, nil
		}
		loop.Close()
		if !errors.Is(err, unix.EBUSY) {
			return nil, fmt.Errorf("attach %s: %w", name, err)
		}
	}
	return nil, errors.New("no free loop device")
}

func (d *Disk) unmount() error {
	if !d.mounted {
		return nil
	}
	var err error
	for range 100 { // a killed process may still be exiting
		if err = runProgram("umount", d.Dir); err == nil {
			break
		}
		time.Sleep(50 * time.Millisecond)
	}
	if err != nil {
		return err
	}
	d.mounted = false
	d.opened.Wait()
	return nil
}

func (d *Disk) check() error { return d.run("e2fsck", "-f", "-n", d.file) }

func (d *Disk) run(name string, args ...string) error {
	if err := runProgram(name, args...); err != nil {
		return err
	}
	d.opened.Wait()
	return nil
}

func runProgram(name string, args ...string) error {
	if out, err := exec.Command(name, args...).CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w\n%s", name, err, out)
	}
	return nil
}

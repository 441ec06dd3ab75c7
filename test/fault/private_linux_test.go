package fault

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"holdfast/test/binary"
)

// capSysAdmin is the right to mount, from linux/capability.h.
const capSysAdmin = 21

// private runs the test that calls it in a process whose mounts are its own, so
// that none is left however it ends, and reports whether this is that process.
// In the other one the test is then over.
func private(t *testing.T) bool {
	t.Helper()
	if os.Getenv("FAULT_PRIVATE") != "" {
		err := syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, "")
		if errors.Is(err, os.ErrPermission) {
			t.Skipf("no disk of its own: mounting is not allowed here: %v", err)
		}
		must(t, err)
		go func() { // also its parent may be killed
			_, _ = io.Copy(io.Discard, os.Stdin)
			os.Exit(1)
		}()
		return true
	}
	own := syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS}
	// Who is not root may mount as a user of a world of its own, where the user
	// keeps the id that PostgreSQL wants not to be 0.
	asUser := syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWNS | syscall.CLONE_NEWUSER,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: os.Getuid(), HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: os.Getgid(), HostID: os.Getgid(), Size: 1}},
		AmbientCaps: []uintptr{capSysAdmin},
	}
	out, err := again(t, own)
	if forbidden(err) {
		out, err = again(t, asUser)
	}
	skipped := regexp.MustCompile(`(?m)^--- SKIP`).Match(out)
	switch {
	case forbidden(err):
		t.Skipf("no disk of its own: a process with mounts of its own is not allowed here: %v", err)
	case err != nil:
		t.Errorf("%v\n%s", err, out)
	case skipped:
		t.Skipf("%s", out)
	default:
		t.Logf("in a process with mounts of its own:\n%s", strings.TrimSpace(string(out)))
	}
	return false
}

// again runs the test in a new process, which ends when this one does.
func again(t *testing.T, attr syscall.SysProcAttr) ([]byte, error) {
	t.Helper()
	alive, ours, err := os.Pipe()
	must(t, err)
	defer alive.Close()
	defer ours.Close()
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v", "-test.timeout=0")
	cmd.Env = append(os.Environ(), "FAULT_PRIVATE=1", "HOLDFAST_BIN="+binary.Path())
	cmd.SysProcAttr, cmd.Stdin = &attr, alive
	return cmd.CombinedOutput()
}

// forbidden reports whether the system did not let a process have its mounts,
// or has no room for more who do.
func forbidden(err error) bool {
	return errors.Is(err, os.ErrPermission) || errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.ENOSYS)
}

// disk is a small file system, in memory.
type disk struct {
	t   *testing.T
	dir string
}

func newDisk(t *testing.T, size string) *disk {
	t.Helper()
	dir := t.TempDir()
	must(t, os.Chmod(filepath.Dir(dir), 0o755)) // PostgreSQL is another user where this is root
	must(t, syscall.Mount("tmpfs", dir, "tmpfs", 0, "mode=0755,size="+size))
	t.Cleanup(func() { must(t, syscall.Unmount(dir, syscall.MNT_DETACH)) })
	return &disk{t, dir}
}

const page = 4096 // what a file takes at least

// fill takes all space but some pages, while others take of it too.
func (d *disk) fill(leave int) {
	d.t.Helper()
	f, err := os.OpenFile(d.dir+"/ballast", os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	must(d.t, err)
	defer f.Close()
	for piece := make([]byte, 1<<20); len(piece) >= page; {
		if _, err := f.Write(piece); err == nil {
			continue
		}
		piece = piece[:len(piece)/16]
	}
	info, err := f.Stat()
	must(d.t, err)
	must(d.t, f.Truncate(max(0, info.Size()-int64(leave)*page)))
}

// free gives the space back.
func (d *disk) free() {
	d.t.Helper()
	must(d.t, os.Remove(d.dir+"/ballast"))
}

package harness

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

const capSysAdmin = 21

// Private reruns the test in a process with its own mount namespace, which cleans up all mounts, and returns true
// there. In the parent process, where Private returns false, the test has ended.
func Private(t *testing.T) bool {
	t.Helper()
	if os.Getenv("FAULT_PRIVATE") != "" {
		err := syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, "")
		if errors.Is(err, os.ErrPermission) {
			t.Skipf("needs permission to mount a tmpfs: %v", err)
		}
		Must(t, err)
		go func() {
			_, _ = io.Copy(io.Discard, os.Stdin)
			os.Exit(1)
		}()
		return true
	}
	own := syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS}
	// Users other than root may mount in a user namespace. It keeps the user ID, because PostgreSQL refuses to run as
	// user 0.
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
		t.Skipf("needs permission to create a mount namespace: %v", err)
	case err != nil:
		t.Errorf("%v\n%s", err, out)
	case skipped:
		t.Skipf("%s", out)
	default:
		t.Logf("in a process with mounts of its own:\n%s", strings.TrimSpace(string(out)))
	}
	return false
}

func again(t *testing.T, attr syscall.SysProcAttr) ([]byte, error) {
	t.Helper()
	alive, ours, err := os.Pipe()
	Must(t, err)
	defer alive.Close()
	defer ours.Close()
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v", "-test.timeout=0")
	cmd.Env = append(os.Environ(), "FAULT_PRIVATE=1", "HOLDFAST_BIN="+binary.Path(), binary.ProgramsVar+"="+binary.Programs())
	cmd.SysProcAttr, cmd.Stdin = &attr, alive
	return cmd.CombinedOutput()
}

func forbidden(err error) bool {
	return errors.Is(err, os.ErrPermission) || errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.ENOSYS)
}

type Disk struct {
	T   *testing.T
	Dir string
}

func NewDisk(t *testing.T, size string) *Disk {
	t.Helper()
	dir := t.TempDir()
	Must(t, os.Chmod(filepath.Dir(dir), 0o755)) // if the test runs as root, PostgreSQL runs as another user
	Must(t, syscall.Mount("tmpfs", dir, "tmpfs", 0, "mode=0755,size="+size))
	t.Cleanup(func() { Must(t, syscall.Unmount(dir, syscall.MNT_DETACH)) })
	return &Disk{t, dir}
}

const page = 4096

// Fill uses all space except leave pages, while other processes may also use space.
func (d *Disk) Fill(leave int) {
	d.T.Helper()
	f, err := os.OpenFile(d.Dir+"/ballast", os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	Must(d.T, err)
	defer f.Close()
	for exportPart := make([]byte, 1<<20); len(exportPart) >= page; {
		if _, err := f.Write(exportPart); err == nil {
			continue
		}
		exportPart = exportPart[:len(exportPart)/16]
	}
	info, err := f.Stat()
	Must(d.T, err)
	Must(d.T, f.Truncate(max(0, info.Size()-int64(leave)*page)))
}

func (d *Disk) Free() {
	d.T.Helper()
	Must(d.T, os.Remove(d.Dir+"/ballast"))
}

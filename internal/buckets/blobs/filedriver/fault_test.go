//go:build unix

package filedriver_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"holdfast/internal/buckets/blobs"
	"holdfast/internal/buckets/blobs/filedriver"
	"holdfast/internal/errcode"
)

func put(t testing.TB, d blobs.Driver, path, body string) error {
	t.Helper()
	_, err := d.Put(t.Context(), path, strings.NewReader(body), int64(len(body)))
	return err
}

func wantCode(t testing.TB, what string, err error, code errcode.Code) {
	t.Helper()
	if !errcode.Is(err, code) {
		t.Fatalf("%s: %v, want the code %v", what, err, code)
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func files(t testing.TB, dir string) (all []string) {
	t.Helper()
	must(t, filepath.WalkDir(dir, func(name string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() && d.Name() != blobs.MarkerName {
			all = append(all, name)
		}
		return err
	}))
	return all
}

func TestInit(t *testing.T) {
	t.Parallel()
	parent := t.TempDir()
	dir := filepath.Join(parent, "node")
	for range 2 { // the second Init finds its own node
		must(t, filedriver.CheckInit(dir, id))
		must(t, filedriver.Init(dir, id))
	}
	d := filedriver.New(dir, id)
	must(t, put(t, d, "v2/x", "x"))
	must(t, filedriver.Init(dir, id))
	must(t, d.Close())
	both := func(what, dir, id string, code errcode.Code) {
		t.Helper()
		wantCode(t, "init of "+what, filedriver.Init(dir, id), code)
		wantCode(t, "check of "+what, filedriver.CheckInit(dir, id), code)
	}
	both("another node", dir, "dc1:other", errcode.Unavailable)
	both("a folder below one that does not exist", filepath.Join(parent, "typo", "node"), id, errcode.Invalid)
	foreign := filepath.Join(parent, "foreign")
	must(t, os.Mkdir(foreign, 0o700))
	must(t, os.WriteFile(filepath.Join(foreign, "photo.jpg"), nil, 0o600))
	both("a folder with files", foreign, id, errcode.Invalid)
	must(t, os.WriteFile(filepath.Join(parent, "file"), nil, 0o600))
	both("a file", filepath.Join(parent, "file"), id, errcode.Invalid)
	disk := filepath.Join(parent, "disk")
	must(t, os.MkdirAll(filepath.Join(disk, "lost+found"), 0o700))
	must(t, filedriver.Init(disk, id))
}

// TestUnmounted checks that nothing is written without the marker, and that the node works again when the disk is
// back.
func TestUnmounted(t *testing.T) {
	t.Parallel()
	d, dir := open(t)
	t.Cleanup(func() { must(t, d.Close()) })
	must(t, put(t, d, "v2/a/x", "x"))
	away := dir + ".away"
	must(t, os.Rename(dir, away))
	must(t, os.Mkdir(dir, 0o700))

	_, err := d.Space(t.Context())
	wantCode(t, "space", err, errcode.Unavailable)
	wantCode(t, "put", put(t, d, "v2/a/y", "y"), errcode.Unavailable)
	_, err = d.Get(t.Context(), "v2/a/x", 0, -1)
	wantCode(t, "get", err, errcode.Unavailable)
	wantCode(t, "delete", d.Delete(t.Context(), "v2/a/x"), errcode.Unavailable)
	for _, err = range d.Walk(t.Context(), "") {
	}
	wantCode(t, "walk", err, errcode.Unavailable)
	if left := files(t, dir); len(left) > 0 {
		t.Errorf("files below the mount point: %q", left)
	}

	must(t, os.Remove(dir))
	_, err = d.Space(t.Context())
	wantCode(t, "space without a mount point", err, errcode.Unavailable)
	must(t, os.Rename(away, dir))
	_, err = d.Space(t.Context())
	must(t, err)
	must(t, put(t, d, "v2/a/y", "y"))
	if n := len(files(t, dir)); n != 2 {
		t.Errorf("%d files, want 2", n)
	}
}

func TestNotMountedAtStart(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "node")
	d := filedriver.New(dir, id)
	t.Cleanup(func() { must(t, d.Close()) })
	wantCode(t, "put", put(t, d, "v2/x", "x"), errcode.Unavailable)
	must(t, filedriver.Init(dir, "dc1:other"))
	wantCode(t, "put on another node", put(t, d, "v2/x", "x"), errcode.Unavailable)
	must(t, os.RemoveAll(dir))
	must(t, filedriver.Init(dir, id))
	must(t, put(t, d, "v2/x", "x"))
}

func TestRemovedFolder(t *testing.T) {
	t.Parallel()
	d, dir := open(t)
	must(t, put(t, d, "v2/a/x", "x"))
	must(t, os.RemoveAll(dir))
	wantCode(t, "put", put(t, d, "v2/a/y", "y"), errcode.Unavailable)
	wantCode(t, "delete", d.Delete(t.Context(), "v2/a/x"), errcode.Unavailable)
	_, err := d.Stat(t.Context(), "v2/a/x")
	wantCode(t, "stat", err, errcode.Unavailable)
}

func TestRemovedSubfolder(t *testing.T) {
	t.Parallel()
	d, dir := open(t)
	must(t, put(t, d, "v2/a/b/x", "x"))
	must(t, os.RemoveAll(filepath.Join(dir, "v2")))
	must(t, put(t, d, "v2/a/b/y", "y"))
	if n := len(files(t, dir)); n != 1 {
		t.Errorf("%d files, want 1", n)
	}
}

// TestTwoProcesses checks that a process copes with folders that another process removed.
func TestTwoProcesses(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	must(t, filedriver.Init(dir, id))
	one, other := filedriver.New(dir, id), filedriver.New(dir, id)
	defer one.Close()
	defer other.Close()
	must(t, put(t, one, "v2/owner/a/00/x", "x"))
	must(t, other.Delete(t.Context(), "v2/owner/a/00/x")) // also removes the owner's folder
	must(t, put(t, one, "v2/owner/b/00/x", "x"))
	must(t, other.Delete(t.Context(), "v2/owner/b/00/x"))
	must(t, put(t, other, "v2/from", "x"))
	must(t, one.Copy(t.Context(), "v2/from", "v2/owner/c/00/x"))
	must(t, one.Delete(t.Context(), "v2/owner/c/00/x"))
	var writers errgroup.Group
	for i, d := range []blobs.Driver{one, other} {
		writers.Go(func() error {
			for n := range 50 {
				path := fmt.Sprintf("v2/owner/b/%02d/%d-%d", n%2, i, n)
				if err := put(t, d, path, path); err != nil {
					return err
				}
				if _, err := d.Stat(t.Context(), path); err != nil {
					return err
				}
				if err := d.Delete(t.Context(), path); err != nil {
					return err
				}
			}
			return nil
		})
	}
	must(t, writers.Wait())
}

func TestEmptyFolders(t *testing.T) {
	t.Parallel()
	d, dir := open(t)
	for i := range 20 {
		must(t, put(t, d, fmt.Sprintf("v2/o/b/%02d/x", i), "x"))
	}
	must(t, put(t, d, "v2/p/x", "x"))
	for i := range 20 {
		must(t, d.Delete(t.Context(), fmt.Sprintf("v2/o/b/%02d/x", i)))
	}
	if _, err := os.Stat(filepath.Join(dir, "v2", "o")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the folder is still there: %v", err)
	}
	must(t, put(t, d, "v2/o/b/00/x", "x"))
}

func TestEscape(t *testing.T) {
	t.Parallel()
	d, dir := open(t)
	outside := t.TempDir()
	must(t, os.WriteFile(filepath.Join(outside, "secret"), []byte("secret"), 0o600))
	must(t, os.Symlink(outside, filepath.Join(dir, "v2")))
	must(t, os.Symlink(filepath.Join(outside, "secret"), filepath.Join(dir, "link")))
	if _, err := d.Get(t.Context(), "v2/secret", 0, -1); err == nil {
		t.Error("read a file outside the node")
	}
	if _, err := d.Get(t.Context(), "link", 0, -1); err == nil {
		t.Error("read a file outside the node by a link")
	}
	if put(t, d, "v2/new", "x") == nil {
		t.Error("wrote a file outside the node")
	}
	for info, err := range d.Walk(t.Context(), "") {
		t.Errorf("the walk returned %+v, %v", info, err)
	}
	if left := files(t, outside); len(left) != 1 {
		t.Errorf("files outside the node: %q", left)
	}
}

// TestTemporary checks that Walk returns and Delete removes the temporary files of a killed process.
func TestTemporary(t *testing.T) {
	t.Parallel()
	d, dir := open(t)
	must(t, put(t, d, "v2/a/x", "x"))
	must(t, os.WriteFile(filepath.Join(dir, "v2", "a", blobs.TemporaryPrefix+"1"), []byte("abc"), 0o600))
	must(t, os.WriteFile(filepath.Join(dir, blobs.TemporaryPrefix+"2"), nil, 0o600))
	temporary := 0
	for info, err := range d.Walk(t.Context(), "") {
		must(t, err)
		if info.Temporary {
			temporary++
			must(t, d.Delete(t.Context(), info.Path))
		}
	}
	if left := files(t, dir); temporary != 2 || len(left) != 1 {
		t.Errorf("%d temporary files, %q left; want 2 and one body", temporary, left)
	}
}

func TestWalkDuringPut(t *testing.T) {
	t.Parallel()
	d, _ := open(t)
	r, w := io.Pipe()
	done := make(chan error, 1)
	go func() {
		_, err := d.Put(t.Context(), "v2/x", r, -1)
		done <- err
	}()
	_, err := w.Write([]byte("first"))
	must(t, err)
	found := map[bool]int{}
	walk := func() {
		clear(found)
		for info, err := range d.Walk(t.Context(), "") {
			must(t, err)
			found[info.Temporary]++
		}
	}
	if walk(); found[true] != 1 || found[false] != 0 {
		t.Errorf("during Put: %v, want one temporary file", found)
	}
	must(t, w.Close())
	must(t, <-done)
	if walk(); found[true] != 0 || found[false] != 1 {
		t.Errorf("after Put: %v, want one body", found)
	}
}

// TestReadOnly mounts a read-only file system, because root may write everywhere else.
func TestReadOnly(t *testing.T) {
	t.Parallel()
	dir := tmpfs(t, "size=1m")
	must(t, filedriver.Init(dir, id))
	d := filedriver.New(dir, id)
	t.Cleanup(func() { must(t, d.Close()) })
	must(t, put(t, d, "v2/x", "x"))
	readOnly := func(want bool) {
		t.Helper()
		space, err := d.Space(t.Context())
		if must(t, err); space.ReadOnly != want || space.Fits(1) == want {
			t.Errorf("%+v, read-only: %t", space, want)
		}
	}
	readOnly(false)
	remount(t, dir, "remount,ro")
	readOnly(true)
	wantCode(t, "a new node", filedriver.CheckInit(filepath.Join(dir, "new"), id), errcode.Invalid)
	must(t, filedriver.CheckInit(dir, id))
	wantCode(t, "put", put(t, d, "v2/y", "y"), errcode.Unavailable)
	wantCode(t, "put in a new folder", put(t, d, "v2/n/y", "y"), errcode.Unavailable)
	wantCode(t, "delete", d.Delete(t.Context(), "v2/x"), errcode.Unavailable)
	if err := put(t, d, "v2/y", "y"); errors.Is(err, blobs.ErrNotEnoughSpace) {
		t.Errorf("a read-only disk is not full: %v", err)
	}
	r, err := d.Get(t.Context(), "v2/x", 0, -1)
	must(t, err)
	must(t, r.Close())
	remount(t, dir, "remount,rw")
	readOnly(false)
	must(t, put(t, d, "v2/y", "y"))
}

//nolint:paralleltest // a process that another test starts has the files open until it executes its program
func TestFull(t *testing.T) {
	dir := tmpfs(t, "size=1m")
	must(t, filedriver.Init(dir, id))
	d := filedriver.New(dir, id)
	t.Cleanup(func() { must(t, d.Close()) })
	must(t, put(t, d, "v2/x", "x"))
	for range 3 {
		err := put(t, d, "v2/y", strings.Repeat("y", 2<<20))
		if !errors.Is(err, blobs.ErrNotEnoughSpace) {
			t.Fatalf("put: %v, want ErrNotEnoughSpace", err)
		}
		wantCode(t, "put", err, errcode.Unavailable)
		if left := files(t, dir); len(left) != 1 {
			t.Fatalf("files: %q, want one", left)
		}
	}
	space, err := d.Space(t.Context())
	if err != nil || space.Total != 1<<20 || space.Free <= 0 || space.Free >= 1<<20 {
		t.Errorf("space: %+v, %v", space, err)
	}
	must(t, put(t, d, "v2/z", strings.Repeat("y", 100<<10)))
}

// tmpfs mounts a small file system. It requires root on Linux.
func tmpfs(t *testing.T, options string) string {
	t.Helper()
	dir := t.TempDir()
	if out, err := exec.Command("mount", "-t", "tmpfs", "-o", options, "holdfast-test", dir).CombinedOutput(); err != nil {
		t.Skipf("mounting a file system needs root on Linux: %v: %s", err, out)
	}
	t.Cleanup(func() {
		if out, err := exec.Command("umount", "-l", dir).CombinedOutput(); err != nil {
			t.Errorf("umount: %v: %s", err, out)
		}
	})
	return dir
}

func remount(t *testing.T, dir, options string) {
	t.Helper()
	if out, err := exec.Command("mount", "-o", options, dir).CombinedOutput(); err != nil {
		t.Fatalf("remount: %v: %s", err, out)
	}
}

// TestFileSizeLimit runs in another process, because the limit applies to the whole process.
func TestFileSizeLimit(t *testing.T) {
	t.Parallel()
	if dir := os.Getenv("HOLDFAST_TEST_LIMIT"); dir != "" {
		signal.Ignore(syscall.SIGXFSZ)
		must(t, syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: 100 << 10, Max: 100 << 10}))
		d := filedriver.New(dir, id)
		must(t, put(t, d, "v2/small", "x"))
		if err := put(t, d, "v2/large", strings.Repeat("x", 200<<10)); !errors.Is(err, blobs.ErrNotEnoughSpace) {
			t.Errorf("put: %v, want ErrNotEnoughSpace", err)
		}
		return
	}
	dir := t.TempDir()
	must(t, filedriver.Init(dir, id))
	cmd := self(t, "TestFileSizeLimit", "HOLDFAST_TEST_LIMIT="+dir)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if left := files(t, dir); len(left) != 1 {
		t.Errorf("files: %q, want one", left)
	}
}

func self(t *testing.T, test, env string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+test+"$", "-test.v")
	cmd.Env = append(os.Environ(), env)
	return cmd
}

// TestKill kills a writing process at random moments. Only complete bodies and temporary files may remain.
func TestKill(t *testing.T) {
	t.Parallel()
	body := bytes.Repeat([]byte("0123456789abcdef"), 16<<10)
	if dir := os.Getenv("HOLDFAST_TEST_KILL"); dir != "" {
		d := filedriver.New(dir, id)
		for i := 0; ; i++ {
			if _, err := d.Put(t.Context(), fmt.Sprintf("v2/%02d/%d-%d", i%7, os.Getpid(), i), bytes.NewReader(body), -1); err != nil {
				t.Fatal(err)
			}
			fmt.Fprintln(os.Stdout, "acknowledged", i)
		}
	}
	dir := t.TempDir()
	must(t, filedriver.Init(dir, id))
	rounds := 10
	if testing.Short() {
		rounds = 2
	}
	acknowledged, temporary := 0, 0
	for round := range rounds {
		acknowledged += killedWriter(t, dir, round)
	}
	d := filedriver.New(dir, id)
	whole := 0
	for info, err := range d.Walk(t.Context(), "") {
		must(t, err)
		switch {
		case info.Temporary:
			temporary++
			must(t, d.Delete(t.Context(), info.Path))
		case info.Size != int64(len(body)):
			t.Errorf("%s has %d bytes, want %d", info.Path, info.Size, len(body))
		default:
			whole++
		}
	}
	if whole < acknowledged || whole > acknowledged+rounds {
		t.Errorf("%d bodies, acknowledged were %d in %d rounds", whole, acknowledged, rounds)
	}
	if n := len(files(t, dir)); n != whole {
		t.Errorf("%d files, want %d", n, whole)
	}
	t.Logf("%d bodies, %d temporary files", whole, temporary)
}

func killedWriter(t *testing.T, dir string, round int) (acknowledged int) {
	t.Helper()
	cmd := self(t, "TestKill", "HOLDFAST_TEST_KILL="+dir)
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	var all bytes.Buffer
	buffer := make([]byte, 4096)
	for !bytes.Contains(all.Bytes(), []byte("acknowledged 2\n")) {
		n, err := out.Read(buffer)
		all.Write(buffer[:n])
		must(t, err)
	}
	time.Sleep(time.Duration(round) * 700 * time.Microsecond)
	must(t, cmd.Process.Kill())
	_, err = io.Copy(&all, out)
	must(t, err)
	_ = cmd.Wait()
	return strings.Count(all.String(), "acknowledged ")
}

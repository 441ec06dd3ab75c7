//test:unraced SQLite takes twenty times as long under the race detector

package buckets

import (
	"bytes"
	"context"
	"crypto/md5"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"holdfast/internal/app/service"
	"holdfast/internal/app/service/servicetest"
	"holdfast/internal/buckets"
	"holdfast/internal/clock"
	"holdfast/internal/engines/nats"
	"holdfast/internal/engines/postgres"
)

// openBuckets opens the service like a separate process.
func openBuckets(t testing.TB, data string) (*Buckets, *servicetest.Server) {
	t.Helper()
	return openBucketsAt(t, data, clock.System)
}

func openBucketsAt(t testing.TB, data string, now clock.Clock, vars ...string) (*Buckets, *servicetest.Server) {
	t.Helper()
	s := New(postgres.Engine().Buckets)
	s.UseBrokers(nats.Engine().Brokers)
	environ := append(vars, "HOLDFAST_BUCKETS__ENABLED=true", "HOLDFAST_BUCKETS__INLINE=0", "HOLDFAST_BUCKETS__KEY_SECRET="+string(bytes.Repeat([]byte("s"), 32)))
	o := servicetest.Open(t, s.Service(), func(d *service.Deps) { d.Data, d.Engines.Data, d.Clock = data, data, now }, environ...)
	if err := s.settle(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := s.nodes.load(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(s.cluster.Close(context.Background()), s.nodes.close()); err != nil {
			t.Error(err)
		}
	})
	return s, o
}

type text struct{ *bytes.Reader }

func (t text) Sums() buckets.Sums {
	all := make([]byte, t.Size())
	_, _ = t.ReadAt(all, 0)
	sum := md5.Sum(all)
	return buckets.Sums{MD5: sum[:]}
}

func (s *Buckets) stored(t *testing.T, body string) (owner buckets.AccountID, b buckets.BucketRef, path string) {
	t.Helper()
	a, err := s.opened.Account(t.Context(), firstAccount)
	if err != nil {
		t.Fatal(err)
	}
	made, err := s.opened.CreateBucket(t.Context(), a.ID, "photos")
	if err != nil {
		t.Fatal(err)
	}
	b = made.BucketRef
	w, err := s.opened.PutObject(t.Context(), a.ID, b, buckets.PutRequest{Object: buckets.Object{Name: "k"}, Size: int64(len(body))}, text{bytes.NewReader([]byte(body))})
	if err != nil {
		t.Fatal(err)
	}
	return a.ID, b, buckets.BodyPath(a.ID, b.ID, w.Object.ID, "k")
}

func (s *Buckets) collect(t *testing.T, want int) {
	t.Helper()
	if n, err := s.opened.Collect(t.Context(), time.Now(), 10); n != want || err != nil {
		t.Errorf("collected %d, %v, want %d", n, err, want)
	}
}

// TestHold checks that a backup contains a body deleted by another process meanwhile, and that the body is removed
// afterwards.
func TestHold(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	server, _ := openBuckets(t, data)
	_, opened := openBuckets(t, data)
	owner, b, path := server.stored(t, "body")
	held, release, err := opened.Files.Hold(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := server.opened.DeleteObject(t.Context(), owner, b, buckets.Delete{Name: "k"}); err != nil {
		t.Fatal(err)
	}
	server.collect(t, 0)
	dir := t.TempDir()
	copied, err := opened.Files.Copy(held, dir, func(int64, int64) {})
	if err != nil || len(copied.Lost)+len(copied.Missing) > 0 || len(copied.Names) != 1 {
		t.Fatalf("%+v, %v", copied, err)
	}
	// A backup contains bodies as nodes store them, with a checksum after each chunk.
	if got, err := os.ReadFile(filepath.Join(dir, Name, path)); err != nil || !bytes.HasPrefix(got, []byte("body")) || len(got) == len("body") {
		t.Errorf("in the backup: %q, %v", got, err)
	}
	release()
	server.collect(t, 1)
	if _, err := os.Stat(filepath.Join(data, Name, path)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("on the node: %v", err)
	}
}

func TestHoldIsExtended(t *testing.T) {
	t.Parallel()
	s, o := openBuckets(t, t.TempDir())
	until := func() buckets.Moment {
		b, err := s.opened.Backlog(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return b.Held
	}
	alive, die := context.WithCancel(t.Context())
	if _, _, err := s.maintenance.Hold(alive, 5*time.Second); err != nil {
		t.Fatal(err)
	}
	first := until()
	for until() <= first {
		time.Sleep(10 * time.Millisecond)
	}
	die()
	for until() != 0 {
		time.Sleep(10 * time.Millisecond)
	}
	// A hold that cannot be extended ends the backup.
	held, release, err := s.maintenance.Hold(t.Context(), 100*time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	if err := o.Databases[0].Close(); err != nil {
		t.Fatal(err)
	}
	<-held.Done()
	if err := context.Cause(held); err == nil || !strings.Contains(err.Error(), "could not be extended") {
		t.Errorf("the cause is %v", err)
	}
	release()
}

// TestBackupWithoutRemovedNode checks that a backup neither contains a removed node nor reports its bodies as missing.
func TestBackupWithoutRemovedNode(t *testing.T) {
	t.Parallel()
	s, _ := openBuckets(t, t.TempDir())
	s.stored(t, "body")
	for id, state := range map[string]buckets.NodeState{"east:1": buckets.NodeRemoved, "east:2": buckets.NodeReadOnly} {
		if err := s.nodes.service.SetNode(t.Context(), buckets.Node{ID: id, URL: "file://" + filepath.ToSlash(t.TempDir()), State: state, Added: 1}); err != nil {
			t.Fatal(err)
		}
	}
	if lines, err := s.omitted(t.Context()); err != nil || len(lines) != 2 || strings.Contains(strings.Join(lines, "\n"), "east:1") {
		t.Errorf("omitted are %q, %v", lines, err)
	}
	dir := t.TempDir()
	copied, err := s.copyBodies(t.Context(), dir, func(int64, int64) {})
	if err != nil || !slices.Equal(copied.Names, []string{Name, filepath.Join(nodesFolder, "east,2")}) {
		t.Errorf("copied %+v, %v", copied, err)
	}
	if _, err := os.Stat(filepath.Join(dir, nodesFolder, "east,1")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the folder of the removed node: %v", err)
	}
}

package e2e

import (
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"holdfast/internal/testdb"
	"holdfast/test/binary"
)

// TestRestoreObjects kills a server during writes and deletes its data folder. A single command must restore all
// objects from an encrypted replica, from backups at a URL, or from a backup folder.
func TestRestoreObjects(t *testing.T) {
	t.Parallel()
	identity, public := binary.Key(t)
	dir, listen := t.TempDir(), testdb.FreeAddress(t)
	replica, backups, folder := "file://"+dir+"/replica", "file://"+dir+"/backups", dir+"/backup"
	vars := []string{
		"HOLDFAST_BUCKETS__ENABLED=true", "HOLDFAST_BUCKETS__LISTEN=" + listen, "HOLDFAST_BUCKETS__INLINE=0",
		"HOLDFAST_BUCKETS__GARBAGE_AFTER=0s", "HOLDFAST_BUCKETS__SWEEP_INTERVAL=10ms",
	}
	replicated := append([]string{"HOLDFAST_REPLICA__URL=" + replica, "HOLDFAST_REPLICA__RECIPIENTS=" + public, "HOLDFAST_BACKUP__RECIPIENTS=" + public, "HOLDFAST_REPLICA__INTERVAL=100ms"}, vars...)
	data := filepath.Join(dir, "data")
	s := binary.Launch(t, data, replicated...)
	s.Await("/readyz", http.StatusOK)
	c := newS3(t, s, "http://"+listen)
	c.want(http.StatusOK, http.MethodPut, "/photos", nil)
	stop, wrote := make(chan struct{}), make(chan struct{})
	var writers sync.WaitGroup
	for i := range 4 {
		writers.Go(func() { c.write(i, stop, wrote) })
	}
	for range 100 {
		<-wrote
	}
	close(stop)
	writers.Wait()
	all := c.objects("photos")
	s.Verb("backup", folder)
	s.Verb("backup", backups)
	s.AwaitReplica()
	signer := binary.Signer(t, data)
	s.Kill()
	if err := os.RemoveAll(data); err != nil {
		t.Fatal(err)
	}
	for _, from := range []string{replica, backups, folder} {
		into := filepath.Join(t.TempDir(), "data")
		args := []string{"restore", from}
		if from != folder {
			args = append(args, "--identity", identity, "--signed-by", signer)
		}
		r := binary.Run(t, binary.Environ(append([]string{"HOLDFAST_DATA=" + into}, vars...)...), args...)
		if r.Status != 0 || strings.Contains(r.Stderr, "lost: ") {
			t.Fatalf("restore from %s: %d\n%s%s", from, r.Status, r.Stdout, r.Stderr)
		}
		again := binary.Start(t, into, vars...)
		c.wantIntact(len(all))
		if got := c.objects("photos"); !maps.Equal(got, all) {
			t.Errorf("restored from %s: %d objects, want %d", from, len(got), len(all))
		}
		c.want(http.StatusOK, http.MethodPut, "/photos/new", []byte("x"))
		again.Kill()
	}
	testLostObject(t, folder, vars)
}

// testLostObject checks that a restore reports a body that the backup lacks, and restores the rest.
func testLostObject(t *testing.T, backup string, vars []string) {
	t.Helper()
	bodies := bodyFiles(t, backup)
	if err := os.WriteFile(bodies[0], []byte("another body"), 0o600); err != nil {
		t.Fatal(err)
	}
	into := filepath.Join(t.TempDir(), "data")
	r := binary.Run(t, binary.Environ(append([]string{"HOLDFAST_DATA=" + into}, vars...)...), "restore", backup)
	if r.Status != 1 || !strings.Contains(r.Stderr, "lost: buckets: ") || !strings.Contains(r.Stderr, filepath.Base(bodies[0])) ||
		!strings.Contains(r.Stderr, "the data was restored without 1 file") {
		t.Errorf("status %d\n%s%s", r.Status, r.Stdout, r.Stderr)
	}
	if got := bodyFiles(t, into); len(got) != len(bodies)-1 {
		t.Errorf("restored %d bodies of %d", len(got), len(bodies))
	}
}

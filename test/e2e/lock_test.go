package e2e

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"holdfast/test/binary"
)

// TestSecondServer checks that a SQLite file refuses a second server with a clear error, but not commands, and that
// the lock ends with its process.
func TestSecondServer(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	s := binary.Start(t, data)
	elsewhere := append([]string{}, s.Env...)
	elsewhere = append(elsewhere, "HOLDFAST_SERVER__LISTEN=127.0.0.1:0", "HOLDFAST_SERVER__ADMIN_LISTEN=127.0.0.1:0", "HOLDFAST_BUCKETS__LISTEN=127.0.0.1:0")
	refused := func(env ...string) {
		t.Helper()
		r := binary.Run(t, append(elsewhere, env...), "serve")
		want := fmt.Sprintf("%s is in use by another server (process %d)", filepath.Join(data, "syncstorage.db"), s.Cmd.Process.Pid)
		if r.Status != 1 || !strings.Contains(r.Stderr, want) || !strings.Contains(r.Stderr, "--data") || strings.Contains(r.Stdout, "clients") {
			t.Errorf("a second server: status %d\n%s%s", r.Status, r.Stdout, r.Stderr)
		}
	}
	refused()
	other := t.TempDir()
	refused("HOLDFAST_DATA="+other, "HOLDFAST_SYNCSTORAGE__DATABASE_URL=sqlite:"+filepath.Join(data, "syncstorage.db"))

	c := s.Token(1)
	c.Want(t, http.StatusOK, "PUT", "/storage/tabs/1", `{"payload":"x"}`)
	for _, command := range [][]string{{"check"}, {"tokenserver", "accounts", "list"}, {"sweep"}, {"backup", filepath.Join(t.TempDir(), "backup")}, {"migrate"}} {
		if r := binary.Run(t, s.Env, command...); strings.Contains(r.Stdout+r.Stderr, "in use by another server") || command[0] != "check" && r.Status != 0 {
			t.Errorf("%s beside the server: status %d\n%s%s", command, r.Status, r.Stdout, r.Stderr)
		}
	}
	refused() // commands do not release the lock

	s.Kill()
	s = binary.Start(t, data)
	c.Endpoint = s.URL + "/1.5/1"
	c.Want(t, http.StatusOK, "GET", "/storage/tabs/1", "")
	refused()
}

// TestServicesShareFile checks that one server's services can share a file, and that each keeps its locks when another
// opens the file. Otherwise a command that exits would remove the WAL that the server writes.
func TestServicesShareFile(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	file := filepath.Join(data, "all.db")
	var vars []string
	for _, service := range []string{"SYNCSTORAGE", "TOKENSERVER", "EXTSTORAGE", "BUCKETS"} {
		vars = append(vars, "HOLDFAST_"+service+"__DATABASE_URL=sqlite:"+file)
	}
	s := binary.Start(t, data, vars...)
	c := s.Token(1)
	c.Want(t, http.StatusOK, "PUT", "/storage/tabs/1", `{"payload":"x"}`)
	s.Verb("tokenserver", "accounts", "list")
	if _, err := os.Stat(file + "-wal"); err != nil {
		t.Errorf("after a command: %v", err)
	}
	c.Want(t, http.StatusOK, "PUT", "/storage/tabs/2", `{"payload":"x"}`)
	s.Kill()
	s = binary.Start(t, data, vars...)
	c.Endpoint = s.URL + "/1.5/1"
	if a := c.Want(t, http.StatusOK, "GET", "/info/collection_counts", ""); a.Body != `{"tabs":2}` {
		t.Errorf("after a crash: %s", a.Body)
	}
}

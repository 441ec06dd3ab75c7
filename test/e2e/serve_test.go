package e2e

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"holdfast/test/binary"
)

func TestFirstStart(t *testing.T) {
	t.Parallel()
	data := filepath.Join(t.TempDir(), "new", "data")
	s := binary.Start(t, data)
	if out := s.Output.String(); !strings.Contains(out, "identity.sync.tokenserver.uri") || !strings.Contains(out, s.URL+"/1.0/sync/1.5") {
		t.Errorf("the server does not print the Firefox setting:\n%s", out)
	}
	for name, mode := range map[string]os.FileMode{"": 0o700, "secrets.toml": 0o600, "syncstorage.db": 0o600, "tokenserver.db": 0o600} {
		info, err := os.Stat(filepath.Join(data, name))
		if err != nil {
			t.Error(err)
		} else if info.Mode().Perm() != mode {
			t.Errorf("%q has mode %04o, want %04o", name, info.Mode().Perm(), mode)
		}
	}
	c := s.Token(7, "--fxa-uid", "abc", "--fxa-kid", "1-qqo", "--ttl", "60s")
	if c.UID != 7 || c.Duration != 60 || c.Endpoint != s.URL+"/1.5/7" {
		t.Errorf("token %+v", c)
	}
	put := c.Want(t, http.StatusOK, "PUT", "/storage/bookmarks/%7Bguid%7D", `{"payload":"hello"}`)
	got := c.Want(t, http.StatusOK, "GET", "/storage/bookmarks/{guid}", "")
	if want := `{"id":"{guid}","modified":` + put.Body + `,"payload":"hello"}`; got.Body != want {
		t.Errorf("got %s, want %s", got.Body, want)
	}
	for path, want := range map[string]string{
		"/__heartbeat__":   `"database":"Ok","status":"Ok"`,
		"/__lbheartbeat__": `"active_connections":0,"idle_connections":`,
		"/__version__":     `"version":`,
	} {
		if status, body := s.Get(path); status != http.StatusOK || !strings.Contains(body, want) {
			t.Errorf("%s: %d %s", path, status, body)
		}
	}
}

// TestCrash checks that acknowledged writes and the secrets survive a crash: earlier tokens stay valid.
func TestCrash(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	s := binary.Start(t, data)
	c := s.Token(1)
	for i := range 50 {
		c.Want(t, http.StatusOK, "PUT", fmt.Sprintf("/storage/tabs/%d", i), `{"payload":"x"}`)
	}
	s.Kill()
	again := binary.Start(t, data)
	c.Endpoint = strings.Replace(c.Endpoint, s.URL, again.URL, 1)
	if a := c.Want(t, http.StatusOK, "GET", "/info/collection_counts", ""); a.Body != `{"tabs":50}` {
		t.Errorf("after a crash: %s", a.Body)
	}
}

func TestPublicURLWithPrefix(t *testing.T) {
	t.Parallel()
	s := binary.Start(t, t.TempDir(), "HOLDFAST_SERVER__PUBLIC_URL=https://sync.example.org/fox")
	c := s.Token(1)
	if c.Endpoint != "https://sync.example.org/fox/1.5/1" {
		t.Fatalf("endpoint %s", c.Endpoint)
	}
	// Clients sign the public path. Proxies pass the full or the stripped path.
	for _, path := range []string{"/fox/1.5/1/info/collections", "/1.5/1/info/collections"} {
		if status := through(t, c, s.URL+path, "https://sync.example.org/fox/1.5/1/info/collections"); status != http.StatusOK {
			t.Errorf("%s: %d", path, status)
		}
	}
	if status := through(t, c, s.URL+"/1.5/1/info/collections", s.URL+"/1.5/1/info/collections"); status != http.StatusUnauthorized {
		t.Errorf("signed with the inner address: %d", status)
	}
}

func TestReferenceNames(t *testing.T) {
	t.Parallel()
	s := binary.Start(t, t.TempDir(), "SYNC_MASTER_SECRET=secret0", "SYNC_SYNCSTORAGE__LIMITS__MAX_TOTAL_RECORDS=1664", "SYNC_TOKENSERVER__ENABLED=false")
	if _, body := s.Get("/1.5/1/info/configuration"); !strings.Contains(body, `"max_total_records":1664`) {
		t.Errorf("limits %s", body)
	}
	s.Token(1).Want(t, http.StatusOK, "GET", "/info/collections", "")
	if _, err := os.Stat(filepath.Join(s.Data, "tokenserver.db")); err == nil {
		t.Error("a disabled service has a database")
	}
}

// TestMemoryLimit checks that the server sets its memory limit from its settings or a lower control group limit,
// unless the operator sets GOMEMLIMIT.
func TestMemoryLimit(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		vars []string
		want string
	}{
		{nil, `msg="memory limit" bytes=\d{9} source=(settings|cgroup) `},
		{[]string{"GOMEMLIMIT=300MiB"}, `msg="memory limit" bytes=314572800 source=GOMEMLIMIT `},
	} {
		s := binary.Start(t, t.TempDir(), row.vars...)
		if log := s.Output.String(); !regexp.MustCompile(row.want).MatchString(log) {
			t.Errorf("no %q in\n%s", row.want, log)
		}
	}
}

package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"holdfast/internal/testdb"
	"holdfast/test/binary"
)

const (
	metaGlobal = `{"syncID":"AAAAAAAAAAAA","engines":{"tabs":{"version":1,"syncID":"BBBBBBBBBBBB"}},"declined":[]}`
	toldAll    = "the browsers of all users were told to compare their data"
)

// changedMeta matches the changed metaGlobal as a client gets it.
var changedMeta = regexp.MustCompile(`"payload":"{\\"syncID\\":\\"AAAAAAAAAAAA\\",\\"engines\\":{\\"tabs\\":{\\"version\\":1,\\"syncID\\":\\"([A-Za-z0-9_-]{12})\\"}},\\"declined\\":\[\]}"`)

type comparisonLine struct {
	State                             string
	Changed, Missing, Malformed, Bare int
}

func latestComparison(t *testing.T, s *binary.Server) (c comparisonLine) {
	t.Helper()
	out := s.Verb("sync", "comparisons", "list", "--json")
	if err := json.Unmarshal([]byte(out), &c); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return c
}

// syncUser is a storage user of a server that is restored and restarted.
type syncUser struct {
	c binary.Credentials
}

func (u syncUser) on(s *binary.Server) binary.Credentials {
	_, path, _ := strings.Cut(u.c.Endpoint, "/1.5/")
	u.c.Endpoint = s.URL + "/1.5/" + path
	return u.c
}

// syncID returns the ID of the engine in meta/global.
func (u syncUser) syncID(t *testing.T, s *binary.Server) string {
	t.Helper()
	a := u.on(s).Want(t, http.StatusOK, "GET", "/storage/meta/global", "")
	found := changedMeta.FindStringSubmatch(a.Body)
	if found == nil {
		t.Fatalf("meta/global is %s", a.Body)
	}
	return found[1]
}

// TestCompareAfterRestore checks that a restored server changes the IDs of all users' engines, although it is killed
// meanwhile, and that the command does so again, for one user beside the server and for all users without it.
func TestCompareAfterRestore(t *testing.T) {
	t.Parallel()
	s := binary.Start(t, t.TempDir(), noBuckets)
	var users []syncUser
	for uid := range int64(3) {
		users = append(users, syncUser{s.Token(uid + 1)})
		users[uid].c.Want(t, http.StatusOK, "PUT", "/storage/meta/global", fmt.Sprintf(`{"payload":%q}`, metaGlobal))
	}
	s.Token(4).Want(t, http.StatusOK, "PUT", "/storage/meta/global", `{"payload":"{"}`)
	s.Token(5).Want(t, http.StatusOK, "PUT", "/storage/tabs/x", `{"payload":"x"}`)
	s.Token(6).Want(t, http.StatusOK, "PUT", "/storage/meta/global", `{"payload":"{\"engines\":{}}"}`)
	backup, data := filepath.Join(t.TempDir(), "backup"), filepath.Join(t.TempDir(), "data")
	s.Verb("backup", backup)
	s.Kill()
	<-s.Ended
	if r := binary.Run(t, append(s.Env, "HOLDFAST_DATA="+data), "restore", backup); r.Status != 0 || !strings.Contains(r.Stderr, "browsers must compare their data") {
		t.Fatalf("restore: %d\n%s%s", r.Status, r.Stdout, r.Stderr)
	}

	slow := binary.Launch(t, data, noBuckets, "HOLDFAST_SYNCSTORAGE__COMPARE_RATE=60") // one each second
	for end := time.Now().Add(testdb.Patient(30 * time.Second)); users[0].syncID(t, slow) == "BBBBBBBBBBBB"; {
		if time.Now().After(end) {
			t.Fatal("the restored server changes nobody")
		}
	}
	slow.Kill()
	<-slow.Ended
	if c := latestComparison(t, slow); c.State != "running" {
		t.Errorf("after the kill, the comparison is %+v", c)
	}

	next := binary.Launch(t, data, noBuckets, "HOLDFAST_SYNCSTORAGE__COMPARE_RATE=60000")
	next.AwaitOutput(toldAll)
	if got, want := latestComparison(t, next), (comparisonLine{"ended", 3, 1, 1, 1}); got != want {
		t.Errorf("the comparison is %+v, want %+v", got, want)
	}
	var ids []string
	for i, u := range users {
		ids = append(ids, u.syncID(t, next))
		if ids[i] == "BBBBBBBBBBBB" {
			t.Errorf("user %d was not changed", i+1)
		}
	}

	if out := next.Verb("sync", "compare", "2"); !strings.Contains(out, "the browsers of 1 user compare all their data") {
		t.Errorf("sync compare 2: %s", out)
	}
	for i, u := range users {
		if id := u.syncID(t, next); (id != ids[i]) != (i == 1) {
			t.Errorf("after sync compare 2, the ID of user %d is %s, before %s", i+1, id, ids[i])
		}
	}
	next.Kill()
	<-next.Ended
	if out := next.Verb("sync", "compare"); !strings.Contains(out, "the browsers of 3 users compare all their data") || !strings.Contains(out, "meta/global is malformed") {
		t.Errorf("sync compare: %s", out)
	}
	last := binary.Launch(t, data, noBuckets)
	for i, u := range users {
		if id := u.syncID(t, last); id == ids[i] {
			t.Errorf("sync compare did not change user %d", i+1)
		}
	}
}

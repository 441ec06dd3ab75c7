package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"holdfast/internal/testdb"
	"holdfast/internal/testdb/spannertest"
	"holdfast/test/binary"
)

// onSpanner returns settings for an emulator database. Only Google's environment variable sets the emulator's host.
func onSpanner(emulator, database string) []string {
	return []string{"SPANNER_EMULATOR_HOST=" + emulator, "SYNC_SYNCSTORAGE__DATABASE_URL=spanner://" + database}
}

func startOnSpanner(t *testing.T, vars ...string) *binary.Server {
	t.Helper()
	s := binary.Launch(t, t.TempDir(), append(onSpanner(spannertest.Name(t)), vars...)...)
	s.Verb("migrate")
	s.Await("/readyz", http.StatusOK)
	return s
}

// TestSpanner starts with an empty instance: the server is ready only after a migration, and operator commands work at
// the same time.
func TestSpanner(t *testing.T) {
	t.Parallel()
	fxa := newAccounts(t)
	s := binary.Launch(t, t.TempDir(), append(onSpanner(spannertest.Name(t)), "SYNC_TOKENSERVER__FXA_OAUTH_SERVER_URL="+fxa.URL)...)
	if out := s.Output.String(); !strings.Contains(out, "WARN") || !strings.Contains(out, "data is not durable") {
		t.Errorf("no warning about the emulator:\n%s", out)
	}
	if why := s.Await("/readyz", http.StatusServiceUnavailable); !strings.Contains(why, "holdfast migrate") {
		t.Errorf("not migrated: %s", why)
	}
	c := s.Token(1, "--fxa-uid", "alice", "--fxa-kid", "1-qqo")
	if a := c.Want(t, http.StatusServiceUnavailable, "PUT", "/storage/tabs/x", `{"payload":"early"}`); a.Header.Get("Retry-After") == "" {
		t.Error("not migrated: no Retry-After")
	}
	if r := binary.Run(t, s.Env, "check"); r.Status != 1 || !strings.Contains(r.Stdout, "run holdfast migrate") || !strings.Contains(r.Stdout, "fix: start the emulator on ") {
		t.Errorf("check of an empty instance: %d\n%s", r.Status, r.Stdout)
	}
	if out := s.Verb("migrate"); !strings.Contains(out, "syncstorage: applied 0001") {
		t.Errorf("migrate:\n%s", out)
	}
	s.Await("/readyz", http.StatusOK)
	if out := s.Verb("migrate"); out != "all tables are up to date\n" {
		t.Errorf("migrate again:\n%s", out)
	}
	if out := s.Verb("check"); !strings.Contains(out, "which keeps data in memory only") || strings.Contains(out, "WRONG") {
		t.Errorf("check:\n%s", out)
	}
	requests(t, c)

	// The token server stores accounts in a SQLite file.
	signedIn, a := fxa.signIn(t, s, "bob", 1)
	if a.Status != http.StatusOK {
		t.Fatalf("sign in: %d %s", a.Status, a.Body)
	}
	signedIn.Want(t, http.StatusOK, "PUT", "/storage/tabs/x", `{"payload":"hello"}`)
	if out := s.Verb("tokenserver", "accounts", "show", "bob"); !strings.Contains(out, "1        5 bytes") {
		t.Errorf("show:\n%s", out)
	}

	dir := filepath.Join(t.TempDir(), "backup")
	r := binary.Run(t, s.Env, "backup", dir)
	if r.Status != 0 || r.Stdout != dir+"/tokenserver.db\n"+dir+"/extstorage.db\n"+dir+"/buckets.db\n"+dir+"/secrets.toml\n"+dir+"/buckets\n" || !strings.Contains(r.Stderr, "not copied") || !strings.Contains(r.Stderr, "service=syncstorage") {
		t.Errorf("backup: %d\n%s%s", r.Status, r.Stdout, r.Stderr)
	}
	if found, err := os.ReadDir(dir); err != nil || len(found) != 5 {
		t.Errorf("the backup contains %v, %v", found, err)
	}
	if r := binary.Run(t, s.Env, "sweep"); r.Status != 0 || r.Stdout != "expired records and batches: Spanner removes them by itself\nreplaced users' storage: 0\nexpired extension records: 0\nold extension changes: 0\nold extension responses: 0\nrevocations of expired extension tokens: 0\nentries for deleted extension installs: 0\nexpired bucket objects: 0\nbucket events: 0\nincomplete uploads to buckets: 0\ndeleted bucket objects: 0\nplain names of buckets: 0\ndeleted buckets: 0\n" {
		t.Errorf("sweep: %d\n%s%s", r.Status, r.Stdout, r.Stderr)
	}
	s.Verb("tokenserver", "accounts", "delete", "bob", "--yes")
	await(t, signedIn, http.StatusUnauthorized)
	s.Signal(syscall.SIGTERM)
	<-s.Ended
	if code := s.Cmd.ProcessState.ExitCode(); code != 0 {
		t.Errorf("the server ended with %d", code)
	}
}

// requests sends one request of each kind for a user without data, and leaves no data.
func requests(t *testing.T, c binary.Credentials) {
	t.Helper()
	put := c.Want(t, http.StatusOK, "PUT", "/storage/bookmarks/%7Bguid%7D", `{"payload":"hello","sortindex":3}`)
	if got, want := c.Want(t, http.StatusOK, "GET", "/storage/bookmarks/{guid}", "").Body, `{"id":"{guid}","modified":`+put.Body+`,"payload":"hello","sortindex":3}`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if a := c.Want(t, http.StatusOK, "POST", "/storage/my-own", `[{"id":"a","payload":"1"},{"id":"b","payload":"22"}]`); !strings.Contains(a.Body, `"success":["a","b"]`) {
		t.Errorf("post: %s", a.Body)
	}
	var open struct{ Batch string }
	a := c.Want(t, http.StatusAccepted, "POST", "/storage/my-own?batch=true", `[{"id":"a","payload":"333"}]`)
	if err := json.Unmarshal([]byte(a.Body), &open); err != nil {
		t.Fatal(err)
	}
	c.Want(t, http.StatusAccepted, "POST", "/storage/my-own?batch="+open.Batch, `[{"id":"c","payload":"4444"}]`)
	if a := c.Want(t, http.StatusOK, "GET", "/info/collection_counts", ""); a.Body != `{"bookmarks":1,"my-own":2}` {
		t.Errorf("before the commit: %s", a.Body)
	}
	c.Want(t, http.StatusOK, "POST", "/storage/my-own?commit=true&batch="+open.Batch, `[]`)
	if a := c.Want(t, http.StatusOK, "GET", "/info/collection_usage", ""); a.Body != `{"bookmarks":0.0048828125,"my-own":0.0087890625}` {
		t.Errorf("after the commit: %s", a.Body)
	}
	c.Want(t, http.StatusBadRequest, "POST", "/storage/my-own?commit=true&batch="+open.Batch, `[]`)

	c.Want(t, http.StatusOK, "DELETE", "/storage/my-own/a", "")
	c.Want(t, http.StatusOK, "DELETE", "/storage/my-own?ids=b", "")
	if a := c.Want(t, http.StatusOK, "GET", "/storage/my-own", ""); a.Body != `["c"]` {
		t.Errorf("after the deletions: %s", a.Body)
	}
	c.Want(t, http.StatusOK, "DELETE", "/storage/my-own", "")
	if a := c.Want(t, http.StatusOK, "GET", "/info/collection_counts", ""); a.Body != `{"bookmarks":1}` {
		t.Errorf("without the collection: %s", a.Body)
	}
	c.Want(t, http.StatusOK, "DELETE", "", "")
	if a := c.Want(t, http.StatusOK, "GET", "/info/collections", ""); a.Body != "{}" {
		t.Errorf("without anything: %s", a.Body)
	}
}

// TestWhoSpannerKeepsApart checks that account and keys, which a token must contain, identify a user. The numeric uid
// is only part of the path.
func TestWhoSpannerKeepsApart(t *testing.T) {
	t.Parallel()
	s := startOnSpanner(t)
	var open struct{ Batch string }
	a := s.Token(1, "--fxa-uid", "carol", "--fxa-kid", "1-qqo").Want(t, http.StatusAccepted, "POST", "/storage/tabs?batch=true", `[]`)
	if err := json.Unmarshal([]byte(a.Body), &open); err != nil {
		t.Fatal(err)
	}
	for name, flags := range map[string][]string{
		"nothing": nil, "no keys": {"--fxa-uid", "alice"}, "no account": {"--fxa-kid", "1-qqo"},
	} {
		c := s.Token(1, flags...)
		for _, r := range []struct{ method, path, body string }{
			{"GET", "/info/collections", ""}, {"GET", "/info/collection_counts", ""}, {"GET", "/info/collection_usage", ""}, {"GET", "/info/quota", ""},
			{"GET", "/storage/tabs", ""}, {"GET", "/storage/tabs?full=1", ""}, {"GET", "/storage/tabs/x", ""},
			{"GET", "/storage/my-own", ""}, {"GET", "/storage/my-own/x", ""},
			{"PUT", "/storage/tabs/x", `{"payload":"x"}`}, {"PUT", "/storage/my-own/x", `{"payload":"x"}`},
			{"POST", "/storage/tabs", `[{"id":"x","payload":"x"}]`}, {"POST", "/storage/tabs", `[]`},
			{"POST", "/storage/tabs?batch=true", `[{"id":"x","payload":"x"}]`}, {"POST", "/storage/my-own?batch=true", `[]`},
			{"POST", "/storage/tabs?batch=true&commit=true", `[{"id":"x","payload":"x"}]`},
			{"POST", "/storage/tabs?batch=" + open.Batch, `[{"id":"x","payload":"x"}]`}, {"POST", "/storage/tabs?commit=true&batch=" + open.Batch, `[]`},
			{"DELETE", "/storage/tabs/x", ""}, {"DELETE", "/storage/tabs?ids=x", ""}, {"DELETE", "/storage/tabs", ""}, {"DELETE", "/storage/my-own", ""},
			{"DELETE", "/storage", ""}, {"DELETE", "", ""},
		} {
			if a, err := c.Send(r.method, r.path, r.body); err != nil || a.Status != http.StatusUnauthorized {
				t.Errorf("token for %s: %s %s: %d %s %v", name, r.method, r.path, a.Status, a.Body, err)
			}
		}
	}
	if _, body := s.Get("/1.5/1/info/configuration"); !strings.Contains(body, `"max_total_bytes":100000000,"max_total_records":9984`) {
		t.Errorf("limits %s", body)
	}

	users := []binary.Credentials{
		s.Token(1, "--fxa-uid", "alice", "--fxa-kid", "1-qqo"), s.Token(1, "--fxa-uid", "alice", "--fxa-kid", "2-qqo"),
		s.Token(1, "--fxa-uid", "bob", "--fxa-kid", "1-qqo"), s.Token(1, "--fxa-uid", "alice1", "--fxa-kid", "-qqo"),
	}
	for i, c := range users {
		c.Want(t, http.StatusNotFound, "GET", "/storage/tabs/x", "")
		c.Want(t, http.StatusOK, "PUT", "/storage/tabs/x", fmt.Sprintf(`{"payload":"of %d"}`, i))
	}
	users[0].Want(t, http.StatusOK, "DELETE", "", "")
	users[0].Want(t, http.StatusNotFound, "GET", "/storage/tabs/x", "")
	for i, c := range users[1:] {
		if a := c.Want(t, http.StatusOK, "GET", "/storage/tabs/x", ""); !strings.Contains(a.Body, fmt.Sprintf(`"of %d"`, i+1)) {
			t.Errorf("user %d has %s", i+1, a.Body)
		}
	}
	// Another uid with the same account and keys is the same user.
	if a := s.Token(2, "--fxa-uid", "bob", "--fxa-kid", "1-qqo").Want(t, http.StatusOK, "GET", "/storage/tabs/x", ""); !strings.Contains(a.Body, `"of 2"`) {
		t.Errorf("with another uid: %s", a.Body)
	}
}

// TestFullBatchOnSpanner sends a batch of maximum size like a client and reads it in pages. The server refuses another
// record.
func TestFullBatchOnSpanner(t *testing.T) {
	t.Parallel()
	testdb.SoakOnly(t, "the emulator is slow")
	for name, vars := range map[string][]string{
		"NoQuota": nil,
		"Quota":   {"SYNC_SYNCSTORAGE__ENABLE_QUOTA=true", "SYNC_SYNCSTORAGE__ENFORCE_QUOTA=true", "SYNC_SYNCSTORAGE__LIMITS__MAX_QUOTA_LIMIT=10000000"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			fullBatch(t, startOnSpanner(t, vars...).Token(1, "--fxa-uid", "alice", "--fxa-kid", "1-qqo"))
		})
	}
}

func fullBatch(t *testing.T, c binary.Credentials) {
	t.Helper()
	const most, post = 9_984, 100
	start := time.Now()
	batch := "true"
	var ids []string
	for len(ids) < most {
		n := min(post, most-len(ids))
		var body []string
		for range n {
			id := fmt.Sprintf("record-%05d", len(ids))
			ids = append(ids, id)
			body = append(body, fmt.Sprintf(`{"id":%q,"payload":"of %[1]s"}`, id))
		}
		var open struct{ Batch string }
		a := c.Want(t, http.StatusAccepted, "POST", "/storage/history?batch="+batch, "["+strings.Join(body, ",")+"]")
		if err := json.Unmarshal([]byte(a.Body), &open); err != nil {
			t.Fatal(err)
		}
		batch = open.Batch
	}
	staged := time.Since(start)
	for _, commit := range []string{"", "&commit=true"} {
		if a := c.Want(t, http.StatusBadRequest, "POST", "/storage/history?batch="+batch+commit, `[{"id":"one-more","payload":"x"}]`); a.Body != "17" {
			t.Errorf("another record: %s", a.Body)
		}
	}
	if a := c.Want(t, http.StatusOK, "GET", "/info/collections", ""); a.Body != "{}" {
		t.Errorf("before the commit: %s", a.Body)
	}
	start = time.Now()
	c.Want(t, http.StatusOK, "POST", "/storage/history?commit=true&batch="+batch, "[]")
	committed := time.Since(start)

	start = time.Now()
	var read []string
	for offset := ""; ; {
		var page []struct{ ID, Payload string }
		a := c.Want(t, http.StatusOK, "GET", "/storage/history?full=1&limit=5000&sort=oldest"+offset, "")
		if err := json.Unmarshal([]byte(a.Body), &page); err != nil {
			t.Fatal(err)
		}
		for _, r := range page {
			if r.Payload != "of "+r.ID {
				t.Errorf("%s is %q", r.ID, r.Payload)
			}
			read = append(read, r.ID)
		}
		next := a.Header.Get("X-Weave-Next-Offset")
		if next == "" {
			break
		}
		offset = "&offset=" + next
	}
	slices.Sort(read)
	if !slices.Equal(read, ids) {
		t.Errorf("%d of %d records returned", len(read), len(ids))
	}
	t.Logf("staged in %v, committed in %v, read in %v", staged, committed, time.Since(start))
	if a := c.Want(t, http.StatusOK, "GET", "/info/collection_counts", ""); a.Body != fmt.Sprintf(`{"history":%d}`, most) {
		t.Errorf("counts %s", a.Body)
	}
}

// served repeats a request until its status is 200, like browsers: a new emulator may exceed this test's statement
// timeout.
func served(t *testing.T, c binary.Credentials, method, body string) {
	t.Helper()
	for tries := 0; ; tries++ {
		a, err := c.Send(method, "/storage/my-own/x", body)
		if err != nil {
			t.Fatal(err)
		}
		if a.Status == http.StatusOK {
			return
		}
		if a.Status != http.StatusServiceUnavailable || tries == 10 {
			t.Fatalf("%s: %d %s, want 200", method, a.Status, a.Body)
		}
	}
}

// TestSpannerGoesAndComes checks that the server responds in time while the emulator is unavailable, and recovers when
// the emulator returns empty.
func TestSpannerGoesAndComes(t *testing.T) {
	t.Parallel()
	emulator := testdb.OwnSpanner(t)
	const patience = time.Second
	s := binary.Launch(t, t.TempDir(), append(onSpanner(emulator.Host(), spannertest.NewName()),
		"HOLDFAST_SYNCSTORAGE__DATABASE_POOL_CONNECTION_TIMEOUT="+patience.String(), "HOLDFAST_SYNCSTORAGE__DATABASE_STATEMENT_TIMEOUT="+patience.String())...)
	c := s.Token(1, "--fxa-uid", "alice", "--fxa-kid", "1-qqo")
	for round, end := range []func() error{emulator.Stop, emulator.Kill, nil} {
		s.Verb("migrate")
		s.Await("/readyz", http.StatusOK)
		served(t, c, "PUT", `{"payload":"x"}`)
		served(t, c, "GET", "")
		if end == nil {
			break
		}
		if err := end(); err != nil {
			t.Fatal(err)
		}
		for _, method := range []string{"GET", "PUT"} {
			body := map[string]string{"PUT": `{"payload":"x"}`}[method]
			start := time.Now()
			a := c.Want(t, http.StatusServiceUnavailable, method, "/storage/my-own/x", body)
			if took := time.Since(start); took > 5*patience || a.Header.Get("Retry-After") == "" || a.Body != "0" {
				t.Errorf("round %d, %s: after %v Retry-After %q, body %q", round, method, took, a.Header.Get("Retry-After"), a.Body)
			}
		}
		s.Await("/readyz", http.StatusServiceUnavailable)
		s.Await("/livez", http.StatusOK)
		if err := emulator.Start(); err != nil {
			t.Fatal(err)
		}
		s.AwaitAnswer("/readyz", func(status int, why string) bool {
			return status == http.StatusServiceUnavailable && strings.Contains(why, "holdfast migrate")
		})
	}
}

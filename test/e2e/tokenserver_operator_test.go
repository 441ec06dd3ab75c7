package e2e

import (
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"holdfast/test/binary"
)

// TestAllowAndDeny closes a running server to new accounts and allows one account.
func TestAllowAndDeny(t *testing.T) {
	t.Parallel()
	const friend = "0f21e4d0000000000000000000000001"
	fxa := newAccounts(t)
	s := binary.Start(t, t.TempDir(), "SYNC_TOKENSERVER__FXA_OAUTH_SERVER_URL="+fxa.URL, "SYNC_TOKENSERVER__ALLOW_NEW_USERS=false")
	if _, a := fxa.signIn(t, s, friend, 1); a.Status != http.StatusForbidden || !strings.Contains(a.Body, "new-users-disabled") {
		t.Fatalf("unknown account: %d %s", a.Status, a.Body)
	}
	if out := s.Verb("tokenserver", "refused", "list"); !strings.Contains(out, friend) {
		t.Errorf("the refused account is not listed:\n%s", out)
	}
	s.Verb("tokenserver", "access", "allow", friend, "--note", "from school")
	c, a := fxa.signIn(t, s, friend, 1)
	if a.Status != http.StatusOK {
		t.Fatalf("allowed account: %d %s", a.Status, a.Body)
	}
	if c.Endpoint != s.URL+"/1.5/1" {
		t.Errorf("endpoint %s", c.Endpoint)
	}
	c.Want(t, http.StatusOK, "PUT", "/storage/tabs/x", `{"payload":"hello"}`)
	if out := s.Verb("tokenserver", "access", "list"); !strings.Contains(out, "from school") {
		t.Errorf("access list:\n%s", out)
	}
	if out := s.Verb("tokenserver", "accounts", "show", friend); !strings.Contains(out, "1        5 bytes") {
		t.Errorf("show:\n%s", out)
	}
	if out := s.Verb("tokenserver", "accounts", "list"); !strings.Contains(out, friend) {
		t.Errorf("list:\n%s", out)
	}

	s.Verb("tokenserver", "access", "deny", friend)
	if _, a := fxa.signIn(t, s, friend, 1); a.Status != http.StatusForbidden {
		t.Errorf("denied account: %d %s", a.Status, a.Body)
	}
	s.Verb("tokenserver", "access", "allow", friend)
	s.Verb("tokenserver", "accounts", "delete", friend, "--yes")
	c2, a := fxa.signIn(t, s, friend, 1)
	if a.Status != http.StatusOK || c2.UID == c.UID {
		t.Errorf("after the deletion: %d, uid %d again", a.Status, c2.UID)
	}
	if out := s.Verb("tokenserver", "accounts", "show", friend); strings.Contains(out, "tabs") {
		t.Errorf("the deleted user still has data:\n%s", out)
	}

	// The console lists a refused sign-in, with a button that allows the account.
	const stranger = "0f21e4d0000000000000000000000002"
	if _, a := fxa.signIn(t, s, stranger, 1); a.Status != http.StatusForbidden {
		t.Fatalf("unknown account: %d %s", a.Status, a.Body)
	}
	cookie := consoleCookie(t, s)
	page := consolePage(t, s, cookie, http.MethodGet, "tokenserver/refused", nil)
	csrf := regexp.MustCompile(`name="csrf" value="([0-9a-f]{64})"`).FindStringSubmatch(page)
	if csrf == nil || !strings.Contains(page, `aria-label="Allow account `+stranger+`"`) {
		t.Fatalf("the refused sign-ins:\n%s", page)
	}
	consolePage(t, s, cookie, http.MethodPost, "tokenserver/access?do=allow", url.Values{"csrf": {csrf[1]}, "account": {stranger}, "return-page": {"refused"}})
	if page := consolePage(t, s, cookie, http.MethodGet, "tokenserver/refused", nil); !strings.Contains(page, "Account "+stranger+" may sign in.") || strings.Contains(page, "Allow account "+stranger) {
		t.Errorf("after the account was allowed:\n%s", page)
	}
	if _, a := fxa.signIn(t, s, stranger, 1); a.Status != http.StatusOK {
		t.Errorf("account allowed in the console: %d %s", a.Status, a.Body)
	}
	if r := binary.Run(t, s.Env, "tokenserver", "accounts", "delete", strings.Repeat("0", 32), "--yes"); r.Status != 1 || !strings.Contains(r.Stderr, "no storage here") {
		t.Errorf("delete of an unknown account: %d %s", r.Status, r.Stderr)
	}
}

func TestNodes(t *testing.T) {
	t.Parallel()
	fxa := newAccounts(t)
	s := binary.Start(t, t.TempDir(), "SYNC_TOKENSERVER__FXA_OAUTH_SERVER_URL="+fxa.URL)
	if _, a := fxa.signIn(t, s, "first", 1); a.Status != http.StatusOK {
		t.Fatalf("sign in: %d %s", a.Status, a.Body)
	}
	s.Verb("tokenserver", "nodes", "drain", "self")
	if _, a := fxa.signIn(t, s, "second", 1); a.Status != http.StatusServiceUnavailable {
		t.Errorf("with every node drained: %d %s", a.Status, a.Body)
	}
	if _, a := fxa.signIn(t, s, "first", 1); a.Status != http.StatusOK {
		t.Errorf("account with a node: %d %s", a.Status, a.Body)
	}
	s.Verb("tokenserver", "nodes", "add", "https://two.example.org/", "--capacity", "5", "--no-check")
	if out := s.Verb("tokenserver", "nodes", "list"); !strings.Contains(out, "https://two.example.org ") {
		t.Errorf("nodes:\n%s", out)
	}
	if c, a := fxa.signIn(t, s, "second", 1); !strings.HasPrefix(c.Endpoint, "https://two.example.org/1.5/") {
		t.Errorf("second account assigned to %q: %s", c.Endpoint, a.Body)
	}
	const two = "https://two.example.org"
	s.Verb("tokenserver", "nodes", "drain", two)
	if out := s.Verb("tokenserver", "nodes", "list"); strings.Count(out, "drained") != 2 {
		t.Errorf("drained:\n%s", out)
	}
	s.Verb("tokenserver", "nodes", "undo", two)
	if out := s.Verb("tokenserver", "nodes", "list"); strings.Count(out, "drained") != 1 {
		t.Errorf("undone:\n%s", out)
	}
	for _, tc := range []struct {
		args []string
		want string
	}{
		{[]string{"add", "two.example.org"}, `invalid node "two.example.org": expected an http or https URL`},
		{[]string{"add", "https://two.example.org", "--no-check"}, "node https://two.example.org already exists"},
		{[]string{"drain", "https://three.example.org"}, "node https://three.example.org does not exist; holdfast tokenserver nodes list"},
	} {
		r := binary.Run(t, s.Env, append([]string{"tokenserver", "nodes"}, tc.args...)...)
		if r.Status != 1 || !strings.Contains(r.Stderr, tc.want) {
			t.Errorf("%v: status %d %s, want %s", tc.args, r.Status, r.Stderr, tc.want)
		}
	}
}

// TestNonsenseNumbers checks that invalid numbers are refused and change nothing.
func TestNonsenseNumbers(t *testing.T) {
	t.Parallel()
	s := binary.Start(t, t.TempDir())
	before := s.Verb("tokenserver", "nodes", "list")
	for _, tc := range []struct {
		says string
		args []string
	}{
		{"--capacity: must be at least 1", []string{"tokenserver", "nodes", "add", "https://a.example", "--capacity", "-5"}},
		{"--capacity: must be at least 1", []string{"tokenserver", "nodes", "add", "https://a.example", "--capacity", "0"}},
		{"a node's capacity must be from 1 to 2147483647 accounts", []string{"tokenserver", "nodes", "add", "https://a.example", "--capacity", "2147483648"}},
		{"account " + strings.Repeat("0", 32) + " has no storage here", []string{"tokenserver", "accounts", "delete", strings.Repeat("0", 32), "--yes"}},
		{"--limit: must be at least 1", []string{"tokenserver", "accounts", "list", "--limit", "0"}},
		{"--limit: must be at least 1", []string{"tokenserver", "access", "list", "--limit", "-1"}},
		{"--after: expected a uid", []string{"tokenserver", "accounts", "list", "--after", "5a"}},
		{"--after: expected a uid", []string{"tokenserver", "accounts", "list", "--after", "-5"}},
		{"--uid: must be at least 1", []string{"sync", "tokens", "create", "--uid", "-1"}},
		{"--ttl: must be from 1s to 3650d", []string{"sync", "tokens", "create", "--uid", "1", "--ttl", "0"}},
		{"--ttl: must be from 1s to 3650d", []string{"sync", "tokens", "create", "--uid", "1", "--ttl", "87601h"}},
		{"--records: must be from 1 to", []string{"sync", "budget", "--records", "-1"}},
	} {
		r := binary.Run(t, s.Env, tc.args...)
		status := 1
		if strings.HasPrefix(tc.says, "--") {
			status = 2
		}
		if r.Status != status || !strings.Contains(r.Stderr, tc.says) || r.Stdout != "" {
			t.Errorf("%v: status %d, %s%s, want %s", tc.args, r.Status, r.Stdout, r.Stderr, tc.says)
		}
	}
	if after := s.Verb("tokenserver", "nodes", "list"); after != before {
		t.Errorf("nodes:\n%s, before:\n%s", after, before)
	}
}

// TestNewKeys checks that new keys create a new storage user. If the accounts server is unavailable, the status is not
// 401.
func TestNewKeys(t *testing.T) {
	t.Parallel()
	fxa := newAccounts(t)
	s := binary.Start(t, t.TempDir(), "SYNC_TOKENSERVER__FXA_OAUTH_SERVER_URL="+fxa.URL)
	one, _ := fxa.signIn(t, s, "alice", 1)
	two, a := fxa.signIn(t, s, "alice", 2)
	if a.Status != http.StatusOK || two.UID == one.UID {
		t.Errorf("new keys: %d, uid %d then %d", a.Status, one.UID, two.UID)
	}
	if _, a := fxa.signIn(t, s, "alice", 1); a.Status != http.StatusUnauthorized {
		t.Errorf("the old keys: %d %s", a.Status, a.Body)
	}

	away := newAccounts(t)
	down := binary.Start(t, t.TempDir(), "SYNC_TOKENSERVER__FXA_OAUTH_SERVER_URL="+away.URL)
	away.Close()
	if _, a := away.signIn(t, down, "alice", 1); a.Status != http.StatusServiceUnavailable {
		t.Errorf("while the accounts server is unavailable: %d %s", a.Status, a.Body)
	}
}

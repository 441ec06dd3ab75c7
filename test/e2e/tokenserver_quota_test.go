package e2e

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"holdfast/test/binary"
)

// TestOwnQuota checks that an account's quota limits the next write on a running server, and that clients cannot
// remove it by wiping their storage or by getting new keys.
func TestOwnQuota(t *testing.T) {
	t.Parallel()
	fxa := newAccounts(t)
	s := binary.Start(t, t.TempDir(), "SYNC_TOKENSERVER__FXA_OAUTH_SERVER_URL="+fxa.URL, "HOLDFAST_SYNCSTORAGE__ENFORCE_QUOTA=true",
		"HOLDFAST_SYNCSTORAGE__LIMITS__MAX_USER_QUOTA=100")
	const account = "0123456789abcdef0123456789abcdef"
	c, a := fxa.signIn(t, s, account, 1)
	if a.Status != http.StatusOK {
		t.Fatalf("sign in: %d %s", a.Status, a.Body)
	}
	put := func(c *binary.Credentials, status int, bytes int) binary.Answer {
		t.Helper()
		return c.Want(t, status, "PUT", "/storage/tabs/x", fmt.Sprintf(`{"payload":%q}`, strings.Repeat("x", bytes)))
	}
	put(&c, http.StatusForbidden, 101)
	if out := s.Verb("tokenserver", "accounts", "quota", account, "2KiB"); !strings.Contains(out, "2048, the account's own") {
		t.Errorf("quota:\n%s", out)
	}
	put(&c, http.StatusForbidden, 2049)
	if left := put(&c, http.StatusOK, 1024).Header.Get("X-Weave-Quota-Remaining"); left != "1" {
		t.Errorf("X-Weave-Quota-Remaining: %q, want 1", left)
	}
	if a := c.Want(t, http.StatusOK, "GET", "/info/quota", ""); a.Body != "[1,2]" {
		t.Errorf("info/quota: %s", a.Body)
	}
	c.Want(t, http.StatusOK, "DELETE", "/storage", "")
	put(&c, http.StatusForbidden, 2049)

	renewed, a := fxa.signIn(t, s, account, 2)
	if a.Status != http.StatusOK || renewed.UID == c.UID {
		t.Fatalf("new keys: %d %s", a.Status, a.Body)
	}
	put(&renewed, http.StatusForbidden, 2049)
	put(&renewed, http.StatusOK, 2048)

	s.Verb("tokenserver", "accounts", "quota", account, "none")
	if _, a := fxa.signIn(t, s, account, 2); a.Status != http.StatusOK { // the quota stays removed
		t.Fatalf("sign in again: %d %s", a.Status, a.Body)
	}
	if out := s.Verb("tokenserver", "accounts", "quota", account); !strings.Contains(out, "STORED  2048") || !strings.Contains(out, "100, the setting syncstorage.limits.max_user_quota") {
		t.Errorf("quota:\n%s", out)
	}
	s.Verb("tokenserver", "accounts", "quota", account, "unlimited")
	put(&renewed, http.StatusOK, 5000)
	if a := renewed.Want(t, http.StatusOK, "GET", "/info/quota", ""); !strings.HasSuffix(a.Body, ",null]") {
		t.Errorf("info/quota: %s", a.Body)
	}

	// The command accepts a storage user's number, even without data.
	if out := s.Verb("tokenserver", "users", "quota", "77", "5"); !strings.Contains(out, "5, the account's own") {
		t.Errorf("quota of a storage user:\n%s", out)
	}
}

// listed is a line from tokenserver accounts list --json.
type listed struct {
	Account        string
	Here           bool
	Bytes, Records *int64
	Quota          *int64
	LastWrite      time.Time // null is the zero time
	CreatedAt      time.Time
	Next           string
}

// latest sorts the accounts by a time, latest first.
func latest(lines []listed, at func(listed) time.Time) (accounts []string) {
	sorted := slices.Clone(lines)
	slices.SortStableFunc(sorted, func(a, b listed) int { return at(b).Compare(at(a)) })
	for _, l := range sorted {
		accounts = append(accounts, l.Account)
	}
	return accounts
}

// TestUserList checks the account list in every order, page by page.
func TestUserList(t *testing.T) {
	t.Parallel()
	fxa := newAccounts(t)
	s := binary.Start(t, t.TempDir(), "SYNC_TOKENSERVER__FXA_OAUTH_SERVER_URL="+fxa.URL)
	for i, bytes := range []int{30, 10, 0, 20, 10} {
		c, a := fxa.signIn(t, s, fmt.Sprintf("account%d", i+1), 1)
		if a.Status != http.StatusOK {
			t.Fatalf("sign in: %d %s", a.Status, a.Body)
		}
		for n := range bytes / 10 {
			c.Want(t, http.StatusOK, "PUT", fmt.Sprintf("/storage/tabs/%d", n), `{"payload":"0123456789"}`)
		}
	}
	s.Verb("tokenserver", "nodes", "drain", "self")
	s.Verb("tokenserver", "nodes", "add", "https://two.example.org", "--capacity", "5", "--no-check")
	fxa.signIn(t, s, "far", 1)
	s.Verb("tokenserver", "accounts", "quota", "account3", "1MiB")

	lines, _ := listUsers(t, s)
	for order, want := range map[string][]string{
		"id":      {"account1", "account2", "account3", "account4", "account5", "far"},
		"bytes":   {"account1", "account4", "account2", "account5", "account3", "far"},
		"records": {"account1", "account4", "account2", "account5", "account3", "far"},
		"used":    latest(lines, func(l listed) time.Time { return l.LastWrite }),
		"created": latest(lines, func(l listed) time.Time { return l.CreatedAt }),
	} {
		for _, reverse := range []bool{false, true} {
			if reverse {
				slices.Reverse(want)
			}
			for _, limit := range []int{2, 5, 6} {
				if got := pagesOf(t, s, limit, "--sort", order, fmt.Sprintf("--reverse=%v", reverse)); !slices.Equal(got, want) {
					t.Errorf("by %s, reverse %v, %d per page: %v, want %v", order, reverse, limit, got, want)
				}
			}
		}
	}
	first, third, far := lines[0], lines[2], lines[5]
	if *first.Bytes != 30 || *first.Records != 3 || !first.Here || first.LastWrite.IsZero() || first.Quota != nil {
		t.Errorf("the first is %+v", first)
	}
	if *third.Bytes != 0 || !third.LastWrite.IsZero() || *third.Quota != 1<<20 {
		t.Errorf("the third is %+v", third)
	}
	if far.Here || far.Bytes != nil || far.Records != nil || !far.LastWrite.IsZero() {
		t.Errorf("account on another node: %+v", far)
	}
	r := binary.Run(t, s.Env, "tokenserver", "accounts", "list", "--limit", "2")
	if r.Status != 0 || !strings.Contains(r.Stdout, "account1") || !strings.Contains(r.Stderr, "continue with --after 2\n") {
		t.Errorf("a page as a table: %s%s", r.Stdout, r.Stderr)
	}
}

func TestUserListFlags(t *testing.T) {
	t.Parallel()
	s := binary.Start(t, t.TempDir())
	for _, tc := range [][2]string{
		{"--sort=size", "--sort: expected used, bytes, records, created or id"},
		{"--after=x", "--after: expected a uid"},
		{"--after=1:2", "--after: expected a uid"},
		{"--limit=0", "--limit: must be at least 1"},
	} {
		if r := binary.Run(t, s.Env, "tokenserver", "accounts", "list", tc[0]); r.Status == 0 || !strings.Contains(r.Stderr, tc[1]) {
			t.Errorf("%s: %d %s", tc[0], r.Status, r.Stderr)
		}
	}
	if out := s.Verb("tokenserver", "accounts", "list", "--sort", "bytes", "--limit", "100001"); !strings.HasPrefix(out, "LABEL ") {
		t.Errorf("a long page: %s", out)
	}
}

func listUsers(t *testing.T, s *binary.Server, args ...string) (lines []listed, next string) {
	t.Helper()
	out := s.Verb(append([]string{"tokenserver", "accounts", "list", "--json"}, args...)...)
	for sc := bufio.NewScanner(strings.NewReader(out)); sc.Scan(); {
		var l listed
		if err := json.Unmarshal(sc.Bytes(), &l); err != nil {
			t.Fatalf("%s: %v", sc.Text(), err)
		}
		if l.Next != "" {
			return lines, l.Next
		}
		lines = append(lines, l)
	}
	return lines, ""
}

func pagesOf(t *testing.T, s *binary.Server, limit int, args ...string) (accounts []string) {
	t.Helper()
	for next := ""; ; {
		page, more := listUsers(t, s, append(args, "--limit", strconv.Itoa(limit), "--after", next)...)
		for _, l := range page {
			accounts = append(accounts, l.Account)
		}
		if len(page) > limit || more != "" && len(page) < limit {
			t.Errorf("%v: a page has %d lines, want at most %d", args, len(page), limit)
		}
		if next = more; next == "" {
			return accounts
		}
	}
}

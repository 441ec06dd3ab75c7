package tokenserver

import (
	"strings"
	"testing"
	"time"

	"holdfast/internal/errcode"
)

func TestAccountCheck(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		a  Account
		ok bool
	}{
		{Account{"8692f7bbd3e640a8b0c4a6f4c6d8c1ab", "api.accounts.firefox.com"}, true},
		{Account{strings.Repeat("a", 246), "e.exampl"}, true},
		{Account{strings.Repeat("a", 247), "e.exampl"}, false},
		{Account{}, false},
		{Account{"", "example"}, false},
		{Account{"alice", ""}, false},
		{Account{"al ice", "example"}, false},
		{Account{"alice\n", "example"}, false},
		{Account{"alice\x00", "example"}, false},
		{Account{"älice", "example"}, false},
		{Account{"alice\xff", "example"}, false},
	} {
		if err := c.a.Check(); (err == nil) != c.ok || err != nil && !errcode.Is(err, errcode.Denied) {
			t.Errorf("%q: %v", c.a, err)
		}
	}
}

func TestParseAccount(t *testing.T) {
	t.Parallel()
	want := Account{"alice", "example.org"}
	for _, in := range []string{"alice", "alice@example.org"} {
		if got, err := ParseAccount(in, "example.org"); err != nil || got != want {
			t.Errorf("%q: %+v, %v", in, got, err)
		}
	}
	if _, err := ParseAccount("@example.org", "example.org"); err == nil {
		t.Error("accepted an account without an ID")
	}
	if got := (&User{Email: want.Email()}).Account(); got != want {
		t.Errorf("the row's account is %+v", got)
	}
	if got := (&User{Email: "nobody"}).Account(); got.Check() == nil {
		t.Errorf("a row without a domain belongs to %+v", got)
	}
}

func TestIsAccountID(t *testing.T) {
	t.Parallel()
	const id = "0123456789abcdef0123456789abcdef"
	for in, want := range map[string]bool{
		id: true, "": false, "foo": false, id[1:]: false, id + "0": false, "0123456789ABCDEF0123456789ABCDEF": false, id[1:] + "g": false,
		id[:15] + "-" + id[16:]: false, "alice@example.org": false,
	} {
		if IsAccountID(in) != want {
			t.Errorf("%q: want %v", in, want)
		}
	}
}

func TestHashedIDs(t *testing.T) {
	t.Parallel()
	// Computed with Python's hmac and hashlib.
	uid, device := hashedIDs("secret", "8692f7bbd3e640a8b0c4a6f4c6d8c1ab")
	if uid != "1aa713d0f1485672167b8d090239fca4" || device != "f0d98c13e66e09fb46fe5694857af802" {
		t.Errorf("got %s, %s", uid, device)
	}
}

func TestAccessSpelling(t *testing.T) {
	t.Parallel()
	for _, a := range []Access{Unlisted, Allowed, Denied} {
		if got := ParseAccess(a.String()); got != a {
			t.Errorf("%s reads as %s", a, got)
		}
	}
	if ParseAccess("perhaps") != Denied {
		t.Error("an unknown value does not deny access")
	}
}

func TestEventGeneration(t *testing.T) {
	t.Parallel()
	const now = 1790000000123
	for at, want := range map[int64]int64{now: now - 1, now - 5: now - 6, 1: 0, now + 1: now - 1, Retired: now - 1} {
		if got := (Event{At: at}).generation(time.UnixMilli(now)); got != want {
			t.Errorf("a change at %d gives generation %d, want %d", at, got, want)
		}
	}
}

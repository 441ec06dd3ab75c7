package syncstorage_test

import (
	"errors"
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"

	"holdfast/internal/errcode"
	ss "holdfast/internal/syncstorage"
	"holdfast/internal/syncstorage/storetest"
)

func TestPrecondition(t *testing.T) {
	t.Parallel()
	for _, tc := range storetest.PreconditionCases() {
		err := tc.If.Check(tc.Modified)
		if !reflect.DeepEqual(err, tc.Want) {
			t.Errorf("%s: %v, want %v", tc.Name, err, tc.Want)
		}
		if err != nil && !errcode.Is(err, errcode.Precondition) {
			t.Errorf("%s: the code of %v is %v", tc.Name, err, errcode.Of(err))
		}
	}
	for err, want := range map[*ss.PreconditionError]string{
		{Modified: 2010}:                    "modified at 2.01",
		{Modified: 2010, NotModified: true}: "not modified since 2.01",
	} {
		if err.Error() != want {
			t.Errorf("%+v says %q", *err, err)
		}
	}
}

func TestQuota(t *testing.T) {
	t.Parallel()
	for _, tc := range storetest.QuotaCases() {
		for _, enforce := range []bool{true, false} {
			q, before, after := tc.Quota(enforce), tc.Used(tc.Before), tc.Used(tc.After)
			if got := q.Exceeded(before, after); got != tc.Exceeded {
				t.Errorf("%s: exceeded is %v", tc.Name, got)
			}
			if tc.Exceeded && !q.Over(after) {
				t.Errorf("%s: exceeded and not over a limit", tc.Name)
			}
			if refused := errors.Is(q.Check(before, after), ss.ErrQuota); refused != (tc.Exceeded && enforce) {
				t.Errorf("%s, enforced %v: refused is %v", tc.Name, enforce, refused)
			}
		}
	}
}

func TestQuotaRemaining(t *testing.T) {
	t.Parallel()
	used := ss.Used{Collection: 30, User: 70}
	for q, want := range map[ss.Quota]ss.Optional[int64]{
		{}:                           {},
		{Enforce: true}:              {},
		{Collection: 100}:            ss.Some[int64](70),
		{User: 100}:                  ss.Some[int64](30),
		{Collection: 100, User: 100}: ss.Some[int64](30),
		{Collection: 50, User: 100}:  ss.Some[int64](20),
		{Collection: 30, User: 100}:  ss.Some[int64](0),
		{Collection: 50, User: 69}:   ss.Some[int64](0),
		{Collection: 10, User: 1000}: ss.Some[int64](0),
	} {
		if got := q.Remaining(used); got != want {
			t.Errorf("%+v leaves %v, want %v", q, got, want)
		}
		if limited := q.Collection != 0 || q.User != 0; q.Limited() != limited {
			t.Errorf("%+v is limited: %v", q, !limited)
		}
	}
}

func TestBatchLimits(t *testing.T) {
	t.Parallel()
	l := ss.BatchLimits{Records: 3, Bytes: 10}
	for total, want := range map[ss.Delta]error{
		{}:                      nil,
		{Records: 3, Bytes: 10}: nil,
		{Records: 4}:            ss.ErrBatchTooLarge,
		{Bytes: 11}:             ss.ErrBatchTooLarge,
	} {
		if got := l.Check(total); !errors.Is(got, want) {
			t.Errorf("%v: %v, want %v", total, got, want)
		}
	}
}

func TestValidBatchID(t *testing.T) {
	t.Parallel()
	const good = "0123456789abcdef0123456789abcdef"
	if !ss.ValidBatchID(good) {
		t.Errorf("%q is refused", good)
	}
	for _, id := range []string{
		"", "sammich", "true", good[1:], good + "0", strings.ToUpper(good), good[:31] + "g", good[:31] + "\n", good[:31] + "-",
		"01234567-89ab-cdef-0123-456789abcdef", strings.Repeat("é", 16),
	} {
		if ss.ValidBatchID(id) {
			t.Errorf("%q is taken", id)
		}
	}
}

func TestValidCollection(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"a", "Z", "0", ".", "..", "_", "-", "newtab-images", "bookmarks.v2", strings.Repeat("x", 32)} {
		if !ss.ValidCollection(name) {
			t.Errorf("%q is refused", name)
		}
	}
	for _, name := range []string{
		"", strings.Repeat("x", 33), "a b", " ", "a/b", "a%", "a\n", "\na", "a\x00", "é", "ł", "a:b", "a,b", "{a}", "a+b", "a~", "\u212a", // the Kelvin sign
	} {
		if ss.ValidCollection(name) {
			t.Errorf("%q is taken", name)
		}
	}
}

func TestStandardCollections(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for i, c := range ss.StandardCollections() {
		if int(c.ID) != i+1 || c.ID >= ss.FirstCustomID || !ss.ValidCollection(c.Name) || seen[c.Name] {
			t.Errorf("%+v is at %d", c, i)
		}
		seen[c.Name] = true
	}
	if len(seen) != 13 {
		t.Errorf("%d standard collections", len(seen))
	}
	guide, err := os.ReadFile("../../docs/users.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range ss.StandardCollections() {
		if line := fmt.Sprintf("\n| %d | `%s` | ", c.ID, c.Name); !strings.Contains(string(guide), line) {
			t.Errorf("the guide has no line %q", line)
		}
	}
}

func TestUsageBytes(t *testing.T) {
	t.Parallel()
	u := ss.Usage{Collections: []ss.CollectionUsage{{Name: "a", Records: 7, Bytes: 3}, {Name: "b"}, {Name: "c", Records: 1, Bytes: 4}}}
	if got := u.Bytes(); got != 7 {
		t.Errorf("%d bytes", got)
	}
}

func TestCheckUID(t *testing.T) {
	t.Parallel()
	for uid, denied := range map[int64]bool{-1 << 63: true, -1: true, 0: true, 1: false, 1<<63 - 1: false} {
		if err := (ss.Owner{UID: uid, FxAUID: "a", FxAKID: "b"}).CheckUID(); errcode.Is(err, errcode.Denied) != denied || (err != nil) != denied {
			t.Errorf("uid %d: %v", uid, err)
		}
	}
}

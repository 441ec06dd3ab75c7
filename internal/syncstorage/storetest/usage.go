package storetest

import (
	"strings"
	"testing"

	ss "holdfast/internal/syncstorage"
)

func usageChecks() []check {
	return []check{
		{"ByDelta", usageByDelta},
		{"BytesNotCharacters", bytesNotCharacters},
		{"Expiry", usageOfExpired},
		{"StagedIsNotUsed", stagedIsNotUsed},
		{"ManyCollections", usageOfMany},
	}
}

func (u *user) wantUsage(after, collection string, records, bytes int64) {
	u.t.Helper()
	c := u.state().collections[collection]
	if c.records != records || c.bytes != bytes {
		u.t.Errorf("after %s %s has %d records and %d bytes, want %d and %d", after, collection, c.records, c.bytes, records, bytes)
	}
}

func usageByDelta(t *testing.T, u *user) {
	u.put("bookmarks", bso("a", "12345"))
	u.wantUsage("Put", "bookmarks", 1, 5)
	u.put("bookmarks", bso("a", "123"))
	u.wantUsage("Put over it", "bookmarks", 1, 3)
	u.put("bookmarks", ss.Update{ID: "a", SortIndex: ss.Some[int64](1)})
	u.wantUsage("Put of a sortindex", "bookmarks", 1, 3)
	u.put("bookmarks", ss.Update{ID: "a", TTL: ss.Some[int64](1000)})
	u.wantUsage("Put of a ttl", "bookmarks", 1, 3)
	u.put("bookmarks", ss.Update{ID: "empty"})
	u.wantUsage("Put of nothing", "bookmarks", 2, 3)
	u.post("bookmarks", bso("a", ""), bso("b", "1234567"), bso("empty", "1"))
	u.wantUsage("Post", "bookmarks", 3, 8)
	b := u.stage("bookmarks", bso("a", "12"), bso("c", "123"))
	u.commit("bookmarks", b, bso("b", "1"))
	u.wantUsage("Commit", "bookmarks", 4, 7)
	u.deleteBSO("bookmarks", "c")
	u.wantUsage("DeleteBSO", "bookmarks", 3, 4)
	u.deleteBSOs("bookmarks", "a", "b", "absent")
	u.wantUsage("DeleteBSOs", "bookmarks", 1, 1)
	u.deleteCollection("bookmarks")
	equal(t, "collections", len(u.usage().Collections), 0)
	u.put("bookmarks", bso("a", "1"))
	u.wantUsage("the first write after DeleteAll", "bookmarks", 1, 1)
}

func bytesNotCharacters(t *testing.T, u *user) {
	u.put("bookmarks", bso("a", "żółć"))
	u.put("bookmarks", bso("b", "\x00\x00"))
	u.put("bookmarks", bso("c", "🗝"))
	u.wantUsage("Put", "bookmarks", 3, 8+2+4)
}

func usageOfExpired(t *testing.T, u *user) {
	u.post("bookmarks", expiring("a", "12345", 10), expiring("b", "123", 20), bso("c", "1"))
	u.wait(10e9)
	u.wantUsage("the first expiry", "bookmarks", 2, 4)
	u.put("bookmarks", bso("a", "12"))
	u.wantUsage("a write over the expired", "bookmarks", 3, 6)
	u.wait(20e9)
	u.wantUsage("the second expiry", "bookmarks", 2, 3)
	u.commit("bookmarks", u.stage("bookmarks", bso("b", "1")))
	u.wantUsage("a commit over the expired", "bookmarks", 3, 4)
	u.post("bookmarks", expiring("d", "123", 0))
	u.wantUsage("a record that expires at once", "bookmarks", 3, 4)
	u.put("tabs", bso("a", "x"))
	u.wantUsage("a write elsewhere", "bookmarks", 3, 4)
}

func stagedIsNotUsed(t *testing.T, u *user) {
	u.put("bookmarks", bso("a", "1"))
	u.stage("bookmarks", bso("a", "123"), bso("b", "123"))
	u.wantUsage("Append", "bookmarks", 1, 1)
}

func usageOfMany(t *testing.T, u *user) {
	for i, c := range ss.StandardCollections() {
		u.put(c.Name, bso("a", strings.Repeat("x", i)))
		u.put(c.Name, expiring("b", strings.Repeat("x", 100), 10*int64(i+1)))
	}
	u.wait(75e9)
	for i, c := range ss.StandardCollections() {
		records, bytes := int64(1), int64(i)
		if i >= 7 {
			records, bytes = 2, bytes+100
		}
		u.wantUsage("expiry", c.Name, records, bytes)
	}
}

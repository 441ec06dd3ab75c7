package storetest

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	ss "holdfast/internal/syncstorage"
)

func valueChecks() []check {
	return []check{
		{"Payloads", payloads},
		{"PayloadsOfAnyBytes", payloadsOfAnyBytes},
		{"PayloadIsCopied", payloadIsCopied},
		{"IDs", hostileIDs},
		{"OrderOfIDs", orderOfIDs},
		{"SortIndexes", sortIndexes},
		{"TTLs", ttls},
		{"CollectionNames", collectionNames},
	}
}

type way struct {
	name  string
	mode  ss.MergeMode
	write func(u *user, collection string, us ...ss.Update) ss.Written
}

func ways() []way {
	return []way{
		{"Put", ss.Direct, func(u *user, collection string, us ...ss.Update) (w ss.Written) {
			u.t.Helper()
			for _, up := range us {
				w = u.put(collection, up)
			}
			return w
		}},
		{"Post", ss.Direct, func(u *user, collection string, us ...ss.Update) ss.Written {
			u.t.Helper()
			return u.post(collection, us...)
		}},
		{"staged", ss.FromBatch, func(u *user, collection string, us ...ss.Update) ss.Written {
			u.t.Helper()
			return u.commit(collection, u.stage(collection, us...))
		}},
		{"appended", ss.FromBatch, func(u *user, collection string, us ...ss.Update) ss.Written {
			u.t.Helper()
			b := u.stage(collection)
			u.append(collection, b, us...)
			return u.commit(collection, b)
		}},
		{"committed", ss.FromBatch, func(u *user, collection string, us ...ss.Update) ss.Written {
			u.t.Helper()
			return u.commit(collection, u.stage(collection), us...)
		}},
	}
}

func payloads(t *testing.T, u *user) {
	u.keeps(t, map[string]string{
		"empty":        "",
		"a NUL":        "\x00",
		"NUL inside":   "before\x00after",
		"UTF-8":        "żółć 🗝 \u2028",
		"JSON":         `{"ciphertext":"\\\"'","IV":"=="}`,
		"hex, escaped": `\x00\001`,
		"2.5 MiB":      strings.Repeat("0123456789abcdef\x00\x7f", 2_621_440/18+1)[:2_621_440],
	})
}

func payloadsOfAnyBytes(t *testing.T, u *user) {
	var every [256]byte
	for i := range every {
		every[i] = byte(i)
	}
	u.keeps(t, map[string]string{
		"every byte":    string(every[:]),
		"invalid UTF-8": "\xff\xfe\xc3\x28\xed\xa0\x80",
		"2.5 MiB":       strings.Repeat("0123456789abcdef\x00\xff", 2_621_440/18+1)[:2_621_440],
		"JSON":          "{}",
	})
}

func (u *user) keeps(t *testing.T, values map[string]string) {
	t.Helper()
	for _, way := range ways() {
		u := u.other()
		for name, value := range values {
			written := way.write(u, "bookmarks", bso(name, value))
			want := record{id: name, payload: value, modified: written.Modified}
			equal(t, "Get after "+way.name, u.get("bookmarks", name), want)
		}
		for _, r := range u.list("bookmarks").records {
			if r.payload != values[r.id] {
				t.Errorf("List after %s has %v", way.name, r)
			}
		}
		equal(t, "records", len(u.list("bookmarks").records), len(values))
		way.write(u, "bookmarks", ss.Update{ID: "JSON", Payload: ss.Some([]byte(nil))})
		equal(t, "an empty payload over another, by "+way.name, u.get("bookmarks", "JSON").payload, "")
	}
}

func payloadIsCopied(t *testing.T, u *user) {
	for i, way := range ways() {
		id := fmt.Sprint(i)
		up := bso(id, "as written")
		way.write(u, "bookmarks", up)
		copy(up.Payload.Value, "overwritten")
		equal(t, way.name, u.get("bookmarks", id).payload, "as written")
	}
	b := u.stage("tabs")
	up := bso("a", "as written")
	u.append("tabs", b, up)
	copy(up.Payload.Value, "overwritten")
	u.commit("tabs", b)
	equal(t, "between append and commit", u.get("tabs", "a").payload, "as written")
}

func hostile() []string {
	return []string{
		" ", "  ", ".", "..", "...", "/", "a/b", "//", `\`, `\\`, `a\nb`, "{guid}", "{5f2a0b1c-6d1e-4f7a-9a64-2d3f1f0a7a11}",
		"'", "''", `"`, "`", "' OR '1'='1", "; DROP TABLE bsos; --", "%", "%%", "%00", "%2F", "_", "*", "?", "#", "&", "=", "+",
		"$1", ":1", "@1", "[0]", "(a)", "<b>", "~", "!", ",", "a,b", "NULL", "null", "0", "00", "1e3", "-1", "true", " a", "a ", "a",
		strings.Repeat("~", ss.MaxIDLength), strings.Repeat(" ", ss.MaxIDLength), strings.Repeat("a", ss.MaxIDLength),
	}
}

func hostileIDs(t *testing.T, u *user) {
	ids := hostile()
	for _, way := range ways() {
		u = u.other()
		var us []ss.Update
		for _, id := range ids {
			us = append(us, bso(id, "payload of "+id))
		}
		way.write(u, "passwords", us...)
		for _, id := range ids {
			equal(t, fmt.Sprintf("%s of %q", way.name, id), u.get("passwords", id).payload, "payload of "+id)
			equalIDs(t, way.name, u.query(ss.Query{Collection: "passwords", IDs: []string{id}}), id)
		}
		equal(t, "records", len(u.list("passwords").records), len(ids))
	}
	for i, id := range ids {
		if i%2 == 0 {
			u.deleteBSO("passwords", id)
		} else {
			u.deleteBSOs("passwords", id)
		}
		equal(t, fmt.Sprintf("records after the delete of %q", id), len(u.list("passwords").records), len(ids)-i-1)
	}
}

func orderOfIDs(t *testing.T, u *user) {
	ids := []string{"a", "B", "A", "b", "_", "~", "-", " ", "0", "aa", "Aa", "aA", "a a", "a-a", "{", "z", "Z"}
	var us []ss.Update
	for _, id := range ids {
		us = append(us, bso(id, id))
	}
	u.post("bookmarks", us...)
	slices.Sort(ids)
	equalIDs(t, "oldest", u.query(ss.Query{Collection: "bookmarks", Sort: ss.Oldest}), ids...)
	slices.Reverse(ids)
	equalIDs(t, "newest", u.query(ss.Query{Collection: "bookmarks", Sort: ss.Newest}), ids...)
	equalIDs(t, "index", u.query(ss.Query{Collection: "bookmarks", Sort: ss.ByIndex}), ids...)
	equal(t, "a", u.get("bookmarks", "a").payload, "a")
	equal(t, "A", u.get("bookmarks", "A").payload, "A")
}

func sortIndexes(t *testing.T, u *user) {
	values := map[string]ss.Optional[int64]{
		"none": {}, "zero": ss.Some[int64](0), "one": ss.Some[int64](1), "minus": ss.Some[int64](-1),
		"greatest": ss.Some[int64](ss.MaxSortIndex), "least": ss.Some[int64](-ss.MaxSortIndex),
	}
	for _, way := range ways() {
		u := u.other()
		for id, index := range values {
			way.write(u, "bookmarks", ss.Update{ID: id, SortIndex: index})
			equal(t, way.name+" of "+id, u.get("bookmarks", id).index, index)
		}
		equalIDs(t, way.name, u.query(ss.Query{Collection: "bookmarks", Sort: ss.ByIndex}),
			"greatest", "one", "zero", "minus", "least", "none")
	}
}

func ttls(t *testing.T, u *user) {
	for _, way := range ways() {
		for _, ttl := range []int64{1, 2, 60, 2_100_000, 31_536_001, ss.MaxTTL} {
			u := u.other()
			written := way.write(u, "tabs", expiring("a", "x", ttl))
			want := written.Modified + ss.Timestamp(ttl)*second
			equal(t, fmt.Sprintf("expiry of %s with a ttl of %d", way.name, ttl), u.get("tabs", "a").expiry, want)
		}
	}
}

func collectionNames(t *testing.T, u *user) {
	unique := newName()
	names := []string{
		"bookmarks", "Bookmarks", "BOOKMARKS", "bookmarks.", "bookmarks_", "bookmark", ".", "..", "-", "_", "0", "100", "Z",
		unique, strings.ToUpper(unique), strings.Repeat("x", ss.MaxCollectionName), "newtab-images",
	}
	for _, name := range names {
		u.put(name, bso("a", name))
	}
	for _, name := range names {
		equal(t, "payload", u.get(name, "a").payload, name)
	}
	var listed []string
	for _, c := range u.collections().Stamps {
		listed = append(listed, c.Name)
	}
	slices.Sort(names)
	slices.Sort(listed)
	if !slices.Equal(listed, names) {
		t.Errorf("collections %q, want %q", listed, names)
	}
}

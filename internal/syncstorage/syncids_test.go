package syncstorage_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"holdfast/internal/errcode"
	"holdfast/internal/syncstorage"
)

// numbered returns the IDs new0, new1, and so on.
func numbered() func() string {
	n := -1
	return func() string { n++; return fmt.Sprintf("new%d", n) }
}

func TestReplaceSyncIDs(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, payload, want string }{
		{"as Firefox writes it",
			`{"syncID":"AAAAAAAAAAAA","storageVersion":5,"engines":{"bookmarks":{"version":2,"syncID":"BBBBBBBBBBBB"},"tabs":{"syncID":"CCCCCCCCCCCC","version":1}},"declined":["syncID"]}`,
			`{"syncID":"AAAAAAAAAAAA","storageVersion":5,"engines":{"bookmarks":{"version":2,"syncID":"new0"},"tabs":{"syncID":"new1","version":1}},"declined":["syncID"]}`},
		{"white space stays", " {\n\t\"engines\" : { \"a\" :\r\n{ \"syncID\" :  \"x\" , \"version\" : 1.0e+00 } } } \n",
			" {\n\t\"engines\" : { \"a\" :\r\n{ \"syncID\" :  \"new0\" , \"version\" : 1.0e+00 } } } \n"},
		{"names and IDs with escapes", `{"\u0065ngines":{"\u0061":{"\u0073yncID":"\"\\\u0041:,{"}}}`, `{"\u0065ngines":{"\u0061":{"\u0073yncID":"new0"}}}`},
		{"members twice", `{"engines":{"a":{"syncID":"1","syncID":"2"},"a":{"syncID":"3"}},"engines":{"b":{"syncID":""}}}`,
			`{"engines":{"a":{"syncID":"new0","syncID":"new1"},"a":{"syncID":"new2"}},"engines":{"b":{"syncID":"new3"}}}`},
		{"other places", `{"x":{"engines":{"a":{"syncID":"1"}}},"engines":{"syncID":"2","a":{"b":{"syncID":"3"},"c":[{"syncID":"4"}]},"SyncID":{"syncid":"5"}},"Engines":{"a":{"syncID":"6"}}}`,
			`{"x":{"engines":{"a":{"syncID":"1"}}},"engines":{"syncID":"2","a":{"b":{"syncID":"3"},"c":[{"syncID":"4"}]},"SyncID":{"syncid":"5"}},"Engines":{"a":{"syncID":"6"}}}`},
		{"IDs that are no strings", `{"engines":{"a":{"syncID":null},"b":{"syncID":12},"c":{"syncID":["x"]},"d":{"syncID":{"syncID":"x"}},"e":{"syncID":"y"},"f":[],"g":null,"h":"syncID"}}`,
			`{"engines":{"a":{"syncID":null},"b":{"syncID":12},"c":{"syncID":["x"]},"d":{"syncID":{"syncID":"x"}},"e":{"syncID":"new0"},"f":[],"g":null,"h":"syncID"}}`},
		{"unusual values", "{\"engines\":{\"\":{\"syncID\":\"\xff\xfe\"}},\"n\":1e999,\"big\":" + strings.Repeat("9", 400) + ",\"s\":\"\\ud800\xff\"}",
			"{\"engines\":{\"\":{\"syncID\":\"new0\"}},\"n\":1e999,\"big\":" + strings.Repeat("9", 400) + ",\"s\":\"\\ud800\xff\"}"},
		{"no engines", `{"syncID":"x"}`, `{"syncID":"x"}`},
		{"no engine", `{"engines":{}}`, `{"engines":{}}`},
	} {
		edited, n, err := syncstorage.ReplaceSyncIDs([]byte(c.payload), numbered())
		if err != nil || string(edited) != c.want || n != strings.Count(c.want, `"new`) {
			t.Errorf("%s: %d replaced, %v:\n%s\nwant\n%s", c.name, n, err, edited, c.want)
		}
	}
}

func TestReplaceSyncIDsLeavesMalformedRecords(t *testing.T) {
	t.Parallel()
	for _, payload := range []string{
		"", "null", "1", `"{}"`, "[]", `[{"engines":{}}]`, "{", `{"engines":{"a":{"syncID":"x"}}`, `{"engines":{"a":{"syncID":"x"}}}}`, `{"engines":{"a":{"syncID":"x",}}}`,
		`{"engines":[]}`, `{"engines":"x"}`, `{"engines":null}`, `{"engines":{"a":{"syncID":"x"}},"engines":3}`, "\ufeff{}", "{}{}", strings.Repeat("[", 100_000),
	} {
		edited, n, err := syncstorage.ReplaceSyncIDs([]byte(payload), numbered())
		if edited != nil || n != 0 || !errcode.Is(err, errcode.Invalid) {
			t.Errorf("%.40q: %q, %d, %v, want an error", payload, edited, n, err)
		}
	}
}

func TestNewSyncID(t *testing.T) {
	t.Parallel()
	one, other := syncstorage.NewSyncID(), syncstorage.NewSyncID()
	if !regexp.MustCompile(`^[A-Za-z0-9_-]{12}$`).MatchString(one) || one == other {
		t.Errorf("the IDs are %q and %q", one, other)
	}
}

// pathed is a token of JSON with the names of the members that lead to it.
type pathed struct {
	path  string
	token json.Token
}

// tokens returns the tokens of a JSON text. A number's digits are kept.
func tokens(text []byte) (all []pathed) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	var read func(path []string)
	read = func(path []string) {
		token, err := d.Token()
		if err != nil {
			return
		}
		all = append(all, pathed{fmt.Sprintf("%q", path), token})
		switch token {
		case json.Delim('{'):
			for d.More() {
				name, err := d.Token()
				if err != nil {
					return
				}
				all = append(all, pathed{"name", name})
				read(append(slices.Clone(path), name.(string)))
			}
			_, _ = d.Token()
		case json.Delim('['):
			for d.More() {
				read(append(slices.Clone(path), "[]"))
			}
			_, _ = d.Token()
		}
	}
	read(nil)
	return all
}

var engineID = regexp.MustCompile(`^\["engines" "(\\.|[^"\\])*" "syncID"\]$`)

// FuzzReplaceSyncIDs compares the tokens before and after: only the string at engines.*.syncID may differ, and each
// such string is new. Bytes between tokens are compared by their number.
func FuzzReplaceSyncIDs(f *testing.F) {
	for _, seed := range []string{
		`{"syncID":"A","engines":{"a":{"syncID":"B","version":1}},"declined":[]}`, `{"engines":{"a":{"syncID":"\u0041","syncID":2}},"engines":{}}`,
		`{"\u0065ngines":{"[]":{"\u0073yncID":"}"}}}`, `{"engines":[{"syncID":"x"}]}`, `{"engines":{"a":{"b":{"syncID":"x"}}}}`, ` { "engines" : { } } `, `[`, `{"engines":{"a\"":{"syncID":""}}}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, payload []byte) {
		was := bytes.Clone(payload)
		edited, n, err := syncstorage.ReplaceSyncIDs(payload, numbered())
		if !bytes.Equal(payload, was) {
			t.Fatal("the payload itself is changed")
		}
		if err != nil {
			if edited != nil || n != 0 {
				t.Fatalf("%q, %d with %v", edited, n, err)
			}
			return
		}
		if !json.Valid(edited) {
			t.Fatalf("not JSON: %q", edited)
		}
		before, after := tokens(payload), tokens(edited)
		if len(before) != len(after) {
			t.Fatalf("%d tokens, then %d", len(before), len(after))
		}
		seen := 0
		for i := range before {
			_, isString := before[i].token.(string)
			want := before[i]
			if isString && engineID.MatchString(want.path) {
				want.token = fmt.Sprintf("new%d", seen)
				seen++
			}
			if after[i] != want {
				t.Errorf("token %v became %v, want %v", before[i], after[i], want)
			}
		}
		if seen != n {
			t.Errorf("%d replaced, want %d", n, seen)
		}
		// Back to the old IDs: the bytes are as they were, except that an ID's escapes are gone.
		back, _, err := syncstorage.ReplaceSyncIDs(edited, func() string { return "" })
		same, _, err2 := syncstorage.ReplaceSyncIDs(payload, func() string { return "" })
		if err != nil || err2 != nil || !bytes.Equal(back, same) {
			t.Errorf("%q and %q, %v, %v", back, same, err, err2)
		}
	})
}

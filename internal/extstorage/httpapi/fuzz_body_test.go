package httpapi

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"holdfast/internal/canonjson"
	ext "holdfast/internal/extstorage"
)

// FuzzFields checks that reading an object member by member gives the same result as parsing the whole value.
func FuzzFields(f *testing.F) {
	for _, text := range []string{
		`{}`, ` { } `, `{"a":1}`, `{"a":1,"b":[{"c":"}]"}]}`, `{"a":1,"a":1}`, `{"\u0061":1,"a":1}`, `{"c":1}`, `{"a":1,}`, `{,}`, `{"a" 1}`, `{"a":1 "b":2}`,
		`{"a":"\"}`, `{"a":"\\"}`, `{"a":"\`, `{"a":[}]}`, `{"a":{"b":1}`, `{"a":1}}`, `{"a":1} x`, "{\"a\":\"\xff\"}", `{"a":"\ud800"}`, `{"a":1e999}`, "{\n\"b\"\t: null\r, \"a\" : -0.0 }",
		`[`, `"`, ``, `{"`, `{"a`, `{"a"`, `{"a":`, `{"a":1`, `[{"a":1}]`, `{"":1}`, `{"a":` + strings.Repeat("[", 31) + strings.Repeat("]", 31) + `}`,
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		const limit = 1 << 16
		if len(text) > limit {
			return
		}
		fields := parseFields(text, "a", "b")
		a, b := fields.value("a", limit), fields.value("b", limit)
		whole, err := canonjson.Parse(text, limit)
		var members map[string]json.RawMessage
		if err == nil {
			if json.Unmarshal([]byte(whole), &members) != nil { // not an object
				members = nil
			}
		}
		known := members != nil
		for name := range members {
			known = known && (name == "a" || name == "b")
		}
		if fields.err != nil {
			if known {
				t.Fatalf("%q is refused: %v", text, fields.err)
			}
			return
		}
		if !json.Valid(text) {
			t.Fatalf("%q is taken", text)
		}
		if err != nil { // a level deeper than values may be
			return
		}
		if !known || string(members["a"]) != string(a) || string(members["b"]) != string(b) || len(fields.members) != len(members) {
			t.Fatalf("%q is %q and %q, and as a whole %s", text, a, b, whole)
		}
	})
}

func FuzzList(f *testing.F) {
	for _, text := range []string{`[]`, ` [ ] `, `[1]`, `[1,[2,"]"],{"a":3}]`, `[1,]`, `[,1]`, `[1 2]`, `[1`, `[`, `[1]]`, `[1}`, `["\`, `["\"]`, `null`, `{}`} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		const limit = 1 << 16
		if len(text) > limit {
			return
		}
		fields := &fields{members: []member{{"l", text}}}
		list := fields.list("l", len(text))
		for _, raw := range list {
			if _, err := canonjson.Parse(raw, limit); err != nil {
				fields.note(err)
			}
		}
		whole, err := canonjson.Parse(text, limit)
		isList := err == nil && whole[0] == '['
		if fields.err != nil {
			if isList {
				t.Fatalf("%q is refused: %v", text, fields.err)
			}
			return
		}
		var elements []json.RawMessage
		if !json.Valid(text) || isList && (json.Unmarshal([]byte(whole), &elements) != nil || len(elements) != len(list)) {
			t.Fatalf("%q is taken as %q", text, list)
		}
	})
}

func FuzzAppendString(f *testing.F) {
	for _, s := range []string{"", "a", `"\`, "\x00\x1f\n", "é🐘", "\xff", "a\xc3", "\u2028", "\x7f"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		b := appendString(nil, s)
		var again string
		if err := json.Unmarshal(b, &again); err != nil || again != strings.ToValidUTF8(s, "\ufffd") && strings.ToValidUTF8(s, "") == s {
			t.Fatalf("%q is written as %s and read as %q, %v", s, b, again, err)
		}
	})
}

// TestListEnds checks that a body of 2 MB does not become a list of 50 MB.
func TestListEnds(t *testing.T) {
	t.Parallel()
	f := &fields{members: []member{{"l", []byte("[" + strings.Repeat("1,", 1<<20) + "1]")}}}
	list := f.list("l", 20)
	if large, ok := errors.AsType[*ext.LimitError](f.err); !ok || large.Size != 1<<20+1 || large.Limit != 20 || large.Pointer != "/l" || len(list) != 20 || cap(list) > 64 {
		t.Errorf("%d elements, room for %d, %v", len(list), cap(list), f.err)
	}
}

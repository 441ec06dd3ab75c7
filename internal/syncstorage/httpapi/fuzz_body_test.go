package httpapi

import (
	"bytes"
	"encoding/json"
	"errors"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	ss "holdfast/internal/syncstorage"
)

// FuzzBody compares the decoder with encoding/json, and decodes accepted records again after encoding them.
func FuzzBody(f *testing.F) {
	for _, body := range []string{
		"", "[]", "{}", "[", "[[", "null", `[{"id":"a"}]`, `[{"id":"a","payload":"x","sortindex":-1,"ttl":5}]`, `[{"id":"a","payload":"\ud83d\ude00\n\"\\\/\u0000"}]`,
		`[{"id":"a","payload":"\ud800"}]`, `[{"id":"a","payload":"\udc00\ud800"}]`, `[{"id":"a","payload":"\\ud800"}]`, `[{"id":"a","id":"b"}]`, `[{"id":"a"},{"id":"a"}]`,
		`[{"id":"a","sortindex":1e9}]`, `[{"id":"a","sortindex":1.0}]`, `[{"id":"a","sortindex":-0}]`, `[{"id":"a","sortindex":100000000000000000000.0}]`, `[{"id":"a","ttl":100000000000000000000e1}]`, `[{"id":"a","ttl":01}]`, `[{"id":"a","ttl":1000000000000000000000000000000}]`,
		`[{"id":"a","x":[{"y":[null,true,false,"z",1.5e-3]}]}]`, `[{"id":"a","modified":1,"collection":"b"}]`, "[{\"id\":\"a\",\"payload\":\"\xff\"}]", `[{"id":"a",}]`, `[{"id":"a"},]`,
		`[{"\u0069d":"a"}]`, ` [ { "id" : "a" } ] `, `[{"id":"a"}]-`, `[{"id":"a"}]x`, "{\"id\":\"a\"}\n{\"id\":\"b\"}\n", "{\"id\":\"a\"}\r\n\r\n", "[{\"id\":\"a\",\"payload\":\"a\tb\"}]",
		`[{"id":null,"payload":null}]`, `[{"id":""}]`, "\ufeff[]", `[{"id":"é"}]`, `{}{"":`, `{}[`, `{}"`, `[]{"":`, `[]-`, `[]t`, `[{"id":"a","modified":` + strings.Repeat("[", 200) + strings.Repeat("]", 200) + `}]`,
	} {
		f.Add([]byte(body))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		items, err := decoderOf(slices.Clone(body)).list()
		checkItems(t, items, err)
		if want, sure := reference(body); sure {
			if (err == nil) != (want != nil) || len(items) != len(want) {
				t.Fatalf("%q: %d items, %v; the standard library has %d", body, len(items), err, len(want))
			}
			for i, it := range items {
				checkAgainst(t, it, want[i])
			}
		}
		lines, err := decoderOf(slices.Clone(body)).lines()
		checkItems(t, lines, err)
		if err == nil {
			for line := range bytes.SplitSeq(bytes.TrimSuffix(body, []byte("\n")), []byte("\n")) {
				if len(body) > 0 && !json.Valid(line) {
					t.Fatalf("the line %q was taken", line)
				}
			}
		}
		it, err := decoderOf(slices.Clone(body)).record("path")
		if err == nil && (it.ID != "path" || !json.Valid(body)) {
			t.Fatalf("%q was taken as %+v", body, it)
		}
	})
}

// reference decodes a list of objects with unique IDs, or returns nil. sure is false if the decoders may differ: on
// duplicate keys or deep nesting.
func reference(body []byte) (list []map[string]json.RawMessage, sure bool) {
	list = []map[string]json.RawMessage{}
	if !json.Valid(body) || !utf8.Valid(body) || !isRoundTripSafe(body) {
		return nil, true
	}
	if bytes.Count(body, []byte("[")) > 1000 || bytes.Count(body, []byte("{")) > 1000 {
		return nil, false
	}
	if json.Unmarshal(body, &list) != nil || list == nil {
		return nil, true
	}
	seen := map[string]bool{}
	for _, object := range list {
		if object == nil {
			return nil, true
		}
		var id *string
		if raw, ok := object["id"]; !ok || json.Unmarshal(raw, &id) != nil || id == nil || seen[*id] {
			return nil, !repeats(body)
		}
		seen[*id] = true
	}
	return list, !repeats(body)
}

// repeats reports duplicate keys on the second level.
func repeats(body []byte) bool {
	d := json.NewDecoder(bytes.NewReader(body))
	depth, key := 0, false
	var seen map[string]bool
	for {
		tok, err := d.Token()
		if err != nil {
			return false
		}
		switch tok := tok.(type) {
		case json.Delim:
			switch tok {
			case '{', '[':
				depth++
				if depth == 2 {
					seen, key = map[string]bool{}, true
					continue
				}
			default:
				depth--
			}
			if depth == 2 {
				key = true
			}
		default:
			if depth != 2 {
				continue
			}
			if name, ok := tok.(string); ok && key {
				if seen[name] {
					return true
				}
				seen[name] = true
				key = false
				continue
			}
			key = true
		}
	}
}

func checkAgainst(t *testing.T, it ss.Item, want map[string]json.RawMessage) {
	t.Helper()
	sound := true
	for key, raw := range want {
		sound = sound && soundField(key, string(raw))
	}
	if sound != (it.Reason == "") {
		t.Fatalf("%q: the reason is %q", want, it.Reason)
	}
	if !sound {
		return
	}
	if got, s := it.Payload, decoded[string](want["payload"]); got.Set != s.Set || string(got.Value) != s.Value {
		t.Fatalf("the payload of %s is %q", want["payload"], got.Value)
	}
	for key, got := range map[string]ss.Optional[int64]{"sortindex": it.SortIndex, "ttl": it.TTL} {
		n := decoded[json.Number](want[key])
		v, err := n.Value.Int64()
		if got.Set != n.Set || err == nil && got.Value != v || errors.Is(err, strconv.ErrRange) && got.Value > -ss.MaxTTL && got.Value < ss.MaxTTL {
			t.Fatalf("%s of %s is %+v", key, want[key], got)
		}
	}
}

var wholeNumber = regexp.MustCompile(`^(null|-?[0-9]+)$`)

func soundField(key, raw string) bool {
	switch key {
	case "id", "modified", "collection":
		return true
	case "payload":
		return raw == "null" || raw[0] == '"'
	case "sortindex":
		return wholeNumber.MatchString(raw)
	case "ttl":
		return wholeNumber.MatchString(raw) && (raw[0] != '-' || raw == "-0")
	}
	return false
}

// decoded treats null as unset.
func decoded[T any](raw json.RawMessage) (v ss.Optional[T]) {
	var p *T
	if json.Unmarshal(raw, &p) == nil && p != nil {
		v = ss.Some(*p)
	}
	return v
}

func checkItems(t *testing.T, items []ss.Item, err error) {
	t.Helper()
	if err != nil {
		if !errors.Is(err, ss.ErrBody) || len(items) > 0 {
			t.Fatalf("%d items and %v", len(items), err)
		}
		return
	}
	seen := map[string]bool{}
	for _, it := range items {
		if seen[it.ID] {
			t.Fatalf("the id %q repeats", it.ID)
		}
		seen[it.ID] = true
		if it.Reason != "" {
			continue
		}
		stored := ss.BSO{ID: it.ID, SortIndex: it.SortIndex, Payload: it.Payload.Value, Modified: 123450}
		text := appendBSO(nil, &stored)
		if !json.Valid(text) || bytes.ContainsAny(text, "\n\r") {
			t.Fatalf("%+v is encoded as %q", it, text)
		}
		again, err := decoderOf(append(append([]byte{'['}, text...), ']')).list()
		if err != nil || len(again) != 1 || again[0].ID != it.ID || again[0].SortIndex != it.SortIndex || string(again[0].Payload.Value) != string(it.Payload.Value) {
			t.Fatalf("%+v comes back as %+v, %v", it, again, err)
		}
	}
}

func decoderOf(body []byte) *decoder {
	return &decoder{body: body, most: math.MaxInt64, charge: func(int64) error { return nil }}
}

//test:unraced its goroutines share nothing

package canonjson_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"holdfast/internal/canonjson"
)

func document(t testing.TB) string {
	t.Helper()
	items := make([]any, 6)
	for i := range items {
		items[i] = map[string]any{
			"id": fmt.Sprintf("item-%04d", i), "title": "Wartung der Wärmepumpe", "amount": 129.5 + float64(i), "done": i%2 == 0,
			"tags": []string{"service", "ops"}, "assignee": nil, "seconds": 3600 * i,
		}
	}
	text, err := json.Marshal(map[string]any{
		"items": items, "updatedBy": "0f8b2c1e-7d3a-4f7e-9a51-3c1d2e4f5a6b", "version": 12, "locale": "de-DE",
		"note": "first line\nsecond line, with \"quotes\"",
	})
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func BenchmarkParse(b *testing.B) {
	sorted, err := canonjson.Parse([]byte(document(b)), maxBytes)
	if err != nil {
		b.Fatal(err)
	}
	var indented strings.Builder
	e := json.NewEncoder(&indented)
	e.SetIndent("", "  ")
	if err := e.Encode(decode(b, document(b))); err != nil {
		b.Fatal(err)
	}
	for _, bm := range []struct{ name, text string }{
		{"1KB", document(b)}, // members in alphabetical order, like most encoders
		{"1KB/canonical", string(sorted)},
		{"1KB/indented", indented.String()},
		{"64KB", "[" + strings.Repeat(document(b)+",", 50) + "1]"},
		{"64KB/text", `"` + strings.Repeat("a line of text that has nothing in it\\n", 1500) + `"`},
		{"64KB/numbers", "[" + strings.Repeat("12345.678,", 6000) + "1]"},
		{"worst/names", manyNames()},
		{"worst/exponents", "[" + strings.Repeat("1e20,", 2900) + "1]"},
	} {
		text := []byte(bm.text)
		b.Run(bm.name, func(b *testing.B) {
			b.SetBytes(int64(len(text)))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := canonjson.Parse(text, maxBytes); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func manyNames() string {
	var b strings.Builder
	for i := range 5500 {
		fmt.Fprintf(&b, `,"%x":1`, (i*7919)%9973)
	}
	return "{" + b.String()[1:] + "}"
}

func BenchmarkMerge(b *testing.B) {
	v, err := canonjson.Parse([]byte(document(b)), maxBytes)
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(len(v)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := v.Merge(`{"note":null,"version":13}`, maxBytes); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkIncrement(b *testing.B) {
	v, err := canonjson.Parse([]byte(document(b)), maxBytes)
	if err != nil {
		b.Fatal(err)
	}
	in := canonjson.Increment{Pointer: canonjson.Pointer{"items", "5", "amount"}, By: "0.5", Max: "1000"}
	b.SetBytes(int64(len(v)))
	b.ReportAllocs()
	for b.Loop() {
		if _, _, err := in.Apply(v, maxBytes); err != nil {
			b.Fatal(err)
		}
	}
}

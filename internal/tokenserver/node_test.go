package tokenserver

import (
	"errors"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"holdfast/internal/errcode"
)

func TestAllocateFillsUp(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		nodes := make([]Node, rapid.IntRange(0, 5).Draw(t, "nodes"))
		free := int64(0)
		for i := range nodes {
			nodes[i] = Node{
				ID: int64(i + 1), Available: rapid.Int64Range(-1, 5).Draw(t, "available"), Load: rapid.Int64Range(0, 5).Draw(t, "load"),
				Capacity: rapid.Int64Range(0, 20).Draw(t, "capacity"), Downed: rapid.Bool().Draw(t, "downed"),
			}
			if !nodes[i].Downed {
				free += max(nodes[i].Capacity-nodes[i].Load, 0)
			}
		}
		rate := rapid.Float64Range(0.001, 1).Draw(t, "rate")
		for given := int64(0); ; given++ {
			taken, changed, err := Allocate(nodes, rate, 0)
			if errors.Is(err, ErrNoNode) {
				if given != free {
					t.Fatalf("%d places given, %d were free: %+v", given, free, nodes)
				}
				return
			}
			if taken.Downed || taken.Load > taken.Capacity || taken.Available < 0 {
				t.Fatalf("took %+v", taken)
			}
			for _, n := range changed {
				nodes[n.ID-1] = n
			}
		}
	})
}

func TestCheckNodeURL(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"https://sync.example.org":           "https://sync.example.org",
		"https://sync.example.org/":          "https://sync.example.org",
		"http://127.0.0.1:8000/storage//":    "http://127.0.0.1:8000/storage",
		"http://[::1]:8000":                  "http://[::1]:8000",
		Self:                                 Self,
		"":                                   "",
		"sync.example.org":                   "",
		"ftp://sync.example.org":             "",
		"https://":                           "",
		"https://:8000":                      "",
		"https://sync.example.org:0":         "",
		"https://sync.example.org:65536":     "",
		"https://sync.example.org:65535":     "https://sync.example.org:65535",
		"https://a.example/1.0/sync/1.5":     "",
		"https://a.example/1.5":              "",
		"https://a.example/sync":             "https://a.example/sync",
		"https://a b":                        "",
		"https://user@sync.example.org":      "",
		"https://sync.example.org?x":         "",
		"https://sync.example.org/#x":        "",
		"https://sync.example.org?":          "",
		"https://" + strings.Repeat("a", 57): "",
		"https://" + strings.Repeat("a", 56): "https://" + strings.Repeat("a", 56),
	} {
		got, err := CheckNodeURL(in)
		if got != want || (err == nil) != (want != "") || err != nil && !errcode.Is(err, errcode.Invalid) {
			t.Errorf("%q: %q, %v; want %q", in, got, err, want)
		}
	}
}

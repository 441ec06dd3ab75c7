package tokenserver

import (
	"errors"
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"holdfast/internal/fault"
)

func TestAllocate(t *testing.T) {
	t.Parallel()
	node := func(id, available, load, capacity int64) Node {
		return Node{ID: id, Available: available, Load: load, Capacity: capacity}
	}
	down := func(n Node) Node { n.Downed = true; return n }
	back := func(n Node) Node { n.Backoff = true; return n }
	for _, c := range []struct {
		name    string
		nodes   []Node
		fixed   int64
		changed []Node // the taken one last; nil: ErrNoNode
	}{
		{"one", []Node{node(1, 10, 0, 100)}, 0, []Node{node(1, 9, 1, 100)}},
		{"an empty one first", []Node{node(1, 10, 1, 100), node(2, 10, 0, 2)}, 0, []Node{node(2, 9, 1, 2)}},
		{"the least logarithmic load", []Node{node(1, 10, 10, 100), node(2, 10, 20, 10000)}, 0, []Node{node(2, 9, 21, 10000)}},
		{"the first of equals", []Node{node(1, 10, 5, 100), node(2, 10, 5, 100)}, 0, []Node{node(1, 9, 6, 100)}},
		{"not a full one", []Node{node(1, 10, 1, 1), node(2, 1, 99, 100)}, 0, []Node{node(2, 0, 100, 100)}},
		{"not one that is down or in backoff", []Node{down(node(1, 9, 0, 9)), back(node(2, 9, 0, 9)), node(3, 9, 8, 9)}, 0, []Node{node(3, 8, 9, 9)}},
		{"capacity is released", []Node{node(1, 0, 20, 100)}, 0, []Node{node(1, 9, 21, 100)}},
		{"no more than there is", []Node{node(1, 0, 80, 81)}, 0, []Node{node(1, 0, 81, 81)}},
		{"at least one", []Node{node(1, 0, 1, 5)}, 0, []Node{node(1, 0, 2, 5)}},
		{"on all nodes that have none", []Node{node(1, 0, 20, 100), back(node(2, -3, 20, 100)), down(node(3, 0, 20, 100)), node(4, 0, 50, 100)}, 0,
			[]Node{back(node(2, 10, 20, 100)), node(4, 10, 50, 100), node(1, 9, 21, 100)}},
		{"not while one has places", []Node{node(1, 0, 20, 100), node(2, 1, 99, 100)}, 0, []Node{node(2, 0, 100, 100)}},
		{"a load below 0", []Node{node(1, 5, -2, 100)}, 0, []Node{node(1, 4, -1, 100)}},
		{"the fixed one, full and down", []Node{node(1, 5, 0, 10), down(node(2, 0, 10, 10))}, 2, []Node{down(node(2, 0, 11, 10))}},
		{"no nodes", nil, 0, nil},
		{"all full", []Node{node(1, 0, 100, 100)}, 0, nil},
		{"all down", []Node{down(node(1, 10, 0, 100))}, 0, nil},
		{"all in backoff", []Node{back(node(1, 0, 0, 100))}, 0, nil},
		{"the fixed one is not there", []Node{node(1, 5, 0, 10)}, 2, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			before := append([]Node(nil), c.nodes...)
			taken, changed, err := Allocate(c.nodes, 0.1, c.fixed)
			if c.changed == nil {
				if !errors.Is(err, ErrNoNode) || changed != nil {
					t.Errorf("got %+v, %v; want ErrNoNode", changed, err)
				}
				return
			}
			if err != nil || !reflect.DeepEqual(changed, c.changed) || taken != c.changed[len(c.changed)-1] {
				t.Errorf("got  %+v, %+v, %v\nwant %+v", taken, changed, err, c.changed)
			}
			if !reflect.DeepEqual(c.nodes, before) {
				t.Errorf("the argument was changed to %+v", c.nodes)
			}
		})
	}
}

// Whatever the nodes, places are given out until capacity is used up, never
// beyond it, and never on a node that is down.
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
		"https://a b":                        "",
		"https://user@sync.example.org":      "",
		"https://sync.example.org?x":         "",
		"https://sync.example.org/#x":        "",
		"https://sync.example.org?":          "",
		"https://" + strings.Repeat("a", 57): "",
		"https://" + strings.Repeat("a", 56): "https://" + strings.Repeat("a", 56),
	} {
		got, err := CheckNodeURL(in)
		if got != want || (err == nil) != (want != "") || err != nil && !fault.Is(err, fault.Invalid) {
			t.Errorf("%q: %q, %v; want %q", in, got, err, want)
		}
	}
}

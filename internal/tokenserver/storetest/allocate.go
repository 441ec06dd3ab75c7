package storetest

import (
	"errors"
	"fmt"
	"reflect"
	"testing"

	ts "holdfast/internal/tokenserver"
)

// AllocateCase is a row in the table that defines tokenserver.Allocate at AllocateRate.
type AllocateCase struct {
	Name    string
	Nodes   []ts.Node
	Fixed   int64
	Changed []ts.Node // the chosen node is last; nil if ErrNoNode is expected
}

const AllocateRate = 0.1

func AllocateCases() []AllocateCase {
	nodes := func(n ...ts.Node) []ts.Node { return n }
	node := func(id, available, load, capacity int64) ts.Node {
		return ts.Node{ID: id, URL: fmt.Sprintf("https://%d.example", id), Available: available, Load: load, Capacity: capacity}
	}
	down := func(n ts.Node) ts.Node { n.Downed = true; return n }
	back := func(n ts.Node) ts.Node { n.Backoff = true; return n }
	return []AllocateCase{
		{"one", nodes(node(1, 10, 0, 100)), 0, nodes(node(1, 9, 1, 100))},
		{"an empty one first", nodes(node(1, 10, 1, 100), node(2, 10, 0, 2)), 0, nodes(node(2, 9, 1, 2))},
		{"the least logarithmic load", nodes(node(1, 10, 10, 100), node(2, 10, 20, 10000)), 0, nodes(node(2, 9, 21, 10000))},
		{"of equals the lower id", nodes(node(1, 10, 5, 100), node(2, 10, 5, 100)), 0, nodes(node(1, 9, 6, 100))},
		{"of equals the one with more places", nodes(node(1, 10, 5, 100), node(2, 11, 5, 100), node(3, 11, 5, 100)), 0, nodes(node(2, 10, 6, 100))},
		{"of empty ones the one with more places", nodes(node(1, 10, 0, 10), node(2, 100, 0, 100)), 0, nodes(node(2, 99, 1, 100))},
		{"of equals of two sizes the one with more places", nodes(node(1, 10, 10, 100), node(2, 100, 100, 10000)), 0, nodes(node(2, 99, 101, 10000))},
		{"more places do not outweigh a greater load", nodes(node(1, 90, 6, 100), node(2, 1, 5, 100)), 0, nodes(node(2, 0, 6, 100))},
		{"of released ones the one with more places", nodes(node(1, 0, 1, 100), node(2, 0, 1, 1000)), 0, nodes(node(1, 10, 1, 100), node(2, 99, 2, 1000))},
		{"not a full one", nodes(node(1, 10, 1, 1), node(2, 1, 99, 100)), 0, nodes(node(2, 0, 100, 100))},
		{"not one that is down or in backoff", nodes(down(node(1, 9, 0, 9)), back(node(2, 9, 0, 9)), node(3, 9, 8, 9)), 0, nodes(node(3, 8, 9, 9))},
		{"capacity is released", nodes(node(1, 0, 20, 100)), 0, nodes(node(1, 9, 21, 100))},
		{"no more than there is", nodes(node(1, 0, 80, 81)), 0, nodes(node(1, 0, 81, 81))},
		{"at least one", nodes(node(1, 0, 1, 5)), 0, nodes(node(1, 0, 2, 5))},
		{"on all nodes that have none", nodes(node(1, 0, 20, 100), back(node(2, -3, 20, 100)), down(node(3, 0, 20, 100)), node(4, 0, 50, 100)), 0,
			nodes(back(node(2, 10, 20, 100)), node(4, 10, 50, 100), node(1, 9, 21, 100))},
		{"not while one has places", nodes(node(1, 0, 20, 100), node(2, 1, 99, 100)), 0, nodes(node(2, 0, 100, 100))},
		{"a load below 0", nodes(node(1, 5, -2, 100)), 0, nodes(node(1, 4, -1, 100))},
		{"the fixed one, full and down", nodes(node(1, 5, 0, 10), down(node(2, 0, 10, 10))), 2, nodes(down(node(2, 0, 11, 10)))},
		{"no nodes", nil, 0, nil},
		{"all full", nodes(node(1, 0, 100, 100)), 0, nil},
		{"all down", nodes(down(node(1, 10, 0, 100))), 0, nil},
		{"all in backoff", nodes(back(node(1, 0, 0, 100))), 0, nil},
		{"the fixed one is not there", nodes(node(1, 5, 0, 10)), 2, nil},
	}
}

func testAllocate(t *testing.T, e env) {
	flag := map[bool]int{true: 1}
	for _, c := range AllocateCases() {
		e.exec(t, `DELETE FROM nodes`)
		for _, n := range c.Nodes {
			e.exec(t, `INSERT INTO nodes (id, service, node, available, current_load, capacity, downed, backoff)
				VALUES (%d, 1, '%s', %d, %d, %d, %d, %d)`, n.ID, n.URL, n.Available, n.Load, n.Capacity, flag[n.Downed], flag[n.Backoff])
		}
		in := signIn(7, "aa", 5)
		in.ReleaseRate, in.SpannerNode = AllocateRate, c.Fixed
		u, err := e.Store.SignIn(t.Context(), account(), in)
		want := append([]ts.Node(nil), c.Nodes...)
		if c.Changed == nil {
			if !errors.Is(err, ts.ErrNoNode) {
				t.Errorf("%s: %v", c.Name, err)
			}
		} else {
			for _, n := range c.Changed {
				want[n.ID-1] = n
			}
			if taken := c.Changed[len(c.Changed)-1]; err != nil || u.NodeID != taken.ID || u.Node != taken.URL {
				t.Errorf("%s: signed in on node %d, %q, %v; want %d", c.Name, u.NodeID, u.Node, err, taken.ID)
			}
		}
		if got, err := e.Store.ListNodes(t.Context()); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: the nodes are\n%+v, %v, want\n%+v", c.Name, got, err, want)
		}
	}
}

package tokenserver

import (
	"cmp"
	"math"
	"net/url"
	"slices"
	"strings"

	"holdfast/internal/fault"
)

// Self is the node of a server that was started without a public URL: whoever
// is sent there goes back to the address under which they reached us. So a
// server that nobody configured serves a laptop at 127.0.0.1 and a phone by
// the name of the house, and one that gets a public URL later needs no change
// of its tables.
const Self = "self"

// maxNodeURL is what the column nodes.node holds, in characters.
const maxNodeURL = 64

// Node is a row of the table nodes: a storage server and how many accounts it
// takes.
type Node struct {
	ID        int64
	URL       string // without a slash at its end, or Self
	Available int64  // accounts it takes before capacity is released again
	Load      int64  // accounts it was given
	Capacity  int64  // accounts it is made for
	Downed    bool   // out of service: takes no account and is not cleaned up
	Backoff   bool   // takes no account for now
}

// ErrNoNode is the answer to a new account when every node is full or down.
var ErrNoNode error = fault.New(fault.Unavailable, "no storage node has free capacity")

// CheckNodeURL brings a node's URL into the form of the table, or says with
// fault.Invalid what is wrong with it.
func CheckNodeURL(s string) (string, error) {
	if s == Self {
		return s, nil
	}
	s = strings.TrimRight(s, "/")
	u, err := url.Parse(s)
	switch {
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || !printable(s):
		return "", fault.Newf(fault.Invalid, "invalid node %q: expected an http or https URL such as https://sync.example.org, or %s", s, Self)
	case u.User != nil || u.RawQuery != "" || u.Fragment != "" || strings.ContainsAny(s, "?#"):
		return "", fault.New(fault.Invalid, "a node URL must not have a user, query or fragment")
	case len(s) > maxNodeURL:
		return "", fault.Newf(fault.Invalid, "a node URL must have at most %d characters", maxNodeURL)
	}
	return s, nil
}

// Allocate takes a place for one account: on the node whose id is fixed, or
// when that is 0, on the one with the least logarithmic load; of equals on the
// one with more places available, then on the lower id. When every node has
// used up what is available, each gets rate × capacity more places first.
// It returns the node as it is afterwards and all nodes that changed, which is
// what a backend writes back. ErrNoNode.
func Allocate(nodes []Node, rate float64, fixed int64) (taken Node, changed []Node, err error) {
	nodes = slices.Clone(nodes)
	if fixed != 0 {
		for _, n := range nodes {
			if n.ID == fixed {
				n.Load++
				return n, []Node{n}, nil
			}
		}
		return Node{}, nil, ErrNoNode
	}
	best := leastLoaded(nodes)
	if best == nil {
		changed = release(nodes, rate)
		if best = leastLoaded(nodes); best == nil {
			return Node{}, nil, ErrNoNode
		}
		changed = slices.DeleteFunc(changed, func(n Node) bool { return n.ID == best.ID })
	}
	best.Load++
	best.Available = max(best.Available-1, 0)
	return *best, append(changed, *best), nil
}

// leastLoaded is the node that the next account goes to, nil when there is
// none.
func leastLoaded(nodes []Node) (best *Node) {
	for i := range nodes {
		n := &nodes[i]
		if n.Available <= 0 || n.Capacity <= n.Load || n.Downed || n.Backoff {
			continue
		}
		if best == nil || n.before(best) {
			best = n
		}
	}
	return best
}

// before orders nodes by who takes the next account: the less filled one, of
// equals the one with more places available, then the lower id.
func (n *Node) before(o *Node) bool {
	return cmp.Or(cmp.Compare(n.fill(), o.fill()), cmp.Compare(o.Available, n.Available), cmp.Compare(n.ID, o.ID)) < 0
}

// fill orders nodes: empty ones first, then by ln(load) / ln(capacity), which
// fills small and large nodes alike.
func (n *Node) fill() float64 {
	if n.Load <= 0 {
		return -1
	}
	return math.Log(float64(n.Load)) / math.Log(float64(n.Capacity))
}

// release makes places available on every node that has none left but has
// capacity, and returns these nodes. Nodes in backoff are among them: they
// come back with places.
func release(nodes []Node, rate float64) (changed []Node) {
	for i := range nodes {
		n := &nodes[i]
		if n.Available > 0 || n.Capacity <= n.Load || n.Downed {
			continue
		}
		// At least one: a tenth of a node for five accounts is none.
		places := max(int64(float64(n.Capacity)*rate), 1)
		n.Available = min(places, n.Capacity-n.Load)
		changed = append(changed, *n)
	}
	return changed
}

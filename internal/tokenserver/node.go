package tokenserver

import (
	"cmp"
	"math"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"holdfast/internal/errcode"
)

// Self is the node of a server without a public URL. Clients use the address at which they signed in, so several
// addresses are possible, and a public URL can be set later.
const Self = "self"

const maxNodeURL = 64 // characters in the column nodes.node

// Node is a row in nodes: a storage server and its capacity.
type Node struct {
	ID        int64
	URL       string
	Available int64 // accounts to assign before the next release
	Load      int64 // assigned accounts
	Capacity  int64 // accounts
	Downed    bool  // not used for new accounts and cleanup
	Backoff   bool  // temporarily not used for new accounts
}

// ErrNoNode means that every node is full, down or in backoff.
var ErrNoNode error = errcode.New(errcode.Unavailable, "no storage node has free capacity")

// CheckNodeURL returns the URL as stored, or errcode.Invalid.
func CheckNodeURL(s string) (string, error) {
	if s == Self {
		return s, nil
	}
	s = strings.TrimRight(s, "/")
	u, err := url.Parse(s)
	switch {
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || !printable(s):
		return "", errcode.Newf(errcode.Invalid, "invalid node %q: expected an http or https URL, e.g. https://sync.example.org, or %s", s, Self)
	case u.Hostname() == "" || u.Port() != "" && !isPort(u.Port()):
		return "", errcode.Newf(errcode.Invalid, "invalid node %q: expected a host name and a port from 1 to 65535", s)
	case strings.HasSuffix(u.Path, "/1.0/sync/1.5") || strings.HasSuffix(u.Path, "/1.5"):
		return "", errcode.Newf(errcode.Invalid, "invalid node %q: expected the node's server.public_url, without a protocol path", s)
	case u.User != nil || u.RawQuery != "" || u.Fragment != "" || strings.ContainsAny(s, "?#"):
		return "", errcode.New(errcode.Invalid, "a node URL must not have a user, query or fragment")
	case len(s) > maxNodeURL:
		return "", errcode.Newf(errcode.Invalid, "a node URL must have at most %d characters", maxNodeURL)
	}
	return s, nil
}

// isPort reports whether s is 1 to 65535.
func isPort(s string) bool {
	n, err := strconv.ParseUint(s, 10, 16)
	return err == nil && n > 0
}

// Allocate assigns an account to the node with ID fixed. If fixed is 0, it chooses the node with the lowest
// logarithmic load, then the most available accounts, then the lowest ID. If no node has accounts available, each
// node first gets rate × capacity more. Allocate returns the node after the assignment, and all changed nodes to be
// written, including this node, or ErrNoNode. It does not change nodes, whose order does not matter.
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

// leastLoaded returns the best node with space, or nil.
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

// before reports whether n is better than o.
func (n *Node) before(o *Node) bool {
	return cmp.Or(cmp.Compare(n.fill(), o.fill()), cmp.Compare(o.Available, n.Available), cmp.Compare(n.ID, o.ID)) < 0
}

// fill returns 0 for empty nodes, and otherwise ln(load) / ln(capacity), which fills small and large nodes equally.
func (n *Node) fill() float64 {
	if n.Load <= 0 {
		return -1
	}
	return math.Log(float64(n.Load)) / math.Log(float64(n.Capacity))
}

// release makes a share of each full node's capacity available.
func release(nodes []Node, rate float64) (changed []Node) {
	for i := range nodes {
		n := &nodes[i]
		if n.Available > 0 || n.Capacity <= n.Load || n.Downed {
			continue
		}
		// Release at least one account, even if the capacity is small.
		places := max(int64(float64(n.Capacity)*rate), 1)
		n.Available = min(places, n.Capacity-n.Load)
		changed = append(changed, *n)
	}
	return changed
}

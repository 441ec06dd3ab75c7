package blobs

import (
	"context"
	"errors"
	"slices"

	"holdfast/internal/buckets"
	"holdfast/internal/errcode"
)

// Free space that is never used, because some file systems become slow or fail when full.
const (
	keepFreePart = 100 // 1/100 of the total
	keepFreeMost = 1 << 30
)

// placement chooses nodes for the copies of a body. It chooses each node at most once.
type placement struct {
	c       *Cluster
	size    int64
	copies  int
	used    map[*member]bool // were chosen before, or excluded
	have    map[*member]bool // hold a copy already
	spread  map[string]int   // copies per datacenter
	failure error            // of the last node that failed
	stalled bool             // a node stalled during this write
}

// place begins to choose nodes for a body. An unknown size (-1) counts as 0 bytes.
func (c *Cluster) place(size int64, copies int) *placement {
	return &placement{c: c, size: max(size, 0), copies: copies, used: map[*member]bool{}, have: map[*member]bool{}, spread: map[string]int{}}
}

// exclude skips nodes that hold a copy, and counts them when copies are spread.
func (p *placement) exclude(have []*member) {
	for _, m := range have {
		p.used[m], p.have[m] = true, true
		p.spread[m.datacenter]++
	}
}

// next returns n more nodes. If too few are available, it first asks full, read-only and unresponsive nodes again.
// After a stall it first asks all other nodes, because the client would otherwise wait for each node that stalls for
// the same reason.
func (p *placement) next(ctx context.Context, n int) ([]*member, error) {
	candidate := func(m *member) bool { return m.state == buckets.NodeActive && !p.used[m] }
	if p.stalled {
		p.stalled = false
		p.c.ask(ctx, candidate)
	}
	nodes, err := p.try(n)
	if err == nil {
		return nodes, nil
	}
	p.c.ask(ctx, func(m *member) bool { return candidate(m) && (m.stalled || !p.fits(m)) })
	return p.try(n)
}

// try prefers nodes without recent failures, then the datacenter with the fewest copies, and then chooses at random,
// weighted by free space.
func (p *placement) try(n int) ([]*member, error) {
	p.c.mu.Lock()
	defer p.c.mu.Unlock()
	var chosen []*member
	for range n {
		m := p.choose()
		if m == nil {
			for _, m := range chosen {
				delete(p.used, m)
				p.spread[m.datacenter]--
			}
			return nil, p.lack()
		}
		p.used[m] = true
		p.spread[m.datacenter]++
		chosen = append(chosen, m)
	}
	return chosen, nil
}

// failed takes a node's copy back from the count for its datacenter.
func (p *placement) failed(m *member, err error) {
	p.spread[m.datacenter]--
	p.failure, p.stalled = err, p.stalled || errors.Is(err, errStalled)
}

// choose returns a node, or nil. The caller holds c.mu.
func (p *placement) choose() *member {
	var best []*member
	for _, m := range p.c.members {
		if m.state != buckets.NodeActive || p.used[m] || m.stalled || !p.fits(m) {
			continue
		}
		if len(best) > 0 {
			switch order := p.order(m, best[0]); {
			case order > 0:
				continue
			case order < 0:
				best = best[:0]
			}
		}
		best = append(best, m)
	}
	if len(best) == 0 {
		return nil
	}
	return p.weighted(p.sameDatacenter(best))
}

// order is negative if a is better than b: not avoided, then fewer copies in its datacenter.
func (p *placement) order(a, b *member) int {
	x, y := p.c.isAvoided(a), p.c.isAvoided(b)
	switch {
	case x != y && y:
		return -1
	case x != y:
		return 1
	}
	return p.spread[a.datacenter] - p.spread[b.datacenter]
}

// sameDatacenter picks a datacenter at random first, so that a datacenter with many nodes does not get most copies.
func (p *placement) sameDatacenter(nodes []*member) []*member {
	var names []string
	for _, m := range nodes {
		if !slices.Contains(names, m.datacenter) {
			names = append(names, m.datacenter)
		}
	}
	name := names[p.c.random.IntN(len(names))]
	return slices.DeleteFunc(nodes, func(m *member) bool { return m.datacenter != name })
}

// weighted counts unknown space as the largest known.
func (p *placement) weighted(nodes []*member) *member {
	largest := 1.0
	for _, m := range nodes {
		largest = max(largest, float64(m.space.Free))
	}
	weight := func(m *member) float64 {
		if !m.hasSpace || m.space.Free < 0 {
			return largest
		}
		return max(1, float64(m.space.Free))
	}
	total := 0.0
	for _, m := range nodes {
		total += weight(m)
	}
	at := p.c.random.Float64() * total
	for _, m := range nodes {
		if at -= weight(m); at < 0 {
			return m
		}
	}
	return nodes[len(nodes)-1]
}

// fits reports whether a body may fit. A node whose space is unknown is tried.
func (p *placement) fits(m *member) bool {
	return !m.hasSpace || m.space.Fits(p.size)
}

// Fits reports whether size bytes can be written, with the reserve kept free.
func (s Space) Fits(size int64) bool { return !s.ReadOnly && s.hasRoom(size) }

// hasRoom is Fits without ReadOnly. Unknown space (-1) is enough.
func (s Space) hasRoom(size int64) bool {
	return s.Free < 0 || s.Free-min(s.Total/keepFreePart, keepFreeMost) > size
}

// lack returns ErrNotEnoughSpace only if the copies would not fit even if the failed nodes worked. The caller holds
// c.mu.
func (p *placement) lack() error {
	possible := p.c.pending
	for _, m := range p.c.members {
		if m.state == buckets.NodeActive && !p.have[m] && (!m.hasSpace || m.space.hasRoom(p.size)) {
			possible++
		}
	}
	if possible < p.copies {
		return &errcode.Error{
			Code: errcode.Unavailable, Cause: noSpace(p.failure),
			Message: "too few storage nodes have enough space for the copies of the body",
		}
	}
	return &errcode.Error{Code: errcode.Unavailable, Cause: p.failure, Message: "too few storage nodes work now; retry later"}
}

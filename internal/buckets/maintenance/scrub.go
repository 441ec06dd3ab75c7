package maintenance

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"holdfast/internal/buckets"
	"holdfast/internal/clock"
)

const (
	// MinScrubRate is the minimum rate in bytes per second and node, unless Rate is set: 2.7 TB in 30 days.
	MinScrubRate = 1 << 20
	mostSpeedup  = 10 // a late pass reads at most this many times faster
	// roundShare makes a round long enough that reading all rows takes at most 1/roundShare of it.
	roundShare = 50
	minRound   = time.Minute
	// fileCost is the cost of opening a file, expressed in bytes read.
	fileCost = 16 << 10
)

// Scrubber slowly reads every copy on its nodes, once per Every. Any process can continue from the stored position.
type Scrubber struct {
	Options
	Every time.Duration   // time between the starts of two passes
	Rate  int64           // bytes per second and node; 0 for the rate that Every requires
	Nodes func() []string // to scrub now

	// Exclusively runs fn while no audit, drain or repair runs.
	Exclusively func(ctx context.Context, fn func(context.Context) error) error
	// Read, if set, is called after copies are read, possibly concurrently.
	Read func(node string, copies, bytes int64)

	listing time.Duration // how long the last list of all rows took
}

// pass is a node's part in a round.
type pass struct {
	buckets.Scrub
	next    nearest // bodies of this round
	left    int64   // bytes from the position to the end
	skipped bool    // the node failed, so the position does not change
	at      position
	sent    int64 // copies reported so far
}

// Round scrubs the next bodies of nodes whose pass is unfinished or due, and returns whether there were any.
func (s *Scrubber) Round(ctx context.Context) (worked bool, err error) {
	passes, err := s.begin(ctx)
	if err != nil || len(passes) == 0 {
		return false, err
	}
	a, err := newServerAudit(s.Options)
	if err != nil {
		return false, err
	}
	defer func() { _ = a.state.remove() }()
	if err := s.list(ctx, a, passes); err != nil {
		return false, err
	}
	if err := s.compare(ctx, a, passes); err != nil {
		return false, err
	}
	if err := s.decide(ctx, a, passes); err != nil {
		return false, err
	}
	for _, p := range passes {
		if p.skipped {
			continue
		}
		p.Copies += p.at.Compared
		p.Bytes += p.next.bytes
		if p.After = p.next.until; p.After == "" {
			p.Done, p.Ended = true, buckets.At(s.Clock())
		}
		if err := s.Store.SetScrub(ctx, p.Scrub); err != nil {
			return false, err
		}
	}
	return true, nil
}

// begin starts passes that are due, and continues the others. A finished pass waits for its time.
func (s *Scrubber) begin(ctx context.Context) (passes []*pass, err error) {
	known, err := s.Store.Scrubs(ctx)
	if err != nil {
		return nil, err
	}
	now := s.Clock()
	for _, id := range s.Nodes() {
		p := &pass{}
		if i := slices.IndexFunc(known, func(k buckets.Scrub) bool { return k.Node == id }); i >= 0 {
			p.Scrub = known[i]
		}
		switch {
		case p.Node == "", p.Done && now.Sub(p.Began.Time()) >= s.Every:
			p.Scrub = buckets.Scrub{Node: id, Began: buckets.At(now), Total: p.Total, Ended: p.Ended}
		case p.Done:
			continue
		}
		rate := s.rate(p, max(0, p.Total-p.Bytes), now)
		p.next = nearest{budget: int64(float64(rate) * max(minRound, roundShare*s.listing).Seconds())}
		passes = append(passes, p)
	}
	return passes, nil
}

// rate returns bytes per second such that the pass ends in time.
func (s *Scrubber) rate(p *pass, left int64, now time.Time) int64 {
	if s.Rate > 0 {
		return s.Rate
	}
	time := max(s.Every-now.Sub(p.Began.Time()), s.Every/mostSpeedup)
	return max(MinScrubRate, int64(float64(left)/time.Seconds()))
}

// list reads all rows and keeps, per node, the next bodies after the position.
func (s *Scrubber) list(ctx context.Context, a *audit, passes []*pass) error {
	began := s.Clock()
	for _, p := range passes {
		p.Total = 0
	}
	err := references(ctx, s.Store, func(r buckets.Reference) error {
		b := newBody(r)
		for _, p := range passes {
			if !slices.Contains(r.Sharks, p.Node) {
				continue
			}
			p.Total += r.Length
			if b.path > p.After {
				p.left += r.Length
				p.next.add(b)
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	s.listing = max(0, s.Clock().Sub(began))
	all := map[string]body{}
	for _, p := range passes {
		for _, b := range p.next.all {
			if known, ok := all[b.path]; !ok || known.ref.Garbage {
				all[b.path] = b
			}
		}
	}
	out := newSorter(a.Folder, bodiesFile)
	for path, b := range all {
		line, err := encodeLine(path, b.ref)
		if err != nil {
			return err
		}
		if err := out.add(line); err != nil {
			return err
		}
	}
	return out.finish()
}

// compare reads the copies of all nodes in parallel. A failed node does not stop the others.
func (s *Scrubber) compare(ctx context.Context, a *audit, passes []*pass) error {
	errs := make([]error, len(passes))
	var wg sync.WaitGroup
	for i, p := range passes {
		p.at = position{After: p.After}
		pace := &pacer{rate: s.rate(p, p.left, s.Clock()), now: s.Clock}
		c := &comparison{audit: a, node: p.Node, at: &p.at, until: p.next.until, pace: pace.wait, show: func() { s.shown(p) }}
		wg.Go(func() { errs[i] = c.run(ctx) })
	}
	wg.Wait()
	for i, p := range passes {
		if p.skipped = IsNodeError(errs[i]); p.skipped {
			errs[i] = nil
		}
	}
	return errors.Join(errs...)
}

// shown reports progress to Read.
func (s *Scrubber) shown(p *pass) {
	n := p.at.Compared - p.sent
	p.sent = p.at.Compared
	if s.Read != nil && n > 0 {
		s.Read(p.Node, n, p.next.size(p.at.After))
	}
}

// decide repairs findings at once, or marks damaged copies for Repair.
func (s *Scrubber) decide(ctx context.Context, a *audit, passes []*pass) error {
	if a.state.Findings == 0 {
		return nil
	}
	if err := a.state.buffer.Flush(); err != nil {
		return err
	}
	a.Repair, a.marks = true, true
	var marks []buckets.Damage
	a.report = func(f Finding) error {
		if i := slices.IndexFunc(passes, func(p *pass) bool { return p.Node == f.Node }); i >= 0 {
			passes[i].Found++
		}
		if isDamage(f) {
			d := buckets.NewDamage(buckets.Copy{Node: f.Node, Path: f.Path}, string(f.Problem), buckets.At(s.Clock()))
			d.Name, d.Upload, d.Number = f.Object, f.Upload, f.Part
			marks = append(marks, d)
		}
		return nil
	}
	err := s.Exclusively(ctx, a.decide)
	return errors.Join(err, s.Store.Mark(ctx, marks))
}

// pacer spreads reads so that the rate is not exceeded.
type pacer struct {
	rate int64
	now  func() time.Time

	mu   sync.Mutex
	next time.Time
}

// wait waits until n bytes may be read. Calls reserve their time in order.
func (p *pacer) wait(ctx context.Context, n int) error {
	p.mu.Lock()
	now := p.now()
	begin := p.next
	if begin.Before(now) {
		begin = now
	}
	p.next = begin.Add(time.Duration(float64(n) / float64(p.rate) * float64(time.Second)))
	p.mu.Unlock()
	if d := begin.Sub(now); d <= 0 || clock.Sleep(ctx, d) {
		return nil
	}
	return ctx.Err()
}

// nearest keeps the first bodies after a position, up to a budget in bytes.
type nearest struct {
	budget int64
	all    []body // max-heap by path
	bytes  int64
	more   bool
	until  string // last path, if there are more bodies
}

// mostNearest limits the memory of a round, at about 400 bytes per body.
const mostNearest = 50_000

// add takes bodies in any order, and drops the farthest while the budget is exceeded. It keeps at least a single body.
func (n *nearest) add(b body) {
	if n.more && b.path > n.until {
		return
	}
	n.push(b)
	for len(n.all) > mostNearest || len(n.all) > 1 && n.bytes-n.all[0].ref.Length >= n.budget {
		n.pop()
		n.more = true
	}
	if n.more {
		n.until = n.all[0].path
	}
}

// size removes the bodies up to path and returns their size.
func (n *nearest) size(path string) (bytes int64) {
	n.all = slices.DeleteFunc(n.all, func(b body) bool {
		if b.path > path {
			return false
		}
		bytes += b.ref.Length
		return true
	})
	return bytes
}

// push adds to the heap.
func (n *nearest) push(b body) {
	n.all = append(n.all, b)
	n.bytes += b.ref.Length
	for i := len(n.all) - 1; i > 0; {
		up := (i - 1) / 2
		if n.all[up].path >= n.all[i].path {
			return
		}
		n.all[up], n.all[i] = n.all[i], n.all[up]
		i = up
	}
}

// pop removes the body with the greatest path.
func (n *nearest) pop() {
	last := len(n.all) - 1
	n.bytes -= n.all[0].ref.Length
	n.all[0] = n.all[last]
	n.all = n.all[:last]
	for i := 0; ; {
		latest := i
		for _, down := range []int{2*i + 1, 2*i + 2} {
			if down < len(n.all) && n.all[down].path > n.all[latest].path {
				latest = down
			}
		}
		if latest == i {
			return
		}
		n.all[i], n.all[latest] = n.all[latest], n.all[i]
		i = latest
	}
}

package rate

import (
	"container/heap"
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"holdfast/internal/clock"
	"holdfast/internal/fairshare"
)

// Shared are buckets shared by the members of a group, e.g. the installs of a tenant. They are safe for concurrent
// use.
//
// Tokens taken are a member's debt, and tokens gained pay all debts at the same rate. A member's share is the burst,
// minus a reserve as in package fairshare, divided by the members in debt. A member that used a fraction of its share
// must leave the same fraction of the reserve free; above its share, all of the reserve.
type Shared struct {
	limit   Limit
	every   float64
	reserve float64
	now     clock.Clock

	mu    sync.Mutex
	byKey *simplelru.LRU[string, *group]
}

// NewShared returns buckets for at most groups groups. A group uses about 150 bytes per member in debt. It returns
// errcode.Invalid for numbers below 1.
func NewShared(l Limit, groups int, now clock.Clock) (*Shared, error) {
	if err := l.check(groups); err != nil {
		return nil, err
	}
	byKey, err := simplelru.NewLRU[string, *group](groups, nil)
	if err != nil {
		return nil, err
	}
	return &Shared{limit: l, every: l.every(), reserve: float64(fairshare.Reserve(int64(l.Burst))), now: now, byKey: byKey}, nil
}

// group is a heap of the members in debt, ordered by when their debts end.
type group struct {
	at      time.Time // when debts were last paid
	paid    float64   // tokens paid to each member in debt since all debts were 0
	debt    float64   // tokens, all members together
	members map[string]*member
	queue   []*member // heap by until
}

type member struct {
	name  string
	until float64 // value of group.paid that clears the debt
	index int     // in group.queue
}

// Allow takes n tokens for the member name in the group key if they are available to it, and returns the state as the
// member sees it. If n exceeds the burst, the burst is taken.
func (b *Shared) Allow(key, name string, n int) (ok bool, s State) {
	return b.allow(key, name, n, true)
}

// Check is like Allow, but takes no tokens.
func (b *Shared) Check(key, name string, n int) (ok bool, s State) {
	return b.allow(key, name, n, false)
}

// allow is Allow (take) or Check. It first pays debts for the time since the last call.
func (b *Shared) allow(key, name string, n int, take bool) (ok bool, s State) {
	n = min(n, b.limit.Burst)
	b.mu.Lock()
	defer b.mu.Unlock()
	now := b.now()
	g, known := b.byKey.Get(key)
	if !known {
		g = &group{at: now, members: map[string]*member{}}
		b.byKey.Add(key, g)
	}
	g.pay(now.Sub(g.at).Seconds() * b.every)
	g.at = now
	v := b.view(g, name)
	ok = v.fits(float64(n))
	if ok && take && n > 0 {
		g.take(name, float64(n))
		v = b.view(g, name)
	}
	s = State{Limit: b.limit.Burst, Remaining: v.remaining(), Reset: until(g.debt, b.every)}
	if !ok {
		s.Retry = until(v.wait(float64(n)), b.every)
	}
	return ok, s
}

// view is a group as a member sees it, in tokens.
type view struct {
	burst, reserve float64
	free           float64 // burst minus all debts
	debt           float64
	owed           float64 // this member's debt
	share          float64 // burst without reserve, divided by members
	members        float64 // in debt, including this one
}

// view returns the group as the member name sees it.
func (b *Shared) view(g *group, name string) view {
	v := view{burst: float64(b.limit.Burst), reserve: b.reserve, debt: g.debt, members: float64(len(g.queue))}
	if m := g.members[name]; m != nil {
		v.owed = m.until - g.paid
	} else {
		v.members++
	}
	v.free = v.burst - g.debt
	v.share = (v.burst - v.reserve) / v.members
	return v
}

// tiny absorbs rounding errors, so that a member that waited as long as told is not refused.
const tiny = 1e-6

// fits reports whether a member may take n tokens. Without debt, it may take any free tokens.
func (v *view) fits(n float64) bool {
	left := v.free - n + tiny
	return left >= v.reserve || left >= v.reserve*(v.owed+n)/v.share || left >= 0 && v.owed <= tiny
}

// remaining returns how many tokens the member could take now: the largest n that fits.
func (v *view) remaining() int {
	below := (v.free - v.reserve*v.owed/v.share) / (1 + v.reserve/v.share)
	left := int(max(v.free-v.reserve, below, 0) + tiny)
	if left == 0 && v.fits(1) {
		return 1
	}
	return left
}

// wait returns how many tokens must be gained before n fit, if no other member takes any.
func (v *view) wait(n float64) float64 {
	paid := v.owed * v.members
	least := min(v.debt, max(paid, n-v.free))
	if n+v.reserve <= v.burst {
		least = min(least, n+v.reserve-v.free)
	}
	if below := (n - v.free + v.reserve*(v.owed+n)/v.share) / (1 + v.reserve/(v.share*v.members)); below <= paid {
		least = min(least, below)
	}
	return least
}

// pay distributes gained tokens equally among members in debt, and forgets members without debt.
func (g *group) pay(tokens float64) {
	for tokens > 0 && len(g.queue) > 0 {
		n, first := float64(len(g.queue)), g.queue[0]
		need := (first.until - g.paid) * n
		if tokens < need {
			g.paid += tokens / n
			g.debt -= tokens
			return
		}
		tokens -= need
		g.debt -= need
		g.paid = first.until
		heap.Pop(g)
		delete(g.members, first.name)
	}
	if len(g.queue) == 0 {
		g.paid, g.debt = 0, 0
	}
}

// take adds n to a member's debt.
func (g *group) take(name string, n float64) {
	g.debt += n
	m := g.members[name]
	if m == nil {
		m = &member{name: name, until: g.paid + n}
		g.members[name] = m
		heap.Push(g, m)
		return
	}
	m.until += n
	heap.Fix(g, m.index)
}

// Len and the following methods implement heap.Interface.
func (g *group) Len() int           { return len(g.queue) }
func (g *group) Less(i, j int) bool { return g.queue[i].until < g.queue[j].until }

func (g *group) Swap(i, j int) {
	g.queue[i], g.queue[j] = g.queue[j], g.queue[i]
	g.queue[i].index, g.queue[j].index = i, j
}

func (g *group) Push(x any) {
	m := x.(*member)
	m.index = len(g.queue)
	g.queue = append(g.queue, m)
}

func (g *group) Pop() any {
	last := g.queue[len(g.queue)-1]
	g.queue[len(g.queue)-1] = nil
	g.queue = g.queue[:len(g.queue)-1]
	return last
}

package importing

import (
	"context"
	"fmt"
	"maps"
	"math"
	"time"

	"holdfast/internal/app/service"
	"holdfast/internal/clock"
	"holdfast/internal/copying"
	"holdfast/internal/db/rows"
)

// catchUp runs passes until one is short, or finds over half as many owners as the previous pass: then the other
// server writes about as fast as passes copy, and only stopping it helps.
func (m *Import) catchUp(ctx context.Context) error {
	for before := math.MaxInt; ; {
		start := m.Now()
		n, err := m.pass(ctx)
		took := m.Now().Sub(start)
		if err != nil || n == 0 || took < copying.ShortPass {
			return err
		}
		m.reportf("copied changed data for %s, in %s", service.Count(int64(n), "owner"), took.Round(copying.ShortPass))
		if n > before/2 {
			m.reportf("the other server writes as fast as changes are copied: stop it now; the rest takes about %s", took.Round(copying.ShortPass))
			return nil
		}
		before = n
	}
}

// Now returns the time by Clock.
func (m *Import) Now() time.Time {
	if m.Clock == nil {
		return clock.System()
	}
	return m.Clock()
}

// pass copies all owners whose stamps changed, appeared or disappeared, and returns their number.
func (m *Import) pass(ctx context.Context) (n int, err error) {
	for _, p := range m.Parts {
		if err := m.before("pass"); err != nil {
			return 0, err
		}
		now, err := p.stamps(ctx)
		if err != nil {
			return 0, err
		}
		ids := map[string]bool{}
		for id, d := range now {
			if before, ok := p.seen[id]; !ok || before != d {
				ids[id] = true
			}
		}
		for id := range p.seen {
			if _, ok := now[id]; !ok {
				ids[id] = true
			}
		}
		changed, err := p.owners(maps.Keys(ids))
		if err != nil {
			return 0, err
		}
		if err := p.fill.Replace(ctx, changed); err != nil {
			return 0, err
		}
		p.seen = now
		n += len(ids)
	}
	return n, nil
}

// stamps reads all owners' stamps: the source's own if it has some (service.Stamper), or else digests of all rows.
func (p *Part) stamps(ctx context.Context) (all stamps, err error) {
	err = p.Source.View(ctx, func(v rows.View) error {
		all = stamps{}
		for i := range p.Service.Tables {
			g := &p.Service.Tables[i]
			if s, ok := v.(service.Stamper); ok {
				known, ok, err := s.Stamps(g)
				if err != nil {
					return err
				}
				if ok {
					for owner, d := range known {
						all[fmt.Sprint(i, owner)] = d
					}
					continue
				}
			}
			for _, t := range g.Tables {
				if err := v.Each(t, g.Owner, rows.All, func(p rows.Packed) error {
					id := ownerID(i, p.First(g.Owner).Row())
					d := all[id]
					d.Add(p)
					all[id] = d
					return nil
				}); err != nil {
					return err
				}
			}
		}
		return nil
	})
	return all, err
}

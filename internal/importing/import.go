package importing

import (
	"context"
	"fmt"
	"iter"
	"maps"
	"strconv"
	"strings"
	"time"

	"holdfast/internal/app/service"
	"holdfast/internal/clock"
	"holdfast/internal/copying"
	"holdfast/internal/db/engine"
	"holdfast/internal/db/rows"
)

// Import fills services' tables from another server, which logs no changes. So passes copy owners whose stamps
// (service.Stamper) changed, until the server is stopped for the last pass.
type Import struct {
	Parts []*Part

	// Stopped returns nil once the other server is stopped, and may call pass meanwhile. asked counts previous calls:
	// above 0, the other server wrote since.
	Stopped func(ctx context.Context, asked int, pass func(context.Context) error) error

	Progress   func(what string, done, total int64) // called often; may be nil
	Report     func(line string)                    // a line for the operator; may be nil
	BeforeStep func(point string) error             // for tests; may be nil
	Clock      clock.Clock
	Quiet      time.Duration // how long the source must not change at the end
}

// Part is a service to fill. An import's parts belong together: one is complete only with the others.
type Part struct {
	Service  service.Service  // with Import and Tables
	Database *engine.Database // target, migrated by Migrate
	Source   service.Source   // the other server's database

	fill *copying.Fill
	seen stamps // as of the latest pass
}

// stamps digest owners' data, by ownerID.
type stamps map[string]rows.Digest

func (m *Import) reportf(format string, args ...any) {
	if m.Report != nil {
		m.Report(fmt.Sprintf(format, args...))
	}
}

// before lets a test stop the import at a point.
func (m *Import) before(point string) error {
	if m.BeforeStep == nil {
		return nil
	}
	return m.BeforeStep(point)
}

// open checks the sources, and returns how many rows they have.
func (m *Import) open(ctx context.Context) (total int64, err error) {
	for _, p := range m.Parts {
		if why := p.Database.Traits().NoImport; why != "" {
			return 0, fmt.Errorf("%s: %s", p.Service.Name, why)
		}
		if err := p.Source.Check(ctx); err != nil {
			return 0, fmt.Errorf("--%s: %w", p.Service.Import.Flag, err)
		}
		p.fill = copying.NewFill(copying.FillOptions{
			Service: p.Service.Name, Groups: p.Service.Tables, Source: p.Source, Target: p.Database, BeforeStep: m.BeforeStep, Progress: m.Progress,
		})
		n, err := p.fill.CountSource(ctx)
		if err != nil {
			return 0, err
		}
		total += n
	}
	return total, nil
}

// Migrate creates the targets' tables. Call it before Run, but not for a dry run.
func (m *Import) Migrate(ctx context.Context) error {
	for _, p := range m.Parts {
		if _, err := p.Database.Migrate(ctx); err != nil {
			return copying.Unavailable(p.Database.Where, err)
		}
	}
	return nil
}

// Run imports everything, calls Stopped until the other server has stopped writing, and compares. It continues an
// interrupted import.
func (m *Import) Run(ctx context.Context) error {
	total, err := m.open(ctx)
	if err != nil {
		return err
	}
	var fills []*copying.Fill
	for _, p := range m.Parts {
		fills = append(fills, p.fill)
	}
	release, err := copying.ClaimTargets(ctx, fills...)
	if err != nil {
		return err
	}
	defer release()
	copied, err := m.begin(ctx)
	if err != nil {
		return err
	}
	var moved int64
	for _, p := range m.Parts {
		if moved, err = p.fill.CopyOwners(ctx, moved, max(total-copied, 0)); err != nil {
			return err
		}
	}
	m.reportf("every owner is copied once: comparing all owners")
	for _, p := range m.Parts {
		if p.seen, err = p.stamps(ctx); err != nil { // before comparing: later changes are noticed
			return err
		}
		if err := p.fill.Settle(ctx); err != nil {
			return err
		}
	}
	if err := m.catchUp(ctx); err != nil {
		return err
	}
	for asked := 0; ; asked++ {
		if err := m.before("stopped"); err != nil {
			return err
		}
		if err := m.Stopped(ctx, asked, func(ctx context.Context) error { _, err := m.pass(ctx); return err }); err != nil {
			return err
		}
		start := time.Now()
		if _, err := m.pass(ctx); err != nil {
			return err
		}
		different, err := m.finish(ctx)
		if err != nil {
			return err
		}
		took := time.Since(start)
		// Check that nothing changed since the last pass.
		if err := m.before("quiet"); err != nil {
			return err
		}
		select {
		case <-time.After(m.Quiet):
		case <-ctx.Done():
			return ctx.Err()
		}
		n, err := m.pass(ctx)
		switch {
		case err != nil:
			return err
		case n > 0:
			m.reportf("the other server has written since: data for %s changed", service.Count(int64(n), "owner"))
		case len(different) > 0:
			return fmt.Errorf("the import differs from the source: %s", strings.Join(different[:min(len(different), 10)], "; "))
		default:
			m.reportf("everything is imported and equal; the last pass took %s", took.Round(time.Millisecond))
			return m.done(ctx)
		}
	}
}

// begin continues interrupted fills and begins others, after all targets were checked. copied counts rows that
// earlier runs wrote.
func (m *Import) begin(ctx context.Context) (copied int64, err error) {
	ended := 0
	for _, p := range m.Parts {
		if err := p.fill.Load(ctx); err != nil {
			return 0, err
		}
		if p.fill.IsComplete() {
			ended++
		}
	}
	if ended == len(m.Parts) {
		return 0, fmt.Errorf("%s already has a complete import: choose an empty database, or compare it with --verify", m.Parts[0].Database.Where)
	}
	for _, p := range m.Parts {
		if p.fill.IsBegun() {
			continue
		}
		if err := p.fill.CheckEmpty(ctx); err != nil {
			return 0, err
		}
	}
	for _, p := range m.Parts {
		if p.fill.IsBegun() {
			m.reportf("%s: continuing the import that was interrupted", p.Service.Name)
			n, err := p.fill.Continue(ctx)
			if err != nil {
				return 0, err
			}
			copied += n
			continue
		}
		if err := p.fill.Begin(ctx); err != nil {
			return 0, err
		}
	}
	return copied, nil
}

// finish sets the last assigned numbers and compares the changed owners. Differences are no error yet: the other
// server may have written meanwhile.
func (m *Import) finish(ctx context.Context) (different []string, err error) {
	for _, p := range m.Parts {
		if err := p.setLast(ctx, m.greatestOwner(p)); err != nil {
			return nil, err
		}
		if err := m.before("verify"); err != nil {
			return nil, err
		}
		if err := p.fill.CompareChanged(ctx, func(d copying.Difference) { different = append(different, d.String()) }); err != nil {
			return nil, err
		}
	}
	return different, nil
}

// largestOwner is the largest user ID in Mozilla's protocol. Larger IDs were written by hand.
const largestOwner = 9_999_999_999

// greatestOwner returns the greatest owner with data in the part that owns the import, if p assigns these numbers; 0
// otherwise.
func (m *Import) greatestOwner(p *Part) (n int64) {
	for _, other := range m.Parts {
		if p.Service.Import.Owners == "" || other.Service.Name != p.Service.Import.Of {
			continue
		}
		all, err := other.owners(maps.Keys(other.seen))
		if err != nil {
			continue
		}
		for _, g := range other.Service.Tables {
			if g.Owner != 1 {
				continue
			}
			for _, s := range all.Spans(g.Tables...) {
				if owner, ok := s.Only[0].(int64); ok && owner <= largestOwner {
					n = max(n, owner)
				}
			}
		}
	}
	return n
}

// owners parses IDs from ownerID.
func (p *Part) owners(ids iter.Seq[string]) (copying.OwnerSet, error) {
	all := copying.OwnerSet{}
	for id := range ids {
		at := strings.IndexByte(id, '[')
		number, err := strconv.Atoi(id[:max(at, 0)])
		if err != nil {
			return nil, err
		}
		g := &p.Service.Tables[number]
		owner, err := g.Tables[0].ParseKey(id[at:])
		if err != nil {
			return nil, err
		}
		all.Add(owner, g.Tables...)
	}
	return all, nil
}

// ownerID returns an owner's name across groups: the group's index and the owner's text.
func ownerID(group int, owner rows.Row) string { return fmt.Sprint(group, owner.Text()) }

// setLast sets the last assigned numbers as in the source, but at least greatest for the table with owners.
func (p *Part) setLast(ctx context.Context, greatest int64) error {
	last := map[*rows.Table]int64{}
	if err := p.Source.View(ctx, func(v rows.View) error {
		for _, g := range p.Service.Tables {
			for _, t := range g.Tables {
				if !t.Numbers {
					continue
				}
				n, err := v.Last(t)
				if err != nil {
					return err
				}
				if t.Name == p.Service.Import.Owners {
					n = max(n, greatest)
				}
				last[t] = n
			}
		}
		return nil
	}); err != nil {
		return err
	}
	return p.fill.SetLast(ctx, last)
}

// done marks all fills as complete, so that servers may start.
func (m *Import) done(ctx context.Context) error {
	for _, p := range m.Parts {
		if err := m.before("done"); err != nil {
			return err
		}
		if err := p.fill.Complete(ctx); err != nil {
			return err
		}
	}
	return nil
}

// Verify compares all owners without changing anything. report gets each difference.
func (m *Import) Verify(ctx context.Context, report func(copying.Difference)) (total int64, err error) {
	if _, err := m.open(ctx); err != nil {
		return 0, err
	}
	for _, p := range m.Parts {
		pending, err := p.Database.Pending(ctx)
		if err != nil {
			return 0, copying.Unavailable(p.Database.Where, err)
		}
		if len(pending) > 0 {
			return 0, fmt.Errorf("%s: the tables in %s are missing or not up to date: run the command without --verify first", p.Service.Name, p.Database.Where)
		}
	}
	for _, p := range m.Parts {
		n, err := p.fill.CompareAll(ctx, report)
		if err != nil {
			return total, err
		}
		total += n
	}
	return total, nil
}

// DryRun changes nothing.
func (m *Import) DryRun(ctx context.Context) (sizes []copying.TableSize, err error) {
	if _, err := m.open(ctx); err != nil {
		return nil, err
	}
	for _, p := range m.Parts {
		pending, err := p.Database.Pending(ctx)
		if err == nil && len(pending) == 0 {
			err = p.fill.CheckEmpty(ctx)
		}
		if err != nil {
			return nil, copying.Unavailable(p.Database.Where, err)
		}
		for _, g := range p.Service.Tables {
			for _, t := range g.Tables {
				var n int64
				if err := p.Source.View(ctx, func(v rows.View) (err error) { n, err = v.Count(t, 0); return err }); err != nil {
					return nil, err
				}
				if n > 0 {
					sizes = append(sizes, copying.TableSize{Name: t.Name, Rows: n})
				}
			}
		}
	}
	return sizes, nil
}

package app

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"holdfast/internal/app/service"
	"holdfast/internal/clock"
	"holdfast/internal/db/engine"
	"holdfast/internal/db/rows"
)

// Import fills the tables of services from databases of another server, which keeps running
// until the last pass. The other server logs no changes, so passes copy the owners whose stamps
// (service.Stamper) have changed.
type Import struct {
	Parts []*ImportPart

	// Stopped returns nil when the operator says that the other server is stopped. It may
	// call pass meanwhile, which copies what has changed. asked is how often it was called
	// before: more than 0 if the other server has written since.
	Stopped func(ctx context.Context, asked int, pass func(context.Context) error) error

	Progress func(what string, done, total int64) // may be nil
	Report   func(line string)                    // may be nil
	Fault    func(point string) error             // for tests only: called before each step
	Clock    clock.Clock                          // for tests only; nil: clock.System
}

// ImportPart is a service with its source.
type ImportPart struct {
	*One
	Source service.Source

	copy Copy
	rows int64  // in the source
	seen stamps // of the owners in the source that are copied
}

// importID is the ID of every import. An import can be continued from any address of the source,
// because all owners are compared.
const importID = "import"

// stamps are digests of owners, by their ownerID.
type stamps map[string]rows.Digest

// readSource is a source for a Copy, which only reads it. It has no log and is never read-only.
type readSource struct {
	service.Source
	rows.Database
}

func (s readSource) View(ctx context.Context, fn func(rows.View) error) error {
	return s.Source.View(ctx, fn)
}

func (readSource) KeepLog(context.Context, string) error { return nil }

func (m *Import) reportf(format string, args ...any) {
	if m.Report != nil {
		m.Report(fmt.Sprintf(format, args...))
	}
}

func (m *Import) fault(point string) error {
	if m.Fault == nil {
		return nil
	}
	return m.Fault(point)
}

// open prepares the parts and counts the rows of the sources.
func (m *Import) open(ctx context.Context) error {
	var total int64
	for _, p := range m.Parts {
		p.copy = Copy{
			Service: p.Service.Name, Groups: p.Service.Tables, Source: &engine.Database{Where: p.Source.Where()}, Target: p.Database,
			Fault: m.Fault, Progress: m.Progress,
			source: readSource{Source: p.Source}, target: namedDatabase{p.Database.Rows(nil), p.Database.Where},
		}
		if p.Database.Target.Kind == engine.Spanner {
			return fmt.Errorf("%s: Spanner cannot be the target of an import: its tables are those of Mozilla's server", p.Service.Name)
		}
		if err := p.Source.Check(ctx); err != nil {
			return fmt.Errorf("--%s: %w", p.Service.Import.Flag, err)
		}
		if err := p.Source.View(ctx, func(v rows.View) (err error) { p.rows, err = p.copy.count(v); return err }); err != nil {
			return err
		}
		total += p.rows
	}
	for _, p := range m.Parts {
		p.copy.total = total
	}
	return nil
}

// Run imports everything, or continues an import that was interrupted.
func (m *Import) Run(ctx context.Context) error {
	if err := m.open(ctx); err != nil {
		return err
	}
	var targets []*claimed
	for _, p := range m.Parts {
		d := &claimed{p.copy.target, p.Service.Name, p.Database.Where, newClaim()}
		p.copy.target, targets = d, append(targets, d)
	}
	release, err := claimAll(ctx, targets...)
	if err != nil {
		return err
	}
	defer release()
	if err := m.begin(ctx); err != nil {
		return err
	}
	var moved int64
	for _, p := range m.Parts {
		p.copy.moved = moved
		if err := p.copy.copyOwners(ctx); err != nil {
			return err
		}
		moved = p.copy.moved
	}
	m.reportf("every owner is copied once: comparing all owners")
	for _, p := range m.Parts {
		if err := p.settle(ctx); err != nil {
			return err
		}
	}
	if err := m.catchUp(ctx); err != nil {
		return err
	}
	for asked := 0; ; asked++ {
		if err := m.fault("stopped"); err != nil {
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
		// Nothing must have changed since the pass.
		n, err := m.pass(ctx)
		switch {
		case err != nil:
			return err
		case n > 0:
			m.reportf("the other server has written since: data of %s has changed", service.Count(int64(n), "owner"))
		case len(different) > 0:
			return fmt.Errorf("the import differs from the source: %s", strings.Join(different[:min(len(different), 10)], "; "))
		default:
			m.reportf("everything is imported and equal; the last pass took %s", time.Since(start).Round(time.Millisecond))
			return m.done(ctx)
		}
	}
}

// begin continues the import that the targets have begun, or begins a new one.
func (m *Import) begin(ctx context.Context) error {
	ended := 0
	for _, p := range m.Parts {
		if err := p.copy.target.View(ctx, func(v rows.View) (err error) {
			p.copy.state, err = readCopyState(v, p.Service.Name)
			return err
		}); err != nil {
			return err
		}
		if s := p.copy.state; s.ID == importID && s.Done {
			ended++
		}
	}
	if ended == len(m.Parts) {
		return fmt.Errorf("%s already has a complete import: choose an empty database, or compare it with --verify", m.Parts[0].Database.Where)
	}
	for _, p := range m.Parts {
		if p.copy.state.ID == importID {
			continue
		}
		if err := p.copy.empty(ctx); err != nil {
			return err
		}
	}
	var copied int64
	for _, p := range m.Parts {
		if p.copy.state.ID == importID {
			p.copy.state.Done = false // another part is not: no server has started since
			m.reportf("%s: continuing the import that was interrupted", p.Service.Name)
			n, err := p.copy.countTarget(ctx)
			if err != nil {
				return err
			}
			copied += n
			continue
		}
		p.copy.state = copyState{ID: importID, Target: true}
		if err := p.clear(ctx); err != nil {
			return err
		}
	}
	for _, p := range m.Parts { // for the time that is left
		p.copy.total = max(p.copy.total-copied, 0)
	}
	return nil
}

// clear deletes what a server or a part of a copy has left in the target.
func (p *ImportPart) clear(ctx context.Context) error {
	return p.copy.target.Update(ctx, func(u rows.Update) error {
		for _, g := range slices.Backward(p.copy.Groups) {
			for _, t := range slices.Backward(g.Tables) {
				if err := u.Delete(t, g.Owner, rows.All); err != nil {
					return err
				}
			}
		}
		return p.copy.setState(u, p.copy.state)
	})
}

// finish verifies the owners that differed or have changed since they were compared, and sets
// the next numbers. It returns the differences.
func (m *Import) finish(ctx context.Context) (different []string, err error) {
	for _, p := range m.Parts {
		if err := p.setLast(ctx, m.greatestOwner(p)); err != nil {
			return nil, err
		}
		if err := m.fault("verify"); err != nil {
			return nil, err
		}
		if _, err := p.copy.compare(ctx, p.copy.dirty, func(d Difference) { different = append(different, d.String()) }); err != nil {
			return nil, err
		}
	}
	return different, nil
}

// largestOwner is the largest ID of a user that the protocol of Mozilla's server allows. Larger
// ones were written by hand.
const largestOwner = 9_999_999_999

// greatestOwner returns the greatest number of an owner in the other parts, if the numbers of a
// table of this part are their owners.
func (m *Import) greatestOwner(p *ImportPart) (n int64) {
	for _, other := range m.Parts {
		if p.Service.Import.Owners == "" || other.Service.Name != p.Service.Import.Of {
			continue
		}
		all, err := other.owners(maps.Keys(other.seen))
		if err != nil {
			continue
		}
		for _, g := range other.copy.Groups {
			if g.Owner != 1 {
				continue
			}
			for _, s := range all.spans(g.Tables...) {
				if owner, ok := s.Only[0].(int64); ok && owner <= largestOwner {
					n = max(n, owner)
				}
			}
		}
	}
	return n
}

// owners returns owners by their IDs, for all tables of their groups.
func (p *ImportPart) owners(ids iter.Seq[string]) (owners, error) {
	all := owners{}
	for id := range ids {
		at := strings.IndexByte(id, '[')
		number, err := strconv.Atoi(id[:max(at, 0)])
		if err != nil {
			return nil, err
		}
		g := &p.copy.Groups[number]
		owner, err := g.Tables[0].ParseKey(id[at:])
		if err != nil {
			return nil, err
		}
		all.add(owner, g.Tables...)
	}
	return all, nil
}

// ownerID is an owner of any group as text.
func ownerID(group int, owner rows.Row) string { return fmt.Sprint(group, owner.Text()) }

// setLast sets the last numbers that were assigned.
func (p *ImportPart) setLast(ctx context.Context, greatest int64) error {
	last := map[*rows.Table]int64{}
	if err := p.Source.View(ctx, func(v rows.View) error {
		for _, g := range p.copy.Groups {
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
	return p.copy.target.Update(ctx, func(u rows.Update) error {
		for t, n := range last {
			if err := u.SetLast(t, n); err != nil {
				return err
			}
		}
		return nil
	})
}

// done records that the import is complete.
func (m *Import) done(ctx context.Context) error {
	for _, p := range m.Parts {
		if err := m.fault("done"); err != nil {
			return err
		}
		state := p.copy.state
		state.Done = true
		if err := p.copy.target.Update(ctx, func(u rows.Update) error { return p.copy.setState(u, state) }); err != nil {
			return err
		}
	}
	return nil
}

// Verify compares all owners, and returns the number of rows in the sources.
func (m *Import) Verify(ctx context.Context, report func(Difference)) (total int64, err error) {
	if err := m.open(ctx); err != nil {
		return 0, err
	}
	for _, p := range m.Parts {
		pending, err := p.Database.Pending(ctx)
		if err != nil {
			return 0, unavailable(p.Database.Where, err)
		}
		if len(pending) > 0 {
			return 0, fmt.Errorf("%s: the tables of %s are missing or not up to date: run the command without --verify first", p.Service.Name, p.Database.Where)
		}
	}
	for _, p := range m.Parts {
		p.copy.total = p.rows
		n, err := p.copy.compare(ctx, nil, report)
		if err != nil {
			return total, err
		}
		total += n
	}
	return total, nil
}

// DryRun checks the databases, changes nothing, and returns what would be imported.
func (m *Import) DryRun(ctx context.Context) (sizes []TableSize, err error) {
	if err := m.open(ctx); err != nil {
		return nil, err
	}
	for _, p := range m.Parts {
		pending, err := p.Database.Pending(ctx)
		if err == nil && len(pending) == 0 {
			err = p.copy.empty(ctx)
		}
		if err != nil {
			return nil, unavailable(p.Database.Where, err)
		}
		for _, g := range p.copy.Groups {
			for _, t := range g.Tables {
				var n int64
				if err := p.Source.View(ctx, func(v rows.View) (err error) { n, err = v.Count(t, 0); return err }); err != nil {
					return nil, err
				}
				if n > 0 {
					sizes = append(sizes, TableSize{t.Name, n})
				}
			}
		}
	}
	return sizes, nil
}

// OpenParts opens the services of a configuration that an import of a service fills, with
// new databases, and their sources. urls are the values of the flags of Service.Import.
func OpenParts(ctx context.Context, of string, urls map[string]string, o Options) (parts []*ImportPart, closing func() error, err error) {
	o.Config = o.Config.with(func(s *service.Service) bool { return s.Import != nil && s.Import.Of == of })
	o.Copies = true
	a, err := Open(ctx, o)
	if err != nil {
		return nil, nil, err
	}
	fail := func(err error) ([]*ImportPart, func() error, error) { return nil, nil, errors.Join(err, a.Close()) }
	for _, s := range o.Config.Services {
		url, enabled := urls[s.Import.Flag], s.Config.IsEnabled()
		switch {
		case enabled && url == "":
			return fail(service.Usagef("--%s is required, because %s is enabled", s.Import.Flag, s.Name))
		case !enabled && url != "":
			return fail(service.Usagef("--%s: %s is disabled", s.Import.Flag, s.Name))
		case !enabled:
			continue
		}
		source, err := s.Import.Open(url, a.server())
		if err != nil {
			return fail(service.Usagef("--%s: %v", s.Import.Flag, err))
		}
		parts = append(parts, &ImportPart{One: &One{Service: s, Database: a.databases()[len(parts)], app: a}, Source: source})
	}
	if len(parts) == 0 {
		return fail(fmt.Errorf("%s is disabled", of))
	}
	return parts, a.Close, nil
}

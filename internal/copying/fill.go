package copying

import (
	"context"
	"slices"

	"holdfast/internal/db/engine"
	"holdfast/internal/db/rows"
)

// Fill fills a service's tables from a read-only source. There is no change log, so the caller, package importing,
// finds and replaces changed owners.
type Fill struct {
	copy Copy  // with a source that logs nothing
	rows int64 // of the source
}

// FillOptions configure NewFill. Progress and BeforeStep may be nil.
type FillOptions struct {
	Service    string
	Groups     []rows.Group // service.Service.Tables
	Source     Source
	Target     *engine.Database // migrated, and of an engine that accepts imports
	Progress   func(what string, done, total int64)
	BeforeStep func(point string) error // for tests
}

// Source has the methods of service.Source that a fill needs.
type Source interface {
	Where() string
	View(ctx context.Context, fn func(rows.View) error) error
}

// readSource makes a Source look like a rows.Database. Only View and KeepLog may be called.
type readSource struct {
	rows.Database

	source Source
}

func (s readSource) View(ctx context.Context, fn func(rows.View) error) error {
	return s.source.View(ctx, fn)
}

// KeepLog does nothing: a source has no log that could lapse.
func (readSource) KeepLog(context.Context, string) error { return nil }

// NewFill connects to nothing.
func NewFill(o FillOptions) *Fill {
	return &Fill{copy: Copy{
		Service: o.Service, Groups: o.Groups, Source: &engine.Database{Connection: engine.Connection{Where: o.Source.Where()}}, Target: o.Target, BeforeStep: o.BeforeStep, Progress: o.Progress,
		source: readSource{source: o.Source}, target: namedDatabase{o.Target.Rows(nil), o.Target.Where}, to: o.Target.Traits(),
	}}
}

// CountSource returns the rows in the source, which are also the total for the progress.
func (f *Fill) CountSource(ctx context.Context) (int64, error) {
	err := f.copy.source.View(ctx, func(v rows.View) (err error) { f.rows, err = f.copy.count(v); return err })
	return f.rows, err
}

// ClaimTargets claims the targets until release is called, as a copy does. It returns errcode.Conflict if a target is
// in use.
func ClaimTargets(ctx context.Context, fills ...*Fill) (release func(), err error) {
	var targets []*claimed
	for _, f := range fills {
		own := f.copy.newClaim("import")
		d := &claimed{f.copy.target, f.copy.Service, f.copy.Target.Where, own, f.copy.step}
		f.copy.target, targets = d, append(targets, d)
	}
	return claimAll(ctx, targets...)
}

// fillID identifies every fill. Any source address can resume it, because all owners are compared.
const fillID = "import"

// Load reads an earlier fill's state from the target. Call it after ClaimTargets and before IsBegun.
func (f *Fill) Load(ctx context.Context) error {
	return f.copy.target.View(ctx, func(v rows.View) (err error) {
		f.copy.state, err = ReadState(v, f.copy.Service)
		return err
	})
}

// IsBegun reports whether the target contains a fill, complete or not.
func (f *Fill) IsBegun() bool { return f.copy.state.ID == fillID }

// IsComplete reports whether the target contains a complete fill.
func (f *Fill) IsComplete() bool { return f.IsBegun() && f.copy.state.Done }

// CheckEmpty returns an error if the target contains data, except data of an incomplete copy.
func (f *Fill) CheckEmpty(ctx context.Context) error { return f.copy.empty(ctx) }

// Begin deletes rows that a server or an incomplete copy left in the target.
func (f *Fill) Begin(ctx context.Context) error {
	f.copy.state = State{ID: fillID, Target: true}
	return f.copy.target.Update(ctx, func(u rows.Update) error {
		for _, g := range slices.Backward(f.copy.Groups) {
			for _, t := range slices.Backward(g.Tables) {
				if err := u.Delete(t, g.Owner, rows.All); err != nil {
					return err
				}
			}
		}
		return f.copy.setState(u, f.copy.state)
	})
}

// Continue resumes even a complete fill, and returns the number of its rows: other fills in the import are
// incomplete, so no server was started since.
func (f *Fill) Continue(ctx context.Context) (copied int64, err error) {
	f.copy.state.Done = false
	return f.copy.countTarget(ctx)
}

// CopyOwners copies the remaining owners. before and total are the rows of other fills and of all fills, for the
// progress. It returns before plus this fill's rows.
func (f *Fill) CopyOwners(ctx context.Context, before, total int64) (moved int64, err error) {
	f.copy.moved, f.copy.total = before, total
	err = f.copy.copyOwners(ctx)
	return f.copy.moved, err
}

// Settle compares all owners and replaces those that differ. Call it once after CopyOwners.
func (f *Fill) Settle(ctx context.Context) error {
	f.copy.dirty = OwnerSet{}
	if _, err := f.CompareAll(ctx, func(d Difference) { f.copy.dirty.Add(d.Owner, d.group.Tables...) }); err != nil {
		return err
	}
	return f.Replace(ctx, f.copy.dirty)
}

// Replace replaces all rows of owners. Call CompareChanged afterwards.
func (f *Fill) Replace(ctx context.Context, changed OwnerSet) error {
	c := &f.copy
	c.dirty.addAll(changed)
	var done, total int64
	for i := range c.Groups {
		total += int64(len(changed.Spans(c.Groups[i].Tables...)))
	}
	for i := range c.Groups {
		g := &c.Groups[i]
		spans := changed.Spans(g.Tables...)
		if len(spans) == 0 {
			continue
		}
		if err := c.source.View(ctx, func(v rows.View) error {
			w := c.newWriter(ctx)
			w.silent = true
			for _, span := range spans {
				c.progress("changed owners", done, total)
				done++
				if err := c.before("replace"); err != nil {
					return err
				}
				if err := w.replace(v, g, span); err != nil {
					return err
				}
			}
			return w.flush()
		}); err != nil {
			return err
		}
	}
	return nil
}

// CompareChanged compares the owners that Settle and Replace replaced; the others were equal.
func (f *Fill) CompareChanged(ctx context.Context, report func(Difference)) error {
	_, err := f.copy.compare(ctx, f.copy.dirty, report)
	return err
}

// CompareAll compares all owners and returns the source's rows.
func (f *Fill) CompareAll(ctx context.Context, report func(Difference)) (int64, error) {
	f.copy.total = f.rows
	return f.copy.compare(ctx, nil, report)
}

// SetLast sets the last assigned numbers by table.
func (f *Fill) SetLast(ctx context.Context, last map[*rows.Table]int64) error {
	return f.copy.setLast(ctx, last)
}

// Complete marks the target as complete, so that servers may use it.
func (f *Fill) Complete(ctx context.Context) error {
	state := f.copy.state
	state.Done = true
	return f.copy.target.Update(ctx, func(u rows.Update) error { return f.copy.setState(u, state) })
}

package copying

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"holdfast/internal/clock"
	"holdfast/internal/db/engine"
	"holdfast/internal/db/rows"
	"holdfast/internal/errcode"
	"holdfast/internal/ident"
	"holdfast/internal/readonly"
)

// Copy copies the tables of a service from one database to another while servers use the
// source. First every owner is copied from a snapshot, while the source logs the keys of
// changed rows. Passes copy these rows until few are left. The last pass runs while the
// service is read-only, which it stays.
type Copy struct {
	Service        string
	Groups         []rows.Group
	Source, Target *engine.Database
	Owners         rows.Owners // required if NeedsOwners
	OwnersIn       string      // the service whose database has them

	// MaxChanges is how many changed rows may wait in the log of the source: Run slows writers when
	// half of them wait, and ends when all do, without a log. 0: DefaultMaxChanges.
	MaxChanges int64

	// FinishWithin limits how long Run takes, if copying all rows once does not take longer: writers
	// are slowed, and the last pass begins in time. 0: there is no limit.
	FinishWithin time.Duration

	Lease      time.Duration                        // of read-only during the last pass; 0: 30 s
	Progress   func(what string, done, total int64) // may be nil
	Estimate   func(Estimate)                       // may be nil
	Report     func(line string)                    // may be nil
	BeforeStep func(point string) error             // for tests only: called before each step

	// For tests only: the number of keys that a pass copies, when the log of changes is compacted and
	// measured, and a function that is called with the number of entries before and after.
	KeysOfPass   int
	CompactAfter int64
	CompactEvery time.Duration
	PaceEvery    time.Duration
	Compacted    func(before, after int64)

	source, target rows.Database
	from, to       engine.Traits
	tables         map[string]*rows.Table
	groups         map[string]int // of a table
	state          State
	moved          int64    // rows so far
	copied         int64    // rows in the target at the start
	total          int64    // rows of the source at the start
	dirty          OwnerSet // that changed since they were verified; nil: any
	begun          time.Time
	refused        refusal
	logging        sync.Mutex
	step           *atomic.Pointer[Step] // for the claims; nil: there are none
	compacted      int64                 // entries of the log after the last compaction, which are left
}

// State is the progress of a copy, in both databases. The source has only the ID.
type State struct {
	ID     string `json:"id"`
	Target bool   `json:"target,omitempty"`
	Group  int    `json:"group,omitempty"`  // in progress
	After  string `json:"after,omitempty"`  // the owners of the group up to this one are copied
	Copied bool   `json:"copied,omitempty"` // every owner is copied
	Done   bool   `json:"done,omitempty"`
	Claim  *Claim `json:"claim,omitempty"` // of the copy that is running
}

// DefaultMaxChanges is the default of Copy.MaxChanges. An entry takes 100 to 200 bytes.
const DefaultMaxChanges = 5_000_000

// ShortPass is how long a pass takes at most before the last one begins.
const ShortPass = time.Second

const (
	rowsOfUpdate = 20_000      // that change, in one transaction, unless the engine has a lower limit
	bytesOfBatch = 2 << 20     // in memory for such a transaction
	reportEvery  = time.Minute // that writes arrive as fast as they are copied
	copyLease    = 30 * time.Second
)

// Run copies the service, or continues a copy that was interrupted.
func (c *Copy) Run(ctx context.Context) error {
	c.begun = time.Now()
	if err := c.open(); err != nil {
		return err
	}
	own := c.newClaim("copy")
	source := &claimed{c.source, c.Service, c.Source.Where, own, c.step}
	target := &claimed{c.target, c.Service, c.Target.Where, own, c.step}
	release, err := claimAll(ctx, source, target)
	if err != nil {
		return err
	}
	defer release()
	c.source, c.target = source, target
	isNew, err := c.begin(ctx)
	if err != nil || c.state.Done {
		return err
	}
	if isNew && !c.withNames() {
		c.dirty = OwnerSet{} // each span is verified when it is copied
	}
	if err := c.whileLogged(ctx, c.copyWhileLogged); err != nil {
		if errors.Is(err, errFull) {
			c.unlog(context.WithoutCancel(ctx))
		}
		return err
	}
	return c.lastPass(ctx)
}

// copyWhileLogged copies everything but the last changes, and compares it.
func (c *Copy) copyWhileLogged(ctx context.Context) error {
	if err := c.copyOwners(ctx); err != nil {
		return err
	}
	if err := c.catchUp(ctx); err != nil {
		return err
	}
	// Owners that are equal now and do not change until the last pass need not be compared
	// again in it.
	only, dirty := c.dirty, OwnerSet{}
	c.dirty = dirty
	if _, err := c.compare(ctx, only, func(d Difference) { dirty.Add(d.Owner, c.affected(d.group, d.table)...) }); err != nil {
		return err
	}
	if c.withNames() {
		// An owner may have got another number, and the engine may have deleted expired
		// rows, both without a change in the log.
		if err := c.copyAgain(ctx, dirty); err != nil {
			return err
		}
	}
	return c.catchUp(ctx)
}

func (c *Copy) open() error {
	c.source, c.target = namedDatabase{c.Source.Rows(c.Owners), c.Source.Where}, namedDatabase{c.Target.Rows(c.Owners), c.Target.Where}
	c.from, c.to = c.Source.Traits(), c.Target.Traits()
	switch {
	case len(c.Groups) == 0:
		return fmt.Errorf("%s cannot be copied yet", c.Service)
	case c.withNames() && c.Owners == nil:
		return fmt.Errorf("%s: a copy from %s to %s requires the service that knows the owners", c.Service, c.Source.Where, c.Target.Where)
	case c.Source.Where == c.Target.Where:
		return fmt.Errorf("%s: source and target are the same database", c.Service)
	}
	c.Lease = cmp.Or(c.Lease, copyLease)
	c.MaxChanges = cmp.Or(c.MaxChanges, DefaultMaxChanges)
	c.KeysOfPass, c.PaceEvery = cmp.Or(c.KeysOfPass, keysOfPass), cmp.Or(c.PaceEvery, paceEvery)
	c.CompactAfter, c.CompactEvery = cmp.Or(c.CompactAfter, compactAfter), cmp.Or(c.CompactEvery, compactEvery)
	c.tables, c.groups = map[string]*rows.Table{}, map[string]int{}
	for g := range c.Groups {
		for _, t := range c.Groups[g].Tables {
			c.tables[t.Name], c.groups[t.Name] = t, g
		}
	}
	return nil
}

// NeedsOwners reports whether the copy needs Owners, because one of the databases names owners by texts.
func (c *Copy) NeedsOwners() bool {
	return c.Source.Traits().NamesOwners || c.Target.Traits().NamesOwners
}

// withNames reports whether the source or the target names owners by texts.
func (c *Copy) withNames() bool { return c.from.NamesOwners || c.to.NamesOwners }

func (c *Copy) reportf(format string, args ...any) {
	if c.Report != nil {
		c.Report(fmt.Sprintf(format, args...))
	}
}

func (c *Copy) progress(what string, done, total int64) {
	if c.step != nil {
		c.step.Store(&Step{what, done, total})
	}
	if c.Progress != nil {
		c.Progress(what, done, total)
	}
}

func (c *Copy) before(point string) error {
	if c.BeforeStep == nil {
		return nil
	}
	return c.BeforeStep(point)
}

// begin continues the copy that the target has begun, or begins a new one.
func (c *Copy) begin(ctx context.Context) (isNew bool, err error) {
	c.moved, c.copied, c.dirty, c.compacted = 0, 0, nil, 0
	c.refused.bySize, c.refused.byTime = 0, 0
	var source State
	err = c.source.View(ctx, func(v rows.View) (err error) {
		if c.total, err = c.count(v); err != nil {
			return err
		}
		source, err = ReadState(v, c.Service)
		return err
	})
	if err != nil {
		return false, err
	}
	if err := c.target.View(ctx, func(v rows.View) (err error) { c.state, err = ReadState(v, c.Service); return err }); err != nil {
		return false, err
	}
	switch {
	case source.IsPart():
		return false, fmt.Errorf("%s: %s has only a part of a copy, which has not finished", c.Service, c.Source.Where)
	case c.state.Done:
		return false, c.endAgain(ctx, source)
	case c.state.IsPart() && c.state.ID == source.ID:
		err := c.source.KeepLog(ctx, c.Service)
		if err == nil {
			c.reportf("continuing the copy that was interrupted")
			c.copied, err = c.countTarget(ctx)
			return false, err
		}
		if !errors.Is(err, rows.ErrLapsed) {
			return false, err
		}
		fallthrough
	case c.state.IsPart():
		c.reportf("starting again: the source has not logged its changes since the copy was interrupted")
	default:
		if err := c.empty(ctx); err != nil {
			return false, err
		}
	}
	// Before the source has the ID of this copy: another one may be complete.
	if err := cmp.Or(c.writable(ctx), c.checkOwners(ctx)); err != nil {
		return false, err
	}
	return true, c.beginNew(ctx)
}

// endAgain does what is left of a complete copy that was interrupted at its end. It returns
// an error if the source accepts writes again, or belongs to another copy.
func (c *Copy) endAgain(ctx context.Context, source State) error {
	holder, _, err := c.source.ReadOnly(ctx, c.Service)
	switch {
	case err != nil:
		return err
	case source.ID != c.state.ID || holder != c.holder():
		return fmt.Errorf("%s: %s already has a complete copy: choose an empty database, or compare it with --verify", c.Service, c.Target.Where)
	}
	c.reportf("everything is copied already")
	c.unlog(ctx)
	return nil
}

// holder is the name under which the copy makes the service read-only.
func (c *Copy) holder() string { return readonly.ByCopy(c.state.ID) }

// writable returns an error if the source is read-only without an end.
func (c *Copy) writable(ctx context.Context) error {
	holder, until, err := c.source.ReadOnly(ctx, c.Service)
	if err == nil && holder != "" && until.IsZero() {
		err = errcode.Newf(errcode.Conflict, "%s: %s is read-only, by %s: %s", c.Service, c.Source.Where, holder, readonly.End(c.Service, holder))
	}
	return err
}

// unlog removes the log of changes, which costs only space.
func (c *Copy) unlog(ctx context.Context) {
	if err := c.source.Unlog(ctx, c.Service, c.Groups); err != nil {
		c.reportf("the log of changes was not removed: %v", err)
	}
}

// checkOwners returns an error if the source names owners that are not known.
func (c *Copy) checkOwners(ctx context.Context) error {
	return c.source.View(ctx, func(v rows.View) error {
		s, ok := v.(interface {
			Unknown(t *rows.Table) (int64, error)
		})
		for _, g := range c.Groups {
			if !ok || g.Owner == 0 {
				continue
			}
			n, err := s.Unknown(g.Tables[0])
			if err != nil {
				return err
			}
			if n > 0 {
				return errcode.Newf(errcode.Invalid, "%s: %d users of %s are not known to the %s: check %[4]s.database_url", c.Service, n, c.Source.Where, c.OwnersIn)
			}
		}
		return nil
	})
}

// IsPart reports whether the database has only a part of what is copied to it.
func (s State) IsPart() bool { return s.Target && !s.Done }

// IsImport reports whether the database is the target of an import.
func (s State) IsImport() bool { return s.ID == fillID }

// ErrPart means that a database has only a part of a copy, so nobody but the copy may write.
var ErrPart = errors.New("its database has only a part of a copy or an import: run the same command (holdfast copy or holdfast import) again, or wait until it has finished")

// CheckWhole returns ErrPart if the database of a service has only a part of a copy. It returns no other
// error: what cannot be read now is found out by others.
func CheckWhole(ctx context.Context, db rows.Database, service string) error {
	isPart := false
	err := db.View(ctx, func(v rows.View) error {
		state, err := ReadState(v, service)
		isPart = state.IsPart()
		return err
	})
	if err == nil && isPart {
		return ErrPart
	}
	return nil
}

// stateReader is a rows.View or a rows.Update.
type stateReader interface {
	State(service string) (string, error)
}

// ReadState reads the state of a copy from or to a database. It is empty if no copy uses the database.
func ReadState(from stateReader, service string) (state State, err error) {
	text, err := from.State(service)
	if err == nil && text != "" {
		err = json.Unmarshal([]byte(text), &state)
	}
	return state, err
}

// empty returns an error if the target has data other than a part of a copy.
func (c *Copy) empty(ctx context.Context) error {
	return c.target.View(ctx, func(v rows.View) error {
		if state, err := ReadState(v, c.Service); err != nil || state.IsPart() {
			return err
		}
		for _, g := range c.Groups {
			for _, t := range g.Tables {
				n, err := v.Count(t, 2)
				if err != nil {
					return err
				}
				if n > 0 && !t.Seeded && !t.Process && (n > 1 || !t.First) {
					return errcode.Newf(errcode.Invalid, "%s: the table %s of %s is not empty: choose an empty database", c.Service, t.Name, c.Target.Where)
				}
			}
		}
		return nil
	})
}

func (c *Copy) beginNew(ctx context.Context) error {
	hashes, err := c.Source.SecretHashes(ctx)
	if err != nil {
		return err
	}
	have, err := c.Target.SecretHashes(ctx)
	if err != nil {
		return err
	}
	for setting, hash := range hashes {
		if have[setting] == hash {
			continue
		}
		if _, err := c.Target.SetSecretHash(ctx, setting, have[setting], hash); err != nil {
			return err
		}
	}
	// The ID first: a copy that has another one does not continue with the new log.
	c.state = State{ID: ident.New(), Target: true}
	if err := c.source.Update(ctx, func(u rows.Update) error { return setState(u, c.Service, State{ID: c.state.ID}) }); err != nil {
		return err
	}
	if err := c.source.Log(ctx, c.Service, c.Groups); err != nil {
		return err
	}
	return c.target.Update(ctx, func(u rows.Update) error {
		for _, g := range slices.Backward(c.Groups) {
			for _, t := range slices.Backward(g.Tables) {
				if err := u.Delete(t, 0, rows.All); err != nil {
					return err
				}
			}
		}
		return setState(u, c.Service, c.state)
	})
}

func (c *Copy) setState(u rows.Update, state State) error {
	return setState(u, c.Service, state)
}

func setState(u rows.Update, service string, state State) error {
	text, err := json.Marshal(state)
	if err != nil {
		return err
	}
	return u.SetState(service, string(text))
}

// lastPass copies what is left while the service is read-only, verifies it, and makes
// read-only permanent.
func (c *Copy) lastPass(ctx context.Context) error {
	if err := c.before("close"); err != nil {
		return err
	}
	start := time.Now()
	err := c.source.Close(ctx, c.Service, c.holder(), c.Lease, c.Groups)
	if errcode.Is(err, errcode.Conflict) {
		return err // somebody else did it
	}
	if err == nil {
		c.reportf("the service is read-only")
		err = c.whileClosed(ctx)
	}
	if err != nil {
		return errors.Join(err, c.reopen(ctx))
	}
	done := c.state
	done.Done = true
	if err := c.target.Update(ctx, func(u rows.Update) error { return c.setState(u, done) }); err != nil {
		// The target may be complete, so the source must not be written again.
		return fmt.Errorf("everything is copied, and the service stays read-only: run the same command again: %w", err)
	}
	c.reportf("everything is copied and equal; the last pass took %s", time.Since(start).Round(time.Millisecond))
	c.unlog(ctx)
	return nil
}

// reopen ends read-only after a failure. It tries until a lease has ended, because the source may
// be starting again, and read-only may be permanent.
func (c *Copy) reopen(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), c.Lease)
	defer cancel()
	for tries := 1; ; tries++ {
		err := c.source.Reopen(ctx, c.Service, c.Groups)
		if err == nil {
			return nil
		}
		if tries == 1 {
			c.reportf("the service is still read-only, trying again for %s: %v", c.Lease, err)
		}
		if !clock.Sleep(ctx, time.Second) {
			return fmt.Errorf("the service may still be read-only: run the same command again, or holdfast copy %s --reopen: %w", c.Service, err)
		}
	}
}

// whileClosed copies what is left while the service is read-only, and makes that permanent.
func (c *Copy) whileClosed(ctx context.Context) error {
	held, release := c.hold(ctx)
	err := c.finish(held)
	if err = cmp.Or(release(), err); err == nil {
		err = c.before("prolong")
	}
	if err != nil {
		return err
	}
	return c.source.Prolong(ctx, c.Service, c.holder(), 0)
}

// hold prolongs the lease until release, which returns an error if the lease has ended.
// held ends with the lease.
func (c *Copy) hold(ctx context.Context) (held context.Context, release func() error) {
	held, cancel := context.WithCancel(ctx)
	release = every(c.Lease/6, cancel, func() error { return c.source.Prolong(ctx, c.Service, c.holder(), c.Lease) })
	return held, release
}

// finish copies and verifies what is left. Nobody writes.
func (c *Copy) finish(ctx context.Context) error {
	for {
		n, err := c.pass(ctx)
		if err != nil {
			return err
		}
		if n == 0 {
			break
		}
	}
	last := map[*rows.Table]int64{}
	if err := c.source.View(ctx, func(v rows.View) error {
		for _, t := range c.tables {
			if !t.Numbers {
				continue
			}
			n, err := v.Last(t)
			if err != nil {
				return err
			}
			last[t] = n
		}
		return nil
	}); err != nil {
		return err
	}
	if err := c.setLast(ctx, last); err != nil {
		return err
	}
	if err := c.before("verify"); err != nil {
		return err
	}
	var different []string
	if _, err := c.compare(ctx, c.dirty, func(d Difference) { different = append(different, d.String()) }); err != nil {
		return err
	}
	if len(different) > 0 {
		return fmt.Errorf("the copy differs from the source: %s", strings.Join(different[:min(len(different), 10)], "; "))
	}
	// Neither --reopen nor another copy has ended the log since the copy began.
	if err := c.source.KeepLog(ctx, c.Service); errors.Is(err, rows.ErrLapsed) {
		return fmt.Errorf("changes may be missing, because the log of changes was ended, for example by --reopen: run the same command again: %w", err)
	} else if err != nil {
		return err
	}
	return c.source.Update(ctx, func(rows.Update) error { return nil })
}

// setLast sets the last numbers that were assigned in tables.
func (c *Copy) setLast(ctx context.Context, last map[*rows.Table]int64) error {
	return c.target.Update(ctx, func(u rows.Update) error {
		for t, n := range last {
			if err := u.SetLast(t, n); err != nil {
				return err
			}
		}
		return nil
	})
}

// TableSize is a table with its number of rows.
type TableSize struct {
	Name string
	Rows int64
}

// DryRun checks both databases, changes nothing, and returns what would be copied.
func (c *Copy) DryRun(ctx context.Context) (sizes []TableSize, err error) {
	if err := c.open(); err != nil {
		return nil, err
	}
	pending, err := c.Target.Pending(ctx)
	if err != nil {
		return nil, err
	}
	if len(pending) == 0 {
		if err := c.empty(ctx); err != nil {
			return nil, err
		}
	}
	if err := cmp.Or(c.writable(ctx), c.checkOwners(ctx)); err != nil {
		return nil, err
	}
	err = c.source.View(ctx, func(v rows.View) error {
		sizes = nil
		for _, g := range c.Groups {
			for _, t := range g.Tables {
				n, err := v.Count(t, 0)
				if err != nil {
					return err
				}
				sizes = append(sizes, TableSize{t.Name, n})
			}
		}
		return nil
	})
	return sizes, err
}

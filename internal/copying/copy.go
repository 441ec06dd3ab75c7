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

// Copy copies a service's tables to another database while servers use the source. It copies all owners from
// snapshots while the source logs changed keys. Passes copy the rows with these keys until few are left. During the
// last pass the service is read-only, and it stays so.
type Copy struct {
	Service        string           // name, for the state and messages
	Groups         []rows.Group     // service.Service.Tables
	Source, Target *engine.Database // migrated; the target, too
	Owners         rows.Owners      // required if NeedsOwners
	OwnersIn       string           // service whose database contains the owners

	// MaxChanges limits the changed rows in the source's log. At half of it, Run slows writers; at all of it, Run
	// stops and deletes the log. The default is DefaultMaxChanges.
	MaxChanges int64

	// FinishWithin limits Run's duration, unless copying all rows once takes longer: Run slows writers and begins the
	// last pass in time. 0 means no limit.
	FinishWithin time.Duration

	Lease      time.Duration                        // read-only lease in the last pass; the default is 30 s
	Progress   func(what string, done, total int64) // called often; may be nil
	Estimate   func(Estimate)                       // called about every PaceEvery; may be nil
	Report     func(line string)                    // a line for the operator; may be nil
	BeforeStep func(point string) error             // for tests

	// These fields are for tests: the keys per pass, when the log is compacted and measured, and a function called
	// with the number of entries before and after a compaction.
	KeysOfPass   int
	CompactAfter int64
	CompactEvery time.Duration
	PaceEvery    time.Duration
	Compacted    func(before, after int64)

	source, target rows.Database
	from, to       engine.Traits
	tables         map[string]*rows.Table // by name
	groups         map[string]int         // index in Groups by table
	state          State                  // as in the target
	moved          int64                  // rows written by this run
	copied         int64                  // rows in the target when this run started
	total          int64                  // rows in the source when this run started
	dirty          OwnerSet               // owners that changed since they were verified; nil means all owners
	begun          time.Time
	refused        refusal               // how writers are slowed
	logging        sync.Mutex            // held while the log is read and shortened
	step           *atomic.Pointer[Step] // for claims; may be nil
	compacted      int64                 // entries left by the last compaction
}

// State is a copy's progress, in both databases. The source stores only the ID.
type State struct {
	ID     string `json:"id"`               // of the copy, or fillID
	Target bool   `json:"target,omitempty"` // this database is the target
	Group  int    `json:"group,omitempty"`  // the group that is copied
	After  string `json:"after,omitempty"`  // copied up to this owner
	Copied bool   `json:"copied,omitempty"` // all owners were copied once
	Done   bool   `json:"done,omitempty"`   // complete and compared
	Claim  *Claim `json:"claim,omitempty"`  // nil: no process uses the database
}

// DefaultMaxChanges is the default of Copy.MaxChanges. An entry takes 100 to 200 bytes.
const DefaultMaxChanges = 5_000_000

// ShortPass is the maximum duration of a pass before the last pass begins.
const ShortPass = time.Second

const (
	rowsOfUpdate = 20_000      // per transaction, unless the engine has a lower limit
	bytesOfBatch = 2 << 20     // in memory for such a transaction
	reportEvery  = time.Minute // how often Run reports that writes arrive as fast as they are copied
	copyLease    = 30 * time.Second
)

// Run copies everything and leaves the service read-only on the source. It continues an interrupted copy. After an
// error the source accepts writes again, unless the error says otherwise.
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
		c.dirty = OwnerSet{}
	}
	if err := c.whileLogged(ctx, c.copyWhileLogged); err != nil {
		if errors.Is(err, errFull) {
			c.unlog(context.WithoutCancel(ctx))
		}
		return err
	}
	return c.lastPass(ctx)
}

// copyWhileLogged copies all owners and their changes, and compares everything once while the source accepts writes,
// so that the last pass has little left to compare.
func (c *Copy) copyWhileLogged(ctx context.Context) error {
	if err := c.copyOwners(ctx); err != nil {
		return err
	}
	if err := c.catchUp(ctx); err != nil {
		return err
	}
	// Owners that were equal and do not change until the last pass need not be compared again.
	only, dirty := c.dirty, OwnerSet{}
	c.dirty = dirty
	if _, err := c.compare(ctx, only, func(d Difference) { dirty.Add(d.Owner, c.affected(d.group, d.table)...) }); err != nil {
		return err
	}
	if c.withNames() {
		// An owner's number may change, and the engine may expire rows, both without a log entry.
		if err := c.copyAgain(ctx, dirty); err != nil {
			return err
		}
	}
	return c.catchUp(ctx)
}

// open prepares both databases and sets defaults. It returns errors if source and target do not fit.
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

// NeedsOwners reports whether Copy.Owners must be set, because an engine names owners by texts and the other by
// numbers.
func (c *Copy) NeedsOwners() bool {
	return c.Source.Traits().NamesOwners || c.Target.Traits().NamesOwners
}

// withNames is NeedsOwners after open.
func (c *Copy) withNames() bool { return c.from.NamesOwners || c.to.NamesOwners }

func (c *Copy) reportf(format string, args ...any) {
	if c.Report != nil {
		c.Report(fmt.Sprintf(format, args...))
	}
}

// progress also stores the step in the claims, for the console.
func (c *Copy) progress(what string, done, total int64) {
	if c.step != nil {
		c.step.Store(&Step{what, done, total})
	}
	if c.Progress != nil {
		c.Progress(what, done, total)
	}
}

// before lets a test stop the copy at a point.
func (c *Copy) before(point string) error {
	if c.BeforeStep == nil {
		return nil
	}
	return c.BeforeStep(point)
}

// begin continues the interrupted copy in the target, if the source still logs its changes, or else begins a new one.
// isNew is false if it continues. If the copy is complete already, c.state.Done is true.
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
		return false, fmt.Errorf("%s: %s contains only part of an unfinished copy", c.Service, c.Source.Where)
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
	// Check this first, while the source does not contain this copy's ID: another copy may be complete.
	if err := cmp.Or(c.writable(ctx), c.checkOwners(ctx)); err != nil {
		return false, err
	}
	return true, c.beginNew(ctx)
}

// endAgain fails if the source accepts writes again or belongs to another copy.
func (c *Copy) endAgain(ctx context.Context, source State) error {
	hold, err := c.source.ReadOnly(ctx, c.Service)
	switch {
	case err != nil:
		return err
	case source.ID != c.state.ID || hold.Holder != c.holder():
		return fmt.Errorf("%s: %s already has a complete copy: choose an empty database, or compare it with --verify", c.Service, c.Target.Where)
	}
	c.reportf("everything is copied already")
	c.unlog(ctx)
	return nil
}

// holder is the name under which the copy makes the service read-only.
func (c *Copy) holder() string { return readonly.ByCopy(c.state.ID) }

// writable returns an error if the source is read-only for good: then it would stay so, and its server writes
// elsewhere.
func (c *Copy) writable(ctx context.Context) error {
	hold, err := c.source.ReadOnly(ctx, c.Service)
	if err == nil && hold.Holder != "" && hold.Until.IsZero() {
		err = errcode.Newf(errcode.Conflict, "%s: %s is %s: %s", c.Service, c.Source.Where, readonly.Describe(hold, ""), readonly.End(c.Service, hold.Holder))
	}
	return err
}

// unlog ignores errors, because a leftover log costs only space.
func (c *Copy) unlog(ctx context.Context) {
	if err := c.source.Unlog(ctx, c.Service, c.Groups); err != nil {
		c.reportf("the change log was not removed: %v", err)
	}
}

// checkOwners returns an error if the source has data for owners that the other service does not know. They would be
// lost without a message.
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

// IsPart reports an incomplete target, which only the copy may write.
func (s State) IsPart() bool { return s.Target && !s.Done }

// IsImport reports a state that package importing wrote.
func (s State) IsImport() bool { return s.ID == fillID }

// ErrPart means that a database is an incomplete copy, which only the copy may write.
var ErrPart = errors.New("its database contains only part of a copy or import: run the same command (holdfast copy or holdfast import) again, or wait for its end")

// CheckWhole returns ErrPart for an incomplete copy. It ignores read errors, because other calls return them.
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

type stateReader interface {
	State(service string) (string, error)
}

// ReadState reads a database's copy state, which is empty if there is no copy.
func ReadState(from stateReader, service string) (state State, err error) {
	text, err := from.State(service)
	if err == nil && text != "" {
		err = json.Unmarshal([]byte(text), &state)
	}
	return state, err
}

// empty returns errcode.Invalid if the target contains data. Rows that a migration or a server's start writes do not
// count, nor does an incomplete copy.
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
					return errcode.Newf(errcode.Invalid, "%s: the table %s in %s is not empty: choose an empty database", c.Service, t.Name, c.Target.Where)
				}
			}
		}
		return nil
	})
}

// beginNew copies the secret hashes, starts the source's log, and deletes leftovers in the target. The order matters:
// rows are read only when their changes are logged.
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
	// Store the ID first: a copy with another ID does not continue with the new log.
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

// setState stores the state in the transaction that writes the rows it describes.
func (c *Copy) setState(u rows.Update, state State) error {
	return setState(u, c.Service, state)
}

// setState stores a state as JSON.
func setState(u rows.Update, service string, state State) error {
	text, err := json.Marshal(state)
	if err != nil {
		return err
	}
	return u.SetState(service, string(text))
}

// lastPass makes the service read-only, copies the last changes and compares. If that fails, the source accepts
// writes again, unless the target may be complete already.
func (c *Copy) lastPass(ctx context.Context) error {
	if err := c.before("close"); err != nil {
		return err
	}
	start := time.Now()
	err := c.source.Close(ctx, c.Service, c.holder(), c.Lease, c.Groups)
	if errcode.Is(err, errcode.Conflict) {
		return err // another holder made it read-only
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
		// The target may be complete, so the source must not accept writes again.
		return fmt.Errorf("everything is copied, and the service stays read-only: run the same command again: %w", err)
	}
	c.reportf("everything is copied and equal; the last pass took %s", time.Since(start).Round(time.Millisecond))
	c.unlog(ctx)
	return nil
}

// reopen retries until the lease ends, because the source may be restarting, and read-only mode may be permanent.
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

// whileClosed finishes the copy while it holds the read-only lease, and then makes read-only mode permanent.
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

// hold prolongs the lease until release is called. release fails if the lease ended. held is done when the lease
// ends.
func (c *Copy) hold(ctx context.Context) (held context.Context, release func() error) {
	held, cancel := context.WithCancel(ctx)
	release = every(c.Lease/6, cancel, func() error { return c.source.Prolong(ctx, c.Service, c.holder(), c.Lease) })
	return held, release
}

// finish copies the rest, the last assigned numbers and recorded work (rows.WorkOf), and compares the owners that
// changed. A difference is an error.
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
	last, work := map[*rows.Table]int64{}, ""
	if err := c.source.View(ctx, func(v rows.View) (err error) {
		if work, err = v.State(rows.WorkOf(c.Service)); err != nil {
			return err
		}
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
	if work != "" {
		if err := c.target.Update(ctx, func(u rows.Update) error { return u.SetState(rows.WorkOf(c.Service), work) }); err != nil {
			return err
		}
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
	// KeepLog succeeds only if neither --reopen nor another copy ended the log since the copy began.
	if err := c.source.KeepLog(ctx, c.Service); errors.Is(err, rows.ErrLapsed) {
		return fmt.Errorf("changes may be missing, because the change log was ended, e.g. by --reopen: run the same command again: %w", err)
	} else if err != nil {
		return err
	}
	return c.source.Update(ctx, func(rows.Update) error { return nil })
}

// setLast sets the last assigned numbers, so that the target does not assign a number twice.
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

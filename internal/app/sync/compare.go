package sync

import (
	"context"
	"fmt"
	"strings"
	"time"

	"holdfast/internal/app/service"
	"holdfast/internal/db/engine"
	"holdfast/internal/db/rows"
	"holdfast/internal/db/sqlitedb"
	"holdfast/internal/errcode"
	"holdfast/internal/operate"
	"holdfast/internal/syncstorage"
	"holdfast/internal/syncstorage/sqlite"
)

// notes keeps a comparison beside the records. holdfast copy carries it to the next database.
type notes struct{ db rows.Database }

// Load returns the stored comparison, or "". See syncstorage.Notes.
func (n notes) Load(ctx context.Context) (text string, err error) {
	err = n.db.View(ctx, func(v rows.View) (err error) {
		text, err = v.State(rows.WorkOf(Name))
		return err
	})
	return text, err
}

// Swap stores next only if the stored text is still was, because several servers may share the database.
func (n notes) Swap(ctx context.Context, was, next string) (ok bool, err error) {
	err = n.db.Update(ctx, func(u rows.Update) error {
		text, err := u.State(rows.WorkOf(Name))
		if ok = err == nil && text == was; !ok {
			return err
		}
		return u.SetState(rows.WorkOf(Name), next)
	})
	return ok && err == nil, err
}

// openComparer lets the server run comparisons, and begins one after each restore. It cannot be proven that a restored
// copy lacks nothing: the server may have continued after a backup, or after it lost its replica.
func (s *Storage) openComparer(opened *service.Opened, db *engine.Database) {
	s.comparer = syncstorage.NewComparer(s.opened, notes{db.Rows(nil)}, s.deps.Clock, s.deps.Log.With("service", Name))
	opened.AfterRestore = append(opened.AfterRestore, service.RestoreStep{
		Doc: "recording that browsers must compare their data with the restored copy, when the server starts",
		Run: func(ctx context.Context, _ service.Restored) error { return s.comparer.Begin(ctx) },
	})
	// For a copy that an operator puts in place without holdfast restore.
	db.AfterBackup = func(ctx context.Context, copied *sqlitedb.DB) error {
		if err := sqlite.New(copied).EndBatches(ctx); err != nil {
			return err
		}
		return syncstorage.NewComparer(s.opened, notes{copied.Rows()}, s.deps.Clock, s.deps.Log).Begin(ctx)
	}
	start := opened.Start
	opened.Start = func(ctx context.Context) (func() error, error) {
		stopOther := func() error { return nil }
		if start != nil {
			var err error
			if stopOther, err = start(ctx); err != nil {
				return nil, err
			}
		}
		running, end := context.WithCancel(context.WithoutCancel(ctx))
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			s.comparer.Run(running)
		}()
		return func() error {
			end()
			<-ended
			return stopOther()
		}, nil
	}
}

// compareOperations declares the comparison of browsers' data with the server's: its state, its start, which is a
// background job in a server, and its end.
func (s *Storage) compareOperations() []operate.Operation {
	return []operate.Operation{
		operate.NewList(operate.About{
			Access: operate.ForViewers, Path: "comparisons", Doc: "Show the latest comparison of all users", Title: "Browser comparisons",
			Group: "Make browsers compare their data with the server's", Empty: "No comparison of all users has begun.",
			Text: "After a restore, browsers compare all their data with the server's, and upload the data that the restored copy lacks.",
		}, s.listComparisons),
		operate.NewJob(operate.About{
			Path: "comparisons/run", Doc: "Make browsers compare all their data with the server's", Title: "Compare", Button: "Compare now",
			Short: "compare", Background: true, Begun: "comparison started", Stop: "Stop watching",
			More: "Replaces the ID of each engine in a user's meta/global record. The user's browsers then start over as at a\n" +
				"first sync: they download everything, and upload the data that the server lacks. Nothing on the server is deleted.\n" +
				"Deletions that the server does not know come back. Without a UID, all users are compared, at the rate of\n" +
				"syncstorage.compare_rate; an unfinished comparison continues. If the command is stopped, the server goes on\n" +
				"by itself. holdfast restore begins a comparison, too.",
			Example: "\n17\n",
			Ask:     "Browsers will download all their data again.",
		}, s.runComparison),
		operate.NewChange(operate.About{
			Path: "comparisons/stop", Doc: "End the comparison of all users before its end", Button: "End it", Danger: true,
			Ask: "Browsers of the users that are left may never upload the data that a restored copy lacks.",
		}, s.stopComparison),
	}
}

// errDisabled is returned by every operation while the service is disabled.
var errDisabled = errcode.New(errcode.Conflict, "Firefox Sync storage is disabled: set syncstorage.enabled = true")

// compareInput names a single storage user; UID 0 means all users.
type compareInput struct {
	UID    int64  `flag:"uid" arg:"UID" value:"UID" doc:"only this storage user's UID" least:"0" example:"17"`
	FxAUID string `flag:"fxa-uid" value:"ID" doc:"account ID at the accounts server; only Spanner needs it"`
	FxAKID string `flag:"fxa-kid" value:"ID" doc:"ID of the account's keys; only Spanner needs it"`
}

// Check refuses a key without a UID, which would compare all users.
func (in compareInput) Check() error {
	switch {
	case in.UID < 0:
		return &operate.InputError{Input: "uid", Reason: "must be at least 1"}
	case in.UID == 0 && in.FxAUID+in.FxAKID != "":
		return &operate.InputError{Input: "uid", Reason: "required with --fxa-uid and --fxa-kid"}
	}
	return nil
}

// comparison is the state of a comparison of all users, or the result for a single user. Each user is counted once.
type comparison struct {
	State string    `json:"state" title:"State" enum:"running,ended"`
	Begun time.Time `json:"begun" title:"Began"`
	// Ended is missing while users are left.
	Ended     time.Time `json:"ended,omitzero" title:"Ended"`
	Changed   int64     `json:"changed" title:"Changed" least:"0" doc:"users whose browsers compare"`
	Missing   int64     `json:"missing" title:"No record" least:"0" doc:"users without the record meta/global, whose browsers start over anyway"`
	Malformed int64     `json:"malformed" title:"Malformed" least:"0" doc:"users whose record is not as browsers write it, and was left alone"`
	Bare      int64     `json:"bare" title:"No engine" least:"0" doc:"users whose record names no engine with an ID, and was left alone"`
	Failed    int64     `json:"failed" title:"Failed" least:"0" doc:"users whose record cannot be read or written; the log names them"`

	// isOne says that a single user was compared, so that no work remains.
	isOne bool
}

// Offers the button that ends the comparison while users are left.
func (c comparison) Offers(string) bool { return c.Ended.IsZero() }

// IsPartial reports that users are left: the server continues without the command.
func (c comparison) IsPartial() bool { return !c.isOne && c.Ended.IsZero() }

// Notice counts the users whose browsers compare, and each reason why others do not.
func (c comparison) Notice() string {
	var text strings.Builder
	fmt.Fprintf(&text, "the browsers of %s compare all their data at their next sync", service.Count(c.Changed, "user"))
	for _, other := range []struct {
		n   int64
		why string
	}{
		{c.Missing, "without meta/global, so browsers start over anyway"},
		{c.Malformed, "left alone, because meta/global is malformed"},
		{c.Bare, "left alone, because meta/global names no engine"},
		{c.Failed, "failed: the log names them"},
	} {
		if other.n > 0 {
			fmt.Fprintf(&text, "; %s %s", service.Count(other.n, "user"), other.why)
		}
	}
	return text.String()
}

// comparisonOf converts a stored comparison for people.
func comparisonOf(c syncstorage.Comparison) comparison {
	state := "ended"
	if c.IsRunning() {
		state = "running"
	}
	return comparison{State: state, Begun: c.Begun, Ended: c.Ended, Changed: c.Changed, Missing: c.Missing, Malformed: c.Malformed, Bare: c.Bare, Failed: c.Failed}
}

// listComparisons returns the latest comparison of all users, running or not; a restore may have begun it.
func (s *Storage) listComparisons(ctx context.Context, _ operate.None) (all []comparison, err error) {
	if s.opened == nil {
		return nil, errDisabled
	}
	latest, err := s.comparer.Latest(ctx)
	if err != nil || latest.Begun.IsZero() {
		return nil, err
	}
	return []comparison{comparisonOf(latest)}, nil
}

// runComparison begins a comparison, or joins the running one, and waits for its end. When the command or the job is
// stopped, the comparison stays recorded, and servers continue it.
func (s *Storage) runComparison(ctx context.Context, in compareInput, progress operate.Progress) (out comparison, err error) {
	if s.opened == nil {
		return out, errDisabled
	}
	if in.UID != 0 {
		return s.compareOne(ctx, in)
	}
	latest, err := s.comparer.Latest(ctx)
	if err != nil || !latest.IsRunning() { // an unreadable note is replaced
		if err := s.comparer.Begin(ctx); err != nil {
			return out, err
		}
	}
	latest, err = s.comparer.RunOnce(ctx, func(c syncstorage.Comparison) { progress.Report(c.Users(), 0) })
	if ctx.Err() != nil {
		err = operate.ErrStopped
	}
	return comparisonOf(latest), err
}

// compareOne compares a single user at once. Nothing is recorded, so a failure is not retried.
func (s *Storage) compareOne(ctx context.Context, in compareInput) (out comparison, err error) {
	if s.onSpanner() && (in.FxAUID == "" || in.FxAKID == "") {
		return out, &operate.InputError{Input: "uid", Reason: "requires --fxa-uid and --fxa-kid on Spanner, where they are part of the key"}
	}
	begun := s.deps.Clock()
	c, err := s.opened.Compare(ctx, syncstorage.Owner{UID: in.UID, FxAUID: in.FxAUID, FxAKID: in.FxAKID}, s.deps.Clock)
	if err != nil {
		return out, err
	}
	out = comparisonOf(syncstorage.Comparison{Begun: begun, Ended: s.deps.Clock(), Compared: c})
	out.isOne = true
	return out, nil
}

// stopped is the comparison that comparisons/stop ended.
type stopped struct{ comparison }

func (s stopped) Notice() string {
	return "the comparison is ended: " + s.comparison.Notice()
}

// stopComparison ends the comparison for all servers with this database. It returns errcode.Conflict if no comparison
// is running.
func (s *Storage) stopComparison(ctx context.Context, _ operate.None) (out stopped, err error) {
	if s.opened == nil {
		return out, errDisabled
	}
	c, err := s.comparer.Stop(ctx)
	return stopped{comparisonOf(c)}, err
}

package syncstorage

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"time"

	"holdfast/internal/clock"
	"holdfast/internal/errcode"
)

// A browser remembers the time of its last sync and uploads only later changes. After a restore it never uploads again
// the data that the restored copy lacks. A comparison gives each engine in a user's meta/global record another ID, so that the
// user's browsers start each engine over, as at a first sync: they download everything, and upload the data that
// the server lacks.

// Compared counts users by what a comparison did with their meta/global record.
type Compared struct {
	Changed   int64 `json:"changed"`   // their browsers start over
	Missing   int64 `json:"missing"`   // they have no such record, so their browsers start over anyway
	Malformed int64 `json:"malformed"` // not JSON as browsers write it: left alone
	Bare      int64 `json:"bare"`      // no engine in it has an ID: left alone
	Failed    int64 `json:"failed"`    // reading or writing it failed, although the database is available; the log says why
}

// Users returns the number of users that were looked at.
func (c Compared) Users() int64 { return c.Changed + c.Missing + c.Malformed + c.Bare + c.Failed }

// add adds counts.
func (c Compared) add(d Compared) Compared {
	return Compared{c.Changed + d.Changed, c.Missing + d.Missing, c.Malformed + d.Malformed, c.Bare + d.Bare, c.Failed + d.Failed}
}

const (
	metaCollection = "meta"
	metaGlobal     = "global"
)

// compareAttempts is how often Compare reads the record again because a client changed it meanwhile.
const compareAttempts = 5

// Compare makes the user's browsers compare all their data with the server's. It counts one user.
//
// The change is a write like a client's, on the condition that no client changed the record since it was read. So the
// record and its collection get a new time, which browsers look at. It changes no expiry, and no quota refuses it.
func (s *Service) Compare(ctx context.Context, o Owner, now clock.Clock) (c Compared, err error) {
	for range compareAttempts {
		if c, err = s.compare(ctx, o, At(now())); !errcode.Is(err, errcode.Precondition) {
			return c, err
		}
	}
	return Compared{}, errcode.New(errcode.Conflict, "browsers changed the user's meta/global record at the same time: try again")
}

// compare is an attempt at Compare. It returns errcode.Precondition if a client changed the record meanwhile.
func (s *Service) compare(ctx context.Context, o Owner, now Timestamp) (Compared, error) {
	b, err := s.store.Get(ctx, o, Request{Collection: metaCollection, Now: now}, metaGlobal)
	if errcode.Is(err, errcode.NotFound) {
		return Compared{Missing: 1}, nil
	}
	if err != nil {
		return Compared{}, err
	}
	payload, n, err := ReplaceSyncIDs(b.Payload, NewSyncID)
	if err != nil {
		return Compared{Malformed: 1}, nil //nolint:nilerr // the record is counted
	}
	if n == 0 {
		return Compared{Bare: 1}, nil
	}
	w := s.write(Request{Collection: metaCollection, Now: now, If: Precondition{UnmodifiedSince: Some(b.Modified)}})
	w.Quota.Enforce = false // an ID may be longer than the ID before
	if _, err := s.store.Put(ctx, o, w, Update{ID: metaGlobal, Payload: Some(payload)}); err != nil {
		return Compared{}, err
	}
	return Compared{Changed: 1}, nil
}

// Comparison is a comparison of all users. It is kept in the database, so that it goes on after the process was killed.
type Comparison struct {
	Begun time.Time `json:"begun"`
	Ended time.Time `json:"ended,omitzero"`
	// Next is when the next users may be changed. Servers with the same database share the rate by it.
	Next time.Time `json:"next"`
	// After is the last user that is done. In another engine's database, whose users have other keys, it may be before all
	// users: then the comparison starts again.
	After Owner `json:"after"`
	Compared
}

// IsRunning reports whether users are left.
func (c Comparison) IsRunning() bool { return !c.Begun.IsZero() && c.Ended.IsZero() }

// Notes keeps the Comparison as text in the database of the records. It is safe for concurrent use, also by several
// processes.
type Notes interface {
	// Load returns "" if nothing was stored.
	Load(ctx context.Context) (string, error)
	// Swap stores next if the text is still was, and otherwise returns false.
	Swap(ctx context.Context, was, next string) (bool, error)
}

// Comparer runs comparisons of all users. Every process with the database may run one. It is safe for concurrent use:
// loops at the same time share the steps.
type Comparer struct {
	Service *Service
	Notes   Notes
	Clock   clock.Clock
	Log     *slog.Logger

	wake chan struct{}
}

// NewComparer returns a Comparer for all users in the service's database.
func NewComparer(s *Service, n Notes, c clock.Clock, log *slog.Logger) *Comparer {
	return &Comparer{s, n, c, log, make(chan struct{}, 1)}
}

// Latest returns the latest comparison, or the zero Comparison.
func (c *Comparer) Latest(ctx context.Context) (Comparison, error) {
	latest, _, err := c.load(ctx)
	return latest, err
}

// load also returns the text, for swap. After an error about its contents, text is set.
func (c *Comparer) load(ctx context.Context) (latest Comparison, text string, err error) {
	if text, err = c.Notes.Load(ctx); err != nil || text == "" {
		return latest, text, err
	}
	if err := json.Unmarshal([]byte(text), &latest); err != nil {
		return latest, text, errcode.Wrap(errcode.Internal, "the note about the comparison of browsers is not valid: begin another comparison", err)
	}
	return latest, text, nil
}

// swap returns the text that it stored.
func (c *Comparer) swap(ctx context.Context, was string, next Comparison) (text string, ok bool, err error) {
	b, err := json.Marshal(next)
	if err != nil {
		return "", false, err
	}
	ok, err = c.Notes.Swap(ctx, was, string(b))
	return string(b), ok, err
}

// Begin records a comparison of all users, in place of any that runs. Users that were compared before are compared
// again.
func (c *Comparer) Begin(ctx context.Context) error {
	return c.change(ctx, func(Comparison) (Comparison, error) {
		now := c.Clock().UTC()
		return Comparison{Begun: now, Next: now}, nil
	})
}

// errNoComparison is the error of Stop.
var errNoComparison = errcode.New(errcode.Conflict, "no comparison is running")

// Stop ends the comparison that runs. It returns errcode.Conflict if no comparison runs.
func (c *Comparer) Stop(ctx context.Context) (stopped Comparison, err error) {
	err = c.change(ctx, func(latest Comparison) (Comparison, error) {
		if !latest.IsRunning() {
			return latest, errNoComparison
		}
		stopped = latest
		stopped.Ended = c.Clock().UTC()
		return stopped, nil
	})
	return stopped, err
}

// change replaces the comparison by next's result, again and again until no other process changed it meanwhile. It
// wakes Run.
func (c *Comparer) change(ctx context.Context, next func(Comparison) (Comparison, error)) error {
	for {
		latest, was, err := c.load(ctx)
		if err != nil && was == "" {
			return err
		}
		changed, err := next(latest)
		if err != nil {
			return err
		}
		if _, ok, err := c.swap(ctx, was, changed); err != nil || ok {
			select {
			case c.wake <- struct{}{}:
			default:
			}
			return err
		}
	}
}

// Step compares the next users, and returns the time until the next step. If it is not yet time for a step, or another
// process took it, Step compares nobody.
//
// It first reserves the step for stepLease, and records the users afterwards. If the process is killed between the two,
// the same users are compared again after the lease.
func (c *Comparer) Step(ctx context.Context) (latest Comparison, wait time.Duration, err error) {
	latest, was, err := c.load(ctx)
	if err != nil || !latest.IsRunning() {
		return latest, 0, err
	}
	n, period := c.Service.comparePace()
	now := c.Clock().UTC()
	// A Next further away is from a slower rate, or the clock was set back.
	if wait = latest.Next.Sub(now); wait > 0 && wait <= period+stepLease {
		return latest, wait, nil
	}
	claimed := latest
	claimed.Next = now.Add(period + stepLease)
	was, ok, err := c.swap(ctx, was, claimed)
	if err != nil || !ok {
		return latest, period, err
	}
	done, err := c.compareNext(ctx, claimed, n)
	if err != nil {
		return latest, period, err
	}
	done.Next = now.Add(period)
	if _, ok, err = c.swap(ctx, was, done); err != nil || !ok { // not ok: it was stopped, or this step took too long
		return claimed, period, err
	}
	if !done.IsRunning() {
		c.Log.Info("the browsers of all users were told to compare their data", "changed", done.Changed, "missing", done.Missing, "malformed", done.Malformed, "bare", done.Bare, "failed", done.Failed)
	}
	return done, period, nil
}

// stepLease is how long a process may take for a step before another process takes it.
const stepLease = 10 * time.Second

// compareNext compares at most n users. After an error, it returns the unchanged state: these users are compared again.
func (c *Comparer) compareNext(ctx context.Context, from Comparison, n int) (Comparison, error) {
	owners, err := c.Service.store.Owners(ctx, from.After, n)
	if err != nil {
		return from, err
	}
	for _, o := range owners {
		result, err := c.Service.Compare(ctx, o, c.Clock)
		if ctx.Err() != nil || errcode.Is(err, errcode.Unavailable) {
			return from, err // nobody can be compared now
		}
		if err != nil { // the users after this one do not wait for it
			c.Log.Error("a user's browsers cannot be told to compare their data: run holdfast sync compare UID", "uid", o.UID, "error", err)
			result = Compared{Failed: 1}
		}
		from.Compared, from.After = from.add(result), o
	}
	if len(owners) < n {
		from.Ended = c.Clock().UTC()
	}
	return from, nil
}

// CompareRate returns how many users per minute are compared.
func (s *Service) CompareRate() int { return s.conf.Load().CompareRate }

// comparePace returns how many users a step compares, and the time from one step to the next.
func (s *Service) comparePace() (users int, period time.Duration) {
	perMinute := s.CompareRate()
	users = max(1, perMinute/60)
	return users, time.Duration(users) * time.Minute / time.Duration(perMinute)
}

// idle is how often Run looks for a comparison that another process began.
const idle = time.Minute

// retryAfter is the pause of Run after an error, e.g. while the service is read-only.
const retryAfter = 10 * time.Second

// Run runs all comparisons until ctx ends. It logs errors and tries again.
func (c *Comparer) Run(ctx context.Context) {
	for failed := false; ; {
		latest, wait, err := c.Step(ctx)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			if !failed && !errors.Is(err, context.Canceled) {
				c.Log.Warn("browsers cannot be told to compare their data", "error", err, "retry_in", retryAfter)
			}
			failed, wait = true, retryAfter
		case !latest.IsRunning():
			failed, wait = false, idle
		default:
			failed = false
		}
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-c.wake:
		case <-ctx.Done():
		}
		timer.Stop()
		if ctx.Err() != nil {
			return
		}
	}
}

// RunOnce runs the comparison that is recorded until it ends, together with other processes. progress gets its state
// after each step.
func (c *Comparer) RunOnce(ctx context.Context, progress func(Comparison)) (latest Comparison, err error) {
	for {
		latest, wait, err := c.Step(ctx)
		if err != nil || !latest.IsRunning() {
			return latest, err
		}
		progress(latest)
		if !clock.Sleep(ctx, wait) {
			return latest, ctx.Err()
		}
	}
}

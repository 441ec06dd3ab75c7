package copying

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"holdfast/internal/clock"
	"holdfast/internal/db/rows"
	"holdfast/internal/errcode"
	"holdfast/internal/ident"
)

// Only one copy may use a database: two copies to a target would overwrite new rows with old rows, and two from a
// source would delete each other's log entries. A copy writes its Claim into the state of both databases, with a new
// Beat in each transaction and every beatEvery. Another copy waits claimPatience for a new Beat, so it needs neither
// clock nor session and continues soon after kill -9. A copy that was merely suspended finds the claim of another
// copy in its next transaction, which it rolls back.
const (
	beatEvery     = 500 * time.Millisecond
	claimPatience = 3 * time.Second
)

// Claim is the copy or import that uses a database, with its progress for a server's console.
type Claim struct {
	ID   string `json:"id"`   // identifies the process's copy
	By   string `json:"by"`   // process and host, for messages
	Beat string `json:"beat"` // changes with each transaction

	Kind  string `json:"kind"`           // "copy" or "import"
	From  string `json:"from,omitempty"` // source, without credentials
	To    string `json:"to,omitempty"`   // target, without credentials
	Began int64  `json:"began"`          // Unix milliseconds, like At
	At    int64  `json:"at"`             // when Beat was set
	Step
}

// Step says how far the running step is, as in Copy.Progress.
type Step struct {
	Doing string `json:"doing,omitempty"` // e.g. "rows"
	Done  int64  `json:"done,omitempty"`
	Total int64  `json:"total,omitempty"` // 0: unknown
}

// newClaim returns this process's claim, for both databases. kind is "copy" or "import".
func (c *Copy) newClaim(kind string) *Claim {
	c.step = &atomic.Pointer[Step]{}
	o := &Claim{ID: ident.New(), By: fmt.Sprintf("process %d", os.Getpid()), Kind: kind, From: c.Source.Where, To: c.Target.Where, Began: time.Now().UnixMilli()}
	if host, err := os.Hostname(); err == nil {
		o.By += " on host " + host
	}
	return o
}

// claimed is a database with a claim, which each Update checks and renews.
type claimed struct {
	rows.Database

	service, where string
	own            *Claim
	step           *atomic.Pointer[Step] // nil until the first step begins
}

// errClaimed names the process that holds the claim.
func (d *claimed) errClaimed(by *Claim) error {
	return errcode.Newf(errcode.Conflict, "%s: another copy or import (%s) is using %s: wait for its end, or stop it", d.service, by.By, d.where)
}

// state reads the copy's state with the claim.
func (d *claimed) state(ctx context.Context) (state State, err error) {
	err = d.View(ctx, func(v rows.View) (err error) { state, err = ReadState(v, d.service); return err })
	return state, err
}

// acquire returns errcode.Conflict if another copy is running.
func (d *claimed) acquire(ctx context.Context) error {
	first, err := d.state(ctx)
	if err != nil {
		return err
	}
	last := first
	for end := time.Now().Add(claimPatience); last.Claim != nil && time.Now().Before(end); {
		if !clock.Sleep(ctx, beatEvery/5) {
			return ctx.Err()
		}
		if last, err = d.state(ctx); err != nil {
			return err
		}
		if last.Claim != nil && *last.Claim != *first.Claim {
			return d.errClaimed(last.Claim)
		}
	}
	return d.Database.Update(ctx, func(u rows.Update) error {
		now, err := ReadState(u, d.service)
		if err != nil {
			return err
		}
		if now.Claim != nil && (last.Claim == nil || *now.Claim != *last.Claim) {
			return d.errClaimed(now.Claim)
		}
		return d.set(u, now)
	})
}

// set stores the state with a new Beat and the latest progress.
func (d *claimed) set(u rows.Update, state State) error {
	own := *d.own
	own.Beat, own.At = ident.New(), time.Now().UnixMilli()
	if step := d.step.Load(); step != nil {
		own.Step = *step
	}
	state.Claim = &own
	return setState(u, d.service, state)
}

// Update checks the claim at the end of the transaction, so that others can read the claim until then.
func (d *claimed) Update(ctx context.Context, fn func(rows.Update) error) error {
	return d.Database.Update(ctx, func(u rows.Update) error {
		later := &laterState{Update: u, service: d.service}
		if err := fn(later); err != nil {
			return err
		}
		state, err := ReadState(u, d.service)
		switch {
		case err != nil:
			return err
		case state.Claim == nil || state.Claim.ID != d.own.ID:
			return errcode.Newf(errcode.Conflict, "%s: another copy or import has continued with %s, because this one was suspended", d.service, d.where)
		}
		if later.text != "" {
			state = State{}
			if err := json.Unmarshal([]byte(later.text), &state); err != nil {
				return err
			}
		}
		return d.set(u, state)
	})
}

// laterState delays the state of the copy until the claim is checked.
type laterState struct {
	rows.Update

	service, text string
}

// SetState keeps the copy's own state for claimed.Update. Other states are stored at once.
func (u *laterState) SetState(service, text string) error {
	if service != u.service {
		return u.Update.SetState(service, text)
	}
	u.text = text
	return nil
}

// unwrap returns the engine's Update, for interfaces that laterState hides, such as rows.RawUpdate.
func unwrap(u rows.Update) rows.Update {
	if later, ok := u.(*laterState); ok {
		return later.Update
	}
	return u
}

// check renews the claim, or returns an error if another copy has it.
func (d *claimed) check(ctx context.Context) error {
	return d.Update(ctx, func(rows.Update) error { return nil })
}

// release ignores errors, because the next copy then just waits.
func (d *claimed) release(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), claimPatience)
	defer cancel()
	_ = d.Database.Update(ctx, func(u rows.Update) error {
		state, err := ReadState(u, d.service)
		if err != nil || state.Claim == nil || state.Claim.ID != d.own.ID {
			return err
		}
		state.Claim = nil
		return setState(u, d.service, state)
	})
}

// claimAll claims all databases at once and renews the claims until release is called. An error releases the claims
// that were acquired.
func claimAll(ctx context.Context, all ...*claimed) (release func(), err error) {
	ctx, cancel := context.WithCancel(ctx)
	var beats errgroup.Group
	release = func() {
		cancel()
		_ = beats.Wait()
		for _, d := range all {
			d.release(ctx)
		}
	}
	acquired := make(chan error, len(all))
	for _, d := range all {
		beats.Go(func() error {
			err := d.acquire(ctx)
			acquired <- err
			for err == nil && clock.Sleep(ctx, beatEvery) {
				_ = d.check(ctx) // the next Update returns the error, too
			}
			return err
		})
	}
	for range all {
		err = cmp.Or(err, <-acquired)
	}
	if err != nil {
		release()
		return nil, err
	}
	return release, nil
}

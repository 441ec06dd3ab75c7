package maintenance

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"holdfast/internal/buckets"
	"holdfast/internal/clock"
	"holdfast/internal/durable"
	"holdfast/internal/errcode"
)

// The lease for audits and drains. If its process dies, the next command in the same data folder takes over
// immediately, and other processes after leaseTime.
const (
	leaseName = "maintenance"
	leaseTime = 30 * time.Second
	leasePoll = leaseTime / 6
	endTime   = 10 * time.Second
)

var errLeaseLost = errcode.New(errcode.Unavailable,
	"the maintenance lease could not be extended, so another audit or drain may have started: run the command again to continue")

// leased runs fn under the maintenance lease. The caller has locked the folder.
func (s *Service) leased(ctx context.Context, wait func(string), fn func(context.Context) error) error {
	l, err := newLease(s.o.Folder)
	if err != nil {
		return err
	}
	if err := s.takeLease(ctx, l, wait); err != nil {
		return err
	}
	return s.holding(ctx, l, fn)
}

// holding runs fn while the lease is extended, and ends the lease after fn. fn's context is canceled if the lease is
// lost.
func (s *Service) holding(ctx context.Context, l buckets.Lease, fn func(context.Context) error) error {
	held, cancel := context.WithCancelCause(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		s.extendLease(held, l, cancel)
	}()
	err := fn(held)
	if err != nil && ctx.Err() == nil && errors.Is(context.Cause(held), errLeaseLost) {
		err = errLeaseLost
	}
	cancel(nil)
	<-ended
	ctx, done := context.WithTimeout(context.WithoutCancel(ctx), endTime)
	defer done()
	_ = s.o.Store.EndLease(ctx, l.Name, l.Holder)
	return err
}

// newLease uses the same holder for all commands in a data folder, and another holder in a copy of the folder on
// another machine.
func newLease(folder string) (l buckets.Lease, err error) {
	host, err := os.Hostname()
	if err != nil {
		return l, err
	}
	name := filepath.Join(folder, "holder")
	id, err := os.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) || err == nil && len(id) == 0 {
		id = []byte(buckets.NewUUID())
		err = durable.Replace(name, durable.Bytes(id))
	}
	return buckets.Lease{
		Name: leaseName, Holder: strings.TrimSpace(string(id)) + "@" + host, Process: fmt.Sprintf("process %d on %s", os.Getpid(), host), Left: leaseTime,
	}, err
}

// takeLease waits until another process's lease expires, and fails if that process extends the lease.
func (s *Service) takeLease(ctx context.Context, l buckets.Lease, wait func(string)) error {
	has, err := s.o.Store.Lease(ctx, l)
	begun, silent := time.Now(), true
	for err == nil && has.Holder != l.Holder {
		if silent && time.Since(begun) > leasePoll+time.Second {
			silent = false
			wait(waitsFor(has))
		}
		if !clock.Sleep(ctx, 100*time.Millisecond) {
			return ctx.Err()
		}
		before := has
		has, err = s.o.Store.Lease(ctx, l)
		if err == nil && has.Holder != l.Holder && has.Left > before.Left && !isBackground(has) {
			return errcode.Newf(errcode.Conflict, "another audit or drain is running (%s): wait for its end", has.Process)
		}
	}
	return err
}

// isBackground reports whether the lease is a server's short lease.
func isBackground(l buckets.Lease) bool { return strings.HasPrefix(l.Holder, backgroundHolder) }

// waitsFor explains to a person why a command waits.
func waitsFor(has buckets.Lease) string {
	if isBackground(has) {
		return "waiting until a few copies are repaired by " + has.Process
	}
	return fmt.Sprintf("another audit or drain (%s) was interrupted: waiting %s until its lease expires", has.Process, has.Left.Round(time.Second))
}

// extendLease calls cancel if the lease is lost.
func (s *Service) extendLease(ctx context.Context, l buckets.Lease, cancel context.CancelCauseFunc) {
	extended := time.Now()
	for clock.Sleep(ctx, leasePoll) {
		asked := time.Now()
		ask, done := context.WithTimeout(ctx, leasePoll)
		has, err := s.o.Store.Lease(ask, l)
		done()
		switch {
		case err == nil && has.Holder != l.Holder, err != nil && time.Since(extended) > leaseTime:
			cancel(errLeaseLost)
			return
		case err == nil:
			extended = asked
		}
	}
}

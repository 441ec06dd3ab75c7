package extstorage

import (
	"context"
	"encoding/json"
	"time"

	"holdfast/internal/fault"
)

// Deletion is how far the deletion of an install or a tenant is.
type Deletion struct {
	StartedAt  Moment
	FinishedAt Moment // 0: rows are left
	Deleted    Holdings
}

// Holdings counts what an install or a tenant has in the database. What has expired and
// was not removed yet counts.
type Holdings struct {
	Installs int64 `json:"installs,omitempty"` // of a tenant
	Records  int64 `json:"records"`
	Bytes    int64 `json:"bytes"` // of the records' values and metadata
	Schemas  int64 `json:"schemas"`
	Changes  int64 `json:"changes"`
	Answers  int64 `json:"answers"` // to requests that had an idempotency key
	Tokens   int64 `json:"tokens"`  // that were revoked
}

// Add adds what another owner has.
func (h *Holdings) Add(more Holdings) {
	h.Installs += more.Installs
	h.Records += more.Records
	h.Bytes += more.Bytes
	h.Schemas += more.Schemas
	h.Changes += more.Changes
	h.Answers += more.Answers
	h.Tokens += more.Tokens
}

// DeleteStep is what one step of a deletion may do.
type DeleteStep struct {
	Rows      int64  // at most
	Bytes     int64  // of records, about
	Now       Moment // of the step
	KeptUntil Moment // when the tombstone goes, if this is the last step
	Caller    Caller // for the audit
}

// Topics of the audit.
const (
	AuditDeleteInstall = "extstorage.deleteInstall"
	AuditDeleteTenant  = "extstorage.deleteTenant"
)

// DeletionPayload is the payload of the event that ends a deletion.
func DeletionPayload(o Owner, c Caller, d *Deletion) []byte {
	operation := "deleteInstall"
	if o == Services(o.Tenant) {
		operation = "deleteTenant"
	}
	text, _ := json.Marshal(map[string]any{ // has no error
		"operation": operation, "startedAt": d.StartedAt, "caller": c.Kind, "callerId": c.ID, "deleted": d.Deleted,
	})
	return text
}

// ErrInstallDeleted is an install that is being deleted, or was, or whose tenant is or
// was. No method of a Store changes it.
var ErrInstallDeleted error = fault.New(fault.Denied, "the install has been deleted")

// ErrInstallDeleting is what a client is told while the deletion goes on.
var ErrInstallDeleting error = fault.New(fault.Denied, "the install is being deleted")

// Deletions removes installs and tenants, of which the owner is Services.
//
// The deletion of an owner begins with Close: from then on all writes fail with
// ErrInstallDeleted, those that wait for a lock included, and for a tenant no install
// can come to be. DeleteSome is called until the Deletion is finished; it can be stopped
// between any two steps. What is left of the owner is a tombstone: its number of
// changes, and when it was deleted. It is swept at DeleteStep.KeptUntil.
type Deletions interface {
	// Close begins a deletion, or returns the one that has begun.
	Close(ctx context.Context, o Owner, now Moment) (Deletion, error)

	// DeleteSome deletes rows of one kind of a closed owner: records, schemas, changes,
	// answers, or revoked tokens. If there are none it ends the deletion with an event
	// of the audit. Of a tenant it deletes only what Services has, so its installs come
	// first. ErrNotClosed when the deletion was not begun.
	DeleteSome(ctx context.Context, o Owner, step DeleteStep) (Deletion, error)

	// NextInstall is the first install of a tenant behind one that has anything in the
	// database, a tombstone included; "" if there is none.
	NextInstall(ctx context.Context, t TenantID, after InstallID) (InstallID, error)

	// Holdings counts the rows of an owner: Services is the whole tenant, with its
	// installs but for tombstones.
	Holdings(ctx context.Context, o Owner) (Holdings, error)

	// Reopen ends a finished deletion before its tombstone is swept: the owner can be
	// used again, by tokens that are issued from now on, and the numbers of its changes
	// go on. It reports whether there was a tombstone. ErrInstallDeleted while the
	// deletion goes on.
	Reopen(ctx context.Context, o Owner, now Moment) (bool, error)
}

// ErrNotClosed is a step of a deletion that was not begun.
var ErrNotClosed error = fault.New(fault.Conflict, "the deletion was not begun, or was undone meanwhile")

// Bounds of a step of a deletion. Of SQLite it holds the file's one writer for some
// milliseconds.
const (
	deleteRows  = 256
	deleteBytes = 4 << 20
)

// closedGrace is how long rows stay after an owner was closed: every process refuses
// its readers by then, so that none of them sees a part.
const closedGrace = 2 * installAge

// DeleteInstall deletes an install with everything that belongs to it, and goes on where
// an earlier call was stopped. progress is called after each step; when it returns false
// the rest is left for the next call.
func (s *Service) DeleteInstall(ctx context.Context, o Owner, by Caller, progress func(Deletion) bool) (Deletion, error) {
	d, err := s.close(ctx, o)
	if err != nil || d.FinishedAt != 0 {
		return d, err
	}
	if err := s.awaitGrace(ctx, d); err != nil {
		return d, err
	}
	return s.deleteSteps(ctx, o, by, d, progress)
}

// DeleteTenant deletes a tenant with all its installs as DeleteInstall does. progress
// has what was deleted of all installs so far.
func (s *Service) DeleteTenant(ctx context.Context, t TenantID, by Caller, progress func(Deletion) bool) (Deletion, error) {
	whole, err := s.close(ctx, Services(t))
	if err != nil || whole.FinishedAt != 0 {
		return whole, err
	}
	if err := s.awaitGrace(ctx, whole); err != nil {
		return whole, err
	}
	for o := Services(t); ; {
		if o.Install, err = s.opts.Deletions.NextInstall(ctx, t, o.Install); err != nil {
			return whole, err
		}
		if o.Install == "" {
			return s.deleteSteps(ctx, Services(t), by, whole, progress)
		}
		d, err := s.close(ctx, o)
		if err != nil {
			return whole, err
		}
		if d.FinishedAt != 0 {
			continue
		}
		d, err = s.deleteSteps(ctx, o, by, d, func(d Deletion) bool {
			sum := whole
			sum.Deleted.Add(d.Deleted)
			return progress(sum)
		})
		if whole.Deleted.Add(d.Deleted); err != nil || d.FinishedAt == 0 {
			return whole, err
		}
		whole.Deleted.Installs++
	}
}

// close begins a deletion: here nobody may do anything at once, on other processes
// within installAge.
func (s *Service) close(ctx context.Context, o Owner) (Deletion, error) {
	defer s.signals.notify(o)  // clients that wait for changes
	defer s.installs.remove(o) // also of an error, which may have come too late
	return s.opts.Deletions.Close(ctx, o, s.moment())
}

func (s *Service) awaitGrace(ctx context.Context, d Deletion) error {
	left := time.Duration(d.StartedAt-s.moment())*time.Millisecond + closedGrace
	if left <= 0 {
		return nil
	}
	select {
	case <-s.opts.After(min(left, closedGrace)):
		return nil
	case <-ctx.Done():
		return fault.Wrap(fault.Unavailable, "the deletion was stopped, run it again", context.Cause(ctx))
	}
}

func (s *Service) deleteSteps(ctx context.Context, o Owner, by Caller, d Deletion, progress func(Deletion) bool) (Deletion, error) {
	c := &s.opts.Config
	kept := max(c.TokenMaxLifetime+2*c.TokenLeeway, ChangesKept)
	for {
		now := s.moment()
		next, err := s.opts.Deletions.DeleteSome(ctx, o, DeleteStep{
			Rows: deleteRows, Bytes: deleteBytes, Now: now, KeptUntil: now + Moment(kept.Milliseconds()), Caller: by,
		})
		if err != nil {
			return d, err
		}
		d = next
		if more := progress(d); !more || d.FinishedAt != 0 {
			return d, nil
		}
	}
}

// Holdings counts what an install, or a tenant (Services), has in the database.
func (s *Service) Holdings(ctx context.Context, o Owner) (Holdings, error) {
	return s.opts.Deletions.Holdings(ctx, o)
}

// DeletionOf is how far the deletion of an install, or of a tenant, is; the zero
// Deletion if it was not begun.
func (s *Service) DeletionOf(ctx context.Context, o Owner) (Deletion, error) {
	in, err := s.opts.Installs.Install(ctx, o)
	if fault.Is(err, fault.NotFound) {
		return Deletion{}, nil
	}
	return in.Deletion, err
}

// RestoreTenant lets a tenant that was deleted be used again before its tombstone is
// swept: by tokens that are made from now on, and without what was deleted. It reports
// whether the tenant was deleted.
func (s *Service) RestoreTenant(ctx context.Context, t TenantID) (bool, error) {
	defer s.installs.remove(Services(t))
	return s.opts.Deletions.Reopen(ctx, Services(t), s.moment())
}

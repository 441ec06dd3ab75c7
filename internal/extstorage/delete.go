package extstorage

import (
	"context"
	"encoding/json"
	"time"

	"holdfast/internal/errcode"
)

// Deletion is the progress of deleting an install or a tenant.
type Deletion struct {
	StartedAt  Moment
	FinishedAt Moment // 0: rows remain
	Deleted    Holdings
}

// Holdings counts the rows of an install or a tenant in the database. Expired rows
// that have not been removed count.
type Holdings struct {
	Installs int64 `json:"installs,omitempty"` // for a tenant
	Records  int64 `json:"records"`
	Bytes    int64 `json:"bytes"` // of the records' values and metadata
	Schemas  int64 `json:"schemas"`
	Changes  int64 `json:"changes"`
	Answers  int64 `json:"answers"` // stored answers to requests with an idempotency key
	Tokens   int64 `json:"tokens"`  // revoked tokens
}

// Add adds the rows of another owner.
func (h *Holdings) Add(more Holdings) {
	h.Installs += more.Installs
	h.Records += more.Records
	h.Bytes += more.Bytes
	h.Schemas += more.Schemas
	h.Changes += more.Changes
	h.Answers += more.Answers
	h.Tokens += more.Tokens
}

// DeleteStep limits one step of a deletion.
type DeleteStep struct {
	Rows      int64  // maximum
	Bytes     int64  // of records, approximate
	Now       Moment // time of the step
	KeptUntil Moment // when to remove the tombstone, if this is the last step
	Caller    Caller // for the audit
}

// Topics of audit events.
const (
	AuditDeleteInstall = "extstorage.deleteInstall"
	AuditDeleteTenant  = "extstorage.deleteTenant"
)

// DeletionPayload returns the payload of the audit event at the end of a deletion.
func DeletionPayload(o Owner, c Caller, d *Deletion) []byte {
	operation := "deleteInstall"
	if o == Services(o.Tenant) {
		operation = "deleteTenant"
	}
	text, _ := json.Marshal(map[string]any{ // cannot fail
		"operation": operation, "startedAt": d.StartedAt, "caller": c.Kind, "callerId": c.ID, "deleted": d.Deleted,
	})
	return text
}

// ErrInstallDeleted means that the install or its tenant is being deleted or was
// deleted. No method of a Store changes it any more.
var ErrInstallDeleted error = errcode.New(errcode.Denied, "the install has been deleted")

// ErrInstallDeleting is the error for clients while the deletion is in progress.
var ErrInstallDeleting error = errcode.New(errcode.Denied, "the install is being deleted")

// OwnedTables returns the names of the tables that have rows of an install. They
// are the same on every engine.
func OwnedTables() []string {
	return []string{
		"ext_storage_records", "ext_storage_schemas", "ext_storage_changes", "ext_storage_answers", "ext_storage_revoked_tokens",
		"ext_storage_namespaces", "ext_storage_usage", "ext_storage_installs",
	}
}

// Deletions deletes installs and tenants. The owner of a tenant is Services.
//
// Close starts the deletion of an owner: from then on all writes fail with
// ErrInstallDeleted, including those that wait for a lock, and a tenant gets no
// new installs. Call DeleteSome until the Deletion is finished; it may be
// interrupted between any two steps. A tombstone remains, with the number of
// changes and the time of deletion. It is swept at DeleteStep.KeptUntil.
type Deletions interface {
	// Close starts a deletion, or returns the one in progress.
	Close(ctx context.Context, o Owner, now Moment) (Deletion, error)

	// DeleteSome deletes rows of one kind of a closed owner: records, schemas,
	// changes, answers, or revoked tokens. When no rows are left, it finishes the
	// deletion with an audit event. For a tenant it deletes only the rows of
	// Services, so delete the tenant's installs first. It returns ErrNotClosed if
	// the deletion was not started.
	DeleteSome(ctx context.Context, o Owner, step DeleteStep) (Deletion, error)

	// NextInstall returns the first install of a tenant after the given one that
	// has rows in the database, including a tombstone, or "" if there is none.
	NextInstall(ctx context.Context, t TenantID, after InstallID) (InstallID, error)

	// Holdings counts the rows of an owner. Services stands for the whole tenant
	// with its installs, without their tombstones.
	Holdings(ctx context.Context, o Owner) (Holdings, error)

	// Reopen reverts a finished deletion before its tombstone is swept. The owner
	// can be used again with tokens issued from now on, and its change numbers
	// continue. It reports whether there was a tombstone. It returns
	// ErrInstallDeleted while the deletion is in progress.
	Reopen(ctx context.Context, o Owner, now Moment) (bool, error)
}

// ErrNotClosed means that a step was requested for a deletion that was not
// started.
var ErrNotClosed error = errcode.New(errcode.Conflict, "the deletion was not begun, or was undone meanwhile")

// Limits of a step of a deletion. On SQLite a step holds the only writer of the
// file for some milliseconds.
const (
	deleteRows  = 256
	deleteBytes = 4 << 20
)

// closedGrace is how long rows remain after an owner was closed. By then every
// process refuses its readers, so none sees a partial state.
const closedGrace = 2 * installAge

// DeleteInstall deletes an install and all its data, and continues an interrupted
// deletion. It calls progress after each step; if that returns false, the rest is
// left for the next call.
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

// DeleteTenant deletes a tenant with all its installs, like DeleteInstall.
// progress receives what was deleted from all installs so far.
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

// close starts a deletion. Access ends in this process at once, in other processes
// within installAge.
func (s *Service) close(ctx context.Context, o Owner) (Deletion, error) {
	defer s.signals.notify(o)  // wake waiting clients
	defer s.installs.remove(o) // even on error: the change may have been committed
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
		return errcode.Wrap(errcode.Unavailable, "the deletion was stopped, run it again", context.Cause(ctx))
	}
}

func (s *Service) deleteSteps(ctx context.Context, o Owner, by Caller, d Deletion, progress func(Deletion) bool) (Deletion, error) {
	c := s.config.Load()
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

// Holdings counts the rows of an install or a tenant (Services) in the database.
func (s *Service) Holdings(ctx context.Context, o Owner) (Holdings, error) {
	return s.opts.Deletions.Holdings(ctx, o)
}

// DeletionOf returns the progress of the deletion of an install or a tenant, or
// the zero Deletion if it was not started.
func (s *Service) DeletionOf(ctx context.Context, o Owner) (Deletion, error) {
	in, err := s.opts.Installs.Install(ctx, o)
	if errcode.Is(err, errcode.NotFound) {
		return Deletion{}, nil
	}
	return in.Deletion, err
}

// IsKnown reports whether an install or a tenant has data or a registration, or was
// revoked or deleted. The ID of one that is not known may be mistyped, and a deletion
// would refuse the tokens of that ID for months.
func (s *Service) IsKnown(ctx context.Context, o Owner, holds Holdings) (bool, error) {
	if holds != (Holdings{}) {
		return true, nil
	}
	_, err := s.opts.Installs.Install(ctx, o)
	if errcode.Is(err, errcode.NotFound) && o == Services(o.Tenant) {
		// A tenant is known by its installs, also after all of them were deleted.
		install, err := s.opts.Deletions.NextInstall(ctx, o.Tenant, o.Install)
		return install != "", err
	}
	if errcode.Is(err, errcode.NotFound) {
		return false, nil
	}
	return err == nil, err
}

// RestoreTenant makes a deleted tenant usable again before its tombstone is swept,
// with tokens issued from now on. Deleted data does not come back. It reports
// whether the tenant was deleted.
func (s *Service) RestoreTenant(ctx context.Context, t TenantID) (bool, error) {
	defer s.installs.remove(Services(t))
	return s.opts.Deletions.Reopen(ctx, Services(t), s.moment())
}

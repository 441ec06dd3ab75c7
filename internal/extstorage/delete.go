package extstorage

import (
	"context"
	"encoding/json"
	"time"

	"holdfast/internal/errcode"
)

// Deletion is the progress of deleting an install or tenant.
type Deletion struct {
	StartedAt  Moment
	FinishedAt Moment // 0 while rows remain
	Deleted    Holdings
}

// Holdings counts an install's or tenant's rows, including expired rows.
type Holdings struct {
	Installs int64 `json:"installs,omitempty"` // counted for tenants only
	Records  int64 `json:"records"`            // including expired records
	Bytes    int64 `json:"bytes"`              // values and metadata
	Schemas  int64 `json:"schemas"`
	Changes  int64 `json:"changes"` // in the feed
	Answers  int64 `json:"answers"` // stored responses for idempotency keys
	Tokens   int64 `json:"tokens"`
}

// Add adds up steps.
func (h *Holdings) Add(more Holdings) {
	h.Installs += more.Installs
	h.Records += more.Records
	h.Bytes += more.Bytes
	h.Schemas += more.Schemas
	h.Changes += more.Changes
	h.Answers += more.Answers
	h.Tokens += more.Tokens
}

// DeleteStep limits a step of a deletion.
type DeleteStep struct {
	Rows      int64 // maximum number of rows; less than 1 counts as 1
	Bytes     int64 // approximate size of the records; the first record may be larger; less than 1 counts as 1
	Now       Moment
	KeptUntil Moment // when to sweep the tombstone if this step finishes
	Caller    Caller // for the audit event
}

// Limited returns the step with limits of at least 1. A step without limits would find no rows to delete, and so finish
// a deletion that left them all. Backends call it first.
func (s DeleteStep) Limited() DeleteStep {
	s.Rows, s.Bytes = max(s.Rows, 1), max(s.Bytes, 1)
	return s
}

// Audit topics.
const (
	AuditDeleteInstall = "extstorage.deleteInstall"
	AuditDeleteTenant  = "extstorage.deleteTenant"
)

// DeletionPayload returns a finished deletion's audit payload.
func DeletionPayload(o Owner, c Caller, d *Deletion) []byte {
	operation := "deleteInstall"
	if o == Services(o.Tenant) {
		operation = "deleteTenant"
	}
	text, _ := json.Marshal(map[string]any{
		"operation": operation, "startedAt": d.StartedAt, "caller": c.Kind, "callerId": c.ID, "deleted": d.Deleted,
	})
	return text
}

// ErrInstallDeleted means that the install or tenant was or is being deleted.
var ErrInstallDeleted error = errcode.New(errcode.Denied, "the install has been deleted")

// ErrInstallDeleting is the error that clients get during the deletion.
var ErrInstallDeleting error = errcode.New(errcode.Denied, "the install is being deleted")

// OwnedTables lists the tables with install data on every engine.
func OwnedTables() []string {
	return []string{
		"ext_storage_records", "ext_storage_schemas", "ext_storage_changes", "ext_storage_answers", "ext_storage_revoked_tokens",
		"ext_storage_namespaces", "ext_storage_usage", "ext_storage_installs",
	}
}

// Deletions deletes installs, or tenants given by their Services owner.
//
// After Close, all writes fail with ErrInstallDeleted, even those waiting for a lock. A tombstone with the change
// count and deletion time remains until DeleteStep.KeptUntil.
type Deletions interface {
	// Close starts a deletion and returns at once, or returns the deletion already started.
	Close(ctx context.Context, o Owner, now Moment) (Deletion, error)

	// DeleteSome deletes rows of one kind. When no rows are left, it finishes the deletion with an audit event, so call it
	// until FinishedAt is set; later calls change nothing. For a tenant it deletes only Services rows, so delete its
	// installs first. It returns the progress of all steps together, and ErrNotClosed before Close.
	DeleteSome(ctx context.Context, o Owner, step DeleteStep) (Deletion, error)

	// NextInstall returns the tenant's next install, by ID, that still has rows, even just a tombstone, or "" at the end.
	// after "" begins at the first.
	NextInstall(ctx context.Context, t TenantID, after InstallID) (InstallID, error)

	// Holdings counts all rows of an install or tenant. It reads them all.
	Holdings(ctx context.Context, o Owner) (Holdings, error)

	// Reopen reverts a finished deletion and reports whether there was a tombstone. Tokens issued from now on work
	// again; change numbers continue. Before the deletion is finished, Reopen returns ErrInstallDeleted.
	Reopen(ctx context.Context, o Owner, now Moment) (bool, error)
}

// ErrNotClosed means that Deletions.Close was not called.
var ErrNotClosed error = errcode.New(errcode.Conflict, "the deletion was not started, or was undone meanwhile")

// Limits per deletion step. On SQLite a step blocks other writes for some milliseconds.
const (
	deleteRows  = 256     // per step
	deleteBytes = 4 << 20 // per step, roughly
)

// closedGrace delays deleting a closed owner's rows until every process has noticed the closing, so that readers see no
// partial state.
const closedGrace = 2 * installAge

// DeleteInstall deletes an install, or resumes its deletion. It calls progress after each step, and stops if that returns
// false, which is no error: FinishedAt is then 0.
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

// DeleteTenant is like DeleteInstall, but deletes a tenant. progress receives the running total.
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

// close starts the deletion and wakes waiting requests, which then fail.
func (s *Service) close(ctx context.Context, o Owner) (Deletion, error) {
	defer s.signals.notify(o)
	defer s.installs.remove(o)
	return s.opts.Deletions.Close(ctx, o, s.moment())
}

// awaitGrace waits until the deletion is closedGrace old.
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

// deleteSteps deletes step by step. The tombstone stays until every token issued before the deletion is expired and no
// client can ask for old changes.
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

// Holdings counts all rows. It reads them all.
func (s *Service) Holdings(ctx context.Context, o Owner) (Holdings, error) {
	return s.opts.Deletions.Holdings(ctx, o)
}

// DeletionOf returns a zero Deletion if the deletion was not started.
func (s *Service) DeletionOf(ctx context.Context, o Owner) (Deletion, error) {
	in, err := s.opts.Installs.Install(ctx, o)
	if errcode.Is(err, errcode.NotFound) {
		return Deletion{}, nil
	}
	return in.Deletion, err
}

// IsKnown reports whether an install or tenant holds data or was registered, revoked or deleted. Deleting a mistyped
// ID would block its tokens for months.
func (s *Service) IsKnown(ctx context.Context, o Owner, holds Holdings) (bool, error) {
	if holds != (Holdings{}) {
		return true, nil
	}
	_, err := s.opts.Installs.Install(ctx, o)
	if errcode.Is(err, errcode.NotFound) && o == Services(o.Tenant) {
		// A tenant exists if it ever had an install, even if all were deleted.
		install, err := s.opts.Deletions.NextInstall(ctx, o.Tenant, o.Install)
		return install != "", err
	}
	if errcode.Is(err, errcode.NotFound) {
		return false, nil
	}
	return err == nil, err
}

// RestoreTenant lets a deleted tenant start again, without its data, with tokens issued from now on.
func (s *Service) RestoreTenant(ctx context.Context, t TenantID) (bool, error) {
	defer s.installs.remove(Services(t))
	return s.opts.Deletions.Reopen(ctx, Services(t), s.moment())
}

package extstorage

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"holdfast/internal/errcode"
	"holdfast/internal/ident"
)

// Span is a range of installs, in the order of tenant and install.
type Span struct {
	Tenant TenantID // the installs of this tenant, or
	All    bool     // the installs of all tenants
	After  Owner    // the span starts after this owner; zero: at the first
	Last   Owner    // the last owner in the span; zero: no limit
}

// Check rejects a span that sets neither Tenant nor All: a missing tenant must not
// mean all tenants.
func (s Span) Check() error {
	if (s.Tenant == "") != s.All {
		return errcode.New(errcode.Denied, "span: set Tenant or All")
	}
	for _, o := range []Owner{s.After, s.Last} {
		if o == (Owner{}) {
			continue
		}
		if err := o.Check(); err != nil {
			return err
		}
		if !s.All && o.Tenant != s.Tenant {
			return errcode.New(errcode.Denied, "span: After and Last must be installs of Tenant")
		}
	}
	return nil
}

// Bounds returns the owner after which the span starts, and the last owner in it.
// Where the span has no bound, they are before the first and after the last
// possible owner.
func (s Span) Bounds() (after, last Owner) {
	const end = "ffffffff-ffff-ffff-ffff-ffffffffffff"
	return cmp.Or(s.After, Owner{cmp.Or(s.Tenant, ident.NilUUID), ident.NilUUID}), cmp.Or(s.Last, Owner{cmp.Or(s.Tenant, end), end})
}

// PageUsage returns at most limit installs of the span that have or had a record, in order, with their counters.
func (s *Service) PageUsage(ctx context.Context, span Span, limit int) ([]InstallUsage, error) {
	return s.opts.Inspector.ListUsage(ctx, span, limit)
}

// PageInstalls returns at most limit installs of the span, in order: those that have or
// had a record, and those that are registered, revoked or deleted. With revoked set, it
// returns revoked installs only.
func (s *Service) PageInstalls(ctx context.Context, span Span, revoked bool, limit int) ([]InstallUsage, error) {
	if revoked {
		return s.opts.Installs.ListInstalls(ctx, span, true, limit)
	}
	stored, err := s.opts.Inspector.ListUsage(ctx, span, limit)
	if err != nil {
		return nil, err
	}
	registered, err := s.opts.Installs.ListInstalls(ctx, span, false, limit)
	if err != nil {
		return nil, err
	}
	all := append(stored, registered...)
	slices.SortFunc(all, func(a, b InstallUsage) int { return a.Compare(b.Owner) })
	all = slices.CompactFunc(all, func(a, b InstallUsage) bool { return a.Owner == b.Owner })
	return all[:min(len(all), limit)], nil
}

// AuditAll audits the span's installs and calls fn for each: page by page the
// installs that have counters, then those that should have counters but have none.
// Each audit is a snapshot, so concurrent writes do not appear as differences.
func (s *Service) AuditAll(ctx context.Context, span Span, fn func(Owner, *Audit) error) error {
	for {
		page, err := s.opts.Inspector.ListUsage(ctx, span, MaxPage)
		if err != nil {
			return err
		}
		for i := range page {
			if err := s.audit(ctx, page[i].Owner, fn); err != nil {
				return err
			}
		}
		part := span
		if len(page) == MaxPage {
			part.Last = page[MaxPage-1].Owner
		}
		if err := s.auditUncounted(ctx, part, fn); err != nil || len(page) < MaxPage {
			return err
		}
		span.After = part.Last
	}
}

func (s *Service) auditUncounted(ctx context.Context, span Span, fn func(Owner, *Audit) error) error {
	for {
		lost, err := s.opts.Inspector.Uncounted(ctx, span, MaxPage)
		if err != nil || len(lost) == 0 {
			return err
		}
		for _, o := range lost {
			if err := s.audit(ctx, o, fn); err != nil {
				return err
			}
		}
		span.After = lost[len(lost)-1]
	}
}

func (s *Service) audit(ctx context.Context, o Owner, fn func(Owner, *Audit) error) error {
	a, err := s.opts.Inspector.Audit(ctx, o)
	if err != nil {
		return fmt.Errorf("install %s of tenant %s: %w", o.Install, o.Tenant, err)
	}
	return fn(o, &a)
}

// The following methods are for operators. They check no grant, and they work for
// revoked installs.

// AuditInstall audits one install.
func (s *Service) AuditInstall(ctx context.Context, o Owner) (Audit, error) {
	return s.opts.Inspector.Audit(ctx, o)
}

// InstallUsage returns the usage of an install.
func (s *Service) InstallUsage(ctx context.Context, o Owner, now Moment) (Usage, error) {
	return s.opts.Store.Usage(ctx, o, now)
}

package extstorage

import (
	"cmp"
	"context"
	"fmt"

	"holdfast/internal/fault"
)

// Span is a range of installs, in the order of tenant and install.
type Span struct {
	Tenant TenantID // whose installs, or
	All    bool     // those of all tenants
	After  Owner    // behind which it begins; zero: with the first
	Last   Owner    // that is in it; zero: to the end
}

// Check refuses a span that does not say whose installs it is of: a tenant that
// was forgotten must not be all of them.
func (s Span) Check() error {
	if (s.Tenant == "") != s.All {
		return fault.New(fault.Denied, "span: set Tenant or All")
	}
	for _, o := range []Owner{s.After, s.Last} {
		if o == (Owner{}) {
			continue
		}
		if err := o.Check(); err != nil {
			return err
		}
		if !s.All && o.Tenant != s.Tenant {
			return fault.New(fault.Denied, "span: After and Last must be installs of Tenant")
		}
	}
	return nil
}

// Bounds are the owner behind which the span begins, and the last that is in it.
// Where it does not say so, they are before the first and behind the last that
// can be.
func (s Span) Bounds() (after, last Owner) {
	const end = "ffffffff-ffff-ffff-ffff-ffffffffffff"
	return cmp.Or(s.After, Owner{cmp.Or(s.Tenant, nilUUID), nilUUID}), cmp.Or(s.Last, Owner{cmp.Or(s.Tenant, end), end})
}

// EachUsage hands the counters of the span's installs to fn, a page at a time,
// in their order. Each page is of one moment.
func (s *Service) EachUsage(ctx context.Context, span Span, fn func([]InstallUsage) error) error {
	for {
		page, err := s.opts.Inspector.ListUsage(ctx, span, MaxPage)
		if err != nil || len(page) == 0 {
			return err
		}
		if err := fn(page); err != nil {
			return err
		}
		span.After = page[len(page)-1].Owner
	}
}

// EachInstall hands the installs of the span to fn that are registered, revoked, or were
// deleted, in their order; with revoked only those whose access was ended.
func (s *Service) EachInstall(ctx context.Context, span Span, revoked bool, fn func(*InstallUsage) error) error {
	for {
		page, err := s.opts.Installs.ListInstalls(ctx, span, revoked, MaxPage)
		if err != nil || len(page) == 0 {
			return err
		}
		for i := range page {
			if err := fn(&page[i]); err != nil {
				return err
			}
		}
		span.After = page[len(page)-1].Owner
	}
}

// AuditAll audits the span's installs and hands each to fn, page by page those
// that have counters, and then those beside them that have lost them. Each audit
// is of one moment, so that writes beside it are no differences.
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

// For operators: nobody's grant is checked, and a revoked install still has what
// it has.

// AuditInstall audits one install.
func (s *Service) AuditInstall(ctx context.Context, o Owner) (Audit, error) {
	return s.opts.Inspector.Audit(ctx, o)
}

// InstallUsage counts what an install has.
func (s *Service) InstallUsage(ctx context.Context, o Owner, now Moment) (Usage, error) {
	return s.opts.Store.Usage(ctx, o, now)
}

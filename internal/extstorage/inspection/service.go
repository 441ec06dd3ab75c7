// Package inspection reads the usage of many installs, for operators and metrics. It checks no grants.
package inspection

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync/atomic"

	"holdfast/internal/clock"
	"holdfast/internal/extstorage"
)

// Service implements the use cases. It is safe for concurrent use.
type Service struct {
	store  Store
	config atomic.Pointer[extstorage.Config]
	now    clock.Clock
}

// New returns the service.
func New(st Store, cfg extstorage.Config, now clock.Clock) *Service {
	s := &Service{store: st, now: now}
	s.Reload(cfg)
	return s
}

// Reload replaces the settings that a running server applies.
func (s *Service) Reload(c extstorage.Config) { s.config.Store(&c) }

// Totals returns the totals of all installs, and the number of tenants above
// SoftTenantBytes.
func (s *Service) Totals(ctx context.Context) (Totals, error) {
	return s.store.Totals(ctx, extstorage.SoftTenantBytes, extstorage.At(s.now()))
}

// PageUsage returns at most limit installs of the span that have or had a record, in order, with their counters.
func (s *Service) PageUsage(ctx context.Context, span Span, limit int) ([]InstallUsage, error) {
	return s.store.ListUsage(ctx, span, limit)
}

// PageInstalls returns at most limit installs of the span, in order: those that have or
// had a record, and those that are registered, revoked or deleted. With revoked set, it
// returns revoked installs only.
func (s *Service) PageInstalls(ctx context.Context, span Span, revoked bool, limit int) ([]InstallUsage, error) {
	if revoked {
		return s.store.ListInstalls(ctx, span, true, limit)
	}
	stored, err := s.store.ListUsage(ctx, span, limit)
	if err != nil {
		return nil, err
	}
	registered, err := s.store.ListInstalls(ctx, span, false, limit)
	if err != nil {
		return nil, err
	}
	all := append(stored, registered...)
	slices.SortFunc(all, func(a, b InstallUsage) int { return a.Compare(b.Owner) })
	all = slices.CompactFunc(all, func(a, b InstallUsage) bool { return a.Owner == b.Owner })
	return all[:min(len(all), limit)], nil
}

// FindInstalls returns at most limit installs of any tenant whose IDs are from first to last, ordered by ID and tenant.
func (s *Service) FindInstalls(ctx context.Context, first, last extstorage.InstallID, limit int) ([]extstorage.Owner, error) {
	return s.store.FindInstalls(ctx, first, last, limit)
}

// FindRecords returns at most limit records of an install whose keys begin with a prefix, ordered by namespace and key.
func (s *Service) FindRecords(ctx context.Context, o extstorage.Owner, prefix string, limit int) ([]extstorage.Position, error) {
	return s.store.FindRecords(ctx, o, prefix, limit, extstorage.At(s.now()))
}

// FirstInstalls returns the first limit of the installs that Store.FindInstalls has read from its tables.
func FirstInstalls(all []extstorage.Owner, limit int) []extstorage.Owner {
	slices.SortFunc(all, func(a, b extstorage.Owner) int {
		return cmp.Or(cmp.Compare(a.Install, b.Install), cmp.Compare(a.Tenant, b.Tenant))
	})
	all = slices.Compact(all)
	return all[:min(limit, len(all))]
}

// AuditAll audits the span's installs and calls fn for each: page by page the
// installs that have counters, then those that should have counters but have none.
// Each audit is a snapshot, so concurrent writes do not appear as differences.
func (s *Service) AuditAll(ctx context.Context, span Span, fn func(extstorage.Owner, *Audit) error) error {
	for {
		page, err := s.store.ListUsage(ctx, span, extstorage.MaxPage)
		if err != nil {
			return err
		}
		for i := range page {
			if err := s.audit(ctx, page[i].Owner, fn); err != nil {
				return err
			}
		}
		part := span
		if len(page) == extstorage.MaxPage {
			part.Last = page[extstorage.MaxPage-1].Owner
		}
		if err := s.auditUncounted(ctx, part, fn); err != nil || len(page) < extstorage.MaxPage {
			return err
		}
		span.After = part.Last
	}
}

func (s *Service) auditUncounted(ctx context.Context, span Span, fn func(extstorage.Owner, *Audit) error) error {
	for {
		lost, err := s.store.Uncounted(ctx, span, extstorage.MaxPage)
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

func (s *Service) audit(ctx context.Context, o extstorage.Owner, fn func(extstorage.Owner, *Audit) error) error {
	a, err := s.store.Audit(ctx, o)
	if err != nil {
		return fmt.Errorf("install %s of tenant %s: %w", o.Install, o.Tenant, err)
	}
	return fn(o, &a)
}

// AuditInstall audits one install.
func (s *Service) AuditInstall(ctx context.Context, o extstorage.Owner) (Audit, error) {
	return s.store.Audit(ctx, o)
}

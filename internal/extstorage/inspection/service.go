// Package inspection reads usage across installs, for operators and metrics. It checks no grants.
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

// Service is safe for concurrent use.
type Service struct {
	store  Store
	config atomic.Pointer[extstorage.Config]
	now    clock.Clock
}

// New returns a service that uses cfg until Reload.
func New(st Store, cfg extstorage.Config, now clock.Clock) *Service {
	s := &Service{store: st, now: now}
	s.Reload(cfg)
	return s
}

// Reload replaces the configuration, which decides quotas.
func (s *Service) Reload(c extstorage.Config) { s.config.Store(&c) }

// Totals sums all installs, for metrics.
func (s *Service) Totals(ctx context.Context) (Totals, error) {
	return s.store.Totals(ctx, extstorage.SoftTenantBytes, extstorage.At(s.now()))
}

// PageUsage returns at most limit installs with records in the span.
func (s *Service) PageUsage(ctx context.Context, span Span, limit int) ([]InstallUsage, error) {
	return s.store.ListUsage(ctx, span, limit)
}

// PageInstalls returns at most limit installs that ever stored records, or were registered, revoked or deleted.
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

// FindInstalls returns at most limit installs with IDs from first to last, in any tenant.
func (s *Service) FindInstalls(ctx context.Context, first, last extstorage.InstallID, limit int) ([]extstorage.Owner, error) {
	return s.store.FindInstalls(ctx, first, last, limit)
}

// FindRecords returns at most limit keys that begin with prefix, in the first SearchedNamespaces namespaces.
func (s *Service) FindRecords(ctx context.Context, o extstorage.Owner, prefix string, limit int) ([]extstorage.Position, error) {
	return s.store.FindRecords(ctx, o, prefix, limit, extstorage.At(s.now()))
}

// FirstInstalls merges results from Store.FindInstalls's tables.
func FirstInstalls(all []extstorage.Owner, limit int) []extstorage.Owner {
	slices.SortFunc(all, func(a, b extstorage.Owner) int {
		return cmp.Or(cmp.Compare(a.Install, b.Install), cmp.Compare(a.Tenant, b.Tenant))
	})
	all = slices.Compact(all)
	return all[:min(limit, len(all))]
}

// AuditAll calls fn for installs with counters, then for installs without.
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

// auditUncounted audits installs that Store.Uncounted finds.
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

// audit adds the install to an error.
func (s *Service) audit(ctx context.Context, o extstorage.Owner, fn func(extstorage.Owner, *Audit) error) error {
	a, err := s.store.Audit(ctx, o)
	if err != nil {
		return fmt.Errorf("install %s of tenant %s: %w", o.Install, o.Tenant, err)
	}
	return fn(o, &a)
}

// AuditInstall compares an install's counters with its rows.
func (s *Service) AuditInstall(ctx context.Context, o extstorage.Owner) (Audit, error) {
	return s.store.Audit(ctx, o)
}

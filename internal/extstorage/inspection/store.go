package inspection

import (
	"context"

	"holdfast/internal/extstorage"
)

// Store reads counters across installs. Methods return errcode.Denied for an invalid Span or zero Owner. They keep to the
// rules of extstorage.Store about errors, slices and concurrency; a list is over when it has fewer than limit elements.
type Store interface {
	// ListUsage reads counters from a snapshot: at most limit installs that ever stored records.
	ListUsage(ctx context.Context, span Span, limit int) ([]InstallUsage, error)

	// ListInstalls reads at most limit registered, revoked or deleted installs, except Services, with their counters.
	ListInstalls(ctx context.Context, span Span, revoked bool, limit int) ([]InstallUsage, error)

	// FindInstalls returns at most limit installs of all tenants with IDs from first to last, ordered by ID and
	// tenant.
	FindInstalls(ctx context.Context, first, last extstorage.InstallID, limit int) ([]extstorage.Owner, error)

	Audit(ctx context.Context, o extstorage.Owner) (Audit, error)

	// FindRecords returns at most limit live records whose key has the prefix, ordered by namespace and key.
	FindRecords(ctx context.Context, o extstorage.Owner, prefix string, limit int, now extstorage.Moment) ([]extstorage.Position, error)

	// Uncounted returns at most limit installs with records or namespace counters but no install counters: damaged
	// data that ListUsage misses. It reads all record keys, so limit the span to a page of ListUsage.
	Uncounted(ctx context.Context, span Span, limit int) ([]extstorage.Owner, error)

	// Filled calls fn for every install that has overrides or uses at least NoticePercent of least. Before a retry,
	// Filled calls begin and starts over. It reads all counters, so call it every few minutes at most.
	Filled(ctx context.Context, least extstorage.Quota, now extstorage.Moment, begin func(), fn func(Filling)) error

	// Totals sums all installs, and counts tenants above soft bytes. It scans all counters; call it at most once a
	// minute.
	Totals(ctx context.Context, soft int64, now extstorage.Moment) (Totals, error)
}

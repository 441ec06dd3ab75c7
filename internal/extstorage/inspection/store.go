package inspection

import (
	"context"

	"holdfast/internal/extstorage"
)

// Store reads the counters of many installs. It changes nothing. Every method returns errcode.Denied for an invalid Span and for
// the zero Owner.
type Store interface {
	// ListUsage reads at most limit counters of a span, in order, from one
	// snapshot: those of installs that have or had a record. Installs that are only
	// registered have no counters and are not included.
	ListUsage(ctx context.Context, span Span, limit int) ([]InstallUsage, error)

	// ListInstalls reads at most limit installs of a span that are registered,
	// revoked or deleted, in order, with their counters. With revoked set, it reads
	// revoked installs only. Services is not included.
	ListInstalls(ctx context.Context, span Span, revoked bool, limit int) ([]InstallUsage, error)

	// FindInstalls returns at most limit installs of any tenant, ordered by their ID and then by tenant, whose
	// ID is from first to last: of those that have counters, and of those that are registered, revoked or deleted.
	FindInstalls(ctx context.Context, first, last extstorage.InstallID, limit int) ([]extstorage.Owner, error)

	// Audit counts the rows of an install and returns how its counters differ.
	Audit(ctx context.Context, o extstorage.Owner) (Audit, error)

	// FindRecords returns at most limit live records of an install whose keys begin with a prefix, ordered by namespace
	// and key. It searches the first SearchedNamespaces namespaces.
	FindRecords(ctx context.Context, o extstorage.Owner, prefix string, limit int, now extstorage.Moment) ([]extstorage.Position, error)

	// Uncounted returns at most limit installs of a span, in order, that have a
	// record or a namespace counter but no counters of the install, so that
	// ListUsage misses them. That happens only in a damaged database. It reads the
	// keys of all records of the span, so limit the span to a page of ListUsage.
	Uncounted(ctx context.Context, span Span, limit int) ([]extstorage.Owner, error)

	// Filled calls fn for the installs that have NoticePercent or more of a quota
	// of least, and for those with overrides, in any order. These are all that can
	// be near their own quota if no quota is below least. On a retry it calls begin
	// and starts again with the first install. It reads the counters of all
	// installs and namespaces; call it every few minutes at most.
	Filled(ctx context.Context, least extstorage.Quota, now extstorage.Moment, begin func(), fn func(Filling)) error

	// Totals counts all installs, and the tenants with more than soft bytes. It
	// scans the counters of every install; call it at most once a minute.
	Totals(ctx context.Context, soft int64, now extstorage.Moment) (Totals, error)
}

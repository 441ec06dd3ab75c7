package extstorage

import "context"

// Usage is the usage of an install as clients see it.
type Usage struct {
	Counters   Counters         // of all namespaces
	Namespaces []NamespaceUsage // those with a live record, in order
}

// UsageOf returns the usage of an install, given that of its namespaces.
func UsageOf(namespaces []NamespaceUsage) Usage {
	u := Usage{Namespaces: namespaces}
	for _, n := range namespaces {
		u.Counters.Namespaces++
		u.Counters.Keys += n.Keys
		u.Counters.Bytes += n.Bytes
	}
	return u
}

// NamespaceUsage counts the live records of a namespace.
type NamespaceUsage struct {
	Namespace Namespace
	Keys      int64
	Bytes     int64
}

// InstallUsage returns the usage of an install, for operators: it checks no grant, and works for revoked installs.
func (s *Service) InstallUsage(ctx context.Context, o Owner, now Moment) (Usage, error) {
	return s.opts.Store.Usage(ctx, o, now)
}

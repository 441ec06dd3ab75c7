package extstorage

import "context"

// Usage is an install's usage as clients see it.
type Usage struct {
	Counters   Counters
	Namespaces []NamespaceUsage
}

// UsageOf adds up namespaces.
func UsageOf(namespaces []NamespaceUsage) Usage {
	u := Usage{Namespaces: namespaces}
	for _, n := range namespaces {
		u.Counters.Namespaces++
		u.Counters.Keys += n.Keys
		u.Counters.Bytes += n.Bytes
	}
	return u
}

// NamespaceUsage counts a namespace's live records.
type NamespaceUsage struct {
	Namespace Namespace
	Keys      int64
	Bytes     int64
}

func (s *Service) InstallUsage(ctx context.Context, o Owner, now Moment) (Usage, error) {
	return s.opts.Store.Usage(ctx, o, now)
}

package extstorage

import "context"

// Usage is what an install has, as a client sees it.
type Usage struct {
	Counters   Counters         // of all namespaces
	Namespaces []NamespaceUsage // those with a live record, in their order
}

// UsageOf is the usage of namespaces.
func UsageOf(namespaces []NamespaceUsage) Usage {
	u := Usage{Namespaces: namespaces}
	for _, n := range namespaces {
		u.Counters.Namespaces++
		u.Counters.Keys += n.Keys
		u.Counters.Bytes += n.Bytes
	}
	return u
}

// NamespaceUsage is one namespace's share: live records.
type NamespaceUsage struct {
	Namespace Namespace
	Keys      int64
	Bytes     int64
}

// InstallUsage is what an install has by its stored Counters, which may include
// records that have expired since.
type InstallUsage struct {
	Owner
	Counters
	Registered Install // zero: it is not
}

// Totals are what all installs have together by their stored Counters.
type Totals struct {
	Installs        int64 // that have or had a record
	Bytes           int64
	Keys            int64
	Namespaces      int64
	ExpiredPending  int64 // expired records that are still there; ExpiredCounted stands for as many or more
	TenantsOverSoft int64 // whose installs have more bytes together than they should
}

// Filling is how much of its quotas an install has.
type Filling struct {
	Bytes      int64
	Namespaces int64 // that have a key or a schema
	Keys       int64 // of the namespace that has most
	Registered Install
}

// NearQuota counts installs by how near they are to a quota: those that have at least
// each of NearPercents of it.
type NearQuota struct{ Bytes, Namespaces, Keys [len(NearPercents)]int64 }

// NearPercents are the shares of a quota by which NearQuota counts.
var NearPercents = [...]int64{NoticePercent, 95}

// add counts an install.
func (n *NearQuota) add(f *Filling, q Quota) {
	for i, percent := range NearPercents {
		for _, c := range []struct {
			count       *[len(NearPercents)]int64
			used, limit int64
		}{{&n.Bytes, f.Bytes, q.Bytes}, {&n.Namespaces, f.Namespaces, q.Namespaces}, {&n.Keys, f.Keys, q.Keys}} {
			if c.used > 0 && percentOf(c.used, c.limit) >= percent {
				c.count[i]++
			}
		}
	}
}

// NearQuota counts the installs that are near a quota of their own.
func (s *Service) NearQuota(ctx context.Context) (near NearQuota, err error) {
	least, now := s.opts.Config.Quota, s.moment()
	for tier := range s.opts.Config.Tiers {
		q := s.opts.Config.QuotaOf(tier)
		least = Quota{Bytes: min(least.Bytes, q.Bytes), Namespaces: min(least.Namespaces, q.Namespaces), Keys: min(least.Keys, q.Keys)}
	}
	err = s.opts.Inspector.Filled(ctx, least, now, func() { near = NearQuota{} }, func(f Filling) {
		near.add(&f, s.quota(&f.Registered, now))
	})
	return near, err
}

// NoticeFrom is how much of a limit NoticePercent of it is, rounded down.
func NoticeFrom(limit int64) int64 { return limit/100*NoticePercent + limit%100*NoticePercent/100 }

// ExpiredCounted is how many expired records are counted at most.
const ExpiredCounted = 10_000

// Audit is the stored counters beside what was counted in the rows, for the
// moment that the counters are of.
type Audit struct {
	Counters, Counted Counters
	Namespaces        []NamespaceAudit // that differ
}

// NamespaceAudit is a namespace whose counter is wrong.
type NamespaceAudit struct {
	Namespace     Namespace
	Keys, Counted int64
}

// Right reports whether nothing differs.
func (a *Audit) Right() bool { return a.Counters == a.Counted && len(a.Namespaces) == 0 }

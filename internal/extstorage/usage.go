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

// InstallUsage is the usage of an install by its stored Counters, which may
// include records that have expired since.
type InstallUsage struct {
	Owner
	Counters
	Registered Install // zero: not registered
}

// Totals are the totals of all installs by their stored Counters.
type Totals struct {
	Installs        int64 // that have or had a record
	Bytes           int64
	Keys            int64
	Namespaces      int64
	ExpiredPending  int64 // expired records not yet removed; ExpiredCounted means that many or more
	TenantsOverSoft int64 // whose installs together exceed the soft limit
}

// Filling is the usage of an install that its quotas limit.
type Filling struct {
	Bytes      int64
	Namespaces int64 // that have a key or a schema
	Keys       int64 // in the namespace with the most keys
	Registered Install
}

// NearQuota counts the installs near a quota: for each of NearPercents, those that
// use at least that part of it.
type NearQuota struct{ Bytes, Namespaces, Keys [len(NearPercents)]int64 }

// NearPercents are the thresholds of NearQuota in percent.
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

// NearQuota counts the installs that are near their quota.
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

// NoticeFrom returns NoticePercent of a limit, rounded down.
func NoticeFrom(limit int64) int64 { return limit/100*NoticePercent + limit%100*NoticePercent/100 }

// ExpiredCounted is the maximum number of expired records that are counted.
const ExpiredCounted = 10_000

// Audit compares the stored counters with counts of the rows, at the time of the
// counters.
type Audit struct {
	Counters, Counted Counters
	Namespaces        []NamespaceAudit // namespaces with differences
}

// NamespaceAudit is a namespace whose counter is wrong.
type NamespaceAudit struct {
	Namespace     Namespace
	Keys, Counted int64
}

// Right reports whether there are no differences.
func (a *Audit) Right() bool { return a.Counters == a.Counted && len(a.Namespaces) == 0 }

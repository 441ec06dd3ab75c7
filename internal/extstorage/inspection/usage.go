package inspection

import (
	"context"

	"holdfast/internal/extstorage"
)

// InstallUsage is the usage of an install by its stored Counters, which may
// include records that have expired since.
type InstallUsage struct {
	extstorage.Owner
	extstorage.Counters
	Registered extstorage.Install // zero: not registered
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
	Registered extstorage.Install
}

// NearQuota counts the installs near a quota: for each of NearPercents, those that
// use at least that part of it.
type NearQuota struct{ Bytes, Namespaces, Keys [len(NearPercents)]int64 }

// NearPercents are the thresholds of NearQuota in percent.
var NearPercents = [...]int64{extstorage.NoticePercent, 95}

// add counts an install.
func (n *NearQuota) add(f *Filling, q extstorage.Quota) {
	for i, percent := range NearPercents {
		for _, c := range []struct {
			count       *[len(NearPercents)]int64
			used, limit int64
		}{{&n.Bytes, f.Bytes, q.Bytes}, {&n.Namespaces, f.Namespaces, q.Namespaces}, {&n.Keys, f.Keys, q.Keys}} {
			if c.used > 0 && extstorage.PercentOf(c.used, c.limit) >= percent {
				c.count[i]++
			}
		}
	}
}

// NearQuota counts the installs that are near their quota.
func (s *Service) NearQuota(ctx context.Context) (near NearQuota, err error) {
	config, now := s.config.Load(), extstorage.At(s.now())
	least := config.Quota
	for tier := range config.Tiers {
		q := config.QuotaOf(tier)
		least = extstorage.Quota{Bytes: min(least.Bytes, q.Bytes), Namespaces: min(least.Namespaces, q.Namespaces), Keys: min(least.Keys, q.Keys)}
	}
	err = s.store.Filled(ctx, least, now, func() { near = NearQuota{} }, func(f Filling) {
		near.add(&f, f.Registered.Quota(config.QuotaOf(f.Registered.Tier), now))
	})
	return near, err
}

// ExpiredCounted is the maximum number of expired records that are counted.
const ExpiredCounted = 10_000

// Audit compares the stored counters with counts of the rows, at the time of the
// counters.
type Audit struct {
	Counters, Counted extstorage.Counters
	Namespaces        []NamespaceAudit // namespaces with differences
}

// NamespaceAudit is a namespace whose counter is wrong.
type NamespaceAudit struct {
	Namespace     extstorage.Namespace
	Keys, Counted int64
}

// Right reports whether there are no differences.
func (a *Audit) Right() bool { return a.Counters == a.Counted && len(a.Namespaces) == 0 }

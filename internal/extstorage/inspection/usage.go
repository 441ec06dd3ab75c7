package inspection

import (
	"context"

	"holdfast/internal/extstorage"
)

// InstallUsage contains an install's stored Counters, which may include expired records.
type InstallUsage struct {
	extstorage.Owner
	extstorage.Counters
	Registered extstorage.Install // zero if the install is not registered
}

// Totals sums the stored Counters.
type Totals struct {
	Installs        int64 // installs that ever stored records
	Bytes           int64
	Keys            int64
	Namespaces      int64
	ExpiredPending  int64 // not yet swept; ExpiredCounted means at least that many
	TenantsOverSoft int64
}

// Filling is an install's usage relevant to quotas.
type Filling struct {
	Bytes      int64
	Namespaces int64 // with keys or schemas
	Keys       int64 // in the fullest namespace
	Registered extstorage.Install
}

// NearQuota counts installs at or above each of NearPercents.
type NearQuota struct{ Bytes, Namespaces, Keys [len(NearPercents)]int64 }

// NearPercents are NearQuota's thresholds.
var NearPercents = [...]int64{extstorage.NoticePercent, 95}

// add counts an install at every threshold that it reaches.
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

// NearQuota counts installs near their quotas. It reads only installs that exceed the lowest threshold of the smallest
// quota.
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

// ExpiredCounted caps the count of expired records.
const ExpiredCounted = 10_000

// Audit compares stored counters with row counts in a snapshot.
type Audit struct {
	Counters, Counted extstorage.Counters
	Namespaces        []NamespaceAudit // only those with differences
}

// NamespaceAudit is a namespace whose counter is wrong.
type NamespaceAudit struct {
	Namespace     extstorage.Namespace
	Keys, Counted int64
}

// Right reports whether all counters are right.
func (a *Audit) Right() bool { return a.Counters == a.Counted && len(a.Namespaces) == 0 }

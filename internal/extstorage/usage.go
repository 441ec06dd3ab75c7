package extstorage

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

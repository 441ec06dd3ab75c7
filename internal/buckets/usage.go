package buckets

import (
	"maps"
	"slices"

	"holdfast/internal/errcode"
)

// Usage counts objects and bytes, including incomplete uploads.
type Usage struct {
	Objects int64 `json:"objects"`
	Bytes   int64 `json:"bytes"`
}

func (u Usage) Plus(v Usage) Usage { return Usage{u.Objects + v.Objects, u.Bytes + v.Bytes} }

func (u Usage) Minus(v Usage) Usage { return Usage{u.Objects - v.Objects, u.Bytes - v.Bytes} }

// Quota limits a Usage; 0 means no limit.
type Quota struct {
	Objects int64 `json:"objects,omitempty"`
	Bytes   int64 `json:"bytes,omitempty"`
}

// Allows always allows reductions, because a quota may be below the usage.
func (q Quota) Allows(u, delta Usage) bool {
	return (q.Objects == 0 || delta.Objects <= 0 || u.Objects+delta.Objects <= q.Objects) &&
		(q.Bytes == 0 || delta.Bytes <= 0 || u.Bytes+delta.Bytes <= q.Bytes)
}

// QuotaError means that a write would exceed a quota. Its code is errcode.Quota.
type QuotaError struct {
	Account bool // the account's quota; otherwise the bucket's
}

func (e *QuotaError) Error() string {
	if e.Account {
		return "the account's quota is used up"
	}
	return "the bucket's quota is used up"
}

func (e *QuotaError) ErrorCode() errcode.Code { return errcode.Quota }

// BucketUsage is a bucket's usage and quota.
type BucketUsage struct {
	Bucket BucketRef
	Usage  Usage
	Quota  Quota
}

// AccountUsage is an account's usage and quota.
type AccountUsage struct {
	Total   Usage // includes deleted buckets whose uploads are not aborted yet
	Quota   Quota
	Buckets []BucketUsage // by name; only Counters.Usage reads them
}

// Miscount is a counter that differs from the rows, which only a bug or an edited database can cause.
type Miscount struct {
	Bucket  BucketID // "" for the account
	Counted Usage    // according to the counter
	Stored  Usage    // according to the rows
}

// Miscounts compares counters with rows. stored has no entry for the account.
func Miscounts(counted, stored map[BucketID]Usage) (all []Miscount) {
	var total Usage
	for _, u := range stored {
		total = total.Plus(u)
	}
	stored = maps.Clone(stored)
	stored[""] = total
	ids := maps.Clone(stored)
	maps.Copy(ids, counted)
	for _, id := range slices.Sorted(maps.Keys(ids)) {
		if counted[id] != stored[id] {
			all = append(all, Miscount{Bucket: id, Counted: counted[id], Stored: stored[id]})
		}
	}
	return all
}

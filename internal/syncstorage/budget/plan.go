package budget

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"holdfast/internal/fault"
)

// Plan is the mutations of each step of a commit with many records.
type Plan struct {
	Parent int // the collection's row
	Record int // each record
	Batch  int // the row of the batch
	Quota  int // the collection's sums; 0 without a quota
}

// Commit is the plan of a batch's commit; quota says whether bytes are counted.
func (s Schema) Commit(quota bool) Plan {
	steps := s.Steps(quota)
	p := Plan{Parent: steps[0].Mutations, Record: steps[1].Mutations, Batch: steps[2].Mutations}
	if quota {
		p.Quota = steps[3].Mutations
	}
	return p
}

// Open is the plan of the request that opens a batch and stages records in it.
// It is the dearest that a single request can have: one that writes its records
// at once has no row of a batch.
func (s Schema) Open() Plan {
	return Plan{
		Parent: s.Write("user_collections", "modified"), // only a collection that is new needs it
		Record: s.Write("batch_bsos", s.table("batch_bsos").Columns...),
		Batch:  s.Write("batches", s.table("batches").Columns...),
	}
}

// Mutations is the sum for so many records, or the greatest number where that is
// greater.
func (p Plan) Mutations(records int) int {
	once := p.Parent + p.Batch + p.Quota
	if records > (math.MaxInt-once)/p.Record {
		return math.MaxInt
	}
	return once + p.Record*records
}

// MaxRecords is how many records fit into a limit of mutations.
func (p Plan) MaxRecords(limit int) int {
	return max((limit-p.Mutations(0))/p.Record, 0)
}

// Explain is the arithmetic, in a line.
func (p Plan) Explain(records, limit int) string {
	sum := []string{strconv.Itoa(p.Parent), fmt.Sprintf("%d × %d", p.Record, records)}
	for _, once := range []int{p.Batch, p.Quota} {
		if once > 0 {
			sum = append(sum, strconv.Itoa(once))
		}
	}
	total := p.Mutations(records)
	left := fmt.Sprintf("%d left", limit-total)
	if total > limit {
		left = fmt.Sprintf("%d too many", total-limit)
	}
	return fmt.Sprintf("%s = %d of %d mutations, %s; at most %d records fit", strings.Join(sum, " + "), total, limit, left, p.MaxRecords(limit))
}

// Load is what a commit carries.
type Load struct {
	Records int
	Payload int64 // bytes of all payloads
	IDs     int64 // bytes of all record ids
	User    int64 // bytes of the user's key: fxa_uid and fxa_kid
}

// What the fixed columns of rows weigh: 8 bytes a number, 12 a timestamp, and 8
// of overhead for each column of a row, the key's included.
const (
	numberBytes = 8
	stampBytes  = 12
	cellBytes   = 8

	// The key fxa_uid, fxa_kid, collection_id; modified, count, total_bytes, quota.
	parentBytes = numberBytes + stampBytes + 3*numberBytes + 7*cellBytes
	// The key with bso_id; sortindex, payload, modified, expiry.
	recordBytes = numberBytes + numberBytes + 2*stampBytes + 8*cellBytes
)

// Bytes is the weight of the commit: the rows that it writes, whole.
func (l Load) Bytes() int64 {
	return l.Payload + l.IDs + int64(l.Records)*(l.User+recordBytes) + l.User + parentBytes
}

// Check refuses a commit that Spanner would refuse: fault.TooLarge, with the
// arithmetic.
func (p Plan) Check(l Load) error {
	if p.Mutations(l.Records) > Limit {
		return fault.Newf(fault.TooLarge, "too many records for one commit: %d: %s", l.Records, p.Explain(l.Records, Limit))
	}
	if weight := l.Bytes(); weight > CommitBytes {
		return fault.Newf(fault.TooLarge, "the commit is too large: %d bytes of payloads and %d bytes of keys and fixed columns of %d records are %d bytes, the limit is %d",
			l.Payload, weight-l.Payload, l.Records, weight, CommitBytes)
	}
	return nil
}

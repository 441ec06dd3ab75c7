package budget

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"holdfast/internal/errcode"
)

// Plan is the cost of a batch request, in mutations.
type Plan struct {
	// mutations for the collection's row
	Parent int
	// mutations per record
	Record int
	// mutations for the batch's own row
	Batch int
	// mutations for the counters; 0 if bytes are not counted
	Quota int
}

// Commit plans a batch commit. quota means that bytes are counted.
func (s Schema) Commit(quota bool) Plan {
	steps := s.Steps(quota)
	p := Plan{Parent: steps[0].Mutations, Record: steps[1].Mutations, Batch: steps[2].Mutations}
	if quota {
		p.Quota = steps[3].Mutations
	}
	return p
}

// Open plans a request that opens a batch and stages records.
func (s Schema) Open() Plan {
	return Plan{
		Parent: s.Write("user_collections", "modified"),
		Record: s.Write("batch_bsos", s.table("batch_bsos").Columns...),
		Batch:  s.Write("batches", s.table("batches").Columns...),
	}
}

// Mutations returns the sum for a number of records, or math.MaxInt if it overflows.
func (p Plan) Mutations(records int) int {
	once := p.Parent + p.Batch + p.Quota
	if records > (math.MaxInt-once)/p.Record {
		return math.MaxInt
	}
	return once + p.Record*records
}

// MaxRecords returns how many records fit into limit mutations.
func (p Plan) MaxRecords(limit int) int {
	return max((limit-p.Mutations(0))/p.Record, 0)
}

// Explain shows the calculation to operators.
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

// Load is the size of a commit.
type Load struct {
	Records int
	// bytes
	Payload int64
	// bytes in all record IDs
	IDs int64
	// bytes in the user's key
	User int64
}

// Column sizes: 8 bytes per number, 12 per timestamp, plus 8 per column of a row, including the key.
const (
	numberBytes = 8
	stampBytes  = 12
	cellBytes   = 8

	// Key fxa_uid, fxa_kid, collection_id; columns modified, count, total_bytes, quota.
	parentBytes = numberBytes + stampBytes + 3*numberBytes + 7*cellBytes
	// Key with bso_id; columns sortindex, payload, modified, expiry.
	recordBytes = numberBytes + numberBytes + 2*stampBytes + 8*cellBytes
)

// Bytes estimates the size as Spanner counts it.
func (l Load) Bytes() int64 {
	return l.Payload + l.IDs + int64(l.Records)*(l.User+recordBytes) + l.User + parentBytes
}

// Check returns errcode.TooLarge, with the calculation.
func (p Plan) Check(l Load) error {
	if p.Mutations(l.Records) > Limit {
		return errcode.Newf(errcode.TooLarge, "too many records for one commit: %d: %s", l.Records, p.Explain(l.Records, Limit))
	}
	if weight := l.Bytes(); weight > CommitBytes {
		return errcode.Newf(errcode.TooLarge, "the commit is too large: %d bytes of payloads and %d bytes of keys and fixed columns of %d records are %d bytes, the limit is %d",
			l.Payload, weight-l.Payload, l.Records, weight, CommitBytes)
	}
	return nil
}

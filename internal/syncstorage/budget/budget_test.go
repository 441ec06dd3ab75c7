//test:unraced its goroutines share nothing

package budget

import (
	"math"
	"slices"
	"strings"
	"testing"

	"holdfast/internal/errcode"
)

func (s Schema) with(table, column string, indexes ...Index) Schema {
	s = slices.Clone(s)
	for i, t := range s {
		if t.Name != table {
			continue
		}
		if column != "" {
			s[i].Columns = append(slices.Clip(t.Columns), column)
		}
		s[i].Indexes = append(slices.Clip(t.Indexes), indexes...)
	}
	return s
}

// historical returns the schema with former indexes on bsos.
func historical() Schema {
	return Current().with("bsos", "", Index{"BsoModified", []string{"modified"}}, Index{"BsoExpiry", []string{"expiry"}})
}

func TestPlan(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name  string
		s     Schema
		quota bool
		limit int

		record, most       int // mutations per record; maximum records
		records, sum, left int // for this number of records
	}{
		{"no quota", Current(), false, 80_000, 8, 9_999, 9_984, 79_877, 123},
		{"quota", Current(), true, 80_000, 8, 9_998, 9_984, 79_885, 115},
		{"until 2022", historical(), true, 20_000, 12, 1_665, 1_664, 19_981, 19},
		{"with the indexes", historical(), true, 80_000, 12, 6_665, 6_656, 79_885, 115},

		{"a column of bsos", Current().with("bsos", "added"), true, 80_000, 9, 8_887, 8_887, 79_996, 4},
		{"an index on bsos", Current().with("bsos", "", Index{"ByIndex", []string{"sortindex", "modified"}}), true, 80_000, 10, 7_998, 7_998, 79_993, 7},
		// The unused records leave space for this column.
		{"a column of user_collections", Current().with("user_collections", "added"), true, 80_000, 8, 9_998, 9_984, 79_887, 113},
		{"a column, without a quota", Current().with("user_collections", "added"), false, 80_000, 8, 9_999, 9_984, 79_877, 123},
		{"an index on the stamp", Current().with("user_collections", "", Index{"ByStamp", []string{"modified"}}), false, 80_000, 8, 9_999, 9_984, 79_879, 121},
		{"a column of another table", Current().with("batch_bsos", "added"), true, 80_000, 8, 9_998, 9_984, 79_885, 115},
	} {
		p := tc.s.Commit(tc.quota)
		if p.Record != tc.record || p.Mutations(tc.records) != tc.sum || tc.limit-p.Mutations(tc.records) != tc.left {
			t.Errorf("%s: %d a record, %d records are %d mutations; want %d, %d", tc.name, p.Record, tc.records, p.Mutations(tc.records), tc.record, tc.sum)
		}
		if got := p.MaxRecords(tc.limit); got != tc.most {
			t.Errorf("%s: %d records fit, want %d", tc.name, got, tc.most)
		}
		if p.Mutations(tc.most) > tc.limit || p.Mutations(tc.most+1) <= tc.limit {
			t.Errorf("%s: %d is not the most records", tc.name, tc.most)
		}
	}
	if got, want := Current().Commit(false), (Plan{4, 8, 1, 0}); got != want {
		t.Errorf("without quota %v, want %v", got, want)
	}
	if got, want := Current().Commit(true), (Plan{6, 8, 1, 6}); got != want {
		t.Errorf("with quota %v, want %v", got, want)
	}
	if got, want := Current().Open(), (Plan{4, 8, 5, 0}); got != want || got.MaxRecords(Limit) != 9_998 {
		t.Errorf("a request that opens a batch is %v, want %v; %d records fit", got, want, got.MaxRecords(Limit))
	}
	if n := Current().Commit(true).MaxRecords(5); n != 0 {
		t.Errorf("%d records fit into 5 mutations", n)
	}
}

func TestWrite(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		s       Schema
		table   string
		columns []string
		want    int
	}{
		{Current(), "user_collections", []string{"modified"}, 4},
		{Current(), "user_collections", nil, 3},
		{Current(), "bsos", []string{"expiry", "modified"}, 6},
		{Current(), "batches", []string{"expiry"}, 5},
		{Current(), "batch_bsos", []string{"sortindex", "payload", "ttl"}, 8},
		{Current(), "collections", []string{"name"}, 4},
		{historical(), "bsos", []string{"sortindex", "payload"}, 6},
		{historical(), "bsos", []string{"expiry"}, 7},
		{historical(), "bsos", []string{"expiry", "modified"}, 10},
	} {
		if got := tc.s.Write(tc.table, tc.columns...); got != tc.want {
			t.Errorf("%s %v: %d, want %d", tc.table, tc.columns, got, tc.want)
		}
	}
	for _, wrong := range []func(){
		func() { Current().Write("users", "name") },
		func() { Current().Write("bsos", "ttl") },
		func() { Current().Write("bsos", "bso_id") },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Error("Write accepted an unknown table or column")
				}
			}()
			wrong()
		}()
	}
}

func TestSteps(t *testing.T) {
	t.Parallel()
	for _, quota := range []bool{false, true} {
		sum := 0
		for _, step := range historical().Steps(quota) {
			sum += step.Mutations
			if step.Name == "each record" && step.Of != "bsos: 4 key columns; sortindex, payload, modified, expiry; 2 of index BsoModified; 2 of index BsoExpiry" {
				t.Errorf("a record is made of %s", step.Of)
			}
		}
		if want := historical().Commit(quota).Mutations(1); sum != want {
			t.Errorf("quota %v: the steps are %d, the plan %d", quota, sum, want)
		}
	}
}

func TestExplain(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		quota   bool
		records int
		want    string
	}{
		{true, 9_984, "6 + 8 × 9984 + 1 + 6 = 79885 of 80000 mutations, 115 left; at most 9998 records fit"},
		{false, 9_984, "4 + 8 × 9984 + 1 = 79877 of 80000 mutations, 123 left; at most 9999 records fit"},
		{true, 10_000, "6 + 8 × 10000 + 1 + 6 = 80013 of 80000 mutations, 13 too many; at most 9998 records fit"},
	} {
		if got := Current().Commit(tc.quota).Explain(tc.records, Limit); got != tc.want {
			t.Errorf("%s\nwant %s", got, tc.want)
		}
	}
}

func TestCheck(t *testing.T) {
	t.Parallel()
	on, off := Current().Commit(true), Current().Commit(false)
	for _, tc := range []struct {
		name string
		p    Plan
		l    Load
		want string // part of the error; "" for no error
	}{
		{"nothing", on, Load{}, ""},
		{"all that fits", on, Load{Records: 9_998}, ""},
		{"one record more", on, Load{Records: 9_999}, "6 + 8 × 9999 + 1 + 6 = 80005 of 80000"},
		{"all that fits without quota", off, Load{Records: 9_999}, ""},
		{"one more without quota", off, Load{Records: 10_000}, "4 + 8 × 10000 + 1 = 80005 of 80000"},
		{"all mutations", Plan{Record: 1}, Load{Records: Limit}, ""},
		{"a mutation more", Plan{Record: 1}, Load{Records: Limit + 1}, "0 + 1 × 80001 = 80001 of 80000"},
		{"more than can be counted", on, Load{Records: math.MaxInt}, "too many"},
		{"a batch as large as it may be", off, Load{Records: 9_999, Payload: LoadSize, IDs: 64 * 9_999, User: 100}, ""},
		{"all bytes", on, Load{Records: 1, Payload: CommitBytes - recordBytes - parentBytes - 2*40 - 12, IDs: 12, User: 40}, ""},
		{"a byte more", on, Load{Records: 1, Payload: CommitBytes - recordBytes - parentBytes - 2*40 - 12, IDs: 13, User: 40}, "are 104857601 bytes, the limit is 104857600"},
	} {
		err := tc.p.Check(tc.l)
		switch {
		case tc.want == "" && err != nil:
			t.Errorf("%s: %v", tc.name, err)
		case tc.want != "" && (!errcode.Is(err, errcode.TooLarge) || !strings.Contains(err.Error(), tc.want)):
			t.Errorf("%s: %v, want %q", tc.name, err, tc.want)
		}
	}
}

func TestWeightsAreOfTheSchema(t *testing.T) {
	t.Parallel()
	number := []string{"collection_id", "sortindex", "count", "total_bytes", "quota"}
	stamp := []string{"modified", "expiry"}
	for table, want := range map[string]int{"bsos": recordBytes, "user_collections": parentBytes} {
		row := Current().table(table)
		weight := 0
		for _, c := range slices.Concat(row.Key, row.Columns) {
			weight += cellBytes
			if slices.Contains(number, c) {
				weight += numberBytes
			}
			if slices.Contains(stamp, c) {
				weight += stampBytes
			}
		}
		if weight != want {
			t.Errorf("a row of %s weighs %d, and is taken for %d", table, weight, want)
		}
	}
}

package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"holdfast/test/binary"
)

// TestBudget checks the command that computes the Spanner commit limits without a database.
func TestBudget(t *testing.T) {
	t.Parallel()
	const (
		head   = "STEP MUTATIONS DETAILS\n"
		stamp  = "collection 4 user_collections: 3 key columns; modified\n"
		sums   = "collection 6 user_collections: 3 key columns; modified, count, total_bytes\n"
		record = "each record 8 bsos: 4 key columns; sortindex, payload, modified, expiry\n"
		batch  = "end of the batch 1 batches: the row, with batch_bsos below it\n"
		quota  = "quota 6 user_collections: 3 key columns; modified, count, total_bytes\n"

		spanner = "HOLDFAST_SYNCSTORAGE__DATABASE_URL=spanner://projects/pp/instances/ii/databases/dd"
		counted = "HOLDFAST_SYNCSTORAGE__ENFORCE_QUOTA=true"
		records = "SYNC_SYNCSTORAGE__LIMITS__MAX_TOTAL_RECORDS="
	)
	for _, tc := range []struct {
		name          string
		vars, args    []string
		status        int
		stdout, error string
	}{
		{"nothing is configured", nil, nil, 0,
			head + stamp + record + batch + "\n9984 records: 4 + 8 × 9984 + 1 = 79877 of 80000 mutations, 123 left; at most 9999 records fit\n", ""},
		{"with a quota", nil, []string{"--quota"}, 0,
			head + sums + record + batch + quota + "\n9984 records: 6 + 8 × 9984 + 1 + 6 = 79885 of 80000 mutations, 115 left; at most 9998 records fit\n", ""},
		{"as configured", []string{spanner, counted, records + "1664"}, nil, 0,
			head + sums + record + batch + quota + "\n1664 records: 6 + 8 × 1664 + 1 + 6 = 13325 of 80000 mutations, 66675 left; at most 9998 records fit\n", ""},
		{"of another engine", []string{records + "20000"}, nil, 0,
			head + stamp + record + batch + "\n9984 records: 4 + 8 × 9984 + 1 = 79877 of 80000 mutations, 123 left; at most 9999 records fit\n", ""},
		{"without the configured quota", []string{counted}, []string{"--quota=false", "--records", "9999"}, 0,
			head + stamp + record + batch + "\n9999 records: 4 + 8 × 9999 + 1 = 79997 of 80000 mutations, 3 left; at most 9999 records fit\n", ""},
		{"too many", []string{counted}, []string{"--records", "9999"}, 1,
			head + sums + record + batch + quota + "\n9999 records: 6 + 8 × 9999 + 1 + 6 = 80005 of 80000 mutations, 5 too many; at most 9998 records fit\n", ""},
		{"none", nil, []string{"--records", "0"}, 2, "", "--records: must be from 1 to 100000000"},
		{"more than can be counted", nil, []string{"--records", "100000001"}, 2, "", "--records: must be from 1 to 100000000"},
		{"wrongly configured", []string{spanner, records + "10000"}, nil, 2, "",
			"4 + 8 × 10000 + 1 = 80005 of 80000 mutations, 5 too many; at most 9999 records fit"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			data := filepath.Join(t.TempDir(), "data")
			r := binary.Run(t, binary.Environ(append(tc.vars, "HOLDFAST_DATA="+data)...), append([]string{"sync", "budget"}, tc.args...)...)
			if r.Status != tc.status || squeezed(r.Stdout) != tc.stdout || !strings.Contains(r.Stderr, tc.error) {
				t.Errorf("status %d\n%s%s", r.Status, r.Stdout, r.Stderr)
			}
			if _, err := os.Stat(data); err == nil {
				t.Error("the command created a data folder")
			}
		})
	}
}

func squeezed(table string) string {
	lines := strings.SplitAfter(table, "\n")
	for i, line := range lines {
		if rest, ok := strings.CutSuffix(line, "\n"); ok {
			lines[i] = strings.Join(strings.Fields(rest), " ") + "\n"
		}
	}
	return strings.Join(lines, "")
}

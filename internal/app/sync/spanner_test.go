package sync

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"holdfast/internal/app/service/servicetest"
	"holdfast/internal/auth/hawk"
	"holdfast/internal/auth/tokenlib"
	"holdfast/internal/conf"
	"holdfast/internal/errcode"
	"holdfast/internal/syncstorage"
	"holdfast/internal/syncstorage/budget"
)

const onSpanner = "HOLDFAST_SYNCSTORAGE__DATABASE_URL=spanner://projects/pp/instances/ii/databases/dd"

func load(environ ...string) (*Storage, conf.Report, error) {
	s := New()
	report, err := servicetest.Load(s.Service(), environ...)
	return s, report, err
}

func limit(name, value string) string { return "HOLDFAST_SYNCSTORAGE__LIMITS__" + name + "=" + value }

func TestReferenceServersNamesOfSpanner(t *testing.T) {
	t.Parallel()
	cfg, report, err := load(
		"SYNC_SYNCSTORAGE__DATABASE_URL=spanner://projects/pp/instances/ii/databases/dd",
		"SYNC_SYNCSTORAGE__DATABASE_POOL_MAX_SIZE=42",
		"SYNC_SYNCSTORAGE__DATABASE_POOL_CONNECTION_LIFESPAN=3600",
		"SYNC_SYNCSTORAGE__DATABASE_POOL_CONNECTION_MAX_IDLE=60",
		"SYNC_SYNCSTORAGE__DATABASE_POOL_SWEEPER_TASK_INTERVAL=10",
		"SYNC_SYNCSTORAGE__DATABASE_SPANNER_ROUTE_TO_LEADER=true",
		"SYNC_SYNCSTORAGE__SPANNER_EMULATOR_HOST=localhost:9010",
		"SYNC_SYNCSTORAGE__LIMITS__MAX_TOTAL_RECORDS=9984",
	)
	if err != nil {
		t.Fatal(err)
	}
	s := cfg.cfg
	if !cfg.onSpanner() || s.PoolMaxSize != 42 || s.PoolSweeper != 10*time.Second || !s.RouteToLeader || s.EmulatorHost != "localhost:9010" {
		t.Errorf("not all is taken over: %+v", s)
	}
	if len(report.Warnings) > 0 {
		t.Errorf("warnings %v", report.Warnings)
	}
	if got, want := noted(report), []string{
		"SYNC_SYNCSTORAGE__DATABASE_POOL_SWEEPER_TASK_INTERVAL", "SYNC_SYNCSTORAGE__DATABASE_POOL_CONNECTION_LIFESPAN", "SYNC_SYNCSTORAGE__DATABASE_POOL_CONNECTION_MAX_IDLE",
	}; !slices.Equal(got, want) {
		t.Errorf("notes %v, want %v", got, want)
	}
}

func noted(r conf.Report) (where []string) {
	for _, n := range r.Notes {
		where = append(where, n.Where)
	}
	return where
}

func TestEmulatorHost(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		environ []string
		want    string // "": refused
	}{
		{[]string{"SPANNER_EMULATOR_HOST=127.0.0.1:9010"}, "127.0.0.1:9010"},
		{[]string{"SPANNER_EMULATOR_HOST=a:1", "SYNC_SYNCSTORAGE__SPANNER_EMULATOR_HOST=b:2"}, "b:2"},
		{[]string{"SPANNER_EMULATOR_HOST=a:1", "HOLDFAST_SYNCSTORAGE__SPANNER_EMULATOR_HOST=[::1]:3"}, "[::1]:3"},
		{[]string{"SPANNER_EMULATOR_HOST=localhost"}, ""},
		{[]string{"SPANNER_EMULATOR_HOST=:9010"}, ""},
		{[]string{"SPANNER_EMULATOR_HOST=http://localhost:9010"}, ""},
		{[]string{"SPANNER_EMULATOR_HOST=localhost:99999"}, ""},
		{[]string{"SPANNER_EMULATOR_HOST=localhost:0"}, ""},
	} {
		cfg, _, err := load(append(tc.environ, onSpanner)...)
		switch {
		case tc.want == "" && (err == nil || !strings.Contains(err.Error(), "SPANNER_EMULATOR_HOST: syncstorage.spanner_emulator_host: must be host:port")):
			t.Errorf("%v: %v", tc.environ, err)
		case tc.want != "" && (err != nil || cfg.cfg.EmulatorHost != tc.want):
			t.Errorf("%v: %v", tc.environ, err)
		}
	}
}

// TestLimitsThatFitSpanner checks that settings within the commit limits are not changed.
func TestLimitsThatFitSpanner(t *testing.T) {
	t.Parallel()
	on := "HOLDFAST_SYNCSTORAGE__ENABLE_QUOTA=true"
	for _, tc := range []struct {
		name           string
		environ        []string
		records, bytes int64
		notes          int
	}{
		{"defaults", nil, 9_984, 100_000_000, 0},
		{"defaults with quota", []string{on}, 9_984, 100_000_000, 0},
		{"the most without quota", []string{limit("MAX_TOTAL_RECORDS", "9999")}, 9_999, 100_000_000, 0},
		{"the most with quota", []string{on, limit("MAX_TOTAL_RECORDS", "9998")}, 9_998, 100_000_000, 0},
		{"fewer", []string{limit("MAX_TOTAL_RECORDS", "1664"), limit("MAX_TOTAL_BYTES", "99000000")}, 1_664, 99_000_000, 0},
		{"all bytes", []string{limit("MAX_TOTAL_BYTES", "100000000")}, 9_984, 100_000_000, 0},
		{"more bytes", []string{limit("MAX_TOTAL_BYTES", "100000001")}, 9_984, 100_000_000, 1},
		{"sweeps", []string{"HOLDFAST_SYNCSTORAGE__SWEEP_INTERVAL=1h", "HOLDFAST_SYNCSTORAGE__SWEEP_AFTER=1h", "HOLDFAST_SYNCSTORAGE__SWEEP_LIMIT=1"}, 9_984, 100_000_000, 3},
		{"every request a full batch", []string{limit("MAX_POST_RECORDS", "9984"), limit("MAX_POST_BYTES", "100000000"), limit("MAX_REQUEST_BYTES", "200000000")}, 9_984, 100_000_000, 0},
	} {
		cfg, report, err := load(append(tc.environ, onSpanner)...)
		if err != nil {
			t.Errorf("%s: %v", tc.name, err)
			continue
		}
		l := cfg.cfg.Limits
		if l.MaxTotalRecords != tc.records || l.MaxTotalBytes != tc.bytes || len(report.Notes) != tc.notes {
			t.Errorf("%s: %d records, %d bytes, notes %v", tc.name, l.MaxTotalRecords, l.MaxTotalBytes, report.Notes)
		}
	}
}

// TestLimitsThatDoNotFitSpanner checks that each problem contains its place and the calculation.
func TestLimitsThatDoNotFitSpanner(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name    string
		environ []string
		want    []string
	}{
		{"a record more", []string{limit("MAX_TOTAL_RECORDS", "10000")}, []string{
			"HOLDFAST_SYNCSTORAGE__LIMITS__MAX_TOTAL_RECORDS: too large for one commit on Spanner: 4 + 8 × 10000 + 1 = 80005 of 80000 mutations, 5 too many; at most 9999 records fit",
		}},
		{"a record more with quota", []string{limit("MAX_TOTAL_RECORDS", "9999"), "HOLDFAST_SYNCSTORAGE__ENABLE_QUOTA=true"}, []string{
			"MAX_TOTAL_RECORDS: too large for one commit on Spanner: 6 + 8 × 9999 + 1 + 6 = 80005 of 80000 mutations, 5 too many; at most 9998 records fit",
		}},
		{"enforcing is counting", []string{limit("MAX_TOTAL_RECORDS", "9999"), "HOLDFAST_SYNCSTORAGE__ENFORCE_QUOTA=true"}, []string{"at most 9998 records fit"}},
		{"far too many", []string{limit("MAX_TOTAL_RECORDS", "9223372036854775807")}, []string{"MAX_TOTAL_RECORDS: too large for one commit on Spanner"}},
		{"requests beyond the default", []string{limit("MAX_POST_RECORDS", "9985")}, []string{"MAX_POST_RECORDS: must be at most limits.max_total_records, which is 9984 on Spanner; set that too"}},
		{"requests beyond a commit", []string{limit("MAX_POST_RECORDS", "10000")}, []string{"MAX_POST_RECORDS: too large for one commit on Spanner: 4 + 8 × 10000 + 5 = 80009"}},
		// Such a batch could be committed, but not opened in a single request.
		{"a batch in one request", []string{limit("MAX_POST_RECORDS", "9999"), limit("MAX_TOTAL_RECORDS", "9999")}, []string{"MAX_POST_RECORDS: too large for one commit on Spanner: 4 + 8 × 9999 + 5 = 80001 of 80000 mutations, 1 too many; at most 9998 records fit"}},
		{"a large request", []string{limit("MAX_POST_BYTES", "100000001"), limit("MAX_REQUEST_BYTES", "200000000")}, []string{"MAX_POST_BYTES: must be at most 100000000 on Spanner"}},
		{"a large record", []string{limit("MAX_RECORD_PAYLOAD_BYTES", "2621441")}, []string{"MAX_RECORD_PAYLOAD_BYTES: must be at most 2621440 on Spanner"}},
		{"single collections", []string{
			limit("COLLECTIONS__TABS__MAX_POST_BYTES", "100000001"), limit("COLLECTIONS__TABS__MAX_REQUEST_BYTES", "200000000"),
			limit("COLLECTIONS__HISTORY__MAX_RECORD_PAYLOAD_BYTES", "2621441"),
		}, []string{"HISTORY__MAX_RECORD_PAYLOAD_BYTES: must be at most 2621440 on Spanner", "TABS__MAX_POST_BYTES: must be at most 100000000 on Spanner"}},
	} {
		_, _, err := load(append(tc.environ, onSpanner)...)
		wrong, ok := errors.AsType[*conf.Error](err)
		if !ok || len(wrong.Problems) != len(tc.want) {
			t.Errorf("%s: %v", tc.name, err)
			continue
		}
		for i, want := range tc.want {
			if got := wrong.Problems[i].String(); !strings.Contains(got, want) {
				t.Errorf("%s: %s\nwant %s", tc.name, got, want)
			}
			if !strings.HasPrefix(wrong.Problems[i].Where, "HOLDFAST_SYNCSTORAGE__LIMITS__") {
				t.Errorf("%s: found at %s", tc.name, wrong.Problems[i].Where)
			}
		}
	}
}

func TestLimitsElsewhere(t *testing.T) {
	t.Parallel()
	large := []string{
		limit("MAX_TOTAL_RECORDS", "20000"), limit("MAX_TOTAL_BYTES", "300000000"), limit("MAX_RECORD_PAYLOAD_BYTES", "3000000"),
		"HOLDFAST_SYNCSTORAGE__DATABASE_POOL_CONNECTION_LIFESPAN=1h",
	}
	for name, more := range map[string][]string{
		"SQLite":               nil,
		"PostgreSQL":           {"HOLDFAST_SYNCSTORAGE__DATABASE_URL=postgres://sync@db/sync"},
		"a service that's off": {onSpanner, "HOLDFAST_SYNCSTORAGE__ENABLED=false"},
	} {
		cfg, report, err := load(append(slices.Clone(large), more...)...)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if l := cfg.cfg.Limits; l.MaxTotalRecords != 20_000 || l.MaxTotalBytes != 300_000_000 || len(report.Notes) > 0 {
			t.Errorf("%s: %d records, %d bytes, notes %v", name, l.MaxTotalRecords, l.MaxTotalBytes, report.Notes)
		}
	}
	cfg, report, err := load("HOLDFAST_SYNCSTORAGE__DATABASE_POOL_SWEEPER_TASK_INTERVAL=10s")
	if err != nil || len(report.Notes) != 1 {
		t.Errorf("a sweeper on SQLite: notes %v, %v", report.Notes, err)
	} else if l := cfg.cfg.Limits; l.MaxTotalRecords != 10_000 || l.MaxTotalBytes != 100*2560<<10 {
		t.Errorf("SQLite has %d records, %d bytes", l.MaxTotalRecords, l.MaxTotalBytes)
	}
	if _, _, err := load("HOLDFAST_SYNCSTORAGE__DATABASE_POOL_SWEEPER_TASK_INTERVAL=-1s"); err == nil {
		t.Error("a sweeper that runs before itself is accepted")
	}
}

func TestReferenceKnowsSpannersNumbers(t *testing.T) {
	t.Parallel()
	text := conf.Reference([]conf.Section{{Key: Name, Value: &syncstorage.Config{}}})
	for _, n := range []int{budget.Records, budget.LoadSize} {
		if !strings.Contains(text, " "+strconv.Itoa(n)+" ") {
			t.Errorf("no word of %d on Spanner", n)
		}
	}
}

func TestRefusals(t *testing.T) {
	t.Parallel()
	for err, want := range map[error]string{
		hawk.ErrMAC: "hawk-mac",
		fmt.Errorf("detail: %w", hawk.ErrMalformed): "hawk-malformed",
		tokenlib.ErrSignature:                       "token-signature",
		errcode.New(errcode.Quota, "full"):          "",
	} {
		if got := refusals.Reason(err); got != want {
			t.Errorf("%v is %q, want %q", err, got, want)
		}
	}
}

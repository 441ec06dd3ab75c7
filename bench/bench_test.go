package main

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"holdfast/internal/testdb"
	"holdfast/test/binary"
)

// needSchedstat skips a test on systems where bench cannot measure CPU time.
func needSchedstat(t *testing.T) {
	t.Helper()
	if _, err := os.Stat("/proc/self/schedstat"); err != nil {
		t.Skipf("bench reads CPU times from Linux's schedstat: %v", err)
	}
}

func TestMain(m *testing.M) {
	if os.Getenv(guestBareListen) != "" { // the guest part runs this program as its own server
		fmt.Fprintln(os.Stderr, serveBare(context.Background()))
		os.Exit(1)
	}
	os.Exit(binary.Main(m))
}

// document contains a section for every part, filled with an earlier run's results.
var document = func() string {
	text := "# Performance\n\nBefore.\n\n"
	for _, part := range partNames(true) {
		text += "<!-- bench: " + part + " -->\nold " + part + "\n<!-- bench: end of " + part + " -->\n\nBetween.\n\n"
	}
	return text + "After.\n"
}()

func guestRows() (rows []string) {
	for _, hot := range []string{"memory", "Redis"} {
		for _, work := range []string{
			"read a session", "add to the wishlist", "mint a handoff", "consume a handoff", `from commit to broker \(NATS\)`, `publish 1,000 waiting events \(NATS\)`,
		} {
			rows = append(rows, work+` \| sqlite \| `+hot)
		}
	}
	return append(rows, `1,000 sessions in memory: [0-9]+ MB \| – \| memory`, `read sessions as fast as possible: [^|]+ \| sqlite \| Redis`)
}

func consoleRows() (rows []string) {
	for _, page := range consolePages {
		rows = append(rows, page.name+` \| sqlite`)
	}
	return rows
}

func guestSizeRows() (rows []string) {
	for _, table := range guestTables {
		rows = append(rows, "`"+table+"` \\| sqlite")
	}
	for _, what := range []string{"session with preferences", "recently viewed property"} {
		rows = append(rows, what+` \| memory`, what+` \| Redis`)
	}
	return rows
}

// TestRun runs every part with tiny sizes and checks its output. The parts server and limit check their rows
// themselves.
func TestRun(t *testing.T) {
	t.Parallel()
	needSchedstat(t)
	for service, parts := range map[string]map[string][]string{
		"sync": {
			"load": {
				`PUT 500 B \| sqlite \| 1`, `PUT 500 B \| sqlite \| 2`, `POST 100 × 500 B \| sqlite \| 1`, `POST 100 × 500 B \| sqlite \| 2`,
				`GET 1,000 full \| sqlite \| 1`, `GET 1,000 full \| sqlite \| 2`, `GET 100 full \| sqlite \| 2`, `info/collections \| sqlite \| 2`,
				`batch: append 100 × 500 B \| sqlite \| 1`, `batch: commit 250 \| sqlite \| 1`,
				`batch: append 100 × 500 B \| sqlite \| 2`, `batch: commit 250 \| sqlite \| 2`,
			},
			"memory": {
				`appends 100 × 500 B \| sqlite`, `commits 100 × 500 B \| sqlite`, `appends 250 × 500 B \| sqlite`, `commits 250 × 500 B \| sqlite`,
				`appends 250 × 500 B by each of 2 clients while 2 others read 1 MB each \| sqlite`, `commits 250 × 500 B by each of 2 clients while 2 others read 1 MB each \| sqlite`,
			},
			"start":   {`sqlite`},
			"budgets": {`PUT 500 B \| sqlite`, `GET 100 full \| sqlite`, `ext put 500 B \| sqlite`, `ext get 500 B \| sqlite`},
			"disk": {
				`Sync, 200 B \| sqlite \| 400`, `Sync, 500 B \| sqlite \| 400`, `Sync, 1,000 B \| sqlite \| 400`, `Sync, 10,000 B \| sqlite \| 100`,
				`extension, 200 B \| sqlite \| 400`, `extension, 1,000 B \| sqlite \| 400`,
				`extension, 64 KiB text \| sqlite \| 10`, `extension, 64 KiB digits \| sqlite \| 10`,
				`1,000 B object \| sqlite \| 400`, `10,000 B object \| sqlite \| 40`, `object on a storage node \| sqlite \| 40`,
			},
			"rows": {`1,000 \| 100 \| 10 \| sqlite`, `2,000 \| 100 \| 10 \| sqlite`, `2,200 \| 100 \| 1 \| sqlite`, `2,200 \| 200 \| 1 \| sqlite`},
		},
		"guests":  {"guest": guestRows(), "guestsize": guestSizeRows()},
		"console": {"console": consoleRows()},
		"copy":    {"copy": {`syncstorage, sqlite → sqlite \| 1,000`, `extstorage, sqlite → sqlite \| 1,000`}},
		"extension storage": {
			"ext": {
				`ext put 500 B \| sqlite \| 1`, `ext put 500 B, 1 KB schema \| sqlite \| 1`, `ext get 500 B \| sqlite \| 1`,
				`ext list 100, values \| sqlite \| 1`, `ext list 100, keys \| sqlite \| 1`,
				`ext bulk put 20 × 500 B \| sqlite \| 1`, `ext batch, 10 operations \| sqlite \| 1`, `ext increment \| sqlite \| 1`,
				`ext put 500 B \| sqlite \| 2`, `ext put 500 B, 1 KB schema \| sqlite \| 2`, `ext get 500 B \| sqlite \| 2`,
				`ext list 100, values \| sqlite \| 2`, `ext list 100, keys \| sqlite \| 2`,
				`ext bulk put 20 × 500 B \| sqlite \| 2`, `ext batch, 10 operations \| sqlite \| 2`, `ext increment \| sqlite \| 2`,
			},
			"outbox": {`puts of 20 records, 2 connections \| sqlite`, `1,000 waiting events from 1,000 installs \| sqlite`},
			"exthot": {
				`sqlite \| 1 \| put`, `sqlite \| 1 \| increment`, `sqlite \| 1 \| patch`, `sqlite \| 2 \| put`, `sqlite \| 2 \| increment`, `sqlite \| 2 \| patch`,
			},
			"extkeys": {`500 \| 50 \| 2 \| sqlite`, `500 \| 200 \| 2 \| sqlite`},
			"extrows": {`1,000 \| 100 \| 10 \| sqlite`, `2,000 \| 100 \| 10 \| sqlite`, `2,000 \| 100 \| 20 \| sqlite`},
		},
		"buckets": {
			"buckets": {
				`s3 PUT 4 KiB \| sqlite \| 1`, `s3 PUT 4 KiB \| sqlite \| 2`, `s3 GET 4 KiB \| sqlite \| 1`, `s3 GET 4 KiB \| sqlite \| 2`,
				`s3 PUT 1 MiB \| sqlite \| 1`, `s3 PUT 1 MiB \| sqlite \| 2`, `s3 GET 1 MiB \| sqlite \| 1`, `s3 GET 1 MiB \| sqlite \| 2`,
				`s3 PUT 64 MiB \| sqlite \| 1`, `s3 PUT 64 MiB \| sqlite \| 2`, `s3 GET 64 MiB \| sqlite \| 1`, `s3 GET 64 MiB \| sqlite \| 2`,
				`s3 list, 1,000 keys \| sqlite \| 1`, `s3 list, 1,000 keys \| sqlite \| 2`,
				`s3 list, 100 groups \| sqlite \| 1`, `s3 list, 100 groups \| sqlite \| 2`,
				`s3 DELETE 4 KiB \| sqlite \| 1`, `s3 DELETE 4 KiB \| sqlite \| 2`,
				`s3 mixed, 64 KiB \| sqlite \| 1`, `s3 mixed, 64 KiB \| sqlite \| 2`, `s3 mixed, 1 MiB \| sqlite \| 1`, `s3 mixed, 1 MiB \| sqlite \| 2`,
				`bare 4 KiB file, synced and renamed \| – \| 1`, `bare 4 KiB file, synced and renamed \| – \| 2`,
			},
			"bucketsmemory": {`stores a 16 MiB object \| sqlite`, `returns a 16 MiB object \| sqlite`},
			"bucketskeys": {
				`200 \| sqlite \| page of 100`, `2,000 \| sqlite \| page of 100`, `200 \| sqlite \| 100 groups`, `2,000 \| sqlite \| 100 groups`,
			},
		},
	} {
		t.Run(service, func(t *testing.T) {
			t.Parallel()
			if service != "extension storage" {
				testdb.SoakOnly(t, "it takes a minute; extension storage has shown the frame of all")
			}
			testdb.SQLite(t)
			runParts(t, parts)
		})
	}
}

func runParts(t *testing.T, parts map[string][]string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "performance.md")
	if err := os.WriteFile(path, []byte(document), 0o600); err != nil {
		t.Fatal(err)
	}
	names := strings.Join(slices.Sorted(maps.Keys(parts)), ",")
	o, err := parse([]string{
		"-binary", binary.Path(), "-out", path, "-engines", "sqlite", "-window", "20ms", "-runs", "1",
		"-connections", "1,2", "-rows", "1e3,2e3", "-parts", names,
	})
	if err != nil {
		t.Fatal(err)
	}
	*o.size = size{
		batch: 250, batches: []int{100, 250}, batchCallers: 2, starts: 2, uploads: 2, downloads: 2, download: 100,
		users: 10, ofOne: 200, manyRecords: 100, rowsCallers: 2, rowsPayload: 150,
		extInstalls: 10, extSpread: 20, extNamespaces: []int{50, 200}, events: 1000,
		hotCallers: []int{1, 2}, diskRecords: 400,
		reads: 10, large: 2 << 20, listKeys: 2000, deletes: 20, huge: 16 << 20, bucketKeys: []int{200, 2000},
		guests: 1000, guestRows: 100, browsers: 10, consoleRows: 12_000,
	}
	o.copySync, o.copyExt, o.copyWrites = 1000, 1000, 500
	var terminal bytes.Buffer
	if err := run(t.Context(), &o, &terminal); err != nil {
		t.Fatalf("%v\n%s", err, &terminal)
	}
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	text := string(got)
	for kept, times := range map[string]int{"Before.\n": 1, "Between.\n": len(partNames(true)), "After.\n": 1} {
		if n := strings.Count(text, kept); n != times {
			t.Errorf("%q: %d times in the document, want %d", kept, n, times)
		}
	}
	for _, part := range partNames(true) {
		rows, measured := parts[part]
		if strings.Contains(text, "old "+part+"\n") == measured {
			t.Errorf("%s: measured: %t; the earlier results are still there: %t", part, measured, !measured)
		}
		if !measured {
			continue
		}
		_, rest, _ := strings.Cut(text, "<!-- bench: "+part+" -->\n")
		results, _, _ := strings.Cut(rest, "<!-- bench: end of "+part+" -->")
		if !strings.Contains(results, "`go run ./bench -connections 1,2 -engines sqlite -parts "+names+" -rows 1e3,2e3 -runs 1 -window 20ms` on ") {
			t.Errorf("%s does not say how it was measured:\n%s", part, results)
		}
		table := regexp.MustCompile(`(?m)^\| .*\|$`).FindAllString(results, -1)
		if len(table) != 1+len(rows) {
			t.Errorf("%s has %d rows below its header, want %d:\n%s", part, len(table)-1, len(rows), results)
		}
		for _, row := range rows {
			if !slices.ContainsFunc(table, func(line string) bool { return regexp.MustCompile(`^\| ` + row + ` \|.* [1-9]`).MatchString(line) }) {
				t.Errorf("%s has no row %s with a figure:\n%s", part, row, results)
			}
		}
	}
}

// TestCompare checks that comparing a binary with itself gives a row per work and number of connections.
func TestCompare(t *testing.T) {
	t.Parallel()
	testdb.SoakOnly(t, "it takes a minute or more")
	needSchedstat(t)
	testdb.SQLite(t)
	o, err := parse([]string{
		"-binary", binary.Path(), "-against", binary.Path(), "-engines", "sqlite", "-window", "20ms", "-runs", "2",
		"-connections", "1,2", "-parts", "load,ext", "-works", "^PUT|^GET 100 |ext get",
	})
	if err != nil {
		t.Fatal(err)
	}
	*o.size = full
	var terminal bytes.Buffer
	if err := run(t.Context(), &o, &terminal); err != nil {
		t.Fatalf("%v\n%s", err, &terminal)
	}
	const measured = ` \| [1-9][\d.]* \| [1-9][\d.]* \| \*\*\d+\.\d\d\*\*`
	const latencies = ` \| \d+\.\d\d ms \| \d+\.\d\d ms \| \d+\.\d\d ms \| \d+\.\d\d ms`
	for _, row := range []string{`PUT 500 B \| sqlite \| 1`, `PUT 500 B \| sqlite \| 2`, `GET 100 full \| sqlite \| 1`, `GET 100 full \| sqlite \| 2`, `ext get 500 B \| sqlite \| 1`, `ext get 500 B \| sqlite \| 2`} {
		if n := len(regexp.MustCompile(`(?m)^\| `+row+measured+latencies+measured+` \|`).FindAllString(terminal.String(), -1)); n != 1 {
			t.Errorf("%d rows %s in:\n%s", n, row, &terminal)
		}
	}
	if n := strings.Count(terminal.String(), "\n| "); n != 1+6 {
		t.Errorf("%d lines of the table, want 7:\n%s", n, &terminal)
	}
}

// TestRunOnPostgres runs the limits on PostgreSQL, which call the services' functions: wrong arguments fail the run.
func TestRunOnPostgres(t *testing.T) {
	t.Parallel()
	testdb.SoakOnly(t, "it takes a minute or more")
	testdb.Postgres(t) // skips without a server
	o, err := parse([]string{"-binary", binary.Path(), "-engines", "postgres", "-window", "20ms", "-runs", "1", "-connections", "2", "-parts", "load,ext,exthot,outbox,buckets"})
	if err != nil {
		t.Fatal(err)
	}
	*o.size = size{batch: 250, batchCallers: 2, users: 10, rowsCallers: 2, extInstalls: 10, extSpread: 20, events: 1000, hotCallers: []int{2},
		reads: 10, large: 2 << 20, listKeys: 2000, deletes: 20, huge: 1 << 20,
	}
	var terminal bytes.Buffer
	if err := run(t.Context(), &o, &terminal); err != nil {
		t.Fatalf("%v\n%s", err, &terminal)
	}
	for _, b := range o.services {
		for _, op := range b.operations() {
			if strings.Count(terminal.String(), "| "+op.name+" | postgres | 2 | ") != 1 {
				t.Errorf("no row %q in:\n%s", op.name, &terminal)
			}
		}
	}
	for _, row := range []string{"batch: append 100 × 500 B | postgres", "batch: commit 250 | postgres", "1,000 waiting events from 1,000 installs | postgres", "postgres | 2 | increment, two servers"} {
		if !strings.Contains(terminal.String(), "| "+row+" | ") {
			t.Errorf("no row %q in:\n%s", row, &terminal)
		}
	}
}

func TestDocumentWithoutPlace(t *testing.T) {
	t.Parallel()
	if _, err := replace(document, "elsewhere", "text"); err == nil {
		t.Error("no error although the document has no place for the results")
	}
}

func TestParse(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{
		{"-connections", "0"},
		{"-connections", "16,1"},
		{"-rows", "1.5"},
		{"-engines", "mysql"},
		{"-parts", "all"},
		{"-runs", "0"},
		{"-window", "0s"},
		{"-works", "("},
	} {
		if _, err := parse(args); err == nil {
			t.Errorf("%v is accepted", args)
		}
	}
}

func TestMedian(t *testing.T) {
	t.Parallel()
	same := func(d time.Duration) time.Duration { return d }
	if got := median([]time.Duration{5, 1, 3}, same); got != 3 {
		t.Errorf("of three: %d", got)
	}
	if got := median([]time.Duration{7, 1, 3, 5}, same); got != 4 {
		t.Errorf("of four: %d", got)
	}
}

func TestThousands(t *testing.T) {
	t.Parallel()
	for n, want := range map[int]string{7: "7", 100: "100", 1000: "1,000", 12345: "12,345", 1234567: "1,234,567"} {
		if got := thousands(n); got != want {
			t.Errorf("%d: %s", n, got)
		}
	}
}

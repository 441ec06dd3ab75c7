package importing_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"holdfast/internal/app/service"
	"holdfast/internal/importing"
)

// TestFindings checks that `holdfast check` repeats an import's findings, but not the usual ones, until a later import
// finds nothing.
func TestFindings(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	if found := importing.Check(data, "sync"); found != nil {
		t.Errorf("without an import: %+v", found)
	}
	f := importing.Findings{At: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}
	for _, p := range []service.Problem{
		{Left: true, What: "records without an ID", Row: "user 1\x1b"},
		{Left: true, What: "records without an ID", Row: "user 2"},
		{What: "large records", Row: "user 3", Fix: "raise the limit"},
		{Left: true, Usual: true, What: "open batches", Row: "user 4"},
	} {
		f.Add(p)
	}
	if err := f.Save(data, "sync"); err != nil {
		t.Fatal(err)
	}
	found := importing.Check(data, "sync")
	if len(found) != 2 || found[0].State != service.Warning || found[0].What != "sync import" ||
		found[0].Says != `the import of 2026-01-02 did not import 2 rows, records without an ID: e.g. user 1\u001b` ||
		found[1].Says != "the import of 2026-01-02 imported 1 row, large records: e.g. user 3" || !strings.HasPrefix(found[1].Fix, "raise the limit; once that is settled, move "+data) {
		t.Errorf("%+v", found)
	}
	if found := importing.Check(data, "other"); found != nil {
		t.Errorf("of another service: %+v", found)
	}
	for range 2 { // a second time there is no file
		if err := new(importing.Findings).Save(data, "sync"); err != nil {
			t.Fatal(err)
		}
	}
	if found := importing.Check(data, "sync"); found != nil {
		t.Errorf("after an import without findings: %+v", found)
	}
	if err := os.WriteFile(filepath.Join(data, "import-sync.json"), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if found := importing.Check(data, "sync"); len(found) != 1 || !strings.Contains(found[0].Says, "cannot be read") {
		t.Errorf("a damaged file: %+v", found)
	}
}

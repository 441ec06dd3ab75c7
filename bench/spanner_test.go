package main

import (
	"bytes"
	"strings"
	"testing"

	"holdfast/internal/testdb"
	"holdfast/test/binary"
)

// TestRunOnSpanner runs the part that needs the emulator.
func TestRunOnSpanner(t *testing.T) {
	t.Parallel()
	testdb.SoakOnly(t, "the emulator is slow")
	testdb.Spanner(t) // skips without an emulator
	o, err := parse([]string{"-binary", binary.Path(), "-engines", "spanner", "-window", "20ms", "-runs", "1", "-connections", "1", "-parts", "load,memory"})
	if err != nil {
		t.Fatal(err)
	}
	*o.size = size{batch: 150, batchCallers: 2}
	var terminal bytes.Buffer
	if err := run(t.Context(), &o, &terminal); err != nil {
		t.Fatalf("%v\n%s", err, &terminal)
	}
	for _, row := range []string{"PUT 500 B", "POST 100 × 500 B", "batch: append 100 × 500 B", "batch: commit 150"} {
		if strings.Count(terminal.String(), "| "+row+" | spanner | 1 | ") != 1 {
			t.Errorf("no row %q in:\n%s", row, &terminal)
		}
	}
	if strings.Contains(terminal.String(), "GET 1,000") {
		t.Errorf("operations without a goal on Spanner were measured:\n%s", &terminal)
	}
}

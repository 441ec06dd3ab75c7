//test:unraced its goroutines share nothing

package migrate_test

import (
	"strings"
	"testing"
	"testing/fstest"

	"holdfast/internal/db/migrate"
)

func files(names ...string) fstest.MapFS {
	fsys := fstest.MapFS{}
	for _, n := range names {
		fsys["m/"+n] = &fstest.MapFile{Data: []byte("SELECT '" + n + "'")}
	}
	return fsys
}

func TestLoadRefusesMistakes(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name, want string
		files      []string
	}{
		{"a gap", "found 0003_c, expected number 0002", []string{"0001_a.sql", "0003_c.sql"}},
		{"a repeat", "found 0001_b, expected number 0002", []string{"0001_a.sql", "0001_b.sql"}},
		{"a stray file", "is not named", []string{"0001_a.sql", "notes.txt"}},
		{"a need of a later migration", "needs a later migration", []string{"0001_a.sql", "0002_b_needs_0002.sql"}},
		{"upper case", "is not named", []string{"0001_A.sql"}},
	} {
		_, err := migrate.Load("service", files(tc.files...), "m")
		if err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v", tc.name, err)
		}
	}
}

func TestPending(t *testing.T) {
	t.Parallel()
	set, err := migrate.Load("service", files("0001_a.sql", "0002_b.sql", "0003_c.sql"), "m")
	if err != nil {
		t.Fatal(err)
	}
	line := func(v int) migrate.Applied {
		m := set.Migrations[v-1]
		return migrate.Applied{Version: m.Version, Name: m.Name, Checksum: m.Checksum}
	}
	newer := migrate.Applied{Version: 4, Name: "d", Checksum: "of a later release"}
	kind, cruel := newer, newer
	kind.Name, cruel.Name = "d_needs_0003", "d_needs_0004"
	edited := line(2)
	edited.Checksum = strings.Repeat("0", 64)
	for _, tc := range []struct {
		name    string
		ledger  []migrate.Applied
		pending int
		err     string
	}{
		{"a new database", nil, 3, ""},
		{"half way", []migrate.Applied{line(1)}, 2, ""},
		{"done", []migrate.Applied{line(1), line(2), line(3)}, 0, ""},
		{"migrated by a newer release", []migrate.Applied{line(1), line(2), line(3), newer}, 0, ""},
		{"a newer release removed what older ones needed", []migrate.Applied{line(1), line(2), line(3), kind}, 0, ""},
		{"a newer release removed what this one needs", []migrate.Applied{line(1), line(2), line(3), cruel}, 0, "too old for the database"},
		{"another text", []migrate.Applied{line(1), edited}, 0, "(its migration 0002_b of service differs)"},
		{"a hole", []migrate.Applied{line(1), line(3)}, 0, "was not"},
	} {
		pending, err := set.Pending(tc.ledger)
		if tc.err != "" {
			if err == nil || !strings.Contains(err.Error(), tc.err) {
				t.Errorf("%s: error %v", tc.name, err)
			}
			continue
		}
		if err != nil || len(pending) != tc.pending {
			t.Errorf("%s: %d pending, error %v", tc.name, len(pending), err)
		}
	}
}

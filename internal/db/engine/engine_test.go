package engine

import (
	"strings"
	"testing"
)

func TestParse(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		url  string
		want Target
		err  string
	}{
		{"", Target{Kind: SQLite, Path: "data/syncstorage.db"}, ""},
		{"sqlite:/var/lib/x.db", Target{Kind: SQLite, Path: "/var/lib/x.db"}, ""},
		{"sqlite:///var/lib/x%20y.db", Target{Kind: SQLite, Path: "/var/lib/x y.db"}, ""},
		{"sqlite:x.db", Target{Kind: SQLite, Path: "x.db"}, ""},
		{"postgres://u:secret@h/d", Target{Kind: Postgres, URL: "postgres://u:secret@h/d"}, ""},
		{"postgresql:///d?host=/run/postgresql", Target{Kind: Postgres, URL: "postgresql:///d?host=/run/postgresql"}, ""},
		{"spanner://projects/p-1/instances/i-1/databases/d_1", Target{Kind: Spanner, URL: "projects/p-1/instances/i-1/databases/d_1"}, ""},
		{"spanner:projects/example.com:pp/instances/ii/databases/dd", Target{Kind: Spanner, URL: "projects/example.com:pp/instances/ii/databases/dd"}, ""},
		{"spanner://projects/pp/instances/ii/databases/d", Target{}, "not a valid Spanner database name"},
		{"spanner://projects/pp/instances/i/databases/dd", Target{}, "not a valid Spanner database name"},
		{"spanner://projects/pp/instances/ii/databases/" + strings.Repeat("d", 31), Target{}, "not a valid Spanner database name"},
		{"spanner://projects/pp/instances/" + strings.Repeat("i", 65) + "/databases/dd", Target{}, "not a valid Spanner database name"},
		{"spanner://projects/pp/instances/ii/databases/Secret", Target{}, "not a valid Spanner database name"},
		{"spanner://projects/pp/instances/ii/databases/secret?x=y", Target{}, "not a valid Spanner database name"},
		{"spanner://projects/pp/instances/ii", Target{}, "not a valid Spanner database name"},
		{"spanner:", Target{}, "not a valid Spanner database name"},
		{"sqlite:", Target{}, "no file name"},
		{"mysql://u:secret@h/d", Target{}, `the scheme "mysql" is not supported: expected sqlite:PATH or postgres://user@host/database or spanner:`},
		{"secret", Target{}, "not a URL"},
	} {
		got, err := Parse(tc.url, "data/syncstorage.db", SQLite, Postgres, Spanner)
		if tc.err == "" && (err != nil || got != tc.want) {
			t.Errorf("%q: %+v, %v", tc.url, got, err)
		}
		if tc.err != "" && (err == nil || !strings.Contains(err.Error(), tc.err) || strings.Contains(err.Error(), "secret")) {
			t.Errorf("%q: %v", tc.url, err)
		}
	}
	if _, err := Parse("spanner://projects/pp/instances/ii/databases/dd", "", SQLite, Postgres); err == nil || err.Error() != `the scheme "spanner" is not supported: expected sqlite:PATH or postgres://user@host/database` {
		t.Errorf("a service without Spanner: %v", err)
	}
}

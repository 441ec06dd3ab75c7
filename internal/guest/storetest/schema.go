package storetest

import (
	_ "embed"
	"slices"
	"strings"
	"testing"
)

func schemaChecks() []check { return []check{{"SameInAllBackends", sameSchema}} }

// schemaText has a line for each migration, column and index that every backend has.
//
//go:embed schema.txt
var schemaText string

// sameSchema: the backends have the same migrations, tables, columns and indexes. The types
// of columns are those of SQLite: times and truth values are integers, and dates, UUIDs and
// JSON are text.
func sameSchema(_ *testing.T, u *user) {
	got, want := u.h.Schema(u.t), strings.Split(strings.TrimSpace(schemaText), "\n")
	for i, line := range got {
		got[i] = strings.TrimRight(line, " ")
	}
	slices.Sort(got)
	for _, line := range got {
		if !slices.Contains(want, line) {
			u.t.Errorf("only in this backend: %s", line)
		}
	}
	for _, line := range want {
		if !slices.Contains(got, line) {
			u.t.Errorf("not in this backend: %s", line)
		}
	}
}

package storetest

import (
	_ "embed"
	"slices"
	"strings"
	"testing"
)

func schemaChecks() []check { return []check{{"SameInAllBackends", sameSchema}} }

// schemaText has a line for each migration, column and index in every backend.
//
//go:embed schema.txt
var schemaText string

// sameSchema checks that all backends have the same migrations, tables, columns and indexes. schema.txt uses
// SQLite's column types: integers for times and booleans, text for dates, UUIDs and JSON. Only SQLite keeps hot state
// (guest.HotStore).
func sameSchema(_ *testing.T, u *user) {
	got, want := u.h.Schema(u.t), strings.Split(strings.TrimSpace(schemaText), "\n")
	for i, line := range got {
		got[i] = strings.TrimRight(line, " ")
	}
	slices.Sort(got)
	for _, line := range got {
		if _, name, _ := strings.Cut(line, " "); strings.HasPrefix(name, "hot_") {
			continue
		}
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

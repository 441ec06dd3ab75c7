// Package budget computes the mutations of commits on Cloud Spanner.
//
// Spanner rejects a commit with more than 80,000 mutations, and only at its end. It counts columns: key columns,
// written columns, and two per changed index entry. So the server checks its settings at startup, and checks each
// commit before sending it.
package budget

import (
	"fmt"
	"slices"
	"strings"
)

// Limits from Spanner and this server.
const (
	Limit       = 80_000      // mutations per commit
	LoadSize    = 100_000_000 // payload bytes per batch
	CommitBytes = 100 << 20   // bytes per commit, with keys and fixed columns
	FieldLength = 2_621_440   // characters in STRING(MAX)

	// Records is the default maximum of records in a batch, leaving space for another column in user_collections.
	Records = 9_984
)

// Delete is the cost of deleting a row or key range with interleaved rows.
const Delete = 1

// Table describes a table. Columns excludes the key.
type Table struct {
	Name         string
	Key, Columns []string
	Indexes      []Index
}

// Index is a secondary index.
type Index struct {
	Name    string
	Columns []string
}

// Schema holds the tables whose mutations are predicted.
type Schema []Table

const ownQuota = "quota"

// Current is the schema after all migrations.
func Current() Schema {
	return Schema{
		{
			Name: "collections", Key: []string{"collection_id"}, Columns: []string{"name"},
			Indexes: []Index{{"CollectionName", []string{"name"}}},
		},
		{
			Name: "user_collections", Key: []string{"fxa_uid", "fxa_kid", "collection_id"},
			Columns: []string{"modified", "count", "total_bytes", ownQuota},
		},
		{
			Name: "bsos", Key: []string{"fxa_uid", "fxa_kid", "collection_id", "bso_id"},
			Columns: []string{"sortindex", "payload", "modified", "expiry"},
		},
		{
			Name: "batches", Key: []string{"fxa_uid", "fxa_kid", "collection_id", "batch_id"},
			Columns: []string{"expiry"},
		},
		{
			Name: "batch_bsos", Key: []string{"fxa_uid", "fxa_kid", "collection_id", "batch_id", "batch_bso_id"},
			Columns: []string{"sortindex", "payload", "ttl"},
		},
		{
			Name: "write_control", Key: []string{"service", "shard"},
			Columns: []string{"holder", "read_only_until", "log_until", "read_only_since"},
		},
	}
}

// table panics if there is no such table: a programming error.
func (s Schema) table(name string) Table {
	i := slices.IndexFunc(s, func(t Table) bool { return t.Name == name })
	if i < 0 {
		panic("budget: no table " + name)
	}
	return s[i]
}

// Write returns the mutations for these columns, which exclude the key, and for the key. It panics on an unknown table
// or column.
func (s Schema) Write(table string, columns ...string) int {
	t := s.table(table)
	return len(t.Key) + len(columns) + 2*len(t.touched(columns))
}

// touched returns the indexes that a write to the columns changes.
func (t Table) touched(columns []string) (touched []Index) {
	for _, c := range columns {
		if !slices.Contains(t.Columns, c) {
			panic("budget: " + t.Name + " has no column " + c)
		}
	}
	for _, ix := range t.Indexes {
		if slices.ContainsFunc(ix.Columns, func(c string) bool { return slices.Contains(columns, c) }) {
			touched = append(touched, ix)
		}
	}
	return touched
}

// Step is a part of a commit.
type Step struct {
	Name      string
	Mutations int
	Of        string
}

// Steps returns a batch commit's steps in order. The collection's row comes first, because interleaved rows need it.
func (s Schema) Steps(quota bool) []Step {
	parent := []string{"modified"}
	if quota {
		parent = slices.DeleteFunc(slices.Clone(s.table("user_collections").Columns), func(c string) bool { return c == ownQuota })
	}
	steps := []Step{
		s.write("collection", "user_collections", parent),
		s.write("each record", "bsos", s.table("bsos").Columns),
		{"end of the batch", Delete, "batches: the row, with batch_bsos below it"},
	}
	if quota {
		steps = append(steps, s.write("quota", "user_collections", parent))
	}
	return steps
}

// write describes a step.
func (s Schema) write(name, table string, columns []string) Step {
	t := s.table(table)
	of := []string{fmt.Sprintf("%s: %d key columns", table, len(t.Key)), strings.Join(columns, ", ")}
	for _, ix := range t.touched(columns) {
		of = append(of, "2 of index "+ix.Name)
	}
	return Step{name, s.Write(table, columns...), strings.Join(of, "; ")}
}

// Package budget computes the number of mutations of commits on Cloud Spanner.
//
// Spanner refuses a commit of more than 80,000 mutations as a whole, and only at
// its end. It counts columns, not rows: those of the key, those that are written,
// and two for each index entry that changes. So the server checks its settings
// against this limit when it starts, and each commit before it is sent.
package budget

import (
	"fmt"
	"slices"
	"strings"
)

// Limits of Spanner and of this server.
const (
	Limit       = 80_000      // mutations of one commit
	LoadSize    = 100_000_000 // payload bytes of one batch
	CommitBytes = 100 << 20   // bytes of one commit, including keys and fixed columns
	FieldLength = 2_621_440   // characters in a column of type STRING(MAX)

	// Records is the default maximum of records in a batch. It is a few less than
	// fit, so that a full batch still fits if user_collections gets another column.
	Records = 9_984
)

// Delete is the number of mutations of deleting a row or a range of keys, including
// interleaved rows.
const Delete = 1

// Table describes a table. Columns are those that are not in the key.
type Table struct {
	Name         string
	Key, Columns []string
	Indexes      []Index
}

// Index is a secondary index on columns of a table.
type Index struct {
	Name    string
	Columns []string
}

// Schema lists the tables of a database.
type Schema []Table

// ownQuota is the column of a user's own quota, which no commit of a batch writes.
const ownQuota = "quota"

// Current returns the schema of this release.
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
			Name: "write_control", Key: []string{"service", "shard"}, // writes only read it
			Columns: []string{"holder", "read_only_until", "log_until"},
		},
	}
}

// table returns a table. It panics if the table does not exist, which is a bug of
// the caller.
func (s Schema) table(name string) Table {
	i := slices.IndexFunc(s, func(t Table) bool { return t.Name == name })
	if i < 0 {
		panic("budget: no table " + name)
	}
	return s[i]
}

// Write returns the number of mutations of writing these columns of a row, in
// addition to its key. It is the same for an insert and an update. It panics if the
// table has no such column.
func (s Schema) Write(table string, columns ...string) int {
	t := s.table(table)
	return len(t.Key) + len(columns) + 2*len(t.touched(columns))
}

// touched returns the indexes whose entries change when the columns are written:
// one is deleted and another inserted.
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
	Of        string // description of the mutations
}

// Steps returns the parts of a batch's commit in order: the collection's row, which
// interleaved rows need; each record; the end of the batch; and with a quota the
// collection's counters.
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

func (s Schema) write(name, table string, columns []string) Step {
	t := s.table(table)
	of := []string{fmt.Sprintf("%s: %d columns of the key", table, len(t.Key)), strings.Join(columns, ", ")}
	for _, ix := range t.touched(columns) {
		of = append(of, "2 of index "+ix.Name)
	}
	return Step{name, s.Write(table, columns...), strings.Join(of, "; ")}
}

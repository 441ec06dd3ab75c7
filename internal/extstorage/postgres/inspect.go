package postgres

import (
	"context"
	"fmt"
	"strings"

	"holdfast/internal/db/pgdb"
)

const metadataIndex = "ext_storage_metadata_gin"

// EnsureMetadataIndex creates the metadata index without blocking writes, and reports whether it was missing.
func EnsureMetadataIndex(ctx context.Context, db *pgdb.DB) (made bool, err error) {
	return db.EnsureIndex(ctx, metadataIndex, `CREATE INDEX CONCURRENTLY `+metadataIndex+` ON ext_storage_records USING gin (metadata)`)
}

var tables = []string{
	"ext_storage_records", "ext_storage_schemas", "ext_storage_usage", "ext_storage_namespaces",
	"ext_storage_changes", "ext_storage_answers", "ext_storage_installs", "ext_storage_outbox", "ext_storage_outbox_refused", "ext_storage_revoked_tokens",
}

// Inspection is the result of Inspect.
type Inspection struct {
	MetadataIndex bool
	Problems      []Problem
}

// Problem is a finding that an operator should fix.
type Problem struct {
	Says string
	Fix  string
}

// problem adds a finding and a way to fix it.
func (in *Inspection) problem(fix, text string, args ...any) {
	in.Problems = append(in.Problems, Problem{fmt.Sprintf(text, args...), fix})
}

var (
	sqlIndexes = pgdb.Statement{Name: "ext.inspect_indexes", SQL: `
		SELECT indexrelid::regclass::text, indisvalid AND indisready
		FROM pg_index WHERE indrelid IN (SELECT to_regclass(name) FROM unnest($1::text[]) name) ORDER BY 1`}
	// sqlShardIndexes finds indexes that are invalid in a single shard.
	sqlShardIndexes = pgdb.Statement{Name: "ext.inspect_shards", SQL: `
		SELECT nodename || ':' || nodeport, success, result FROM run_command_on_workers($$
			SELECT coalesce(string_agg(indexrelid::regclass::text, ', '), '') FROM pg_index
			WHERE NOT (indisvalid AND indisready) AND indrelid::regclass::text ~ '^ext_storage_'$$) ORDER BY 1`}
)

// Inspect checks that all indexes are valid, on Citus in every shard.
func Inspect(ctx context.Context, db *pgdb.DB) (in Inspection, err error) {
	var (
		name  string
		valid bool
	)
	err = db.ForEach(ctx, sqlIndexes, []any{tables}, func() { in = Inspection{} }, func() error {
		in.MetadataIndex = in.MetadataIndex || valid && name == metadataIndex
		switch {
		case valid:
		case name == metadataIndex:
			in.problem("run: holdfast migrate", "the index %s is invalid", name)
		default:
			in.problem("REINDEX INDEX CONCURRENTLY "+name, "the index %s is invalid", name)
		}
		return nil
	}, &name, &valid)
	if err != nil {
		return Inspection{}, err
	}
	citus, err := db.IsCitus(ctx)
	if err == nil && citus {
		err = in.shards(ctx, db)
	}
	if err != nil {
		return Inspection{}, err
	}
	return in, nil
}

// shards looks for invalid indexes in every shard on Citus. It reports nodes that do not answer.
func (in *Inspection) shards(ctx context.Context, db *pgdb.DB) error {
	var (
		node, said string
		ran        bool
		broken     []Problem
	)
	err := db.ForEach(ctx, sqlShardIndexes, nil, func() { broken = nil }, func() error {
		switch {
		case !ran:
			broken = append(broken, Problem{"node " + node + ": " + said, "see SELECT * FROM citus_check_cluster_node_health()"})
		case said != "":
			broken = append(broken, Problem{"node " + node + ": invalid indexes: " + strings.TrimSpace(said), "DROP INDEX CONCURRENTLY and create the index again, on the coordinator"})
		}
		return nil
	}, &node, &ran, &said)
	in.Problems = append(in.Problems, broken...)
	return err
}

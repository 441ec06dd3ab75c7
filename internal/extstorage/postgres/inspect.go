package postgres

import (
	"context"
	"fmt"
	"strings"

	"holdfast/internal/db/pgdb"
	"holdfast/internal/extstorage/backend"
)

const metadataIndex = "ext_storage_metadata_gin"

// EnsureMetadataIndex implements backend.Indexed.
func (s *Store) EnsureMetadataIndex(ctx context.Context) (made bool, err error) {
	return s.db.EnsureIndex(ctx, metadataIndex, `CREATE INDEX CONCURRENTLY `+metadataIndex+` ON ext_storage_records USING gin (metadata)`)
}

var tables = []string{
	"ext_storage_records", "ext_storage_schemas", "ext_storage_usage", "ext_storage_namespaces",
	"ext_storage_changes", "ext_storage_answers", "ext_storage_installs", "ext_storage_outbox", "ext_storage_outbox_refused", "ext_storage_revoked_tokens",
}

type findings struct{ backend.Inspection }

// problem adds a finding and a way to fix it.
func (in *findings) problem(fix, text string, args ...any) {
	in.Problems = append(in.Problems, backend.Problem{Says: fmt.Sprintf(text, args...), Fix: fix})
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

// Inspect implements backend.Indexed.
func (s *Store) Inspect(ctx context.Context) (backend.Inspection, error) {
	var (
		in    findings
		name  string
		valid bool
	)
	err := s.db.ForEach(ctx, sqlIndexes, []any{tables}, func() { in = findings{} }, func() error {
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
		return backend.Inspection{}, err
	}
	citus, err := s.db.IsCitus(ctx)
	if err == nil && citus {
		err = in.shards(ctx, s.db)
	}
	if err != nil {
		return backend.Inspection{}, err
	}
	return in.Inspection, nil
}

// shards looks for invalid indexes in every shard on Citus. It reports nodes that do not answer.
func (in *findings) shards(ctx context.Context, db *pgdb.DB) error {
	var (
		node, said string
		ran        bool
		broken     []backend.Problem
	)
	err := db.ForEach(ctx, sqlShardIndexes, nil, func() { broken = nil }, func() error {
		switch {
		case !ran:
			broken = append(broken, backend.Problem{Says: "node " + node + ": " + said, Fix: "see SELECT * FROM citus_check_cluster_node_health()"})
		case said != "":
			broken = append(broken, backend.Problem{Says: "node " + node + ": invalid indexes: " + strings.TrimSpace(said), Fix: "DROP INDEX CONCURRENTLY and create the index again, on the coordinator"})
		}
		return nil
	}, &node, &ran, &said)
	in.Problems = append(in.Problems, broken...)
	return err
}

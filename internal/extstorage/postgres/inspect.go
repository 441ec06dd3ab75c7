package postgres

import (
	"context"
	"fmt"
	"strings"

	"holdfast/internal/db/pgdb"
)

// metadataIndex lets operators search records by metadata. Every write updates it,
// so it exists only on request.
const metadataIndex = "ext_storage_metadata_gin"

// EnsureMetadataIndex creates the index on the metadata of records, without
// blocking writes, and reports whether it did. It does nothing if the index exists.
func EnsureMetadataIndex(ctx context.Context, db *pgdb.DB) (made bool, err error) {
	return db.EnsureIndex(ctx, metadataIndex, `CREATE INDEX CONCURRENTLY `+metadataIndex+` ON ext_storage_records USING gin (metadata)`)
}

// tables are the tables that have an owner. The others are colocated with the
// first.
var tables = []string{
	"ext_storage_records", "ext_storage_schemas", "ext_storage_usage", "ext_storage_namespaces",
	"ext_storage_changes", "ext_storage_answers", "ext_storage_installs", "ext_storage_outbox", "ext_storage_outbox_refused", "ext_storage_revoked_tokens",
}

// Inspection describes the tables of a database.
type Inspection struct {
	Citus         string // the version of Citus; "" without Citus
	Shards        int    // per table, on Citus
	MetadataIndex bool   // the index exists and is valid
	Problems      []Problem
}

// Problem is something that an operator should fix.
type Problem struct {
	Says string
	Fix  string
}

func (in *Inspection) problem(fix, says string, args ...any) {
	in.Problems = append(in.Problems, Problem{fmt.Sprintf(says, args...), fix})
}

var (
	sqlIndexes = pgdb.Statement{Name: "ext.inspect_indexes", SQL: `
		SELECT indexrelid::regclass::text, indisvalid AND indisready
		FROM pg_index WHERE indrelid IN (SELECT to_regclass(name) FROM unnest($1::text[]) name) ORDER BY 1`}
	sqlCitus = pgdb.Statement{Name: "ext.inspect_citus", SQL: `SELECT extversion FROM pg_extension WHERE extname = 'citus'`}
	// Checks the method, the column and the colocation of each table.
	sqlDistribution = pgdb.Statement{Name: "ext.inspect_distribution", SQL: `
		SELECT name, coalesce(p.partmethod = 'h' AND column_to_column_name(p.logicalrelid, p.partkey) = 'tenant_id', false),
			coalesce(p.colocationid = first.colocationid, false), coalesce(c.shardcount, 0)
		FROM unnest($1::text[]) WITH ORDINALITY t (name, n)
		LEFT JOIN pg_dist_partition p ON p.logicalrelid = to_regclass(name)
		LEFT JOIN pg_dist_partition first ON first.logicalrelid = to_regclass($1[1])
		LEFT JOIN pg_dist_colocation c ON c.colocationid = p.colocationid
		ORDER BY n`}
	sqlDelegated = pgdb.Statement{Name: "ext.inspect_delegated", SQL: `
		SELECT EXISTS (SELECT 1 FROM pg_dist_object WHERE classid = 'pg_proc'::regclass AND objid = to_regproc('ext_apply_v1') AND distribution_argument_index = 0)`}
	// An index may be invalid in a single shard.
	sqlShardIndexes = pgdb.Statement{Name: "ext.inspect_shards", SQL: `
		SELECT nodename || ':' || nodeport, success, result FROM run_command_on_workers($$
			SELECT coalesce(string_agg(indexrelid::regclass::text, ', '), '') FROM pg_index
			WHERE NOT (indisvalid AND indisready) AND indrelid::regclass::text ~ '^ext_storage_'$$) ORDER BY 1`}
)

// Inspect checks that all indexes are valid and, on Citus, that a tenant's rows of
// all tables are on one node. It changes nothing.
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
	citus, err := db.QueryRow(ctx, sqlCitus, nil, &in.Citus)
	if err == nil && citus {
		err = in.citus(ctx, db)
	}
	if err != nil {
		return Inspection{}, err
	}
	return in, nil
}

func (in *Inspection) citus(ctx context.Context, db *pgdb.DB) error {
	var (
		table, node, said           string
		distributed, colocated, can bool
		shards                      int
		broken                      []Problem
	)
	err := db.ForEach(ctx, sqlDistribution, []any{tables}, func() { in.Shards, broken = 0, nil }, func() error {
		switch {
		case !distributed && table == tables[0]:
			broken = append(broken, Problem{table + " is not distributed by tenant_id", distribute(table) + `')`})
		case !distributed:
			broken = append(broken, Problem{table + " is not distributed by tenant_id", distribute(table) + `', colocate_with => '` + tables[0] + `')`})
		case !colocated:
			broken = append(broken, Problem{
				table + " is not colocated with " + tables[0],
				`SELECT update_distributed_table_colocation('` + table + `', colocate_with => '` + tables[0] + `')`,
			})
		}
		if table == tables[0] {
			in.Shards = shards
		}
		return nil
	}, &table, &distributed, &colocated, &shards)
	if err != nil {
		return err
	}
	in.Problems = append(in.Problems, broken...)
	if _, err := db.QueryRow(ctx, sqlDelegated, nil, &can); err != nil {
		return err
	}
	if !can {
		in.problem(`SELECT create_distributed_function('ext_apply_v1', 'p_tenant', colocate_with => 'ext_storage_records')`,
			"writes are not delegated to the tenant's node")
	}
	err = db.ForEach(ctx, sqlShardIndexes, nil, func() { broken = nil }, func() error {
		switch {
		case !can:
			broken = append(broken, Problem{"node " + node + ": " + said, "see SELECT * FROM citus_check_cluster_node_health()"})
		case said != "":
			broken = append(broken, Problem{"node " + node + ": invalid indexes: " + strings.TrimSpace(said), "DROP INDEX CONCURRENTLY and create the index again, on the coordinator"})
		}
		return nil
	}, &node, &can, &said)
	in.Problems = append(in.Problems, broken...)
	return err
}

// distribute returns the beginning of the statement that distributes a table.
func distribute(table string) string {
	return `SELECT create_distributed_table('` + table + `', 'tenant_id`
}

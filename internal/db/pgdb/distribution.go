package pgdb

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"holdfast/internal/db/migrate"
)

// Distribution describes a service's tables on Citus.
type Distribution struct {
	Version string   // of Citus
	Tables  []string // distributed; the others are on the coordinator or on every node
	Shards  int      // of the first table
	Group   int      // the first table's colocation group
	Others  []string // other distributed tables in that group

	Problems []DistributionProblem

	// Separate is a transaction that moves tables and functions to their own colocation group; shards stay in place.
	Separate string
}

// DistributionProblem is a table or function that is not placed like the others of its service.
type DistributionProblem struct {
	Problem string // e.g. "t is not distributed by user_id"
	Fix     string // SQL statement that repairs it
}

var (
	// These match the calls in migrations that distribute tables and functions, so that nothing is declared twice.
	distributesTable    = regexp.MustCompile(`create_distributed_table\(\s*'(\w+)',\s*'(\w+)'`)
	distributesFunction = regexp.MustCompile(`create_distributed_function\(\s*'(\w+)(\([^']*\))',\s*'(\w+)'`)
)

// distributed lists the tables and functions that a service's migrations distribute.
type distributed struct {
	tables, columns              []string // the first table starts a colocation group
	functions, names, parameters []string // with parameter types, and the parameter that selects the node
}

// distributedBy reads the migrations.
func distributedBy(set migrate.Set) (d distributed) {
	for _, m := range set.Migrations {
		_, text := splitCitus(m.SQL)
		for _, match := range distributesTable.FindAllStringSubmatch(text, -1) {
			d.tables, d.columns = append(d.tables, match[1]), append(d.columns, match[2])
		}
		for _, match := range distributesFunction.FindAllStringSubmatch(text, -1) {
			d.functions, d.names, d.parameters = append(d.functions, match[1]+match[2]), append(d.names, match[1]), append(d.parameters, match[3])
		}
	}
	return d
}

var (
	sqlCitusVersion = Statement{Name: "citus.version", SQL: `SELECT extversion FROM pg_extension WHERE extname = 'citus'`}
	// The statements skip tables and functions that a later migration removed.
	sqlDistributedTables = Statement{Name: "citus.tables_of_service", SQL: `
		SELECT name, coalesce(p.partmethod = 'h' AND column_to_column_name(p.logicalrelid, p.partkey) = key, false),
			coalesce(p.colocationid, 0)::int, (SELECT count(*) FROM pg_dist_shard s WHERE s.logicalrelid = p.logicalrelid)::int
		FROM unnest($1::text[], $2::text[]) WITH ORDINALITY t (name, key, n)
		LEFT JOIN pg_dist_partition p ON p.logicalrelid = to_regclass(name)
		WHERE to_regclass(name) IS NOT NULL ORDER BY n`}
	sqlDelegatedFunctions = Statement{Name: "citus.functions_of_service", SQL: `
		SELECT name, parameter, coalesce(o.distribution_argument_index = array_position(f.proargnames, parameter) - 1 AND o.colocationid = $3::int, false)
		FROM unnest($1::text[], $2::text[]) WITH ORDINALITY t (name, parameter, n)
		JOIN pg_proc f ON f.oid = to_regprocedure(name)
		LEFT JOIN pg_dist_object o ON o.classid = 'pg_proc'::regclass AND o.objid = f.oid ORDER BY n`}
	sqlColocated = Statement{Name: "citus.colocated", SQL: `
		SELECT logicalrelid::text FROM pg_dist_partition
		WHERE partmethod = 'h' AND colocationid = $1::int AND logicalrelid::text <> ALL ($2::text[]) ORDER BY 1`}
)

// Distribution compares the tables and functions with those that the migrations distribute, for `holdfast check`. It
// returns nil without Citus.
func (db *DB) Distribution(ctx context.Context, set migrate.Set) (*Distribution, error) {
	d, want := &Distribution{}, distributedBy(set)
	citus, err := db.QueryRow(ctx, sqlCitusVersion, nil, &d.Version)
	if err != nil || !citus {
		return nil, err
	}
	if len(want.tables) == 0 {
		return d, nil
	}
	tables, err := d.readTables(ctx, db, want)
	if err != nil {
		return nil, err
	}
	functions, err := d.readFunctions(ctx, db, want)
	if err != nil {
		return nil, err
	}
	d.Problems = slices.Concat(tables, functions)
	d.Separate = want.separate(d.Tables)
	var other string
	err = db.ForEach(ctx, sqlColocated, []any{d.Group, d.Tables}, func() { d.Others = nil }, func() error {
		d.Others = append(d.Others, other)
		return nil
	}, &other)
	return d, err
}

// readTables sets Tables, Group and Shards, and returns wrong or missing placements.
func (d *Distribution) readTables(ctx context.Context, db *DB, want distributed) (problems []DistributionProblem, err error) {
	first := want.tables[0]
	var (
		table       string
		right       bool
		group, size int
	)
	err = db.ForEach(ctx, sqlDistributedTables, []any{want.tables, want.columns}, func() { d.Tables, problems = nil, nil }, func() error {
		column := want.columns[slices.Index(want.tables, table)]
		with := first
		if table == first {
			with, d.Group, d.Shards = "none", group, size
		}
		switch {
		case !right:
			problems = append(problems, DistributionProblem{
				table + " is not distributed by " + column,
				fmt.Sprintf(`SELECT create_distributed_table('%s', '%s', colocate_with => '%s')`, table, column, with),
			})
			return nil
		case group != d.Group:
			problems = append(problems, DistributionProblem{
				table + " is not colocated with " + first,
				fmt.Sprintf(`SELECT update_distributed_table_colocation('%s', colocate_with => '%s')`, table, first),
			})
		}
		d.Tables = append(d.Tables, table)
		return nil
	}, &table, &right, &group, &size)
	return problems, err
}

// readFunctions returns functions that are not delegated to the node with the first table's shard.
func (d *Distribution) readFunctions(ctx context.Context, db *DB, want distributed) (problems []DistributionProblem, err error) {
	var (
		function, parameter string
		right               bool
	)
	err = db.ForEach(ctx, sqlDelegatedFunctions, []any{want.functions, want.parameters, d.Group}, func() { problems = nil }, func() error {
		if !right {
			name, _, _ := strings.Cut(function, "(")
			problems = append(problems, DistributionProblem{
				"calls of " + name + " are not delegated to the node of " + want.tables[0],
				fmt.Sprintf(`SELECT create_distributed_function('%s', '%s', colocate_with => '%s')`, function, parameter, want.tables[0]),
			})
		}
		return nil
	}, &function, &parameter, &right)
	return problems, err
}

// separate returns Distribution.Separate, or "" if the first table is not distributed.
func (d distributed) separate(tables []string) string {
	if len(tables) == 0 || tables[0] != d.tables[0] {
		return ""
	}
	sql := []string{"BEGIN", fmt.Sprintf("SELECT update_distributed_table_colocation('%s', colocate_with => 'none')", tables[0])}
	if len(tables) > 1 {
		sql = append(sql, fmt.Sprintf("SELECT update_distributed_table_colocation(t, colocate_with => '%s') FROM unnest(ARRAY[%s]::regclass[]) t",
			tables[0], quoted(tables[1:])))
	}
	if len(d.names) > 0 {
		sql = append(sql, fmt.Sprintf("SELECT create_distributed_function(f.oid::regprocedure, '$' || distribution_argument_index + 1, colocate_with => '%s') "+
			"FROM pg_dist_object JOIN pg_proc f ON f.oid = objid WHERE classid = 'pg_proc'::regclass AND distribution_argument_index IS NOT NULL AND proname IN (%s)",
			tables[0], quoted(d.names)))
	}
	return strings.Join(append(sql, "COMMIT;"), "; ")
}

// quoted returns SQL literals; names come from migrations and contain no quotes.
func quoted(names []string) string { return "'" + strings.Join(names, "', '") + "'" }

package pgdb

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"holdfast/internal/errcode"
)

// These are the error messages of checkPlacement: Citus reports an error's first line without its SQLSTATE.
const (
	damageFound  = "holdfast: damage: "
	checkAbsent  = "holdfast: amcheck is absent"
	checkRefused = "holdfast: amcheck is refused"
	placedTables = `SELECT p.logicalrelid::oid::int8, p.logicalrelid::text FROM pg_dist_partition p JOIN pg_class c ON c.oid = p.logicalrelid
		WHERE c.relnamespace = current_schema()::regnamespace ORDER BY 2`
	runOnPlacements = `SELECT nodename || ':' || nodeport, success, coalesce(result, '') FROM run_command_on_placements($1::oid::regclass, $2::text, false)`

	// checkPlacement checks a shard (%1$s, replaced by Citus) and its indexes with amcheck on the shard's server.
	checkPlacement = `DO $check$
		DECLARE
			v_shard CONSTANT regclass := $name$%1$s$name$::regclass;
			v_found jsonb := '[]';
			v_schema text;
			v_one record;
		BEGIN
			SELECT quote_ident(n.nspname) INTO v_schema FROM pg_extension e JOIN pg_namespace n ON n.oid = e.extnamespace WHERE e.extname = 'amcheck';
			IF NOT FOUND THEN
				RAISE EXCEPTION USING MESSAGE = '` + checkAbsent + `';
			END IF;
			BEGIN
				FOR v_one IN EXECUTE 'SELECT blkno, msg FROM ' || v_schema || '.verify_heapam($1) LIMIT 20' USING v_shard LOOP
					v_found := v_found || to_jsonb(v_shard::text || ': block ' || v_one.blkno || ': ' || v_one.msg);
				END LOOP;
			EXCEPTION WHEN internal_error OR data_corrupted OR index_corrupted OR io_error THEN
				v_found := v_found || to_jsonb(v_shard::text || ': ' || SQLERRM);
			END;
			FOR v_one IN SELECT i.indexrelid::regclass AS name FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid JOIN pg_am a ON a.oid = c.relam
				WHERE a.amname = 'btree' AND c.relkind = 'i' AND i.indisvalid AND i.indrelid = v_shard ORDER BY 1
			LOOP
				BEGIN
					EXECUTE 'SELECT ' || v_schema || '.bt_index_check($1, true)' USING v_one.name;
				EXCEPTION WHEN internal_error OR data_corrupted OR index_corrupted OR io_error THEN
					v_found := v_found || to_jsonb(v_one.name::text || ': ' || SQLERRM);
				END;
			END LOOP;
			IF v_found <> '[]' THEN
				RAISE EXCEPTION USING MESSAGE = '` + damageFound + `' || v_found::text;
			END IF;
		EXCEPTION WHEN insufficient_privilege THEN
			RAISE EXCEPTION USING MESSAGE = '` + checkRefused + `';
		END $check$`
)

// placed returns the tables that Citus distributes: their rows are on workers.
func (v *verification) placed() ([]verified, error) {
	var citus bool
	if err := v.conn.QueryRow(v.ctx, hasCitus.SQL).Scan(&citus); err != nil || !citus {
		return nil, err
	}
	return v.list(placedTables)
}

// amcheckShards runs amcheck on each shard's server, and says on which servers it could not.
func (v *verification) amcheckShards(tables []verified) error {
	var absent, refused []string
	for _, t := range tables {
		rows, err := v.conn.Query(v.ctx, runOnPlacements, t.id, checkPlacement)
		if err != nil {
			return err
		}
		var node, result string
		var ok bool
		_, err = pgx.ForEachRow(rows, []any{&node, &ok, &result}, func() error {
			_, text, damaged := strings.Cut(result, damageFound)
			switch {
			case ok:
				return nil
			case damaged:
				return v.addFound(node, text)
			case strings.Contains(result, checkAbsent):
				absent = append(absent, node)
				return nil
			case strings.Contains(result, checkRefused):
				refused = append(refused, node)
				return nil
			}
			return errcode.Wrap(errcode.Unavailable, "a worker of Citus is unavailable", fmt.Errorf("%s: %s", node, result))
		})
		if err != nil {
			return err
		}
	}
	v.how = "every row was read, and amcheck has checked tables and indexes on every node"
	if nodes := distinct(slices.Concat(absent, refused)); nodes != "" {
		v.how = "every row was read, and amcheck has checked tables and indexes except on " + nodes
	}
	if nodes := distinct(absent); nodes != "" {
		v.how += "; on " + nodes + ": CREATE EXTENSION amcheck"
	}
	if nodes := distinct(refused); nodes != "" {
		v.how += "; on " + nodes + ", let this role execute the functions of amcheck"
	}
	return nil
}

// addFound records the problems that a server found, a JSON array of lines.
func (v *verification) addFound(node, damage string) error {
	var lines []string
	if err := json.Unmarshal([]byte(damage), &lines); err != nil {
		return fmt.Errorf("the answer of %s: %w", node, err)
	}
	for _, line := range lines {
		v.add(node, line)
	}
	return nil
}

// distinct returns the names in order, without repetitions.
func distinct(nodes []string) string {
	slices.Sort(nodes)
	return strings.Join(slices.Compact(nodes), ", ")
}

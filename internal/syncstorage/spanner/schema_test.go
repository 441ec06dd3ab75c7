package spanner_test

import (
	"bytes"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"cloud.google.com/go/spanner"
	sppb "cloud.google.com/go/spanner/apiv1/spannerpb"

	"holdfast/internal/db/spannerdb"
	"holdfast/internal/errcode"
	ss "holdfast/internal/syncstorage"
	"holdfast/internal/syncstorage/budget"
)

func all(t testing.TB, db *spannerdb.DB, sql string) (rows [][]string) {
	t.Helper()
	err := db.ForEach(t.Context(), spannerdb.Statement{Name: "test", SQL: sql}, nil, func(r *spanner.Row) error {
		row := make([]string, r.Size())
		for i := range row {
			var text spanner.NullString
			if err := r.Column(i, &text); err != nil {
				return err
			}
			row[i] = text.StringVal
		}
		rows = append(rows, row)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return rows
}

func deployed(t testing.TB, db *spannerdb.DB) (schema budget.Schema) {
	t.Helper()
	tables := map[string]*budget.Table{}
	table := func(name string) *budget.Table {
		if tables[name] == nil {
			tables[name] = &budget.Table{Name: name}
		}
		return tables[name]
	}
	for _, row := range all(t, db, `
		SELECT table_name, index_name, column_name FROM information_schema.index_columns
		WHERE table_schema = '' AND table_name != 'schema_migrations' ORDER BY table_name, index_name, ordinal_position`) {
		tab := table(row[0])
		if row[1] == "PRIMARY_KEY" {
			tab.Key = append(tab.Key, row[2])
			continue
		}
		i := slices.IndexFunc(tab.Indexes, func(ix budget.Index) bool { return ix.Name == row[1] })
		if i < 0 {
			i = len(tab.Indexes)
			tab.Indexes = append(tab.Indexes, budget.Index{Name: row[1]})
		}
		tab.Indexes[i].Columns = append(tab.Indexes[i].Columns, row[2])
	}
	for _, row := range all(t, db, `
		SELECT table_name, column_name FROM information_schema.columns
		WHERE table_schema = '' AND table_name != 'schema_migrations' ORDER BY table_name, ordinal_position`) {
		if tab := table(row[0]); !slices.Contains(tab.Key, row[1]) {
			tab.Columns = append(tab.Columns, row[1])
		}
	}
	for _, name := range slices.Sorted(maps.Keys(tables)) {
		schema = append(schema, *tables[name])
	}
	return schema
}

// TestSchemaIsTheBudgets compares the schema with the budget. With an unknown column or index, commits would need more
// mutations than predicted.
func TestSchemaIsTheBudgets(t *testing.T) {
	t.Parallel()
	db := openDB(t, options(t))
	want := budget.Current()
	slices.SortFunc(want, func(a, b budget.Table) int { return strings.Compare(a.Name, b.Name) })
	if got := deployed(t, db); fmt.Sprintf("%q", got) != fmt.Sprintf("%q", want) {
		t.Errorf("the tables are\n%q, the budget has\n%q", got, want)
	}
	// Interleaving, cascading deletes and row deletion policies.
	const reap = "OLDER_THAN(expiry, INTERVAL 0 DAY)"
	tables := all(t, db, `
		SELECT table_name, parent_table_name, on_delete_action, row_deletion_policy_expression FROM information_schema.tables
		WHERE table_schema = '' AND table_name != 'schema_migrations' ORDER BY table_name`)
	if want := [][]string{
		{"batch_bsos", "batches", "CASCADE", ""},
		{"batches", "user_collections", "CASCADE", reap},
		{"bsos", "user_collections", "CASCADE", reap},
		{"collections", "", "", ""},
		{"user_collections", "", "", ""},
		{"write_control", "", "", ""},
	}; fmt.Sprintf("%q", tables) != fmt.Sprintf("%q", want) {
		t.Errorf("the tables are\n%q, want\n%q", tables, want)
	}
	indexes := all(t, db, `
		SELECT table_name, index_name, IF(is_unique, 'unique', ''), IF(is_null_filtered, 'no nulls', '') FROM information_schema.indexes
		WHERE table_schema = '' AND index_type = 'INDEX' ORDER BY index_name`)
	if want := [][]string{{"collections", "CollectionName", "unique", ""}}; fmt.Sprintf("%q", indexes) != fmt.Sprintf("%q", want) {
		t.Errorf("the indexes are %q, want %q", indexes, want)
	}
}

func TestCollectionIDs(t *testing.T) {
	t.Parallel()
	s := newTapped(t, nil)
	var want [][]string
	for _, c := range ss.StandardCollections() {
		want = append(want, []string{fmt.Sprint(c.ID), c.Name})
	}
	names := func() [][]string {
		return all(t, s.db, `SELECT CAST(collection_id AS STRING), name FROM collections ORDER BY collection_id`)
	}
	if got := names(); fmt.Sprint(got) != fmt.Sprint(want) || len(got) != 13 {
		t.Errorf("a new database has the names %v, want %v", got, want)
	}
	for i, name := range []string{"first", "second"} {
		if _, err := s.Put(t.Context(), user("a"), to(name, i, ss.Quota{}), update("a", "x")); err != nil {
			t.Fatal(err)
		}
		want = append(want, []string{fmt.Sprint(100 + i), name})
	}
	if got := names(); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("the names are %v, want %v", got, want)
	}
}

// counter counts mutations like Spanner.
type counter struct{ schema budget.Schema }

func (c counter) table(t testing.TB, name string) budget.Table {
	t.Helper()
	i := slices.IndexFunc(c.schema, func(t budget.Table) bool { return t.Name == name })
	if i < 0 {
		t.Fatalf("no table %q", name)
	}
	return c.schema[i]
}

// row returns the mutations of a row, including the key.
func (c counter) row(t testing.TB, table string, columns []string) int {
	t.Helper()
	n := len(columns)
	for _, ix := range c.table(t, table).Indexes {
		if slices.ContainsFunc(ix.Columns, func(col string) bool { return slices.Contains(columns, col) }) {
			n += 2
		}
	}
	return n
}

func (c counter) mutation(t testing.TB, m *sppb.Mutation) int {
	t.Helper()
	if d := m.GetDelete(); d != nil {
		return len(d.GetKeySet().GetKeys()) + len(d.GetKeySet().GetRanges())
	}
	for _, w := range []*sppb.Mutation_Write{m.GetInsert(), m.GetUpdate(), m.GetInsertOrUpdate()} {
		if w != nil {
			return len(w.GetValues()) * c.row(t, w.GetTable(), w.GetColumns())
		}
	}
	t.Fatalf("a mutation of another kind: %v", m)
	return 0
}

var (
	insertDML = regexp.MustCompile(`^\s*INSERT OR UPDATE INTO (\w+) \(([^)]*)\)`)
	updateDML = regexp.MustCompile(`(?s)^\s*UPDATE (\w+) SET (.*)\sWHERE\s`)
	deleteDML = regexp.MustCompile(`^\s*DELETE FROM (\w+) `)
)

func (c counter) statement(t testing.TB, sql string, rows int) int {
	t.Helper()
	if m := insertDML.FindStringSubmatch(sql); m != nil {
		return rows * c.row(t, m[1], strings.Split(m[2], ", "))
	}
	if m := updateDML.FindStringSubmatch(sql); m != nil {
		columns := c.table(t, m[1]).Key
		for set := range strings.SplitSeq(m[2], ", ") {
			name, _, _ := strings.Cut(set, " = ")
			columns = append(slices.Clip(columns), name)
		}
		return rows * c.row(t, m[1], columns)
	}
	if deleteDML.MatchString(sql) {
		return rows
	}
	t.Fatalf("a statement of another kind: %s", sql)
	return 0
}

func (c counter) commits(t testing.TB, calls []*call) (sums []int) {
	t.Helper()
	sum := 0
	for _, call := range calls {
		switch r := call.request.(type) {
		case *sppb.ExecuteBatchDmlRequest:
			results := call.answer.(*sppb.ExecuteBatchDmlResponse).GetResultSets()
			if len(results) != len(r.GetStatements()) {
				t.Fatalf("%d of %d statements were run", len(results), len(r.GetStatements()))
			}
			for i, s := range r.GetStatements() {
				sum += c.statement(t, s.GetSql(), int(results[i].GetStats().GetRowCountExact()))
			}
		case *sppb.CommitRequest:
			for _, m := range r.GetMutations() {
				sum += c.mutation(t, m)
			}
			sums, sum = append(sums, sum), 0
		case *sppb.RollbackRequest:
			sum = 0
		}
	}
	return sums
}

func TestPredictions(t *testing.T) {
	t.Parallel()
	s := newTapped(t, nil)
	c := counter{deployed(t, s.db)}
	written := 0
	for _, trip := range slices.Concat(
		writeTrips(t, s, "no quota", user("a"), ss.Quota{}),
		writeTrips(t, s, "quota", user("b"), large),
		nameTrips(t, s, user("d")),
		quotaTrips(t, s, user("e")),
		keptTrips(t, s, user("f")),
	) {
		s.clear()
		if err := trip.step(); err != nil {
			t.Errorf("%s: %v", trip.name, err)
		}
		var told []int
		for _, stats := range s.told {
			told = append(told, stats.predicted)
		}
		sums := c.commits(t, s.wire.taken())
		if !slices.Equal(sums, told) {
			t.Errorf("%s: commits of %v mutations, predicted %v", trip.name, sums, told)
		}
		for _, sum := range sums {
			written += sum
		}
	}
	// At least 10 commits of 800 mutations.
	if written < 8_000 {
		t.Errorf("all commits together had %d mutations", written)
	}
}

// keptTrips are writes that do not change every column.
func keptTrips(t *testing.T, s *tapped, o ss.Owner) []trip {
	ctx := t.Context()
	index := func(i int) ss.Update { return ss.Update{ID: fmt.Sprintf("r%05d", i), SortIndex: ss.Some(int64(i))} }
	post := func(i int, q ss.Quota, us ...ss.Update) func() error {
		return func() error { _, err := s.Post(ctx, o, to("addons", i, q), us); return err }
	}
	stage := func(i int, q ss.Quota) func() error {
		return func() error {
			_, err := s.Append(ctx, o, to("addons", i, q), ss.BatchPart{ID: "b", Opens: true, Updates: []ss.Update{index(1), index(2), update("new", "x"), {ID: "ends", TTL: ss.Some[int64](9)}}, Limits: wide})
			return err
		}
	}
	end := func(i int, q ss.Quota) func() error {
		return func() error {
			_, err := s.Commit(ctx, o, to("addons", i, q), ss.BatchPart{ID: "b", Limits: wide})
			return err
		}
	}
	var trips []trip
	for i, q := range []ss.Quota{{}, large, {}, large} {
		add := func(name string, step func() error) {
			trips = append(trips, trip{name: fmt.Sprintf("%s, quota %d", name, q.User), step: step})
		}
		i *= 10
		add("whole records", post(i+1, q, updates(5, 10)...))
		add("sort indexes", post(i+2, q, index(1), index(2)))
		add("sort indexes and a payload", post(i+3, q, index(1), update("r00002", "xyz")))
		add("sort indexes staged", stage(i+4, q))
		add("sort indexes committed", end(i+5, q))
		add("a record deleted", func() error { _, err := s.DeleteBSO(ctx, o, to("addons", i+6, q), "new"); return err })
	}
	return append(trips,
		trip{name: "a second collection", step: func() error { _, err := s.Put(ctx, o, to("keys", 60, large), update("a", "x")); return err }},
		trip{name: "all", step: func() error { return s.DeleteAll(ctx, o, ss.Precondition{}) }},
	)
}

// TestTooMuchIsNotSent checks that a request that Spanner would reject is rejected before anything is sent.
func TestTooMuchIsNotSent(t *testing.T) {
	t.Parallel()
	s := newTapped(t, nil)
	ctx := t.Context()
	refusedUnsent := func(name string, step func() error) {
		t.Helper()
		s.clear()
		if err := step(); !errcode.Is(err, errcode.TooLarge) {
			t.Errorf("%s: %v, want TooLarge", name, err)
		}
		if got := methods(s.wire.taken()); !slices.Equal(got, []string{query, rollback}) {
			t.Errorf("%s: %v was sent", name, got)
		}
	}
	stage := func(o ss.Owner, i int, us []ss.Update) {
		t.Helper()
		if _, err := s.Append(ctx, o, to("forms", i, ss.Quota{}), ss.BatchPart{ID: "b", Opens: i == 1, Updates: us, Limits: wide}); err != nil {
			t.Fatal(err)
		}
	}
	end := func(o ss.Owner, q ss.Quota) func() error {
		return func() error {
			_, err := s.Commit(ctx, o, to("forms", 50, q), ss.BatchPart{ID: "b", Limits: wide})
			return err
		}
	}
	most := budget.Current().Commit(true).MaxRecords(budget.Limit) // 9,998
	records := updates(most+1, 1)
	for i := range records { // all columns, or the append needs fewer mutations than the commit
		records[i].SortIndex, records[i].TTL = ss.Some[int64](1), ss.Some[int64](1_000)
	}
	refusedUnsent("Post of a record too many", func() error {
		_, err := s.Post(ctx, user("a"), to("forms", 1, large), append(records, updates(2, 1)...))
		return err
	})
	refusedUnsent("Append of a record too many", func() error {
		_, err := s.Append(ctx, user("a"), to("forms", 1, large), ss.BatchPart{ID: "b", Opens: true, Updates: records, Limits: wide})
		return err
	})
	stage(user("a"), 1, records[:most/2])
	stage(user("a"), 2, records[most/2:])
	refusedUnsent("Commit of a record too many", end(user("a"), large))

	// 100 MiB in records of 2.5 MB that share the same bytes.
	big := bytes.Repeat([]byte("x"), 2_500_000)
	heavy := make([]ss.Update, 42)
	for i := range heavy {
		heavy[i] = ss.Update{ID: fmt.Sprintf("h%d", i), Payload: ss.Some(big)}
	}
	refusedUnsent("Post of too many bytes", func() error { _, err := s.Post(ctx, user("b"), to("forms", 1, large), heavy); return err })
	refusedUnsent("Append of too many bytes", func() error {
		_, err := s.Append(ctx, user("b"), to("forms", 1, large), ss.BatchPart{ID: "b", Opens: true, Updates: heavy, Limits: wide})
		return err
	})
	for i := range 6 {
		stage(user("b"), i+1, heavy[7*i:7*i+7])
	}
	refusedUnsent("Commit of too many bytes", end(user("b"), ss.Quota{}))
	refusedUnsent("Commit of too many bytes under a quota", end(user("b"), large))
	for _, o := range []ss.Owner{user("a"), user("b")} {
		if cs, err := s.Collections(ctx, o); err != nil || len(cs.Stamps) != 0 {
			t.Errorf("%s has %v, %v", o.FxAUID, cs, err)
		}
	}
}

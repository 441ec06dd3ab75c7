package testdb

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// Explained is a connection that reports the plan of every statement, including those in functions and foreign keys.
type Explained struct {
	OneRow []string // tables that never have a second row, which PostgreSQL reads without their index

	conn  *pgx.Conn
	plans []Plan
}

type Plan struct {
	Query string `json:"Query Text"`
	Plan  Node
}

type Node struct {
	Type  string `json:"Node Type"`
	Table string `json:"Relation Name"`
	Index string `json:"Index Name"`
	Cond  string `json:"Index Cond"`
	Plans []Node
}

func (n *Node) Walk(fn func(*Node)) {
	fn(n)
	for i := range n.Plans {
		n.Plans[i].Walk(fn)
	}
}

func Explain(t *testing.T, url string) *Explained {
	t.Helper()
	conf, err := pgx.ParseConfig(url)
	if err != nil {
		t.Fatal(err)
	}
	e := &Explained{}
	conf.OnNotice = func(_ *pgconn.PgConn, n *pgconn.Notice) {
		_, text, found := strings.Cut(n.Message, "plan:\n")
		var p Plan
		if err := json.Unmarshal([]byte(text), &p); !found || err != nil {
			t.Errorf("a notice that is no plan: %s", n.Message)
			return
		}
		e.plans = append(e.plans, p)
	}
	if e.conn, err = pgx.ConnectConfig(t.Context(), conf); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = e.conn.Close(context.Background()) })
	_, err = e.conn.Exec(t.Context(), `
		LOAD 'auto_explain';
		SET auto_explain.log_format = json;
		SET auto_explain.log_level = notice;
		SET auto_explain.log_nested_statements = on;
		SET auto_explain.log_min_duration = 0`)
	if err != nil {
		t.Fatalf("the plans are seen through auto_explain, which needs a superuser: %v", err)
	}
	return e
}

// Run rolls back the statement's transaction and returns the plans used.
func (e *Explained) Run(t *testing.T, sql string, args ...any) []Plan {
	t.Helper()
	tx, err := e.conn.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	e.plans = nil
	rows, err := tx.Query(t.Context(), sql, args...)
	if err == nil {
		rows.Close()
		err = rows.Err()
	}
	if err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	return e.plans
}

// Uses expects a statement's plans, both for the first calls and the cached plans, to use indexes and no sequential
// scan.
func (e *Explained) Uses(t *testing.T, indexes []string, sql string, args ...any) {
	t.Helper()
	for range 7 {
		used := map[string]bool{}
		for _, p := range e.Run(t, sql, args...) {
			p.Plan.Walk(func(n *Node) {
				used[n.Index] = true
				if n.Type == "Seq Scan" && !slices.Contains(e.OneRow, n.Table) {
					t.Errorf("%s is read from end to end by\n%s", n.Table, p.Query)
				}
			})
		}
		for _, index := range indexes {
			if !used[index] {
				t.Errorf("%s is not used, but %v", index, used)
			}
		}
		if t.Failed() {
			return
		}
	}
}

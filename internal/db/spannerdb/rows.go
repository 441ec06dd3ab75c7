package spannerdb

import (
	"context"
	"errors"
	"iter"
	"slices"
	"strings"
	"time"

	"cloud.google.com/go/spanner"

	"holdfast/internal/db/rows"
)

// Rows returns the database for copies; owners finds the owners of rows.
func (db *DB) Rows(owners rows.Owners) rows.Database { return tables{db, owners} }

// tables implements rows.Database, whose comments are the contract.
type tables struct {
	db     *DB
	owners rows.Owners
}

// ownersOfQuery is how many owners a query reads.
const ownersOfQuery = 100

// Settle returns at once: Spanner hides no acknowledged transaction.
func (tables) Settle(context.Context) error { return nil }

func (d tables) View(ctx context.Context, fn func(rows.View) error) error {
	start := time.Now()
	return d.db.observe("copy.view", start, d.view(ctx, fn))
}

func (d tables) view(ctx context.Context, fn func(rows.View) error) error {
	if err := d.db.enter(ctx, d.db.slots); err != nil {
		return err
	}
	defer leave(d.db.slots)
	if err := d.db.enterAlone(ctx); err != nil {
		return err
	}
	defer d.db.leaveAlone()
	client := d.db.client.Load()
	tx := client.ReadOnlyTransaction()
	defer tx.Close()
	err := fn(view{ctx, d, tx})
	d.db.renew(client, err)
	return err
}

func (d tables) Update(ctx context.Context, fn func(rows.Update) error) error {
	return d.db.Write(ctx, "copy.update", func(tx *Tx) error { return fn(update{ctx, d, tx}) })
}

// view implements rows.View.
type view struct {
	ctx context.Context
	d   tables
	tx  *spanner.ReadOnlyTransaction
}

// wanted is a row of the query parameter @wanted: an owner's number and texts, and up to three other key columns.
type wanted struct {
	N   int64  `spanner:"n"`
	UID string `spanner:"uid"`
	KID string `spanner:"kid"`
	I   int64  `spanner:"i"`
	A   string `spanner:"a"`
	B   string `spanner:"b"`
}

// fields returns the fields of wanted that hold these columns.
func fields(columns []rows.Column) []string {
	names, texts := make([]string, len(columns)), []string{"a", "b"}
	for i, c := range columns {
		if c.Kind == rows.Integer {
			names[i] = "i"
			continue
		}
		names[i], texts = texts[0], texts[1:]
	}
	return names
}

func (w *wanted) set(columns []rows.Column, key rows.Row) {
	for i, name := range fields(columns) {
		switch name {
		case "i":
			w.I = key[i].(int64)
		case "a":
			w.A = key[i].(string)
		default:
			w.B = key[i].(string)
		}
	}
}

// of returns a table's owner columns on Spanner, and how many of its Columns they replace.
func of(t *rows.Table) (keys []string, replaced int) {
	if len(t.Spanner.Keys) == 0 {
		return nil, 0
	}
	return t.Spanner.Keys, 1
}

// query returns the SELECT for the rows whose first n columns are in @wanted, in key order; 0 selects all rows.
func query(t *rows.Table, n int) string {
	keys, replaced := of(t)
	columns := make([]string, 0, len(t.Columns))
	if replaced > 0 {
		columns = append(columns, "w.n")
	}
	for _, c := range t.Columns[replaced:] {
		columns = append(columns, "t."+c.Name)
	}
	var on []string
	if replaced > 0 {
		on = append(on, "t."+keys[0]+" = w.uid", "t."+keys[1]+" = w.kid")
	}
	if n > replaced {
		rest := t.Columns[replaced:n]
		for i, name := range fields(rest) {
			on = append(on, "t."+rest[i].Name+" = w."+name)
		}
	}
	from := t.Name
	if t.Spanner.From != "" {
		from = "(" + t.Spanner.From + ")"
	}
	if len(on) == 0 {
		return `SELECT ` + strings.Join(columns, ", ") + ` FROM ` + from + ` AS t ORDER BY ` + t.KeyNames()
	}
	order := make([]string, t.Key)
	for i := range order {
		order[i] = columns[i]
	}
	return `SELECT ` + strings.Join(columns, ", ") + ` FROM UNNEST(@wanted) AS w JOIN@{JOIN_METHOD=APPLY_JOIN,FORCE_JOIN_ORDER=TRUE} ` + from + ` AS t ON ` +
		strings.Join(on, " AND ") + ` ORDER BY ` + strings.Join(order, ", ")
}

// each calls fn for a query's rows.
func (v view) each(t *rows.Table, sql string, all []wanted, fn func(rows.Packed) error) error {
	p := Params{}
	if all != nil {
		p["wanted"] = all
	}
	row, give := make(rows.Row, len(t.Columns)), rows.Packing(fn)
	return v.tx.Query(v.ctx, spanner.Statement{SQL: sql, Params: p}).Do(func(r *spanner.Row) error {
		for i, c := range t.Columns {
			var err error
			if row[i], err = column(r, i, c.Kind); err != nil {
				return err
			}
		}
		return give(row)
	})
}

// column returns column i, counted from 0, as a row value.
func column(r *spanner.Row, i int, kind rows.Kind) (any, error) {
	switch kind {
	case rows.Integer:
		var n spanner.NullInt64
		if err := r.Column(i, &n); err != nil || !n.Valid {
			return nil, err
		}
		return n.Int64, nil
	case rows.Millis, rows.MillisUTC, rows.Micros:
		var at spanner.NullTime
		if err := r.Column(i, &at); err != nil || !at.Valid {
			return nil, err
		}
		if kind == rows.Micros {
			return at.Time.UnixMicro(), nil
		}
		return at.Time.UnixMilli(), nil
	case rows.Text, rows.Bytes, rows.UUID, rows.JSON, rows.RawJSON:
	}
	var text spanner.NullString
	if err := r.Column(i, &text); err != nil || !text.Valid {
		return nil, err
	}
	if kind == rows.Bytes {
		return []byte(text.StringVal), nil
	}
	return text.StringVal, nil
}

func (v view) Each(t *rows.Table, owner int, span rows.Span, fn func(rows.Packed) error) error {
	if owner == 0 || len(t.Spanner.Keys) == 0 {
		if span.Only == nil {
			return v.each(t, query(t, 0), nil, fn)
		}
		w := wanted{}
		w.set(t.Columns[:owner], span.Only)
		return v.each(t, query(t, owner), []wanted{w}, fn)
	}
	if span.Only != nil {
		owners, err := v.d.current(v.ctx, []int64{span.Only[0].(int64)})
		if err != nil || len(owners) == 0 {
			return err
		}
		w := wantedOf(owners[0])
		w.set(t.Columns[1:owner], span.Only[1:])
		return v.each(t, query(t, owner), []wanted{w}, fn)
	}
	sql := query(t, 1)
	return v.d.pages(v.ctx, span, func(page []wanted) error { return v.each(t, sql, page, fn) })
}

func wantedOf(o rows.Owner) wanted { return wanted{N: o.Number, UID: o.Keys[0], KID: o.Keys[1]} }

// current returns the owners with these numbers that were not replaced.
func (d tables) current(ctx context.Context, numbers []int64) ([]rows.Owner, error) {
	owners, err := d.owners.Find(ctx, numbers)
	return slices.DeleteFunc(owners, func(o rows.Owner) bool { return o.Current != o.Number }), err
}

// ownersOf returns the owners of the rows by number.
func (d tables) ownersOf(ctx context.Context, all iter.Seq[rows.Row]) (map[int64]rows.Owner, error) {
	var numbers []int64
	for row := range all {
		numbers = append(numbers, row[0].(int64))
	}
	owners, err := d.owners.Find(ctx, distinct(numbers))
	byNumber := make(map[int64]rows.Owner, len(owners))
	for _, o := range owners {
		byNumber[o.Number] = o
	}
	return byNumber, err
}

// pages calls fn with the current owners in a span, some at a time.
func (d tables) pages(ctx context.Context, span rows.Span, fn func([]wanted) error) error {
	after, until := int64(0), int64(-1)
	if span.After != nil {
		after = span.After[0].(int64)
	}
	if span.Until != nil {
		until = span.Until[0].(int64)
	}
	for {
		owners, err := d.owners.After(ctx, after, ownersOfQuery)
		if err != nil {
			return err
		}
		var page []wanted
		for _, o := range owners {
			after = o.Number
			if o.Current == o.Number && (until < 0 || o.Number <= until) {
				page = append(page, wantedOf(o))
			}
		}
		if len(page) > 0 {
			if err := fn(page); err != nil {
				return err
			}
		}
		if len(owners) < ownersOfQuery || until >= 0 && after >= until {
			return nil
		}
	}
}

func (v view) Find(t *rows.Table, keys []rows.Row, fn func(rows.Packed) error) error {
	_, replaced := of(t)
	var byNumber map[int64]rows.Owner
	if replaced > 0 {
		var err error
		if byNumber, err = v.d.ownersOf(v.ctx, slices.Values(keys)); err != nil {
			return err
		}
	}
	var all []wanted
	for _, key := range keys {
		var w wanted
		if replaced > 0 {
			o, ok := byNumber[key[0].(int64)]
			if !ok || o.Current != o.Number {
				continue
			}
			w = wantedOf(o)
		}
		w.set(t.Columns[replaced:t.Key], key[replaced:])
		all = append(all, w)
	}
	if len(all) == 0 {
		return nil
	}
	return v.each(t, query(t, t.Key), all, fn)
}

// distinct sorts the numbers and removes repetitions.
func distinct(numbers []int64) []int64 {
	slices.Sort(numbers)
	return slices.Compact(numbers)
}

// number returns a query's only value.
func (v view) number(sql string, p Params) (n int64, err error) {
	err = v.tx.Query(v.ctx, spanner.Statement{SQL: sql, Params: p}).Do(func(r *spanner.Row) error { return r.Columns(&n) })
	return n, err
}

func (v view) Count(t *rows.Table, limit int64) (int64, error) {
	if limit > 0 {
		return v.number(`SELECT COUNT(*) FROM (SELECT 1 FROM `+t.Name+` LIMIT @most)`, Params{"most": limit})
	}
	return v.number(`SELECT COUNT(*) FROM `+t.Name, nil)
}

func (v view) Total(t rows.Total) (int64, error) {
	if t.Sum != "" { // Mozilla's counters may be NULL
		return 0, errors.ErrUnsupported
	}
	return v.number(t.Query(t.Table.Name), nil)
}

// Unknown counts owners without a known number.
func (v view) Unknown(t *rows.Table) (int64, error) {
	keys := strings.Join(t.Spanner.Keys, ", ")
	n, err := v.number(`SELECT COUNT(*) FROM (SELECT DISTINCT `+keys+` FROM `+t.Name+`)`, nil)
	if err != nil {
		return 0, err
	}
	known := `SELECT COUNT(*) FROM UNNEST(@wanted) AS w WHERE EXISTS (SELECT 1 FROM ` + t.Name + ` AS t WHERE t.` + t.Spanner.Keys[0] + ` = w.uid AND t.` + t.Spanner.Keys[1] + ` = w.kid)`
	err = v.d.pages(v.ctx, rows.All, func(page []wanted) error {
		exist, err := v.number(known, Params{"wanted": page})
		n -= exist
		return err
	})
	return n, err
}

// NthOwner returns a later owner without counting rows.
func (v view) NthOwner(_ *rows.Table, _ int, after rows.Row, _ int) (rows.Row, error) {
	number := int64(0)
	if after != nil {
		number = after[0].(int64)
	}
	owners, err := v.d.owners.After(v.ctx, number, ownersOfQuery)
	if err != nil || len(owners) < ownersOfQuery {
		return nil, err
	}
	return rows.Row{owners[len(owners)-1].Number}, nil
}

// Last returns the greatest number in the table, from which the next number is computed.
func (v view) Last(t *rows.Table) (int64, error) {
	return v.number(`SELECT GREATEST(IFNULL(MAX(`+t.Columns[0].Name+`), 0), 99) FROM `+t.Name, nil)
}

var readState = Statement{"copy.state", `SELECT state FROM copy_state WHERE service = @service`}

func (v view) State(service string) (state string, err error) {
	err = v.tx.Query(v.ctx, readState.with(Params{"service": service})).Do(func(r *spanner.Row) error { return r.Columns(&state) })
	return state, err
}

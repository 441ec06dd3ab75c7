package spannerdb

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"
	"time"
	"unicode/utf8"

	"cloud.google.com/go/spanner"

	"holdfast/internal/db/rows"
	"holdfast/internal/errcode"
)

// update implements rows.Update.
type update struct {
	ctx context.Context
	d   tables
	tx  *Tx
}

// buffer adds mutations that nobody predicted.
func (u update) buffer(all ...*spanner.Mutation) error {
	u.tx.unpredicted = true
	return u.tx.Buffer(all...)
}

// Delete deletes in separate transactions.
func (u update) Delete(t *rows.Table, owner int, span rows.Span) error {
	if owner == 0 || span.Only == nil && span.After == nil && span.Until == nil {
		return u.d.deleteAll(u.ctx, t.Name+` WHERE true`, nil)
	}
	remove := func(page []wanted) error {
		for _, w := range page {
			key := spanner.Key{w.UID, w.KID}
			for _, value := range span.Only[min(1, len(span.Only)):] {
				key = append(key, value)
			}
			if err := u.buffer(spanner.Delete(t.Name, key.AsPrefix())); err != nil {
				return err
			}
		}
		return nil
	}
	if span.Only == nil {
		return u.d.pages(u.ctx, span, remove)
	}
	owners, err := u.d.current(u.ctx, []int64{span.Only[0].(int64)})
	if err != nil || len(owners) == 0 {
		return err
	}
	return remove([]wanted{wantedOf(owners[0])})
}

// Insert keeps all rows in memory, like the commit's mutations.
func (u update) Insert(t *rows.Table, all rows.Reader) error {
	var b rows.Batch
	for {
		switch p, err := all.Next(); {
		case errors.Is(err, io.EOF):
			return u.Put(t, &b)
		case err != nil:
			return err
		default:
			b.Add(p)
		}
	}
}

func (u update) Put(t *rows.Table, all *rows.Batch) error {
	keys, replaced := of(t)
	names := slices.Clone(keys)
	for _, c := range t.Columns[replaced:] {
		if !slices.Contains(t.Spanner.Lacks, c.Name) {
			names = append(names, c.Name)
		}
	}
	return u.eachCurrent(t, all.All(), true, func(row rows.Row, owner []any) error {
		row = slices.Clone(row)
		if t.Spanner.Write != nil {
			t.Spanner.Write(row)
		}
		values := owner
		for i, c := range t.Columns[replaced:] {
			if slices.Contains(t.Spanner.Lacks, c.Name) {
				continue
			}
			v, err := value(row[i+replaced], c.Kind)
			if err != nil {
				return fmt.Errorf("%w: key %s", err, row[:t.Key].Text())
			}
			values = append(values, v)
		}
		return u.buffer(spanner.InsertOrUpdate(t.Name, names, values))
	})
}

var errNotUTF8 = errcode.New(errcode.Invalid, "a value is not UTF-8: Spanner stores only UTF-8")

// value converts a row value for Spanner.
func value(v any, kind rows.Kind) (any, error) {
	switch v := v.(type) {
	case int64:
		switch kind {
		case rows.Millis, rows.MillisUTC:
			return time.UnixMilli(v), nil
		case rows.Micros:
			return time.UnixMicro(v), nil
		case rows.Integer, rows.Text, rows.Bytes, rows.UUID, rows.JSON, rows.RawJSON:
		}
	case []byte:
		if !utf8.Valid(v) {
			return nil, errNotUTF8
		}
		return string(v), nil
	case string:
		if !utf8.ValidString(v) {
			return nil, errNotUTF8
		}
	}
	return v, nil
}

// eachCurrent calls fn with each row whose owner was not replaced, and the owner's texts. mustExist makes an unknown
// owner an error.
func (u update) eachCurrent(t *rows.Table, all iter.Seq[rows.Row], mustExist bool, fn func(row rows.Row, owner []any) error) error {
	if _, replaced := of(t); replaced == 0 {
		for row := range all {
			if err := fn(row, nil); err != nil {
				return err
			}
		}
		return nil
	}
	byNumber, err := u.d.ownersOf(u.ctx, all)
	if err != nil {
		return err
	}
	for row := range all {
		o, ok := byNumber[row[0].(int64)]
		switch {
		case !ok && mustExist:
			return errcode.Newf(errcode.Invalid, "the tokenserver has no user %d: Spanner stores only users whom it has", row[0])
		case !ok, o.Current != o.Number:
			continue
		}
		if err := fn(row, []any{o.Keys[0], o.Keys[1]}); err != nil {
			return err
		}
	}
	return nil
}

func (u update) Remove(t *rows.Table, keys []rows.Row) error {
	_, replaced := of(t)
	return u.eachCurrent(t, slices.Values(keys), false, func(key rows.Row, owner []any) error {
		whole := spanner.Key(owner)
		for _, v := range key[replaced:] {
			whole = append(whole, v)
		}
		return u.buffer(spanner.Delete(t.Name, whole))
	})
}

// Recount does nothing: a copy keeps the counters.
func (u update) Recount(*rows.Table, int, rows.Span) error { return nil }

// SetLast does nothing; see Last.
func (u update) SetLast(*rows.Table, int64) error { return nil }

func (u update) State(service string) (state string, err error) {
	err = u.tx.ForEach(readState, Params{"service": service}, func(r *spanner.Row) error { return r.Columns(&state) })
	return state, err
}

func (u update) SetState(service, state string) error {
	return u.buffer(spanner.InsertOrUpdate("copy_state", []string{"service", "state"}, []any{service, state}))
}

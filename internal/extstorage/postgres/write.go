package postgres

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"holdfast/internal/canonjson"
	"holdfast/internal/db/pgdb"
	ext "holdfast/internal/extstorage"
	"holdfast/internal/fault"
)

// answer is the answer of ext_apply_v1, explained in its migration.
type answer struct {
	Items    []ext.Item   `json:"items"`
	Replayed bool         `json:"replayed"`
	Error    string       `json:"error"`
	Op       int          `json:"op"`
	Revision ext.Revision `json:"revision"`
	Seq      ext.Seq      `json:"seq"`
	Quota    string       `json:"quota"`
	Used     int64        `json:"used"`
}

// Apply implements extstorage.Store.
func (s *Store) Apply(ctx context.Context, o ext.Owner, w ext.Write) (ext.Applied, error) {
	if err := o.Check(); err != nil {
		return ext.Applied{}, err
	}
	revises := w.Revises()
	turn, err := s.queue.Enter(ctx, o, revises)
	if err != nil {
		return ext.Applied{}, err
	}
	defer turn.Leave()
	alone := func(st pgdb.Statement, args []any, dest ...any) (bool, error) {
		return s.db.QueryRow(ctx, st, args, dest...)
	}
	var applied ext.Applied
	switch {
	case revises:
		applied, err = s.revise(ctx, alone, o, &w)
	case w.Restores():
		applied, err = s.restore(ctx, o, &w)
	default:
		applied, err = apply(alone, o, &w)
	}
	if err == nil && w.Audited(&applied) {
		s.waker.Wake(string(o.Tenant), string(o.Install))
	}
	return applied, err
}

// revise does a write whose values depend on stored ones. It takes the lock before
// it reads only when somebody else was faster: that takes more messages, and on
// Citus many more, and the install's other writers wait for all of them.
func (s *Store) revise(ctx context.Context, alone query, o ext.Owner, w *ext.Write) (ext.Applied, error) {
	applied, changed, err := optimistic(alone, o, w)
	if !changed {
		return applied, err
	}
	var refused error
	err = s.db.Tx(ctx, "ext.revise", func(tx *pgdb.Tx) (err error) {
		var (
			ignored string
			last    int64
		)
		if _, err := tx.QueryRow(sqlLock, []any{string(o.Tenant), string(o.Install), now(w.Now)}, &ignored, &last); err != nil {
			return err
		}
		if applied, changed, err = optimistic(tx.QueryRow, o, w); changed {
			return fault.Wrap(fault.Internal, "internal error", fmt.Errorf("a record has changed under the lock: %w", err))
		}
		if refused = nil; isRefusal(err) {
			refused, err = err, nil // what was counted for it is stored
		}
		return err
	})
	return applied, cmp.Or(err, refused)
}

// isRefusal reports whether a write was refused, and the transaction is intact.
func isRefusal(err error) bool {
	_, item := errors.AsType[*ext.ItemError](err)
	return item || errors.Is(err, ext.ErrKeyReused)
}

// optimistic does a write with what it reads before. It reports whether a record has
// changed since.
func optimistic(one query, o ext.Owner, w *ext.Write) (applied ext.Applied, changed bool, err error) {
	a, err := w.Optimistic(func(ns ext.Namespace, key ext.Key) (ext.Record, error) { return get(one, o, ns, key, w.Now) })
	if err != nil {
		return applied, false, err
	}
	if err := a.Done(); err != nil {
		return applied, false, err
	}
	applied, err = apply(one, o, &a.Write)
	changed, err = a.Result(err)
	return applied, changed, err
}

// apply calls ext_apply_v1.
func apply(one query, o ext.Owner, w *ext.Write) (ext.Applied, error) {
	var text []byte
	if _, err := one(sqlApply, arguments(o, w), &text); err != nil {
		return ext.Applied{}, err
	}
	var a answer
	if err := json.Unmarshal(text, &a); err != nil {
		return ext.Applied{}, unexpected(text)
	}
	if a.Error != "" {
		return ext.Applied{}, a.err(w, text)
	}
	return ext.Applied{Items: a.Items, Replayed: a.Replayed}, nil
}

// arguments are those of ext_apply_v1.
func arguments(o ext.Owner, w *ext.Write) []any {
	c := columnsOf(w)
	var (
		key     *string
		request []byte
	)
	if w.IdempotencyKey != nil {
		key, request = &w.IdempotencyKey.Key, w.IdempotencyKey.Request[:]
	}
	return []any{
		string(o.Tenant), string(o.Install),
		c.kinds.whole(), c.namespaces.whole(), c.keys.whole(), c.revisions.whole(), c.matches.whole(), c.noneMatches.whole(),
		c.values.whole(), c.metadata.whole(), c.expiries.whole(), c.keeps.whole(), c.schemas.whole(),
		ext.JSONString(w.Caller.Kind), ext.JSONString(w.Caller.ID),
		now(w.Now), w.Quota.Bytes, w.Quota.Namespaces, w.Quota.Keys,
		key, request, before(w.Now, ext.AnswersKept), c.sums.orNull(),
	}
}

func unexpected(answer []byte) error {
	return fault.Wrap(fault.Internal, "internal error", fmt.Errorf("%s answered %s", sqlApply.Name, answer))
}

// err is the refusal that an answer says.
func (a *answer) err(w *ext.Write, text []byte) error {
	if a.Error == "key_reused" {
		return ext.ErrKeyReused
	}
	if a.Op < 0 || a.Op >= len(w.Ops) {
		return unexpected(text)
	}
	var err error
	switch a.Error {
	case "schema_changed":
		err = ext.ErrSchemaChanged
	case "precondition":
		err = mismatch(&w.Ops[a.Op], a.Revision, a.Seq)
	case "quota":
		limits := map[string]int64{"namespaces": w.Quota.Namespaces, "keys": w.Quota.Keys, "bytes": w.Quota.Bytes}
		if limit, ok := limits[a.Quota]; ok {
			err = &ext.QuotaError{What: a.Quota, Limit: limit, Used: a.Used}
		}
	}
	if err == nil {
		return unexpected(text)
	}
	return &ext.ItemError{Index: a.Op, Err: err}
}

// mismatch is the error of an operation whose precondition does not hold, in the words of
// the root.
func mismatch(op *ext.Op, revision ext.Revision, seq ext.Seq) error {
	if op.Kind == ext.Delete {
		return op.Precondition.CheckDelete(revision, seq)
	}
	return op.Precondition.Check(revision, seq)
}

// columns are the operations of a write, an array for each field.
type columns struct {
	kinds, namespaces, keys, revisions, matches, noneMatches array
	values, metadata, expiries, keeps, schemas               array
	sums                                                     array // empty: none
}

func columnsOf(w *ext.Write) *columns {
	var c columns
	summed := 0
	for i := range w.Ops {
		op := &w.Ops[i]
		c.kinds.number(int64(op.Kind))
		c.namespaces.text(string(op.Namespace))
		c.keys.text(string(op.Key))
		if op.Precondition.Revision.Set {
			c.revisions.number(int64(op.Precondition.Revision.Value))
		} else {
			c.revisions.null()
		}
		c.matches.tags(op.Precondition.Match)
		c.noneMatches.tags(op.Precondition.NoneMatch)
		c.values.value(op.Value)
		c.metadata.value(op.Metadata)
		if op.ExpiresAt != 0 {
			c.expiries.moment(op.ExpiresAt)
		} else {
			c.expiries.null()
		}
		c.keeps.word(strconv.FormatBool(op.Keep))
		c.schemas.number(int64(op.Schema))
		if op.Sum != "" {
			for ; summed < i; summed++ {
				c.sums.null()
			}
			c.sums.word(string(op.Sum))
			summed++
		}
	}
	return &c
}

// array is an array as PostgreSQL spells it, without its last brace. The driver
// sends a text as it is; slices, most of them of things that may be NULL, it
// looks at by reflection, which took a tenth of a put's time.
type array []byte

// whole is the text; of none it is an empty array.
func (a array) whole() string {
	if len(a) == 0 {
		return "{}"
	}
	return string(append(a, '}'))
}

// orNull is whole, but NULL of none.
func (a array) orNull() *string {
	if len(a) == 0 {
		return nil
	}
	text := a.whole()
	return &text
}

func (a *array) next() {
	if len(*a) == 0 {
		*a = append(*a, '{')
	} else {
		*a = append(*a, ',')
	}
}

// word appends what needs no quotes.
func (a *array) word(s string) {
	a.next()
	*a = append(*a, s...)
}

func (a *array) null() { a.word("NULL") }

func (a *array) number(n int64) {
	a.next()
	*a = strconv.AppendInt(*a, n, 10)
}

func (a *array) text(s string) {
	a.next()
	*a = append(slices.Grow(*a, len(s)+len(s)/4+3), '"')
	for i := range len(s) {
		if s[i] == '"' || s[i] == '\\' {
			*a = append(*a, '\\')
		}
		*a = append(*a, s[i])
	}
	*a = append(*a, '"')
}

func (a *array) moment(m ext.Moment) { a.text(m.Time().Format(time.RFC3339Nano)) }

// value appends NULL when there is none.
func (a *array) value(v canonjson.Value) {
	if v == "" {
		a.null()
	} else {
		a.text(string(v))
	}
}

// tags appends * or their numbers as an array; NULL if they are not set. Nothing
// else of what a client sent as a tag comes here.
func (a *array) tags(t ext.Tags) {
	switch {
	case !t.Set:
		a.null()
	case t.Any:
		a.text("*")
	default:
		var seqs array
		for _, seq := range t.Seqs {
			seqs.number(int64(seq))
		}
		a.text(seqs.whole())
	}
}

package postgres

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"time"

	"holdfast/internal/canonjson"
	"holdfast/internal/db/pgdb"
	"holdfast/internal/errcode"
	ext "holdfast/internal/extstorage"
)

// answer is the result of ext_apply_v2.
type answer struct {
	Items    []ext.Item `json:"items"`
	Replayed bool       `json:"replayed"`
	// "" or the reason for the refusal, see err
	Error string `json:"error"`
	// index of the refused operation
	Op int `json:"op"`
	// of the record that did not match
	Revision ext.Revision `json:"revision"`
	Seq      ext.Seq      `json:"seq"`
	// the exceeded limit
	Quota string `json:"quota"`
	// usage after the write
	Used int64 `json:"used"`
}

// Apply implements extstorage.Store.
func (s *Store) Apply(ctx context.Context, o ext.Owner, w ext.Write) (applied ext.Applied, err error) {
	if err := o.Check(); err != nil {
		return ext.Applied{}, err
	}
	if w.Revises() {
		applied, err = s.revise(ctx, o, &w)
	} else {
		applied, err = s.applyInTurn(ctx, o, &w)
	}
	err = refusedClosed(err)
	if err == nil && w.Audited(&applied) {
		s.waker.Wake(string(o.Tenant), string(o.Install))
	}
	return applied, err
}

// applyInTurn waits for the install's turn in this process. Other processes wait for the row lock.
func (s *Store) applyInTurn(ctx context.Context, o ext.Owner, w *ext.Write) (ext.Applied, error) {
	turn, err := s.queue.Enter(ctx, o, false)
	if err != nil {
		return ext.Applied{}, err
	}
	defer turn.Leave()
	if w.Restores() {
		return s.restore(ctx, o, w)
	}
	return apply(s.alone(ctx), o, w)
}

// alone runs each statement in its own transaction.
func (s *Store) alone(ctx context.Context) query {
	return func(st pgdb.Statement, args []any, dest ...any) (bool, error) {
		return s.db.QueryRow(ctx, st, args, dest...)
	}
}

// apply runs a write in a call: the function decides, checks the quota and writes.
func apply(run query, o ext.Owner, w *ext.Write) (ext.Applied, error) {
	var text []byte
	if _, err := run(sqlApply.Statement, sqlApply.Args(applying{o, *w}), &text); err != nil {
		return ext.Applied{}, err
	}
	var a answer
	if err := json.Unmarshal(text, &a); err != nil {
		return ext.Applied{}, unexpected(text)
	}
	return a.applied(w, text)
}

// applied returns the result or the refusal.
func (a *answer) applied(w *ext.Write, text []byte) (ext.Applied, error) {
	if a.Error != "" {
		return ext.Applied{}, a.err(w, text)
	}
	return ext.Applied{Items: a.Items, Replayed: a.Replayed}, nil
}

// applying holds the parameters for ext_apply_v2: an element per operation.
type applying struct {
	owner ext.Owner
	ext.Write
}

// args names and orders the parameters for pgdb.
func (w applying) args() []pgdb.Arg {
	c := columnsOf(&w.Write)
	var (
		key     *string
		request []byte
	)
	if w.IdempotencyKey != nil {
		key, request = &w.IdempotencyKey.Key, w.IdempotencyKey.Request[:]
	}
	return []pgdb.Arg{
		tenant(w.owner), install(w.owner),
		{Param: "p_kinds smallint[]", Value: c.kinds.whole()},
		{Param: "p_namespaces text[]", Value: c.namespaces.whole()},
		{Param: "p_keys text[]", Value: c.keys.whole()},
		{Param: "p_guards bigint[]", Value: c.revisions.whole()},
		{Param: "p_matches text[]", Value: c.matches.whole()},
		{Param: "p_none_matches text[]", Value: c.noneMatches.whole()},
		{Param: "p_values text[]", Value: c.values.whole()},
		{Param: "p_metadata text[]", Value: c.metadata.whole()},
		{Param: "p_expiries timestamptz[]", Value: c.expiries.whole()},
		{Param: "p_keeps boolean[]", Value: c.keeps.whole()},
		{Param: "p_schemas integer[]", Value: c.schemas.whole()},
		{Param: "p_caller text", Value: ext.JSONString(w.Caller.Kind)},
		{Param: "p_caller_id text", Value: ext.JSONString(w.Caller.ID)},
		{Param: "p_now timestamptz", Value: now(w.Now)},
		{Param: "p_max_bytes bigint", Value: w.Quota.Bytes},
		{Param: "p_max_namespaces bigint", Value: w.Quota.Namespaces},
		{Param: "p_max_keys bigint", Value: w.Quota.Keys},
		{Param: "p_once text", Value: key},
		{Param: "p_request bytea", Value: request},
		{Param: "p_once_since timestamptz", Value: before(w.Now, ext.AnswersKept)},
		{Param: "p_sums text[]", Value: c.sums.orNull()},
	}
}

// unexpected reports an answer that this release does not know.
func unexpected(answer []byte) error {
	return errcode.Wrap(errcode.Internal, "internal error", fmt.Errorf("%s answered %s", sqlApply.Name, answer))
}

// err turns a refusal into the error that the service promises.
func (a *answer) err(w *ext.Write, text []byte) error {
	switch a.Error {
	case "key_reused":
		return ext.ErrKeyReused
	case "deleted":
		return ext.ErrInstallDeleted
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

// mismatch returns the precondition's error for the record that the function found.
func mismatch(op *ext.Op, revision ext.Revision, seq ext.Seq) error {
	if op.Kind == ext.Delete {
		return op.Precondition.CheckDelete(revision, seq)
	}
	return op.Precondition.Check(revision, seq)
}

// columns holds an array per member of an operation.
type columns struct {
	kinds, namespaces, keys, revisions, matches, noneMatches array
	values, metadata, expiries, keeps, schemas               array
	sums                                                     array
}

// columnsOf builds the arrays in a single pass.
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

// array is a PostgreSQL text array without the closing brace. The driver sends text as is; encoding slices by
// reflection took a tenth of a put's time.
type array []byte

// whole returns the complete array.
func (a array) whole() string {
	if len(a) == 0 {
		return "{}"
	}
	return string(append(a, '}'))
}

// orNull returns NULL for an empty array.
func (a array) orNull() *string {
	if len(a) == 0 {
		return nil
	}
	text := a.whole()
	return &text
}

// next begins an element.
func (a *array) next() {
	if len(*a) == 0 {
		*a = append(*a, '{')
	} else {
		*a = append(*a, ',')
	}
}

// word appends an element that needs no quotes.
func (a *array) word(s string) {
	a.next()
	*a = append(*a, s...)
}

// null appends NULL.
func (a *array) null() { a.word("NULL") }

// number appends a number.
func (a *array) number(n int64) {
	a.next()
	*a = strconv.AppendInt(*a, n, 10)
}

// text appends a quoted text.
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

// moment appends a time.
func (a *array) moment(m ext.Moment) { a.text(m.Time().Format(time.RFC3339Nano)) }

// value appends JSON, or NULL for "".
func (a *array) value(v canonjson.Value) {
	if v == "" {
		a.null()
	} else {
		a.text(string(v))
	}
}

// tags appends the change numbers in a precondition: NULL if it is not set, * for any.
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

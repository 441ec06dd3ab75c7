package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	ext "holdfast/internal/extstorage"
	"holdfast/internal/fault"
)

// Statuses of ext_apply_v1, explained in its migration.
const (
	done int64 = iota
	refused
	schemaChanged
	overQuota
	keyReused
)

// refusedAfter is the SQLSTATE of a refusal that undoes what was removed for
// the write's sake.
const refusedAfter = "HF002"

// Apply implements extstorage.Store.
func (s *Store) Apply(ctx context.Context, o ext.Owner, w ext.Write) (ext.Applied, error) {
	if err := o.Check(); err != nil {
		return ext.Applied{}, err
	}
	var answer []int64
	_, err := s.db.One(ctx, sqlApply, arguments(o, &w), &answer)
	if pg := (*pgconn.PgError)(nil); errors.As(err, &pg) && pg.Code == refusedAfter {
		answer, err = numbers(pg.Message)
	}
	if err != nil {
		return ext.Applied{}, err
	}
	return read(&w, answer)
}

// arguments are those of ext_apply_v1.
func arguments(o ext.Owner, w *ext.Write) []any {
	c := columnsOf(w)
	var (
		key     *string
		request []byte
	)
	if w.Once != nil {
		key, request = &w.Once.Key, w.Once.Request[:]
	}
	return []any{
		string(o.Tenant), string(o.Install),
		c.kinds.whole(), c.namespaces.whole(), c.keys.whole(), c.guards.whole(), c.matches.whole(), c.noneMatches.whole(),
		c.values.whole(), c.metadata.whole(), c.expiries.whole(), c.keeps.whole(), c.schemas.whole(), c.audits.whole(),
		now(w.Now), w.Quota.Bytes, w.Quota.Namespaces, w.Quota.Keys, int64(ext.ReclaimLimit),
		key, request, before(w.Now, ext.AnswersKept),
	}
}

// numbers reads an array in the spelling of PostgreSQL.
func numbers(text string) ([]int64, error) {
	var all []int64
	for n := range strings.SplitSeq(strings.Trim(text, "{}"), ",") {
		i, err := strconv.ParseInt(n, 10, 64)
		if err != nil {
			return nil, unexpected(text)
		}
		all = append(all, i)
	}
	return all, nil
}

func unexpected(answer any) error {
	return fault.Wrap(fault.Internal, "internal error", fmt.Errorf("%s answered %v", sqlApply.Name, answer))
}

// read makes of an answer what it says.
func read(w *ext.Write, answer []int64) (ext.Applied, error) {
	if len(answer) < 2 {
		return ext.Applied{}, unexpected(answer)
	}
	status, i, rest := answer[0], int(answer[1]), answer[2:]
	switch {
	case status == done:
		a, err := ext.AppliedOf(rest)
		a.Replayed = i == 1
		return a, err
	case status == keyReused:
		return ext.Applied{}, ext.ErrKeyReused
	case i < 0 || i >= len(w.Ops):
	case status == schemaChanged:
		return ext.Applied{}, &ext.ItemError{Index: i, Err: ext.ErrSchemaChanged}
	case status == refused && len(rest) == 2:
		if err := mismatch(&w.Ops[i], ext.Revision(rest[0]), ext.Seq(rest[1])); err != nil {
			return ext.Applied{}, &ext.ItemError{Index: i, Err: err}
		}
	case status == overQuota && len(rest) == 3:
		if err := over(w.Quota, rest[0], rest[1], rest[2] == 1); err != nil {
			return ext.Applied{}, &ext.ItemError{Index: i, Err: err}
		}
	}
	return ext.Applied{}, unexpected(answer)
}

// mismatch is the error of an operation whose guard does not hold, which the
// root words.
func mismatch(op *ext.Op, revision ext.Revision, seq ext.Seq) error {
	if op.Kind == ext.Delete {
		return op.Guard.CheckDelete(revision, seq)
	}
	return op.Guard.Check(revision, seq)
}

func over(q ext.Quota, what, used int64, expired bool) error {
	switch what {
	case 1:
		return &ext.QuotaError{What: "namespaces", Limit: q.Namespaces, Used: used, Expired: expired}
	case 2:
		return &ext.QuotaError{What: "keys", Limit: q.Keys, Used: used, Expired: expired}
	case 3:
		return &ext.QuotaError{What: "bytes", Limit: q.Bytes, Used: used, Expired: expired}
	}
	return nil
}

// columns are the operations of a write, an array for each field.
type columns struct {
	kinds, namespaces, keys, guards, matches, noneMatches array
	values, metadata, expiries, keeps, schemas, audits    array
}

func columnsOf(w *ext.Write) *columns {
	var c columns
	for i := range w.Ops {
		op := &w.Ops[i]
		c.kinds.number(int64(op.Kind))
		c.namespaces.text(string(op.Namespace))
		c.keys.text(string(op.Key))
		if op.Guard.Revision.Set {
			c.guards.number(int64(op.Guard.Revision.Value))
		} else {
			c.guards.null()
		}
		c.matches.tags(op.Guard.Match)
		c.noneMatches.tags(op.Guard.NoneMatch)
		c.values.value(op.Value)
		c.metadata.value(op.Metadata)
		if op.ExpiresAt != 0 {
			c.expiries.text(op.ExpiresAt.Time().Format(time.RFC3339Nano))
		} else {
			c.expiries.null()
		}
		c.keeps.word(strconv.FormatBool(op.Keep))
		c.schemas.number(int64(op.Schema))
		c.audits.text(w.AuditHead(i))
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

// value appends NULL when there is none.
func (a *array) value(v ext.Value) {
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

package postgres

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"

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
		c.kinds, c.namespaces, c.keys, c.guards, c.matches, c.noneMatches,
		c.values, c.metadata, c.expiries, c.keeps, c.schemas, c.audits,
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
	kinds                []int16
	namespaces, keys     []string
	guards               []*int64
	matches, noneMatches []*string
	values, metadata     []*string
	expiries             []pgtype.Timestamptz
	keeps                []bool
	schemas              []int32
	audits               []string
}

func columnsOf(w *ext.Write) columns {
	n := len(w.Ops)
	c := columns{
		kinds: make([]int16, 0, n), namespaces: make([]string, 0, n), keys: make([]string, 0, n),
		guards: make([]*int64, 0, n), matches: make([]*string, 0, n), noneMatches: make([]*string, 0, n),
		values: make([]*string, 0, n), metadata: make([]*string, 0, n), expiries: make([]pgtype.Timestamptz, 0, n),
		keeps: make([]bool, 0, n), schemas: make([]int32, 0, n), audits: make([]string, 0, n),
	}
	for i := range w.Ops {
		op := &w.Ops[i]
		c.kinds = append(c.kinds, int16(op.Kind))
		c.namespaces = append(c.namespaces, string(op.Namespace))
		c.keys = append(c.keys, string(op.Key))
		c.guards = append(c.guards, guard(op.Guard.Revision))
		c.matches = append(c.matches, tags(op.Guard.Match))
		c.noneMatches = append(c.noneMatches, tags(op.Guard.NoneMatch))
		c.values = append(c.values, maybe(op.Value))
		c.metadata = append(c.metadata, maybe(op.Metadata))
		c.expiries = append(c.expiries, moment(op.ExpiresAt))
		c.keeps = append(c.keeps, op.Keep)
		c.schemas = append(c.schemas, int32(op.Schema))
		c.audits = append(c.audits, w.AuditHead(i))
	}
	return c
}

func guard(r ext.Optional[ext.Revision]) *int64 {
	if !r.Set {
		return nil
	}
	return (*int64)(&r.Value)
}

// tags are * or their numbers in the spelling of an array; nil if they are not
// set. Nothing else of what a client sent as a tag comes here.
func tags(t ext.Tags) *string {
	if !t.Set {
		return nil
	}
	text := []byte("{")
	for i, seq := range t.Seqs {
		if i > 0 {
			text = append(text, ',')
		}
		text = strconv.AppendInt(text, int64(seq), 10)
	}
	all := string(append(text, '}'))
	if t.Any {
		all = "*"
	}
	return &all
}

// maybe is NULL when there is no value.
func maybe(v ext.Value) *string {
	if v == "" {
		return nil
	}
	return (*string)(&v)
}

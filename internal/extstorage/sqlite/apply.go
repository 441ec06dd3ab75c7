package sqlite

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strconv"

	"zombiezen.com/go/sqlite"

	"holdfast/internal/db/sqlitedb"
	ext "holdfast/internal/extstorage"
	"holdfast/internal/fault"
	"holdfast/internal/outbox"
)

// step is a write of one install under way: what it found under the lock, and
// what it has made of that so far.
type step struct {
	c     *sqlite.Conn
	o     ext.Owner
	now   ext.Moment
	known bool         // the install has a row
	has   ext.Counters // now; stored by finish
	first ext.Seq      // before the step
	last  ext.Seq
	keys  map[ext.Namespace]*space // whose counters the step has asked for
}

// space is the counter of a namespace.
type space struct{ found, keys int64 }

func begin(c *sqlite.Conn, o ext.Owner, now ext.Moment) (*step, error) {
	st := &step{c: c, o: o, now: now}
	seq, known, err := sqlitedb.One(c, sqlInstallUsage, func(r *sqlite.Stmt) ext.Seq {
		st.has = ext.Counters{Bytes: r.ColumnInt64(0), Keys: r.ColumnInt64(1), Namespaces: r.ColumnInt64(2)}
		return ext.Seq(r.ColumnInt64(3))
	}, o.Tenant, o.Install)
	st.known, st.first, st.last = known, seq, seq
	return st, err
}

// finish stores the counters, when the step has changed anything.
func (st *step) finish() error {
	if st.last == st.first {
		return nil
	}
	for ns, sp := range st.keys {
		var err error
		switch {
		case sp.keys == sp.found:
		case sp.keys == 0:
			err = sqlitedb.Exec(st.c, sqlDeleteNamespace, st.o.Tenant, st.o.Install, ns)
		default:
			err = sqlitedb.Exec(st.c, sqlSetNamespace, st.o.Tenant, st.o.Install, ns, sp.keys)
		}
		if err != nil {
			return err
		}
	}
	sql := sqlSetUsage
	if !st.known {
		sql = sqlAddUsage
	}
	return sqlitedb.Exec(st.c, sql, st.o.Tenant, st.o.Install, st.has.Bytes, st.has.Keys, st.has.Namespaces, st.last, st.now)
}

// count moves the counters. What a namespace has is asked for only when that
// changes.
func (st *step) count(ns ext.Namespace, d ext.Delta) (before, after int64, err error) {
	st.has.Bytes += d.Bytes
	st.has.Keys += d.Keys
	if d.Keys == 0 {
		return 0, 0, nil
	}
	sp := st.keys[ns]
	if sp == nil {
		n, _, err := sqlitedb.One(st.c, sqlNamespaceKeys, scanInt64, st.o.Tenant, st.o.Install, ns)
		if err != nil {
			return 0, 0, err
		}
		if st.keys == nil {
			st.keys = map[ext.Namespace]*space{}
		}
		sp = &space{n, n}
		st.keys[ns] = sp
	}
	before = sp.keys
	sp.keys += d.Keys
	switch {
	case before == 0 && sp.keys > 0:
		st.has.Namespaces++
	case before > 0 && sp.keys == 0:
		st.has.Namespaces--
	}
	return before, sp.keys, nil
}

// change notes a change in the install's feed.
func (st *step) change(seq ext.Seq, op ext.ChangeOp, ns ext.Namespace, key ext.Key, revision ext.Revision) error {
	return sqlitedb.Exec(st.c, sqlAddChange, st.o.Tenant, st.o.Install, seq, op, ns, key, revision, st.now)
}

func scanInt64(r *sqlite.Stmt) int64 { return r.ColumnInt64(0) }

// scanHeader reads the columns of a header from one on.
func scanHeader(r *sqlite.Stmt, i int) ext.Header {
	return ext.Header{
		Revision: ext.Revision(r.ColumnInt64(i)), Seq: ext.Seq(r.ColumnInt64(i + 1)),
		CreatedAt: ext.Moment(r.ColumnInt64(i + 2)), UpdatedAt: ext.Moment(r.ColumnInt64(i + 3)), ExpiresAt: ext.Moment(r.ColumnInt64(i + 4)),
		ValueBytes: r.ColumnInt64(i + 5), MetadataBytes: r.ColumnInt64(i + 6),
	}
}

// errNoRoom is a write that a quota refuses while there is something that has
// expired.
var errNoRoom = fault.New(fault.Quota, "there is no room before something is removed")

// Apply implements extstorage.Store. A write is judged before it changes
// anything, but where room has to be made first.
func (s *Store) Apply(ctx context.Context, o ext.Owner, w ext.Write) (applied ext.Applied, err error) {
	if err := o.Check(); err != nil {
		return ext.Applied{}, err
	}
	var (
		st      *step
		effects []effect
	)
	err = s.db.WriteJudged(ctx, "ext.apply", func(c *sqlite.Conn) (err error) {
		if applied, err = replay(c, o, &w); err != nil || applied.Replayed {
			return err
		}
		st, effects, err = judge(c, o, &w)
		if fault.Is(err, fault.Quota) {
			if _, due, failed := sqlitedb.One(c, sqlExpiredOne, scanInt64, o.Tenant, o.Install, w.Now); failed != nil || due {
				return errors.Join(failed, errNoRoom)
			}
		}
		return err
	}, func(c *sqlite.Conn) (err error) {
		if !applied.Replayed {
			applied, err = s.perform(c, st, &w, effects)
		}
		return err
	})
	if errors.Is(err, errNoRoom) {
		err = s.db.Write(ctx, "ext.apply_making_room", func(c *sqlite.Conn) (err error) {
			applied, err = s.applyMakingRoom(c, o, &w)
			return err
		})
	}
	if err != nil {
		return ext.Applied{}, err
	}
	return applied, nil
}

// perform does what was judged.
func (s *Store) perform(c *sqlite.Conn, st *step, w *ext.Write, effects []effect) (applied ext.Applied, err error) {
	applied.Items = make([]ext.Item, len(w.Ops))
	for i := range effects {
		applied.Items[i] = effects[i].Item
		if err := s.do(st, w, i, &effects[i]); err != nil {
			return applied, err
		}
	}
	if err := st.finish(); err != nil {
		return applied, err
	}
	applied.Counters = st.has
	return applied, keep(c, st.o, w, &applied)
}

func (s *Store) applyMakingRoom(c *sqlite.Conn, o ext.Owner, w *ext.Write) (applied ext.Applied, err error) {
	if applied, err = replay(c, o, w); err != nil || applied.Replayed {
		return applied, err
	}
	st, effects, err := judge(c, o, w)
	if fault.Is(err, fault.Quota) {
		st, effects, err = makeRoom(c, o, w, err)
	}
	if err != nil {
		return applied, err
	}
	return s.perform(c, st, w, effects)
}

// makeRoom judges the write again after what has expired was removed.
func makeRoom(c *sqlite.Conn, o ext.Owner, w *ext.Write, refused error) (*step, []effect, error) {
	n, more, err := reclaim(c, o, w.Now, ext.ReclaimLimit)
	if err != nil {
		return nil, nil, err
	}
	if n == 0 {
		return nil, nil, refused
	}
	st, effects, err := judge(c, o, w)
	if over, ok := errors.AsType[*ext.QuotaError](err); ok {
		over.Expired = more
	}
	return st, effects, err
}

// effect is what an operation will do to a record.
type effect struct {
	ext.Effect
	old *ext.Header // the record before it; nil: there is none
	seq ext.Seq     // of its change
}

// judge decides what the operations will do, one after the other, and holds it
// against the quota. It writes nothing.
func judge(c *sqlite.Conn, o ext.Owner, w *ext.Write) (st *step, effects []effect, err error) {
	if st, err = begin(c, o, w.Now); err != nil {
		return st, nil, err
	}
	ledger := ext.NewLedger(st.has)
	effects = make([]effect, len(w.Ops))
	for i := range w.Ops {
		op, e := &w.Ops[i], &effects[i]
		if e.old, err = st.record(w, effects[:i], op); err != nil {
			return st, nil, err
		}
		var active int64
		if op.Kind == ext.Put {
			if active, _, err = sqlitedb.One(c, sqlActiveVersion, scanInt64, o.Tenant, o.Install, op.Namespace); err != nil {
				return st, nil, err
			}
		}
		if e.Effect, err = op.Judge(e.old, w.Now, ext.SchemaVersion(active), st.last+1); err != nil {
			return st, nil, &ext.ItemError{Index: i, Err: err}
		}
		if e.Change != "" {
			st.last++
			e.seq = st.last
		}
		before, after, err := st.count(op.Namespace, e.Delta)
		if err != nil {
			return st, nil, err
		}
		ledger.Note(st.has, op.Namespace, before, after)
	}
	return st, effects, ledger.Check(w.Quota)
}

// record is the row of an operation as those before it leave it.
func (st *step) record(w *ext.Write, before []effect, op *ext.Op) (*ext.Header, error) {
	for i, e := range slices.Backward(before) {
		if w.Ops[i].Key == op.Key && w.Ops[i].Namespace == op.Namespace {
			return e.Next, nil
		}
	}
	row, found, err := sqlitedb.One(st.c, sqlHeader, func(r *sqlite.Stmt) ext.Header { return scanHeader(r, 0) },
		st.o.Tenant, st.o.Install, op.Namespace, op.Key)
	if err != nil || !found {
		return nil, err
	}
	return &row, nil
}

// do writes what comes of an operation: record, change, and event of the audit.
func (s *Store) do(st *step, w *ext.Write, i int, e *effect) error {
	op := &w.Ops[i]
	if e.Change == "" {
		return nil
	}
	if err := st.change(e.seq, e.Change, op.Namespace, op.Key, e.Revision); err != nil {
		return err
	}
	if err := s.tell(st, w, i, e); err != nil {
		return err
	}
	if e.Next == nil {
		return sqlitedb.Exec(st.c, sqlDeleteRecord, st.o.Tenant, st.o.Install, op.Namespace, op.Key)
	}
	return st.put(op, e.Next, e.old)
}

// put writes a record over what was there, which is nil when nothing was.
func (st *step) put(op *ext.Op, h, old *ext.Header) error {
	args := []any{
		st.o.Tenant, st.o.Install, op.Namespace, op.Key,
		h.Revision, h.Seq, h.CreatedAt, h.UpdatedAt, orNull(h.ExpiresAt), h.ValueBytes, h.MetadataBytes, op.Value,
	}
	switch {
	case old == nil:
		return sqlitedb.Exec(st.c, sqlInsertRecord, append(args, op.Metadata)...)
	case op.Keep && h.Revision > 1: // a new life has nothing to keep
		return sqlitedb.Exec(st.c, sqlUpdateValue, args...)
	}
	return sqlitedb.Exec(st.c, sqlUpdateRecord, append(args, op.Metadata)...)
}

// tell tells the audit what an operation has done.
func (s *Store) tell(st *step, w *ext.Write, i int, e *effect) error {
	var topic string
	switch e.Change {
	case ext.ChangePut:
		topic = ext.AuditPut
	case ext.ChangeDelete:
		topic = ext.AuditDelete
	default: // nothing was done, or what had expired was removed
		return nil
	}
	payload := append([]byte(w.AuditHead(i)), strconv.FormatInt(int64(e.Revision), 10)...)
	return s.audit.Append(st.c, outbox.Event{
		Owner: string(st.o.Tenant), Stream: string(st.o.Install), Seq: int64(e.seq),
		Topic: topic, Key: w.Ops[i].AuditKey(), Payload: append(payload, '}'), At: st.now.Time(),
	})
}

// replay is the answer that is kept for the key of the write, if there is one.
func replay(c *sqlite.Conn, o ext.Owner, w *ext.Write) (applied ext.Applied, err error) {
	if w.Once == nil {
		return applied, nil
	}
	var request [32]byte
	answer, found, err := sqlitedb.One(c, sqlAnswer, func(r *sqlite.Stmt) string {
		r.ColumnBytes(0, request[:])
		return r.ColumnText(1)
	}, o.Tenant, o.Install, w.Once.Key, int64(w.Now)-ext.AnswersKept.Milliseconds())
	if err != nil || !found {
		return applied, err
	}
	if request != w.Once.Request {
		return applied, ext.ErrKeyReused
	}
	var numbers []int64
	if err := json.Unmarshal([]byte(answer), &numbers); err != nil {
		return applied, fault.Wrap(fault.Internal, "a kept answer is not whole", err)
	}
	applied, err = ext.AppliedOf(numbers)
	applied.Replayed = true
	return applied, err
}

// keep keeps the answer for when the request comes again.
func keep(c *sqlite.Conn, o ext.Owner, w *ext.Write, applied *ext.Applied) error {
	if w.Once == nil {
		return nil
	}
	answer, err := json.Marshal(applied.Numbers())
	if err != nil {
		return fault.Wrap(fault.Internal, "internal error", err)
	}
	return sqlitedb.Exec(c, sqlAddAnswer, o.Tenant, o.Install, w.Once.Key, w.Once.Request[:], string(answer), w.Now)
}

package sqlite

import (
	"context"
	"encoding/json"
	"errors"
	"slices"

	"zombiezen.com/go/sqlite"

	"holdfast/internal/canonjson"
	"holdfast/internal/db/sqlitedb"
	"holdfast/internal/errcode"
	ext "holdfast/internal/extstorage"
	"holdfast/internal/outbox"
)

// writeState is a write to an install, in a transaction: first decide computes all effects and checks the quota, then
// perform writes them. The writer runs one transaction at a time, so the rows do not change in between.
type writeState struct {
	c *sqlite.Conn
	o ext.Owner
	// the service's time
	now ext.Moment
	// whether the install has a row with counters
	known bool
	// whether the install was deleted
	closed bool
	// counters at countedAt, changed by each operation
	has ext.Counters
	// last change number before the write
	first ext.Seq
	// last change number so far
	last  ext.Seq
	floor ext.Seq // first number after the last restore of the database, less 1
	// namespaces whose number of keys changes
	keys map[ext.Namespace]*space
	// the first operation's record from beginWrite; nil: not read
	head *storedRow
	// the namespace whose active schema version is ver
	ns  ext.Namespace
	ver ext.SchemaVersion

	countedAt ext.Moment // time of has
	// whether recount changed the counters
	recounted bool
	hidesKey  bool // a put replaces an expired record that is still counted

	// whether a namespace got its first key or lost its last
	moves bool
	// namespaces that only have a schema: more, or fewer, since the write began
	moved int64
}

// storedRow is a record's row. header is nil if the record does not exist.
type storedRow struct {
	header *ext.Header
	id     int64
}

// space is a namespace's number of keys: found before the write, keys after the operations so far.
type space struct{ found, keys int64 }

// begin reads the install's counters.
func begin(c *sqlite.Conn, o ext.Owner, now ext.Moment) (*writeState, error) {
	st := &writeState{c: c, o: o, now: now}
	seq, known, err := sqlitedb.QueryRow(c, sqlInstallUsage, st.scanUsage, o.Tenant, o.Install)
	st.found(seq, known)
	return st, err
}

// beginWrite also reads the record and schema of the first operation, because most writes are a single put.
func beginWrite(c *sqlite.Conn, o ext.Owner, w *ext.Write) (*writeState, error) {
	if len(w.Ops) == 0 {
		return begin(c, o, w.Now)
	}
	st, op := &writeState{c: c, o: o, now: w.Now}, &w.Ops[0]
	seq, known, err := sqlitedb.QueryRow(c, sqlBeginWrite, func(r *sqlite.Stmt) ext.Seq {
		st.ns, st.ver = op.Namespace, ext.SchemaVersion(r.ColumnInt64(7))
		if st.head = new(storedRow); !r.ColumnIsNull(8) {
			h := scanHeader(r, 8)
			st.head.header, st.head.id = &h, r.ColumnInt64(15)
		}
		return st.scanUsage(r)
	}, o.Tenant, o.Install, op.Namespace, op.Key)
	st.found(seq, known)
	return st, err
}

// scanUsage reads the columns of sqlInstallUsage and returns the last change number.
func (st *writeState) scanUsage(r *sqlite.Stmt) ext.Seq {
	st.has = ext.Counters{Bytes: r.ColumnInt64(0), Keys: r.ColumnInt64(1), Namespaces: r.ColumnInt64(2)}
	st.countedAt, st.closed = ext.Moment(r.ColumnInt64(4)), !r.ColumnIsNull(5)
	st.floor = ext.Seq(r.ColumnInt64(6))
	return ext.Seq(r.ColumnInt64(3))
}

// found sets the state from an install's row, or for an install without a row.
func (st *writeState) found(last ext.Seq, known bool) {
	if st.known, st.first, st.last = known, last, last; !known {
		st.countedAt = st.now
	}
}

// open returns ErrInstallDeleted for a deleted install. An install without a row starts at the number that a restored
// database skipped to.
func (st *writeState) open() error {
	switch {
	case st.closed:
		return ext.ErrInstallDeleted
	case !st.known:
		if err := refuseClosed(st.c, st.o); err != nil {
			return err
		}
		first, _, err := sqlitedb.QueryRow(st.c, sqlFirst, scanInt64)
		st.first, st.last, st.floor = ext.Seq(first), ext.Seq(first), ext.Seq(first)
		return err
	}
	return nil
}

// active returns the namespace's active schema version, 0 without a schema.
func (st *writeState) active(ns ext.Namespace) (ext.SchemaVersion, error) {
	if st.ns == ns {
		return st.ver, nil
	}
	version, _, err := sqlitedb.QueryRow(st.c, sqlActiveVersion, scanInt64, st.o.Tenant, st.o.Install, ns)
	if err == nil {
		st.ns, st.ver = ns, ext.SchemaVersion(version)
	}
	return st.ver, err
}

// recount moves the counters to another time: records that expire in between count no longer, or again. It reads only
// those records.
func (st *writeState) recount(at ext.Moment) error {
	if st.countedAt == at {
		return nil
	}
	from, to, by := st.countedAt, at, int64(-1)
	if from > to {
		from, to, by = to, from, 1
	}
	expiring, err := sqlitedb.QueryAll(st.c, sqlExpiring, scanNamespaceUsage, st.o.Tenant, st.o.Install, from, to)
	if err != nil {
		return err
	}
	for _, n := range expiring {
		if _, _, err := st.count(n.Namespace, ext.Delta{Keys: by * n.Keys, Bytes: by * n.Bytes}); err != nil {
			return err
		}
	}
	st.countedAt, st.recounted = at, true
	return nil
}

// finish writes the counters, after all changes, and nothing if nothing changed.
func (st *writeState) finish() error {
	if st.last == st.first && !st.recounted {
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
	return sqlitedb.Exec(st.c, sql, st.o.Tenant, st.o.Install, st.has.Bytes, st.has.Keys, st.has.Namespaces, st.last, st.countedAt, st.now)
}

// count changes the counters and returns the namespace's number of keys before and after. It writes nothing.
func (st *writeState) count(ns ext.Namespace, d ext.Delta) (before, after int64, err error) {
	st.has.Bytes += d.Bytes
	st.has.Keys += d.Keys
	if d.Keys == 0 {
		return 0, 0, nil
	}
	sp := st.keys[ns]
	if sp == nil {
		n, _, err := sqlitedb.QueryRow(st.c, sqlNamespaceKeys, scanInt64, st.o.Tenant, st.o.Install, ns)
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
	if before == 0 == (sp.keys == 0) {
		return before, sp.keys, nil
	}
	by := int64(1)
	if sp.keys == 0 {
		by = -1
	}
	st.has.Namespaces += by
	_, schema, err := sqlitedb.QueryRow(st.c, sqlHasSchema, scanInt64, st.o.Tenant, st.o.Install, ns)
	if st.moves = true; schema {
		st.moved -= by
	}
	return before, sp.keys, err
}

// spare returns how many namespaces had only a schema when the write began, for Ledger.Reserve: they count against the
// quota, too.
func (st *writeState) spare() (int64, error) {
	if !st.moves {
		return 0, nil
	}
	n, _, err := sqlitedb.QueryRow(st.c, sqlOnlySchemas, scanInt64, st.o.Tenant, st.o.Install)
	if err != nil {
		return 0, err
	}
	for ns, sp := range st.keys {
		if sp.found == 0 == (sp.keys == 0) {
			continue
		}
		_, schema, err := sqlitedb.QueryRow(st.c, sqlHasSchema, scanInt64, st.o.Tenant, st.o.Install, ns)
		switch {
		case err != nil:
			return 0, err
		case schema && sp.keys == 0:
			n++
		case schema:
			n--
		}
	}
	return n - st.moved, nil
}

// change writes a row for the change feed.
func (st *writeState) change(seq ext.Seq, op ext.ChangeOp, ns ext.Namespace, key ext.Key, revision ext.Revision) error {
	return sqlitedb.Exec(st.c, sqlAddChange, st.o.Tenant, st.o.Install, seq, op, ns, key, revision, st.now)
}

func scanInt64(r *sqlite.Stmt) int64 { return r.ColumnInt64(0) }

// scanHeader reads a record's header from column i on.
func scanHeader(r *sqlite.Stmt, i int) ext.Header {
	return ext.Header{
		Revision: ext.Revision(r.ColumnInt64(i)), Seq: ext.Seq(r.ColumnInt64(i + 1)),
		CreatedAt: ext.Moment(r.ColumnInt64(i + 2)), UpdatedAt: ext.Moment(r.ColumnInt64(i + 3)), ExpiresAt: ext.Moment(r.ColumnInt64(i + 4)),
		ValueBytes: r.ColumnInt64(i + 5), MetadataBytes: r.ColumnInt64(i + 6),
	}
}

// Apply implements extstorage.Store.
func (s *Store) Apply(ctx context.Context, o ext.Owner, w ext.Write) (applied ext.Applied, err error) {
	if err := o.Check(); err != nil {
		return ext.Applied{}, err
	}
	alone := w.Validated()
	turn, err := s.queue.Enter(ctx, o, alone)
	if err != nil {
		return ext.Applied{}, err
	}
	defer turn.Leave()
	if !alone {
		if w.Revises() {
			w.Ops = slices.Clone(w.Ops)
		}
		return s.apply(ctx, o, w)
	}
	for changed := true; changed; { // repeated only if another process changed a record
		a, err := w.Optimistic(nil, func(ns ext.Namespace, key ext.Key) (ext.Record, error) { return s.Get(ctx, o, ns, key, w.Now) })
		if err != nil {
			return ext.Applied{}, err
		}
		if err := a.Done(); err != nil {
			return ext.Applied{}, err
		}
		applied, err = s.apply(ctx, o, a.Write)
		if changed, err = a.Result(err); err != nil && !changed {
			return ext.Applied{}, err
		}
	}
	return applied, nil
}

// apply runs a write in the install's turn.
func (s *Store) apply(ctx context.Context, o ext.Owner, w ext.Write) (applied ext.Applied, err error) {
	var (
		st      *writeState
		effects []effect
	)
	err = s.db.WriteChecked(ctx, "ext.apply", func(c *sqlite.Conn) (err error) {
		if applied, err = replay(c, o, &w); err != nil || applied.Replayed {
			return err
		}
		st, effects, err = decide(c, o, &w)
		return err
	}, func(c *sqlite.Conn) (err error) {
		if !applied.Replayed {
			applied, err = s.perform(c, st, &w, effects)
		}
		return err
	})
	if errcode.Is(err, errcode.Quota) && st.recounted {
		// Store a recount even if the write is rejected, so that it is not repeated.
		failed := s.db.Write(ctx, "ext.recount", func(c *sqlite.Conn) error {
			st, err := begin(c, o, w.Now)
			if err != nil {
				return err
			}
			return errors.Join(st.recount(w.Now), st.finish())
		})
		if failed != nil {
			err = failed
		}
	}
	if err != nil {
		return ext.Applied{}, err
	}
	if w.Audited(&applied) {
		s.waker.Wake(string(o.Tenant), string(o.Install))
	}
	return applied, nil
}

// perform writes the effects, in order, then the counters and the response for the idempotency key.
func (s *Store) perform(c *sqlite.Conn, st *writeState, w *ext.Write, effects []effect) (applied ext.Applied, err error) {
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
	return applied, keep(c, st.o, w, &applied)
}

// effect is an operation's result before it is written.
type effect struct {
	ext.Effect
	// the record before the operation, nil if it is missing; it may have expired
	old *ext.Header
	// change number, 0 without a change
	seq ext.Seq

	before *effect // the preceding operation on the record; nil if the row was read
	rowid  int64   // of old, or of the new record after perform
}

// decide returns the operations' effects. It writes nothing.
func decide(c *sqlite.Conn, o ext.Owner, w *ext.Write) (*writeState, []effect, error) {
	for exact := false; ; exact = true {
		st, err := beginWrite(c, o, w)
		if err == nil {
			err = st.open()
		}
		if err == nil && (exact || st.countedAt > w.Now) {
			err = st.recount(w.Now)
		}
		if err != nil {
			return st, nil, err
		}
		st.last = max(st.last, w.After)
		st.moves, st.moved = false, 0
		ledger := ext.NewLedger(st.has)
		effects, err := st.plan(w, &ledger)
		if err != nil {
			return st, nil, err
		}
		spare, err := st.spare()
		if err != nil {
			return st, nil, err
		}
		ledger.Reserve(spare)
		if st.countedAt == w.Now || !st.hidesKey && ledger.Fits(w.Quota) {
			return st, effects, ledger.Check(w.Quota)
		}
	}
}

// plan computes the effects of all operations. Later operations see the effects before them. It notes each step in
// ledger, and returns an ItemError for the first operation that is refused.
func (st *writeState) plan(w *ext.Write, ledger *ext.Ledger) (effects []effect, err error) {
	effects = make([]effect, len(w.Ops))
	for i := range w.Ops {
		op, e := &w.Ops[i], &effects[i]
		if err = st.record(w, effects[:i], op, e); err != nil {
			return nil, err
		}
		var active ext.SchemaVersion
		if op.Kind == ext.Put {
			if active, err = st.active(op.Namespace); err != nil {
				return nil, err
			}
		}
		if op.Revise != nil {
			if err := st.fill(w, i, e); err != nil {
				return nil, err
			}
		}
		if e.Effect, err = op.Decide(e.old, w.Now, active, st.last+1, st.floor); err != nil {
			return nil, &ext.ItemError{Index: i, Err: err}
		}
		if e.Change != "" {
			st.last++
			e.seq = st.last
		}
		if op.Kind == ext.Put && e.old.Live(st.countedAt) && !e.old.Live(w.Now) {
			st.hidesKey = true
		}
		before, after, err := st.count(op.Namespace, ext.DeltaOf(e.old, e.Next, st.countedAt))
		if err != nil {
			return nil, err
		}
		counted := st.has
		counted.Namespaces += st.moved
		ledger.Note(counted, op.Namespace, before, after)
	}
	return effects, nil
}

// record finds the record before an operation: after an earlier operation of this write, or in the database.
func (st *writeState) record(w *ext.Write, before []effect, op *ext.Op, e *effect) error {
	for i := len(before) - 1; i >= 0; i-- {
		if w.Ops[i].Key == op.Key && w.Ops[i].Namespace == op.Namespace {
			e.before, e.old = &before[i], before[i].Next
			return nil
		}
	}
	if len(before) == 0 && st.head != nil {
		e.old, e.rowid = st.head.header, st.head.id
		return nil
	}
	h, found, err := sqlitedb.QueryRow(st.c, sqlHeader, func(r *sqlite.Stmt) ext.Header {
		e.rowid = r.ColumnInt64(7)
		return scanHeader(r, 0)
	}, st.o.Tenant, st.o.Install, op.Namespace, op.Key)
	if err == nil && found {
		e.old = &h
	}
	return err
}

// fill computes the value of a patch or increment from the current value.
func (st *writeState) fill(w *ext.Write, i int, e *effect) error {
	op, value, read := &w.Ops[i], canonjson.Value(""), e.old != nil
	for j := range i {
		if before := &w.Ops[j]; before.Kind == ext.Put && before.Key == op.Key && before.Namespace == op.Namespace {
			value, read = before.Value, false
		}
	}
	if read {
		first := e
		for first.before != nil {
			first = first.before
		}
		var err error
		value, _, err = sqlitedb.QueryRow(st.c, sqlValue, func(r *sqlite.Stmt) canonjson.Value { return canonjson.Value(r.ColumnText(0)) }, first.rowid)
		if err != nil {
			return err
		}
	}
	if err := op.Fill(e.old, value, st.now); err != nil {
		return &ext.ItemError{Index: i, Err: err}
	}
	return nil
}

// do writes an operation's effect, change and audit event.
func (s *Store) do(st *writeState, w *ext.Write, i int, e *effect) error {
	op := &w.Ops[i]
	if e.before != nil {
		e.rowid = e.before.rowid
	}
	if e.Change == "" {
		return nil
	}
	if err := st.change(e.seq, e.Change, op.Namespace, op.Key, e.Revision); err != nil {
		return err
	}
	if err := s.appendAudit(st, w, i, e); err != nil {
		return err
	}
	if e.Next == nil {
		return sqlitedb.Exec(st.c, sqlDeleteRow, e.rowid)
	}
	return st.put(op, e)
}

// put writes a record's row. With Op.Keep, the metadata stays.
func (st *writeState) put(op *ext.Op, e *effect) error {
	h := e.Next
	switch {
	case e.old == nil:
		err := sqlitedb.Exec(st.c, sqlInsertRecord, st.o.Tenant, st.o.Install, op.Namespace, op.Key,
			h.Revision, h.Seq, h.CreatedAt, h.UpdatedAt, orNull(h.ExpiresAt), h.ValueBytes, h.MetadataBytes, op.Value, op.Metadata)
		e.rowid = st.c.LastInsertRowID()
		return err
	case op.Keep && h.Revision > 1: // a new record has nothing to keep
		return sqlitedb.Exec(st.c, sqlUpdateValue, e.rowid,
			h.Revision, h.Seq, h.CreatedAt, h.UpdatedAt, orNull(h.ExpiresAt), h.ValueBytes, h.MetadataBytes, op.Value)
	}
	return sqlitedb.Exec(st.c, sqlUpdateRecord, e.rowid,
		h.Revision, h.Seq, h.CreatedAt, h.UpdatedAt, orNull(h.ExpiresAt), h.ValueBytes, h.MetadataBytes, op.Value, op.Metadata)
}

// appendAudit appends an event for the audit log, if the operation changed anything.
func (s *Store) appendAudit(st *writeState, w *ext.Write, i int, e *effect) error {
	var topic string
	switch e.Change {
	case ext.ChangePut:
		topic = ext.AuditPut
	case ext.ChangeDelete:
		topic = ext.AuditDelete
	default: // nothing changed, or an expired record was removed
		return nil
	}
	return s.audit.Append(st.c, outbox.Event{
		Owner: string(st.o.Tenant), Stream: string(st.o.Install), Seq: int64(e.seq),
		Topic: topic, Key: w.Ops[i].AuditKey(), Payload: w.AuditPayload(i, e.Revision), At: st.now.Time(),
	})
}

// replay returns the stored response for the write's idempotency key, or ErrKeyReused if it belongs to another request.
func replay(c *sqlite.Conn, o ext.Owner, w *ext.Write) (applied ext.Applied, err error) {
	if w.IdempotencyKey == nil {
		return applied, nil
	}
	var request [32]byte
	answer, found, err := sqlitedb.QueryRow(c, sqlAnswer, func(r *sqlite.Stmt) string {
		r.ColumnBytes(0, request[:])
		return r.ColumnText(1)
	}, o.Tenant, o.Install, w.IdempotencyKey.Key, int64(w.Now)-ext.AnswersKept.Milliseconds())
	if err != nil || !found {
		return applied, err
	}
	if request != w.IdempotencyKey.Request {
		return applied, ext.ErrKeyReused
	}
	if err := json.Unmarshal([]byte(answer), &applied.Items); err != nil {
		return applied, errcode.Wrap(errcode.Internal, "internal error", err)
	}
	applied.Replayed = true
	return applied, nil
}

// keep stores the response for the write's idempotency key.
func keep(c *sqlite.Conn, o ext.Owner, w *ext.Write, applied *ext.Applied) error {
	if w.IdempotencyKey == nil {
		return nil
	}
	answer, err := json.Marshal(applied.Items)
	if err != nil {
		return errcode.Wrap(errcode.Internal, "internal error", err)
	}
	return sqlitedb.Exec(c, sqlAddAnswer, o.Tenant, o.Install, w.IdempotencyKey.Key, w.IdempotencyKey.Request[:], string(answer), w.Now)
}

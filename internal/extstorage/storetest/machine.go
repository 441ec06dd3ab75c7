package storetest

import (
	"errors"
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"holdfast/internal/canonjson"
	ext "holdfast/internal/extstorage"
	"holdfast/internal/suite"
)

func modelChecks() []check {
	return []check{{"RandomSteps", randomSteps}}
}

// machine runs random operations on a store and the model, while the clock moves forwards and backwards.
type machine struct {
	*user
	model *model
}

func randomSteps(t *testing.T, u *user) {
	suite.Walk(t, func(rt *rapid.T) map[string]func(*rapid.T) {
		return newMachine(rt, u.other()).steps()
	})
}

// RunMoving runs random operations on a store while its data moves to another database. start returns the store and a
// function that moves part of the data, or the rest if all is set, and finally returns the other store.
func RunMoving(t *testing.T, start func(rt *rapid.T) (h Harness, move func(rt *rapid.T, all bool) *Harness)) {
	rapid.Check(t, func(rt *rapid.T) {
		h, move := start(rt)
		m := newMachine(rt, newUser(rt, h))
		step := func(rt *rapid.T, all bool) {
			if to := move(rt, all); to != nil {
				m.h = *to
			}
		}
		steps := m.steps()
		for _, again := range []string{"move", "move again", "and again"} {
			steps[again] = func(rt *rapid.T) { step(rt, false) }
		}
		rt.Repeat(steps)
		step(rt, true)
		m.compare(rt)
		m.stepApply(rt)
		m.compare(rt)
	})
}

func newMachine(rt *rapid.T, u *user) *machine {
	m := &machine{user: u, model: newModel()}
	m.t, m.now = rt, early
	m.clean()
	m.quota = ext.Quota{
		Bytes:      rapid.SampledFrom([]int64{20, 60, 1000}).Draw(rt, "bytes"),
		Namespaces: rapid.Int64Range(1, 3).Draw(rt, "namespaces"),
		Keys:       rapid.Int64Range(1, 5).Draw(rt, "keys"),
	}
	return m
}

func (m *machine) steps() map[string]func(*rapid.T) {
	return map[string]func(*rapid.T){
		"Apply":        m.stepApply,
		"Apply more":   m.stepApply,
		"Get":          m.stepGet,
		"List":         m.stepList,
		"Export":       m.stepExport,
		"Changes":      m.stepChanges,
		"Sweep":        m.stepSweep,
		"a schema":     m.stepSchema,
		"a new quota":  m.stepQuota,
		"drop schemas": m.stepDrop,
		"delete":       m.stepDelete,
		"time":         m.stepTime,
		"":             m.compare,
	}
}

func drawNamespace(rt *rapid.T) ext.Namespace {
	return rapid.SampledFrom([]ext.Namespace{"a", "a-", "b"}).Draw(rt, "namespace")
}

var drawnKeys = []string{"a", "aa", "B", "é", "\U0010ffff", "%"}

func drawKey(rt *rapid.T) ext.Key {
	return ext.Key(rapid.SampledFrom(drawnKeys).Draw(rt, "key"))
}

func (m *machine) drawPrecondition(rt *rapid.T, at ext.Position) (g ext.Precondition) {
	r := m.model.rows[at]
	revision := r.Revision + rapid.SampledFrom([]ext.Revision{0, 0, 1, -r.Revision}).Draw(rt, "revision")
	seqs := []ext.Seq{r.Seq, m.model.last}[:rapid.IntRange(0, 2).Draw(rt, "tags")]
	switch rapid.IntRange(0, 12).Draw(rt, "precondition") {
	case 0, 1:
		return ifRevision(revision)
	case 2:
		return ifMatch(seqs...)
	case 3:
		return ifNoneMatch(seqs...)
	case 4:
		return ifAny
	case 5:
		return ifNone
	case 6:
		g = ifMatch(seqs...)
		g.Revision = ext.Some(revision)
	}
	return g
}

func (m *machine) drawOp(rt *rapid.T) ext.Op {
	op := ext.Op{
		Kind:      rapid.SampledFrom([]ext.OpKind{ext.Put, ext.Put, ext.Put, ext.Delete, ext.Check}).Draw(rt, "kind"),
		Namespace: drawNamespace(rt), Key: drawKey(rt),
	}
	g := m.drawPrecondition(rt, ext.Position{Namespace: op.Namespace, Key: op.Key})
	op.Precondition = g
	if op.Kind != ext.Put {
		return op
	}
	op.Value = canonjson.Value(rapid.SampledFrom([]string{`1`, `"é"`, `{"a":[1.5,2]}`, `[]`, `9007199254740993`}).Draw(rt, "value"))
	switch rapid.IntRange(0, 5).Draw(rt, "revise") {
	case 0, 1:
		op = add(string(op.Namespace), string(op.Key), canonjson.Number(rapid.SampledFrom([]string{"1", "-0.5", "99999"}).Draw(rt, "by")))
	case 2:
		op = merge(string(op.Namespace), string(op.Key), canonjson.Value(rapid.SampledFrom([]string{`{"a":null}`, `{"b":[1]}`, `7`}).Draw(rt, "patch")))
	}
	op.Precondition = g
	op.Metadata = canonjson.Value(rapid.SampledFrom([]string{`{}`, `{"m":1}`}).Draw(rt, "metadata"))
	op.Keep = rapid.Bool().Draw(rt, "keep")
	if ttl := rapid.SampledFrom([]ext.Moment{0, 1, second, hour, 20 * day}).Draw(rt, "ttl"); ttl > 0 {
		op.ExpiresAt = m.now + ttl
	}
	if op.Schema = m.model.active[op.Namespace]; rapid.IntRange(0, 20).Draw(rt, "an old schema") == 0 {
		op.Schema++
	}
	return op
}

func (m *machine) stepApply(rt *rapid.T) {
	w := m.write()
	for range rapid.IntRange(0, 6).Draw(rt, "operations") {
		w.Ops = append(w.Ops, m.drawOp(rt))
	}
	if rapid.IntRange(0, 3).Draw(rt, "once") == 0 {
		w.IdempotencyKey = &ext.IdempotencyKey{Key: rapid.SampledFrom([]string{"k", "K"}).Draw(rt, "once key")}
		w.IdempotencyKey.Request[31] = rapid.SampledFrom([]byte{0, 0, 1}).Draw(rt, "request")
	}
	got, err := m.h.Store.Apply(rt.Context(), m.owner, w)
	want, wantErr := m.model.Apply(w)
	wantError(rt, "answer", err, wantErr)
	if err == nil && wantErr == nil {
		equal(rt, "items", got.Items, want.Items)
		equal(rt, "replayed", got.Replayed, want.Replayed)
	}
}

func (m *machine) stepGet(rt *rapid.T) {
	ns, key := drawNamespace(rt), drawKey(rt)
	got, err := m.h.Store.Get(rt.Context(), m.owner, ns, key, m.now)
	want, wantErr := m.model.Get(ns, key, m.now)
	wantError(rt, "answer", err, wantErr)
	if err == nil && wantErr == nil {
		equal(rt, "record", got, want)
	}
}

func drawBytes(rt *rapid.T) int {
	return rapid.SampledFrom([]int{0, 0, 1, 3, 9, 20, 40}).Draw(rt, "bytes")
}

func (m *machine) stepList(rt *rapid.T) {
	q := ext.Query{
		Namespace: drawNamespace(rt), Now: m.now,
		Prefix:  rapid.SampledFrom([]string{"", "a", "B", "é", "\U0010ffff", "z"}).Draw(rt, "prefix"),
		After:   ext.Key(rapid.SampledFrom(append([]string{"", "0", "b"}, drawnKeys...)).Draw(rt, "after")),
		Reverse: rapid.Bool().Draw(rt, "reverse"),
		Limit:   rapid.IntRange(1, 4).Draw(rt, "limit"), Bytes: drawBytes(rt),
		Values: rapid.Bool().Draw(rt, "values"), Metadata: rapid.Bool().Draw(rt, "with metadata"),
	}
	got, want := m.list(q), m.model.List(q)
	equal(rt, "records", got.Records, want.Records)
	equal(rt, "more", got.More, want.More)
}

func (m *machine) stepExport(rt *rapid.T) {
	q := ext.ExportQuery{
		After: ext.Position{Namespace: drawNamespace(rt), Key: drawKey(rt)},
		Limit: rapid.IntRange(1, 5).Draw(rt, "limit"), Bytes: drawBytes(rt), Now: m.now,
	}
	got, err := m.h.Store.Export(rt.Context(), m.owner, q)
	must(rt, "Export", err)
	want := m.model.Export(q)
	equal(rt, "records", got.Records, want.Records)
	equal(rt, "more", got.More, want.More)
}

func (m *machine) stepChanges(rt *rapid.T) {
	since := ext.Seq(rapid.Int64Range(0, int64(m.model.last)+1).Draw(rt, "since"))
	limit := rapid.IntRange(1, 5).Draw(rt, "limit")
	got, err := m.h.Store.Changes(rt.Context(), m.owner, since, limit)
	want, wantErr := m.model.Changes(since, limit)
	wantError(rt, "answer", err, wantErr)
	equal(rt, "changes", got.Changes, want.Changes)
	equal(rt, "last", got.Last, want.Last)
}

func (m *machine) stepSweep(rt *rapid.T) {
	due := m.now - rapid.SampledFrom([]ext.Moment{0, second, hour, day}).Draw(rt, "not due before")
	for {
		limit := rapid.SampledFrom([]int{1, 3, 1000}).Draw(rt, "limit")
		n := m.sweepDue(due, limit)
		equal(rt, "swept", n, m.model.Sweep(m.now, due, limit))
		if n == 0 || n != limit {
			return
		}
	}
}

func (m *machine) stepSchema(rt *rapid.T) {
	ns := drawNamespace(rt)
	if rapid.Bool().Draw(rt, "none") && m.model.active[ns] > 0 {
		m.setStatus(ns, m.model.active[ns], ext.Deprecated)
		m.model.active[ns] = 0
		return
	}
	sc, err := m.h.Registry.Register(rt.Context(), m.owner, ext.Schema{Namespace: ns, Document: []byte(`{}`), CreatedAt: m.now}, m.quota)
	wantError(rt, "Register", err, m.model.fitsNamespace(ns, m.quota, m.now))
	if err == nil {
		m.model.schemas[ns] = min(m.model.schemas[ns]+1, ext.SchemasKept)
		m.model.active[ns] = m.activate(ns, sc.Version).Version
	}
}

func (m *machine) stepDrop(rt *rapid.T) {
	ns := drawNamespace(rt)
	n, err := m.h.Registry.DropSchemas(rt.Context(), m.owner, ns, 0, m.now)
	must(rt, "DropSchemas", err)
	equal(rt, "dropped", n, m.model.schemas[ns])
	delete(m.model.schemas, ns)
	delete(m.model.active, ns)
}

func (m *machine) stepDelete(rt *rapid.T) {
	m.close()
	var d ext.Deletion
	for d.FinishedAt == 0 {
		rows, before := rapid.SampledFrom([]int64{1, 2, 100}).Draw(rt, "rows"), d
		d = m.deleteSome(rows)
		n, bytes := m.model.deleteRecords(rows, 1<<20)
		equal(rt, "deleted", []int64{d.Deleted.Records - before.Deleted.Records, d.Deleted.Bytes - before.Deleted.Bytes}, []int64{n, bytes})
		m.model.feed = m.model.feed[d.Deleted.Changes-before.Deleted.Changes:]
		if d.Deleted.Answers > before.Deleted.Answers {
			clear(m.model.answers)
		}
		_, err := m.try(put("a", "a", `1`))
		wantError(rt, "a write", err, ext.ErrInstallDeleted)
		if d.FinishedAt == 0 {
			m.compare(rt)
		}
	}
	schemas := 0
	for _, n := range m.model.schemas {
		schemas += n
	}
	equal(rt, "deleted schemas", d.Deleted.Schemas, int64(schemas))
	equal(rt, "left", []any{m.holdings(), len(m.model.feed), len(m.model.rows)}, []any{ext.Holdings{}, 0, 0})
	m.setInstall(ext.Registration{}, true)
	m.model = &model{last: m.model.last + 1, rows: m.model.rows, answers: map[string]modelAnswer{}, active: map[ext.Namespace]ext.SchemaVersion{}, schemas: map[ext.Namespace]int{}}
}

func (m *machine) stepQuota(rt *rapid.T) {
	m.quota.Keys = rapid.Int64Range(0, 5).Draw(rt, "keys")
	m.quota.Bytes = rapid.Int64Range(0, 80).Draw(rt, "bytes")
}

func (m *machine) stepTime(rt *rapid.T) {
	by := rapid.SampledFrom([]ext.Moment{1, second - 1, second, minute, hour, day, 7 * day, 20 * day, -1, -second, -hour, -day}).Draw(rt, "by")
	m.now = min(max(m.now+by, early-100*day), early+500*day)
}

func (m *machine) compare(rt *rapid.T) {
	m.t = rt
	what := fmt.Sprintf("at %d: ", m.now)
	s := m.state()
	equal(rt, what+"records", s.records, m.model.live(m.now))
	equal(rt, what+"counters", s.counters, m.model.counters(m.now))
	equal(rt, what+"the last change", s.last, m.model.last)
	equal(rt, what+"usage", m.usage().Namespaces, m.model.Usage(m.now).Namespaces)
	f, err := m.h.Store.Changes(rt.Context(), m.owner, 0, 1000)
	want, wantErr := m.model.Changes(0, 1000)
	wantError(rt, what+"feed", err, wantErr)
	if !errors.Is(err, ext.ErrChangesGone) {
		equal(rt, what+"feed", f, want)
	}
}

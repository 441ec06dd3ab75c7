package storetest

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	ext "holdfast/internal/extstorage"
)

// model implements the Store contract for an install with maps: slow, simple, and not safe for concurrent use.
type model struct {
	rows  map[ext.Position]ext.Record // including unswept expired records
	last  ext.Seq
	floor ext.Seq // last when the database was restored

	countedAt ext.Moment
	feed      []ext.Change
	answers   map[string]modelAnswer
	active    map[ext.Namespace]ext.SchemaVersion
	schemas   map[ext.Namespace]int
	events    []Event
}

type modelAnswer struct {
	request [32]byte
	applied ext.Applied
	at      ext.Moment
}

func newModel() *model {
	return &model{rows: map[ext.Position]ext.Record{}, answers: map[string]modelAnswer{}, active: map[ext.Namespace]ext.SchemaVersion{}, schemas: map[ext.Namespace]int{}}
}

func inOrder(a, b ext.Record) int {
	return cmp.Or(strings.Compare(string(a.Namespace), string(b.Namespace)), strings.Compare(string(a.Key), string(b.Key)))
}

func (m *model) live(now ext.Moment) (all []ext.Record) {
	for _, r := range m.rows {
		if r.Live(now) {
			all = append(all, r)
		}
	}
	slices.SortFunc(all, inOrder)
	return all
}

func (m *model) due(now ext.Moment) (all []ext.Record) {
	for _, r := range m.rows {
		if !r.Live(now) {
			all = append(all, r)
		}
	}
	slices.SortFunc(all, func(a, b ext.Record) int { return cmp.Or(cmp.Compare(a.ExpiresAt, b.ExpiresAt), inOrder(a, b)) })
	return all
}

func (m *model) keys(ns ext.Namespace, now ext.Moment) (n int64) {
	for at, r := range m.rows {
		if at.Namespace == ns && r.Live(now) {
			n++
		}
	}
	return n
}

func (m *model) stored() ext.Counters { return m.counters(m.countedAt) }

func (m *model) namespaces(now ext.Moment) map[ext.Namespace]bool {
	all := map[ext.Namespace]bool{}
	for _, n := range m.Usage(now).Namespaces {
		all[n.Namespace] = true
	}
	for ns, n := range m.schemas {
		if n > 0 {
			all[ns] = true
		}
	}
	return all
}

func (m *model) quota(now ext.Moment) ext.Counters {
	c := m.counters(now)
	c.Namespaces = int64(len(m.namespaces(now)))
	return c
}

func (m *model) fitsNamespace(ns ext.Namespace, q ext.Quota, now ext.Moment) error {
	if all := m.namespaces(now); !all[ns] && int64(len(all)) >= q.Namespaces {
		return ext.NamespaceQuota(q, int64(len(all))+1)
	}
	return nil
}

func (m *model) counters(now ext.Moment) ext.Counters { return m.Usage(now).Counters }

func (m *model) change(op ext.ChangeOp, ns ext.Namespace, key ext.Key, r ext.Revision, now ext.Moment) {
	m.last++
	m.feed = append(m.feed, ext.Change{Seq: m.last, Op: op, Namespace: ns, Key: key, Revision: r, At: now})
}

func (m *model) Apply(w ext.Write) (ext.Applied, error) {
	if w.IdempotencyKey != nil {
		if a, ok := m.answers[w.IdempotencyKey.Key]; ok && w.Now < a.at+answersKept {
			if a.request != w.IdempotencyKey.Request {
				return ext.Applied{}, ext.ErrKeyReused
			}
			a.applied.Replayed = true
			return a.applied, nil
		}
	}
	a, err := m.try(w)
	if err != nil {
		return ext.Applied{}, err
	}
	if w.IdempotencyKey != nil {
		m.answers[w.IdempotencyKey.Key] = modelAnswer{w.IdempotencyKey.Request, a, w.Now}
	}
	return a, nil
}

// clone shares append-only slices.
func (m *model) clone() *model {
	c := *m
	c.rows = maps.Clone(m.rows)
	c.feed, c.events = slices.Clip(m.feed), slices.Clip(m.events)
	return &c
}

func (m *model) try(w ext.Write) (a ext.Applied, err error) {
	was := m
	m = m.clone()
	w.Ops = slices.Clone(w.Ops)
	if m.countedAt == 0 || m.countedAt > w.Now {
		m.countedAt = w.Now
	}
	m.last = max(m.last, w.After)
	ledger, stored, hidesKey := ext.NewLedger(m.quota(w.Now)), ext.NewLedger(m.quota(m.countedAt)), false
	for i := range w.Ops {
		op := &w.Ops[i]
		at := ext.Position{Namespace: op.Namespace, Key: op.Key}
		var row *ext.Header
		r, found := m.rows[at]
		if found {
			row = &r.Header
		}
		if op.Revise != nil {
			if err := op.Fill(row, r.Value, w.Now); err != nil {
				return a, &ext.ItemError{Index: i, Err: err}
			}
		}
		hidesKey = hidesKey || op.Kind == ext.Put && row.Live(m.countedAt) && !row.Live(w.Now)
		e, err := op.Decide(row, w.Now, m.active[op.Namespace], m.last+1, m.floor)
		if err != nil {
			return a, &ext.ItemError{Index: i, Err: err}
		}
		a.Items = append(a.Items, e.Item)
		keys, counted := m.keys(op.Namespace, w.Now), m.keys(op.Namespace, m.countedAt)
		switch {
		case e.Change == "":
		case e.Next == nil:
			delete(m.rows, at)
		default:
			metadata := op.Metadata
			if op.Keep && found && row.Live(w.Now) {
				metadata = r.Metadata
			}
			m.rows[at] = ext.Record{Namespace: op.Namespace, Key: op.Key, Header: *e.Next, Value: op.Value, Metadata: metadata}
		}
		if e.Change != "" {
			m.change(e.Change, op.Namespace, op.Key, e.Revision, w.Now)
			m.appendAudit(&w, i, &e)
		}
		ledger.Note(m.quota(w.Now), op.Namespace, keys, m.keys(op.Namespace, w.Now))
		if after := m.keys(op.Namespace, m.countedAt); after != counted {
			stored.Note(m.quota(m.countedAt), op.Namespace, counted, after)
		} else {
			stored.Note(m.quota(m.countedAt), op.Namespace, 0, 0)
		}
	}
	if hidesKey || !stored.Fits(w.Quota) {
		m.countedAt, was.countedAt = w.Now, w.Now
	}
	if err := ledger.Check(w.Quota); err != nil {
		return a, err
	}
	*was = *m
	return a, nil
}

func (m *model) appendAudit(w *ext.Write, i int, e *ext.Effect) {
	topic := map[ext.ChangeOp]string{ext.ChangePut: ext.AuditPut, ext.ChangeDelete: ext.AuditDelete}[e.Change]
	if topic == "" {
		return
	}
	m.events = append(m.events, Event{
		Seq: int64(m.last), Topic: topic, Key: w.Ops[i].AuditKey(), At: w.Now,
		Payload: string(w.AuditPayload(i, e.Revision)),
	})
}

func (m *model) expire(r ext.Record, now ext.Moment) {
	delete(m.rows, ext.Position{Namespace: r.Namespace, Key: r.Key})
	m.change(ext.ChangeExpire, r.Namespace, r.Key, r.Revision, now)
}

func (m *model) remove(now, due ext.Moment, limit int) int {
	all := m.due(due)
	all = all[:min(len(all), limit)]
	for _, r := range all {
		m.expire(r, now)
	}
	return len(all)
}

func (m *model) Sweep(now, due ext.Moment, limit int) int {
	n := m.remove(now, due, limit)
	n += m.sweepChanges(due, limit-n)
	return n + m.sweepAnswers(due, limit-n)
}

func (m *model) sweepChanges(due ext.Moment, limit int) (n int) {
	byAge := slices.Clone(m.feed)
	slices.SortStableFunc(byAge, func(a, b ext.Change) int { return cmp.Compare(a.At, b.At) })
	for _, c := range byAge {
		if n < limit && c.At <= due-changesKept {
			m.feed = slices.DeleteFunc(slices.Clone(m.feed), func(d ext.Change) bool { return d.Seq == c.Seq })
			n++
		}
	}
	return n
}

func (m *model) sweepAnswers(due ext.Moment, limit int) (n int) {
	for key, a := range m.answers {
		if n < limit && a.at <= due-answersKept {
			delete(m.answers, key)
			n++
		}
	}
	return n
}

func (m *model) Get(ns ext.Namespace, key ext.Key, now ext.Moment) (ext.Record, error) {
	r, ok := m.rows[ext.Position{Namespace: ns, Key: key}]
	if !ok || !r.Live(now) {
		return ext.Record{}, ext.ErrNoRecord
	}
	return r, nil
}

func (m *model) List(q ext.Query) (p ext.Page) {
	all, end := m.live(q.Now), ext.NewPageEnd(q.Limit, q.Bytes)
	if q.Reverse {
		slices.Reverse(all)
	}
	for _, r := range all {
		switch {
		case r.Namespace != q.Namespace, !strings.HasPrefix(string(r.Key), q.Prefix):
			continue
		case q.After != "" && (!q.Reverse && r.Key <= q.After || q.Reverse && r.Key >= q.After):
			continue
		}
		if !end.Takes(q.Size(int64(len(r.Value)), int64(len(r.Metadata)))) {
			p.More = true
			return p
		}
		if !q.Values {
			r.Value = ""
		}
		if !q.Metadata {
			r.Metadata = ""
		}
		p.Records = append(p.Records, r)
	}
	return p
}

func (m *model) Export(q ext.ExportQuery) (p ext.Page) {
	end := ext.NewPageEnd(q.Limit, q.Bytes)
	for _, r := range m.live(q.Now) {
		if inOrder(r, ext.Record{Namespace: q.After.Namespace, Key: q.After.Key}) <= 0 {
			continue
		}
		if !end.Takes(r.Bytes()) {
			p.More = true
			return p
		}
		p.Records = append(p.Records, r)
	}
	return p
}

func (m *model) Changes(since ext.Seq, limit int) (ext.Feed, error) {
	f := ext.Feed{Last: m.last}
	for _, c := range m.feed {
		if c.Seq == since+1+ext.Seq(len(f.Changes)) && len(f.Changes) < limit {
			f.Changes = append(f.Changes, c)
		}
	}
	if len(f.Changes) == 0 && since < m.last {
		return ext.Feed{}, ext.ErrChangesGone
	}
	return f, nil
}

func (m *model) Usage(now ext.Moment) ext.Usage {
	var all []ext.NamespaceUsage
	for _, r := range m.live(now) {
		if n := len(all); n == 0 || all[n-1].Namespace != r.Namespace {
			all = append(all, ext.NamespaceUsage{Namespace: r.Namespace})
		}
		w := &all[len(all)-1]
		w.Keys++
		w.Bytes += r.Bytes()
	}
	return ext.UsageOf(all)
}

func (m *model) deleteRecords(rows, most int64) (n, bytes int64) {
	var all []ext.Record
	for _, r := range m.rows {
		all = append(all, r)
	}
	slices.SortFunc(all, inOrder)
	for _, r := range all {
		if n == rows || bytes >= most {
			break
		}
		delete(m.rows, ext.Position{Namespace: r.Namespace, Key: r.Key})
		n++
		bytes += r.Bytes()
	}
	return n, bytes
}

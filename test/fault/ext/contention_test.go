package ext

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"holdfast/internal/workload/ext"
	"holdfast/test/binary"
	"holdfast/test/fault/harness"
)

// TestExtensionContention lets many clients write a few records in one install, through two server processes if the
// engine supports it. Operations per key must be linearizable and requests on several keys atomic. The feed must
// contain every change, counters must be exact, and no request gets a server error.
//
// FAULT_MINUTE sets the duration.
func TestExtensionContention(t *testing.T) {
	t.Parallel()
	harness.OnEngines(t, []harness.Service{Service()}, []harness.Engine{harness.OnSQLite, harness.OnPostgres, harness.OnCitus}, runThrong)
}

const (
	extContentionPeriod = 1500 * time.Millisecond
	extContentionMost   = 3

	// The clients write this number of keys per namespace for this number of waves. Then they continue with new keys,
	// so that first writes also compete.
	extContentionKeys = 3
	wavesPerKeys      = 5
)

type extContention struct {
	t      *testing.T
	client *http.Client
	base   string
	start  time.Time
	in     *ext.Install
	serial atomic.Int64 // generates unique values

	mu       sync.Mutex
	history  map[ext.RecordKey]harness.History
	acked    map[int64]ext.Change
	deleted  int // requests and items that may have deleted something
	counts   []counting
	pages    []snapshot
	requests int
}

type counting struct{ seq, by, sum int64 }

// snapshot is a page: some keys' state after a change.
type snapshot struct {
	keys []ext.RecordKey
	rows map[ext.RecordKey]ext.Row
	from int64
}

// openContention starts servers that receive the requests in turn.
func openContention(t *testing.T, servers int, data string, vars ...string) (*extContention, *harness.Harness) {
	t.Helper()
	h := harness.StartContention(t, Service(), servers, data, vars...)
	c := &extContention{t: t, client: h.Client, base: h.Server.URL, start: time.Now(), in: NewInstall(t, 1), history: map[ext.RecordKey]harness.History{}, acked: map[int64]ext.Change{}}
	return c, h
}

func runThrong(t *testing.T, e harness.Engine, data string, vars ...string) {
	t.Helper()
	c, h := openContention(t, e.Servers(), data, vars...)
	harness.InWaves(t, max(1, int(harness.ContentionTime(t)/extContentionPeriod)), extContentionPeriod, func(client, wave int) error {
		return c.burst(client, (wave+client%wavesPerKeys)/wavesPerKeys)
	})
	if t.Failed() {
		return
	}
	c.settle(h)
	(&extWorkload{installs: []*ext.Install{c.in}}).Finish(h)
	for _, at := range slices.SortedFunc(maps.Keys(c.history), ext.RecordKey.Compare) {
		if why := harness.Disorder(keyModel(), c.history[at]); why != "" {
			t.Fatalf("%s/%s: %s", at.Namespace, at.Key, why)
		}
	}
	t.Logf("%d requests, %d changes of %d keys, %d counted, %d pages, in %v",
		c.requests, len(c.in.Feed), len(c.history), len(c.counts), len(c.pages), time.Since(c.start).Round(time.Second))
}

func (c *extContention) burst(client, generation int) error {
	known := map[ext.RecordKey]ext.Row{}
	for range 1 + rand.IntN(extContentionMost) {
		if err := c.next(client, generation, known); err != nil {
			return err
		}
	}
	return nil
}

func hotSpots(namespace string, generation int) (all []ext.RecordKey) {
	for i := range extContentionKeys {
		all = append(all, ext.RecordKey{Namespace: namespace, Key: fmt.Sprintf("%d-%d", generation, i)})
	}
	return all
}

func (c *extContention) next(client, generation int, known map[ext.RecordKey]ext.Row) error {
	namespaces := ext.Namespaces()
	spots := hotSpots(namespaces[rand.IntN(len(namespaces))], generation)
	at := spots[rand.IntN(len(spots))]
	r := &request{extContention: c, client: client, known: known}
	switch n := rand.IntN(24); {
	case n < 3:
		return r.get(at)
	case n < 5:
		return r.page(spots)
	case n < 8:
		return r.count()
	case n < 11:
		return r.bulk(spots)
	case n < 15:
		return r.batch(generation)
	}
	return r.one(at)
}

type request struct {
	*extContention
	client   int
	known    map[ext.RecordKey]ext.Row
	keys     []ext.RecordKey
	moves    []move
	from, to int64
}

func (r *request) send(c ext.Call) (binary.Answer, error) {
	r.from = int64(time.Since(r.start))
	a, err := r.in.Send(r.t.Context(), r.extContention.client, r.base, c)
	r.to = int64(time.Since(r.start))
	if err == nil && a.Status >= http.StatusInternalServerError {
		err = errors.New("a server error")
	}
	if err != nil {
		err = fmt.Errorf("%v %s: %d %s: %w", c, c.Body, a.Status, a.Body, err)
	}
	return a, err
}

func (r *request) record(at ext.RecordKey, m move, o outcome) {
	r.mu.Lock()
	defer r.mu.Unlock()
	h := r.history[at]
	happened(&h, r.client, r.from, r.to, m, o)
	r.history[at] = h
	switch {
	case o.status >= http.StatusBadRequest:
	case m.kind == "delete":
		if delete(r.known, at); o.existed >= 0 {
			r.deleted++
		}
	case m.kind == "get" || m.kind == "check":
		r.known[at] = ext.Row{Revision: o.revision, Seq: o.seq}
	default:
		r.known[at] = ext.Row{Revision: o.revision, Seq: o.seq}
		r.acked[o.seq] = ext.Change{Op: "put", RecordKey: at, Row: ext.Row{Revision: o.revision, Seq: o.seq}}
		r.in.NoteChange(o.seq)
	}
}

type refused struct {
	Error struct {
		Code    string `json:"code"`
		Cause   string `json:"cause"`
		Index   int    `json:"index"`
		Current int64  `json:"currentRevision"`
	} `json:"error"`
}

func read(a binary.Answer, into any) (no *refused, err error) {
	if a.Status >= http.StatusBadRequest {
		no = &refused{}
		into = no
	}
	if err := json.Unmarshal([]byte(a.Body), into); err != nil {
		return nil, fmt.Errorf("%d %s: %w", a.Status, a.Body, err)
	}
	return no, nil
}

func (r *request) get(at ext.RecordKey) error {
	a, err := r.send(ext.Call{Method: http.MethodGet, Path: at.Path()})
	if err != nil {
		return err
	}
	var rec ext.Record
	no, err := read(a, &rec)
	if err != nil {
		return err
	}
	o := outcome{status: a.Status}
	if no == nil {
		if o, err = outcomeOf(&rec); err != nil {
			return err
		}
	}
	r.record(at, move{kind: "get"}, o)
	return nil
}

func outcomeOf(w *ext.Record) (outcome, error) {
	e, err := w.Entry()
	return outcome{status: http.StatusOK, revision: e.Revision, seq: e.Seq, n: e.Value.N, p: int64(e.Value.P)}, err
}

// page lists a generation's keys, which the server must read at one moment.
func (r *request) page(keys []ext.RecordKey) error {
	prefix, _, _ := strings.Cut(keys[0].Key, "-")
	s := snapshot{keys: keys, rows: map[ext.RecordKey]ext.Row{}, from: r.in.Knows()}
	a, err := r.send(ext.Call{Method: http.MethodGet, Path: "/namespaces/" + keys[0].Namespace + "/records?limit=100&values=true&metadata=true&prefix=" + prefix + "-"})
	if err != nil {
		return err
	}
	var page struct{ Items []ext.Record }
	if no, err := read(a, &page); err != nil || no != nil {
		return fmt.Errorf("a page: %d %s: %w", a.Status, a.Body, err)
	}
	there := map[ext.RecordKey]outcome{}
	for i := range page.Items {
		at := ext.RecordKey{Namespace: keys[0].Namespace, Key: page.Items[i].Key}
		if there[at], err = outcomeOf(&page.Items[i]); err != nil {
			return err
		}
		s.rows[at] = ext.Row{Revision: there[at].revision, Seq: there[at].seq}
	}
	for _, at := range keys {
		o, ok := there[at]
		if !ok {
			o.status = http.StatusNotFound
		}
		r.record(at, move{kind: "get"}, o)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.pages = append(r.pages, s)
	return nil
}

func (r *request) choosePrecondition(at ext.RecordKey) movePrecondition {
	known := r.known[at]
	switch n := rand.IntN(6); {
	case n == 0:
		return movePrecondition{"ifRevision", known.Revision}
	case n == 1 && known.Seq > 0:
		return movePrecondition{"ifMatch", known.Seq}
	}
	return movePrecondition{}
}

func (g movePrecondition) say(item map[string]any) {
	switch g.name {
	case "ifRevision":
		item[g.name] = g.value
	case "ifMatch":
		item[g.name] = etag(g.value)
	}
}

func etag(seq int64) string { return strconv.Quote(strconv.FormatInt(seq, 10)) }

func (m *move) item() map[string]any {
	if m.kind == "increment" {
		return map[string]any{"pointer": "/n", "by": m.value, "create": true}
	}
	return map[string]any{"value": map[string]any{"n": m.value}}
}

func (r *request) move(at ext.RecordKey, kinds ...string) move {
	m := move{kind: kinds[rand.IntN(len(kinds))], precondition: r.choosePrecondition(at)}
	switch m.kind {
	case "put":
		m.value = r.serial.Add(1) << 16 // exceeds the sum that increments can add
	case "patch":
		m.value = r.serial.Add(1)
	case "increment":
		m.value = 1 + rand.Int64N(9)
	}
	return m
}

func (r *request) one(at ext.RecordKey) error {
	m := r.move(at, "put", "put", "patch", "increment", "delete")
	c := ext.Call{Path: at.Path(), Header: map[string]string{}}
	var body map[string]any
	switch m.kind {
	case "put":
		c.Method, body = http.MethodPut, m.item()
	case "patch":
		c.Method, body = http.MethodPatch, map[string]any{"p": m.value}
	case "increment":
		c.Method, body = http.MethodPost, m.item()
		c.Path += "/increment"
	case "delete":
		c.Method = http.MethodDelete
	}
	switch inBody := m.kind == "put" || m.kind == "increment"; {
	case m.precondition.name == "ifMatch":
		c.Header["If-Match"] = etag(m.precondition.value)
	case m.precondition.name != "" && inBody:
		m.precondition.say(body)
	case m.precondition.name != "":
		c.Path += fmt.Sprintf("?ifRevision=%d", m.precondition.value)
	}
	if body != nil {
		c.Body = ext.JSON(body)
	}
	a, err := r.send(c)
	if err != nil {
		return err
	}
	if a.Status == http.StatusNoContent {
		r.record(at, m, outcome{status: a.Status})
		return nil
	}
	var res ext.Result
	no, err := read(a, &res)
	if err != nil {
		return err
	}
	if no != nil {
		r.record(at, m, outcome{status: a.Status, current: no.Error.Current})
		return nil
	}
	return r.done(at, m, &res)
}

func (r *request) done(at ext.RecordKey, m move, res *ext.Result) (err error) {
	o := outcome{status: http.StatusOK, revision: res.Revision}
	if res.Existed != nil {
		o.existed = map[bool]int{true: 1, false: -1}[*res.Existed]
	}
	if res.ETag != nil {
		if o.seq, err = ext.Seq(*res.ETag); err != nil {
			return err
		}
	}
	if res.Sum != nil {
		if o.n, err = res.Sum.Int64(); err != nil {
			return err
		}
	}
	r.record(at, m, o)
	return nil
}

func (r *request) bulk(spots []ext.RecordKey) error {
	var items []any
	for _, at := range spots {
		m := r.move(at, "put")
		item := m.item()
		m.precondition.say(item)
		item["key"] = at.Key
		r.keys, r.moves, items = append(r.keys, at), append(r.moves, m), append(items, item)
	}
	a, err := r.send(ext.Call{Method: http.MethodPost, Path: "/namespaces/" + spots[0].Namespace + "/records", Body: ext.JSON(map[string]any{"items": items})})
	if err != nil {
		return err
	}
	return r.all(a, "items")
}

// batch sends operations to both namespaces, often two per key.
func (r *request) batch(generation int) error {
	var ops []any
	for _, ns := range ext.Namespaces() {
		for _, at := range hotSpots(ns, generation) {
			if rand.IntN(2) == 0 {
				continue
			}
			m := r.move(at, "put", "increment", "delete", "check")
			if m.kind == "check" {
				m.precondition = movePrecondition{"ifRevision", r.known[at].Revision}
			}
			item := map[string]any{}
			if m.kind == "put" || m.kind == "increment" {
				item = m.item()
			}
			m.precondition.say(item)
			item["op"], item["namespace"], item["key"] = m.kind, at.Namespace, at.Key
			r.keys, r.moves, ops = append(r.keys, at), append(r.moves, m), append(ops, item)
		}
	}
	if len(ops) == 0 {
		return nil
	}
	a, err := r.send(ext.Call{Method: http.MethodPost, Path: "/batch", Body: ext.JSON(map[string]any{"ops": ops})})
	if err != nil {
		return err
	}
	return r.all(a, "results")
}

// all records a request's effects on its keys: all at the same moment, or the failed item's error.
func (r *request) all(a binary.Answer, list string) error {
	lists := map[string]json.RawMessage{}
	no, err := read(a, &lists)
	if err != nil {
		return err
	}
	if no != nil {
		i := no.Error.Index
		if no.Error.Code != "BULK_PARTIAL_FAILURE" || no.Error.Cause != "REVISION_MISMATCH" || i < 0 || i >= len(r.keys) {
			return fmt.Errorf("%d %s", a.Status, a.Body)
		}
		r.record(r.keys[i], r.moves[i], outcome{status: a.Status, current: no.Error.Current})
		return nil
	}
	var results []ext.Result
	if err := json.Unmarshal(lists[list], &results); err != nil || len(results) != len(r.keys) {
		return fmt.Errorf("%d results for %d items: %s: %w", len(results), len(r.keys), a.Body, err)
	}
	d := ext.Operation{Writer: "a client", Call: ext.Call{Path: a.Body}}
	for i := range results {
		if err := r.done(r.keys[i], r.moves[i], &results[i]); err != nil {
			return err
		}
		step := ext.RecordOp{Op: r.moves[i].kind, RecordKey: r.keys[i], After: ext.Entry{Row: r.known[r.keys[i]]}}
		if e := results[i].Existed; e != nil && *e {
			step.Before.Revision = 1
		}
		d.Acts = append(d.Acts, step)
	}
	return d.Together()
}

// count sends the same increment to the shared counter twice at once.
func (r *request) count() error {
	by := 1 + rand.Int64N(9)
	m := move{kind: "increment", value: by}
	c := ext.Call{Method: http.MethodPost, Path: ext.Counter.Path() + "/increment", Body: ext.JSON(m.item())}
	c.Header = map[string]string{"Idempotency-Key": fmt.Sprintf("count-%d", r.serial.Add(1))}
	twin := *r
	var a, b binary.Answer
	var err, twinErr error
	var both sync.WaitGroup
	if rand.IntN(2) == 0 {
		both.Go(func() { b, twinErr = twin.send(c) })
	}
	a, err = r.send(c)
	both.Wait()
	if err := errors.Join(err, twinErr); err != nil {
		return err
	}
	if b.Status != 0 {
		replayed := 0
		for _, one := range []binary.Answer{a, b} {
			if one.Header.Get("Idempotency-Replayed") == "true" {
				replayed++
			}
		}
		if replayed != 1 || a.Status != b.Status || a.Header.Get("ETag") != b.Header.Get("ETag") {
			return fmt.Errorf("sent twice at once: %d %s and %d %s, %d of them replayed", a.Status, a.Body, b.Status, b.Body, replayed)
		}
		if a.Header.Get("Idempotency-Replayed") == "true" {
			a = b
		}
	}
	var res ext.Result
	if no, err := read(a, &res); err != nil || no != nil || res.ETag == nil || res.Sum == nil {
		return fmt.Errorf("%d %s: %w", a.Status, a.Body, err)
	}
	seq, err := ext.Seq(*res.ETag)
	if err != nil {
		return err
	}
	sum, err := res.Sum.Int64()
	r.in.NoteChange(seq)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.counts = append(r.counts, counting{seq, by, sum})
	r.acked[seq] = ext.Change{Op: "put", RecordKey: ext.Counter, Row: ext.Row{Revision: res.Revision, Seq: seq}}
	return err
}

func (c *extContention) settle(h *harness.Harness) {
	c.t.Helper()
	there := entriesOf(h, c.in)
	checkFeed(h, c.in, there)
	deletes := 0
	for _, line := range c.in.Feed {
		if line.Op == "delete" {
			deletes++
		} else if known, ok := c.acked[line.Seq]; !ok || !line.Like(known) {
			c.t.Errorf("feed: %v, response: %v", line, known)
		}
	}
	if told := len(c.in.Feed) - deletes; told != len(c.acked) || deletes > c.deleted {
		c.t.Errorf("feed: %d puts and %d deletes, responses: %d puts and at most %d deletes", told, deletes, len(c.acked), c.deleted)
	}
	slices.SortFunc(c.counts, func(a, b counting) int { return int(a.seq - b.seq) })
	sum := int64(0)
	for _, n := range c.counts {
		if sum += n.by; n.sum != sum {
			c.t.Errorf("change %d incremented the counter by %d to %d, want %d", n.seq, n.by, n.sum, sum)
		}
	}
	if n := there[ext.Counter].Value.N; n != sum {
		c.t.Errorf("the counter is %d, want %d", n, sum)
	}
	c.snapshots()
	c.requests = len(c.counts)
	for _, h := range c.history {
		c.requests += len(h)
	}
}

func (c *extContention) snapshots() {
	c.t.Helper()
	slices.SortFunc(c.pages, func(a, b snapshot) int { return int(a.from - b.from) })
	at := map[int64][]int{} // pages, by the change at which the search starts
	for i, s := range c.pages {
		at[s.from] = append(at[s.from], i)
	}
	rows, open := map[ext.RecordKey]ext.Row{}, map[int]bool{}
	for seq := int64(0); seq <= int64(len(c.in.Feed)); seq++ {
		if seq > 0 {
			line := c.in.Feed[seq-1]
			if delete(rows, line.RecordKey); line.Op == "put" {
				rows[line.RecordKey] = line.Row
			}
		}
		for _, i := range at[seq] {
			open[i] = true
		}
		for i := range open {
			if c.pages[i].is(rows) {
				delete(open, i)
			}
		}
	}
	for i := range open {
		c.t.Errorf("page after change %d is not a consistent snapshot: %v", c.pages[i].from, c.pages[i].rows)
	}
}

func (s *snapshot) is(rows map[ext.RecordKey]ext.Row) bool {
	for _, at := range s.keys {
		if rows[at] != s.rows[at] {
			return false
		}
	}
	return true
}

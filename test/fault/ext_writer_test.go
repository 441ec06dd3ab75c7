package fault

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"regexp"
	"strconv"
	"time"

	"holdfast/test/binary"
)

// extWriter writes records of an install that nobody else writes, one request after the other, so
// it knows what must be there. Writers of an install share the row that assigns change numbers,
// the namespaces, and a counter.
type extWriter struct {
	n      int
	name   string
	of     *install
	choose *rand.Rand
	serial int // of values and of idempotency keys

	state entries
	trail []change   // lines of the feed in this round
	lost  *operation // without an answer
}

func newAuthor(of *install, n int) *extWriter {
	return &extWriter{n: n, name: fmt.Sprintf("a%d", n), of: of, state: entries{}}
}

// run writes until the fault is over. If the answer to an operation is lost, it retries an
// idempotent one, and reads the records otherwise.
func (w *extWriter) run(h *harness, l *load) {
	for !closed(l.over) {
		d := w.lost
		switch {
		case d == nil:
			d = w.next()
		case d.once() == "":
			w.look(h, l)
			pause(l.over, 20*time.Millisecond) // clients that are refused wait before they retry
			continue
		default:
			pause(l.over, 20*time.Millisecond)
		}
		if w.lost == nil {
			d.known, d.sent = w.of.knows(), h.clock.Add(1)
		}
		a, answered := h.askExt(l, h.serverOf(w.n), w.of, d.call)
		if !answered {
			d.refused = (d.refused || w.lost == nil) && a.Status == http.StatusServiceUnavailable
			if l.resumes && d.refused && d.once() == "" {
				continue
			}
			w.lost = d
			if l.deadly {
				return // the server may be dead
			}
			continue
		}
		w.lost = nil
		if err := w.took(h, d, a); err != nil {
			h.t.Error(err)
			l.end()
			return
		}
		l.acknowledge()
		if d.once() != "" && !h.leaps && w.choose.IntN(4) == 0 {
			if err := w.repeat(h, l, d, a); err != nil {
				h.t.Error(err)
				l.end()
				return
			}
		}
	}
}

// sum is the member that the answer to a repeated operation may lack.
var sum = regexp.MustCompile(`"sum":[^,}]*`)

// repeat sends an operation again, and another one with the same idempotency key.
func (w *extWriter) repeat(h *harness, l *load, d *operation, first binary.Answer) error {
	again, answered := h.askExt(l, h.serverOf(w.n), w.of, d.call)
	switch {
	case !answered:
	case d.rejected != nil:
		return d.read(again)
	case again.Status != first.Status, again.Header.Get("Idempotency-Replayed") != "true",
		sum.ReplaceAllString(again.Body, "") != sum.ReplaceAllString(first.Body, ""):
		return fmt.Errorf("%s was answered with %d %s, and again with %d %s", d, first.Status, first.Body, again.Status, again.Body)
	default:
		other := d.call
		other.body += " "
		if a, answered := h.askExt(l, h.serverOf(w.n), w.of, other); answered {
			return (&rejection{status: http.StatusUnprocessableEntity, code: "IDEMPOTENCY_KEY_REUSED"}).held(a)
		}
	}
	return nil
}

// askExt is ask for calls of extension storage.
func (h *harness) askExt(l *load, s *binary.Server, in *install, c call) (binary.Answer, bool) {
	return h.judge(l, c.method, c.path, func() (binary.Answer, error) { return in.send(h.t.Context(), h.client, s.URL, c) })
}

// took records the answer to an operation.
func (w *extWriter) took(h *harness, d *operation, a binary.Answer) error {
	if err := d.read(a); err != nil {
		return err
	}
	w.done(d, h.clock.Add(1))
	for _, line := range d.trail(0) {
		if line.op == "put" && line.seq <= d.known {
			return fmt.Errorf("%s has the change %d, but %d was known before", d, line.seq, d.known)
		}
	}
	return nil
}

// done records that an operation was done.
func (w *extWriter) done(d *operation, now int64) {
	w.state = d.applied(w.state)
	lines := d.trail(now)
	w.trail = append(w.trail, lines...)
	for _, line := range lines {
		w.of.noteChange(line.seq)
	}
	for i := range d.acts {
		if a := &d.acts[i]; a.spot == counter && d.rejected == nil {
			w.of.count(a.by)
		}
	}
}

// next chooses an operation.
func (w *extWriter) next() *operation {
	switch n := w.choose.IntN(14); {
	case n < 4:
		return w.put()
	case n < 6 && len(w.state) > 0:
		return w.patch()
	case n < 8 && len(w.state) > 0:
		return w.delete()
	case n < 9:
		return w.bulk()
	case n < 12:
		return w.batch()
	}
	return w.increment()
}

// keysPerNamespace is small, so that most operations change something.
const keysPerNamespace = 12

// anySpot chooses a place for one of the writer's records.
func (w *extWriter) anySpot() spot {
	namespaces := extNamespaces()
	return spot{namespaces[w.choose.IntN(len(namespaces))], fmt.Sprintf("%s-%d", w.name, w.choose.IntN(keysPerNamespace))}
}

// existingSpot chooses a place where the writer has a record.
func (w *extWriter) existingSpot() spot {
	spots := w.state.spots()
	return spots[w.choose.IntN(len(spots))]
}

// putAt returns a put and the members of its item.
func (w *extWriter) putAt(at spot) (recordOp, map[string]any) {
	w.serial++
	before := w.state[at]
	after := entry{
		value:    document{n: int64(w.choose.IntN(1000)), by: fmt.Sprintf("%s/%d", w.name, w.serial), fill: w.choose.IntN(2000)},
		metadata: "{}", rowState: rowState{revision: before.revision + 1},
	}
	item := map[string]any{"value": json.RawMessage(after.value.String())}
	if w.choose.IntN(3) == 0 {
		after.metadata = fmt.Sprintf(`{"m":%d}`, w.serial)
		item["metadata"] = json.RawMessage(after.metadata)
	}
	if w.choose.IntN(4) == 0 {
		after.ttl = true
		item["ttlSeconds"] = 30 * 24 * 60 * 60
	}
	return recordOp{op: "put", spot: at, before: before, after: after}, item
}

// choosePrecondition chooses a precondition, as a member of an item, and the error if it fails.
func (w *extWriter) choosePrecondition(before entry) (name string, value any, r *rejection) {
	current := before.revision
	wrong := w.choose.IntN(8) == 0
	switch n := w.choose.IntN(4); {
	case n == 0 && wrong:
		return "ifRevision", current + 1, &rejection{status: http.StatusConflict, code: "REVISION_MISMATCH", current: &current}
	case n == 0:
		return "ifRevision", current, nil
	case n == 1 && wrong:
		return "ifMatch", `"0"`, &rejection{status: http.StatusPreconditionFailed, code: "REVISION_MISMATCH", current: &current}
	case n == 1 && current > 0:
		return "ifMatch", fmt.Sprintf("%q", strconv.FormatInt(before.seq, 10)), nil
	}
	return "", nil, nil
}

// single returns an operation on one record. Its precondition is a revision, in the body if there
// is one and in the query otherwise.
func (w *extWriter) single(method string, a recordOp, body map[string]any, inQuery bool) *operation {
	d := &operation{extWriter: w.name, call: call{method: method, path: a.at(), header: map[string]string{}}, acts: []recordOp{a}}
	name, value, refused := w.choosePrecondition(a.before)
	switch d.rejected = refused; {
	case name == "ifMatch":
		d.header["If-Match"] = value.(string)
	case name != "" && inQuery:
		d.path += fmt.Sprintf("?ifRevision=%d", value)
		if a.op == "delete" && a.before.revision == 0 && refused == nil { // a precondition implies that the record exists
			current := int64(0)
			d.rejected = &rejection{status: http.StatusConflict, code: "REVISION_MISMATCH", current: &current}
		}
	case name != "":
		body[name] = value
	}
	if body != nil {
		d.body = asJSON(body)
	}
	return d
}

func (w *extWriter) put() *operation {
	a, item := w.putAt(w.anySpot())
	return w.single(http.MethodPut, a, item, false)
}

// patched returns a patch and the members of its item.
func (w *extWriter) patched(at spot) (recordOp, map[string]any) {
	before := w.state[at]
	after := before
	after.rowState = rowState{revision: before.revision + 1}
	patch := map[string]any{"p": nil}
	if after.value.p = 0; before.value.p == 0 || w.choose.IntN(2) == 0 {
		w.serial++
		after.value.p = w.serial
		patch["p"] = w.serial
	}
	return recordOp{op: "put", spot: at, before: before, after: after}, patch
}

func (w *extWriter) patch() *operation {
	a, patch := w.patched(w.existingSpot())
	return w.single(http.MethodPatch, a, patch, true)
}

func (w *extWriter) delete() *operation {
	at := w.existingSpot()
	if w.choose.IntN(4) == 0 {
		at = w.anySpot() // where there may be no record
	}
	return w.single(http.MethodDelete, recordOp{op: "delete", spot: at, before: w.state[at]}, nil, true)
}

// counted returns an increment and the members of its item.
func (w *extWriter) counted(at spot) (recordOp, map[string]any) {
	by := int64(1 + w.choose.IntN(9))
	before := w.state[at]
	after := before
	after.rowState = rowState{revision: before.revision + 1}
	after.value.n += by
	if before.revision == 0 {
		after.metadata = "{}"
	}
	return recordOp{op: "increment", spot: at, before: before, after: after, by: by},
		map[string]any{"pointer": "/n", "by": by, "create": true}
}

// increment increments a record of the writer's own, or the shared one. The latter has an
// idempotency key, because reading a record that many write does not show whether it was done.
func (w *extWriter) increment() *operation {
	at := w.anySpot()
	shared := w.choose.IntN(2) == 0
	if shared {
		at = counter
	}
	a, item := w.counted(at)
	var d *operation
	if shared {
		d = &operation{extWriter: w.name, call: call{method: http.MethodPost, path: at.at() + "/increment", body: asJSON(item), header: map[string]string{}}, acts: []recordOp{a}}
	} else {
		d = w.single(http.MethodPost, a, item, false)
		d.path += "/increment"
	}
	if shared || w.choose.IntN(2) == 0 {
		w.onlyOnce(d)
	}
	return d
}

// onlyOnce adds an idempotency key to an operation.
func (w *extWriter) onlyOnce(d *operation) {
	w.serial++
	d.header["Idempotency-Key"] = fmt.Sprintf("%s-%d", w.name, w.serial)
}

// bulk puts some records of a namespace.
func (w *extWriter) bulk() *operation {
	first := w.anySpot()
	d := &operation{extWriter: w.name, list: "items", call: call{method: http.MethodPost, path: "/namespaces/" + first.namespace + "/records", header: map[string]string{}}}
	var items []any
	for range 1 + w.choose.IntN(8) {
		at := spot{first.namespace, w.anySpot().key}
		if d.touches(at) {
			continue
		}
		a, item := w.putAt(at)
		item["key"] = at.key
		items = append(items, w.addItem(d, a, item))
	}
	d.body = asJSON(map[string]any{"items": items})
	return d
}

// touches reports whether an operation concerns a record.
func (d *operation) touches(at spot) bool {
	for i := range d.acts {
		if d.acts[i].spot == at {
			return true
		}
	}
	return false
}

// addItem adds an item with a precondition to an operation. The whole operation is refused because
// of the first one that fails; there are never two.
func (w *extWriter) addItem(d *operation, a recordOp, item map[string]any) map[string]any {
	name, value, refused := w.choosePrecondition(a.before)
	if name != "" && (a.op != "delete" || a.before.revision > 0) && (refused == nil || d.rejected == nil) {
		item[name] = value
		if refused != nil {
			d.rejected, refused.cause, refused.code = refused, refused.code, "BULK_PARTIAL_FAILURE"
			index := len(d.acts)
			refused.index = &index
		}
	}
	d.acts = append(d.acts, a)
	return item
}

// batch does different things in several namespaces.
func (w *extWriter) batch() *operation {
	d := &operation{extWriter: w.name, list: "results", call: call{method: http.MethodPost, path: "/batch", header: map[string]string{}}}
	var ops []any
	for range 1 + w.choose.IntN(6) {
		at := w.anySpot()
		if d.touches(at) {
			continue
		}
		before := w.state[at]
		a, item := recordOp{op: "delete", spot: at, before: before}, map[string]any{}
		switch w.choose.IntN(4) {
		case 0:
			a, item = w.putAt(at)
		case 1:
			a, item = w.counted(at)
		case 2:
			a.op, item["ifRevision"] = "check", before.revision
		}
		item["op"], item["namespace"], item["key"] = a.op, at.namespace, at.key
		if a.op == "check" {
			d.acts = append(d.acts, a)
		} else {
			item = w.addItem(d, a, item)
		}
		ops = append(ops, item)
	}
	if w.choose.IntN(3) > 0 {
		w.onlyOnce(d)
		a, item := w.counted(counter)
		item["op"], item["namespace"], item["key"] = a.op, counter.namespace, counter.key
		d.acts, ops = append(d.acts, a), append(ops, item)
	}
	d.body = asJSON(map[string]any{"ops": ops})
	return d
}

func asJSON(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err) // strings and numbers
	}
	return string(text)
}

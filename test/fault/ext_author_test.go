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

// author writes records of an install that nobody else writes, one request
// after the other, so that it knows what must be there. With others it shares
// the row that gives out the numbers of changes, the namespaces, and a counter.
type author struct {
	n      int
	name   string
	of     *install
	choose *rand.Rand
	serial int // of values and of keys by which a deed happens once

	state entries
	trail []change // lines of the feed in this round
	lost  *deed    // whose answer did not come
}

func newAuthor(of *install, n int) *author {
	return &author{n: n, name: fmt.Sprintf("a%d", n), of: of, state: entries{}}
}

// run writes until the fault is over. Who does not know what has become of a
// deed asks again where that makes it happen once, and else looks at what is
// there.
func (w *author) run(h *harness, l *load) {
	for !closed(l.over) {
		d := w.lost
		switch {
		case d == nil:
			d = w.next()
		case d.once() == "":
			w.look(h, l)
			pause(l.over, 20*time.Millisecond) // clients that are refused do not come back at once
			continue
		default:
			pause(l.over, 20*time.Millisecond)
		}
		if w.lost == nil {
			d.known, d.sent = w.of.knows(), h.clock.Add(1)
		}
		a, answered := h.tell(l, h.serverOf(w.n), w.of, d.call)
		if !answered {
			d.refused = (d.refused || w.lost == nil) && a.Status == http.StatusServiceUnavailable
			w.lost = d
			if l.deadly {
				return // perhaps with the server
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

// sum is what the answer to a deed that was done before may not know any more.
var sum = regexp.MustCompile(`"sum":[^,}]*`)

// repeat asks again for what was done, and for another thing under its key.
func (w *author) repeat(h *harness, l *load, d *deed, first binary.Answer) error {
	again, answered := h.tell(l, h.serverOf(w.n), w.of, d.call)
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
		if a, answered := h.tell(l, h.serverOf(w.n), w.of, other); answered {
			return (&rejection{status: http.StatusUnprocessableEntity, code: "IDEMPOTENCY_KEY_REUSED"}).held(a)
		}
	}
	return nil
}

// tell is ask for calls.
func (h *harness) tell(l *load, s *binary.Server, in *install, c call) (binary.Answer, bool) {
	return h.judge(l, c.method, c.path, func() (binary.Answer, error) { return in.send(h.t.Context(), h.client, s.URL, c) })
}

// took records the answer to a deed.
func (w *author) took(h *harness, d *deed, a binary.Answer) error {
	if err := d.read(a); err != nil {
		return err
	}
	w.done(d, h.clock.Add(1))
	for _, line := range d.trail(0) {
		if line.op == "put" && line.seq <= d.known {
			return fmt.Errorf("%s has the change %d, and %d was known before", d, line.seq, d.known)
		}
	}
	return nil
}

// done makes the author know that a deed was done.
func (w *author) done(d *deed, now int64) {
	w.state = d.applied(w.state)
	lines := d.trail(now)
	w.trail = append(w.trail, lines...)
	for _, line := range lines {
		w.of.told(line.seq)
	}
	for i := range d.acts {
		if a := &d.acts[i]; a.spot == counter && d.rejected == nil {
			w.of.count(a.by)
		}
	}
}

// next chooses a deed.
func (w *author) next() *deed {
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

// keysPerNamespace are few, so that most deeds change something.
const keysPerNamespace = 12

// anywhere is a place for one of the author's records.
func (w *author) anywhere() spot {
	namespaces := extNamespaces()
	return spot{namespaces[w.choose.IntN(len(namespaces))], fmt.Sprintf("%s-%d", w.name, w.choose.IntN(keysPerNamespace))}
}

// somewhere is a place where the author has something.
func (w *author) somewhere() spot {
	spots := w.state.spots()
	return spots[w.choose.IntN(len(spots))]
}

// putAt is a put, and what an item of it says.
func (w *author) putAt(at spot) (act, map[string]any) {
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
	return act{op: "put", spot: at, before: before, after: after}, item
}

// guard chooses what a request wants of a record, as the member of an item that
// says so, and how it is refused where that does not hold.
func (w *author) guard(before entry) (name string, value any, r *rejection) {
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

// single makes a deed of one act, with a guard as the routes of a record take
// it: a revision in the body, or where there is none in the query.
func (w *author) single(method string, a act, body map[string]any, inQuery bool) *deed {
	d := &deed{author: w.name, call: call{method: method, path: a.at(), header: map[string]string{}}, acts: []act{a}}
	name, value, refused := w.guard(a.before)
	switch d.rejected = refused; {
	case name == "ifMatch":
		d.header["If-Match"] = value.(string)
	case name != "" && inQuery:
		d.path += fmt.Sprintf("?ifRevision=%d", value)
		if a.op == "delete" && a.before.revision == 0 && refused == nil { // a guard tells that there was something
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

func (w *author) put() *deed {
	a, item := w.putAt(w.anywhere())
	return w.single(http.MethodPut, a, item, false)
}

// patched is a patch, and what it says.
func (w *author) patched(at spot) (act, map[string]any) {
	before := w.state[at]
	after := before
	after.rowState = rowState{revision: before.revision + 1}
	patch := map[string]any{"p": nil}
	if after.value.p = 0; before.value.p == 0 || w.choose.IntN(2) == 0 {
		w.serial++
		after.value.p = w.serial
		patch["p"] = w.serial
	}
	return act{op: "put", spot: at, before: before, after: after}, patch
}

func (w *author) patch() *deed {
	a, patch := w.patched(w.somewhere())
	return w.single(http.MethodPatch, a, patch, true)
}

func (w *author) delete() *deed {
	at := w.somewhere()
	if w.choose.IntN(4) == 0 {
		at = w.anywhere() // where perhaps nothing is
	}
	return w.single(http.MethodDelete, act{op: "delete", spot: at, before: w.state[at]}, nil, true)
}

// counted is an increment, and what an item of it says.
func (w *author) counted(at spot) (act, map[string]any) {
	by := int64(1 + w.choose.IntN(9))
	before := w.state[at]
	after := before
	after.rowState = rowState{revision: before.revision + 1}
	after.value.n += by
	if before.revision == 0 {
		after.metadata = "{}"
	}
	return act{op: "increment", spot: at, before: before, after: after, by: by},
		map[string]any{"pointer": "/n", "by": by, "create": true}
}

// increment counts up a record of the author's own, or that of all. What many
// write nobody can look at to see whether it was done: such a deed has a key.
func (w *author) increment() *deed {
	at := w.anywhere()
	shared := w.choose.IntN(2) == 0
	if shared {
		at = counter
	}
	a, item := w.counted(at)
	var d *deed
	if shared {
		d = &deed{author: w.name, call: call{method: http.MethodPost, path: at.at() + "/increment", body: asJSON(item), header: map[string]string{}}, acts: []act{a}}
	} else {
		d = w.single(http.MethodPost, a, item, false)
		d.path += "/increment"
	}
	if shared || w.choose.IntN(2) == 0 {
		w.onlyOnce(d)
	}
	return d
}

// onlyOnce lets a deed happen once, however often it is asked for.
func (w *author) onlyOnce(d *deed) {
	w.serial++
	d.header["Idempotency-Key"] = fmt.Sprintf("%s-%d", w.name, w.serial)
}

// bulk puts some records of a namespace.
func (w *author) bulk() *deed {
	first := w.anywhere()
	d := &deed{author: w.name, list: "items", call: call{method: http.MethodPost, path: "/namespaces/" + first.namespace + "/records", header: map[string]string{}}}
	var items []any
	for range 1 + w.choose.IntN(8) {
		at := spot{first.namespace, w.anywhere().key}
		if d.touches(at) {
			continue
		}
		a, item := w.putAt(at)
		item["key"] = at.key
		items = append(items, w.guarded(d, a, item))
	}
	d.body = asJSON(map[string]any{"items": items})
	return d
}

// touches reports whether a deed has an act on a record.
func (d *deed) touches(at spot) bool {
	for i := range d.acts {
		if d.acts[i].spot == at {
			return true
		}
	}
	return false
}

// guarded adds an act to a deed, as an item with a guard. One that does not
// hold is what the whole is refused for; there are no two.
func (w *author) guarded(d *deed, a act, item map[string]any) map[string]any {
	name, value, refused := w.guard(a.before)
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
func (w *author) batch() *deed {
	d := &deed{author: w.name, list: "results", call: call{method: http.MethodPost, path: "/batch", header: map[string]string{}}}
	var ops []any
	for range 1 + w.choose.IntN(6) {
		at := w.anywhere()
		if d.touches(at) {
			continue
		}
		before := w.state[at]
		a, item := act{op: "delete", spot: at, before: before}, map[string]any{}
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
			item = w.guarded(d, a, item)
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

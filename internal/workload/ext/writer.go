package ext

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strconv"

	"holdfast/internal/workload"
)

// Writer writes its own records sequentially, so it knows the expected state. Writers share the row that assigns
// change numbers, the namespaces, and a counter.
type Writer struct {
	N       int
	Name    string
	Install *Install
	Random  *rand.Rand
	serial  int

	State Entries
	Trail []Change   // feed lines in this round
	Lost  *Operation // without an answer
}

// NewWriter returns writer n without records.
func NewWriter(of *Install, n int) *Writer {
	return &Writer{N: n, Name: fmt.Sprintf("a%d", n), Install: of, State: Entries{}}
}

// Took checks and records an operation's answer, at the latest now.
func (w *Writer) Took(d *Operation, a workload.Answer, now int64) error {
	if err := d.Read(a); err != nil {
		return err
	}
	w.Done(d, now)
	for _, line := range d.trail(0) {
		if line.Op == "put" && line.Seq <= d.Known {
			return fmt.Errorf("%s has the change %d, but %d was known before", d, line.Seq, d.Known)
		}
	}
	return nil
}

// Done records that the operation happened, at the latest now.
func (w *Writer) Done(d *Operation, now int64) {
	w.State = d.applied(w.State)
	lines := d.trail(now)
	w.Trail = append(w.Trail, lines...)
	for _, line := range lines {
		w.Install.NoteChange(line.Seq)
	}
	for i := range d.Acts {
		if a := &d.Acts[i]; a.RecordKey == Counter && d.Rejected == nil {
			w.Install.count(a.by)
		}
	}
}

// Next chooses an operation.
func (w *Writer) Next() *Operation {
	switch n := w.Random.IntN(14); {
	case n < 4:
		return w.put()
	case n < 6 && len(w.State) > 0:
		return w.patch()
	case n < 8 && len(w.State) > 0:
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

// anyKey chooses a record that may not exist.
func (w *Writer) anyKey() RecordKey {
	namespaces := Namespaces()
	return RecordKey{namespaces[w.Random.IntN(len(namespaces))], fmt.Sprintf("%s-%d", w.Name, w.Random.IntN(keysPerNamespace))}
}

// ExistingKey chooses a record that exists.
func (w *Writer) ExistingKey() RecordKey {
	spots := w.State.keys()
	return spots[w.Random.IntN(len(spots))]
}

// putAt returns a put and its JSON.
func (w *Writer) putAt(at RecordKey) (RecordOp, map[string]any) {
	w.serial++
	before := w.State[at]
	after := Entry{
		Value:    Document{N: int64(w.Random.IntN(1000)), by: fmt.Sprintf("%s/%d", w.Name, w.serial), fill: w.Random.IntN(2000)},
		metadata: "{}", Row: Row{Revision: before.Revision + 1},
	}
	item := map[string]any{"value": json.RawMessage(after.Value.String())}
	if w.Random.IntN(3) == 0 {
		after.metadata = fmt.Sprintf(`{"m":%d}`, w.serial)
		item["metadata"] = json.RawMessage(after.metadata)
	}
	if w.Random.IntN(4) == 0 {
		after.ttl = true
		item["ttlSeconds"] = 30 * 24 * 60 * 60
	}
	return RecordOp{Op: "put", RecordKey: at, Before: before, After: after}, item
}

// choosePrecondition returns a condition, sometimes a condition that fails, with the expected error.
func (w *Writer) choosePrecondition(before Entry) (name string, value any, r *Rejection) {
	current := before.Revision
	fails := w.Random.IntN(8) == 0
	switch n := w.Random.IntN(4); {
	case n == 0 && fails:
		return "ifRevision", current + 1, &Rejection{Status: http.StatusConflict, Code: "REVISION_MISMATCH", current: &current}
	case n == 0:
		return "ifRevision", current, nil
	case n == 1 && fails:
		return "ifMatch", `"0"`, &Rejection{Status: http.StatusPreconditionFailed, Code: "REVISION_MISMATCH", current: &current}
	case n == 1 && current > 0:
		return "ifMatch", fmt.Sprintf("%q", strconv.FormatInt(before.Seq, 10)), nil
	}
	return "", nil, nil
}

// single makes a request for a single record. inQuery says where ifRevision goes.
func (w *Writer) single(method string, a RecordOp, body map[string]any, inQuery bool) *Operation {
	d := &Operation{Writer: w.Name, Call: Call{Method: method, Path: a.Path(), Header: map[string]string{}}, Acts: []RecordOp{a}}
	name, value, refused := w.choosePrecondition(a.Before)
	switch d.Rejected = refused; {
	case name == "ifMatch":
		d.Header["If-Match"] = value.(string)
	case name != "" && inQuery:
		d.Path += fmt.Sprintf("?ifRevision=%d", value)
		if a.Op == "delete" && a.Before.Revision == 0 && refused == nil { // a precondition implies that the record exists
			current := int64(0)
			d.Rejected = &Rejection{Status: http.StatusConflict, Code: "REVISION_MISMATCH", current: &current}
		}
	case name != "":
		body[name] = value
	}
	if body != nil {
		d.Body = JSON(body)
	}
	return d
}

func (w *Writer) put() *Operation {
	a, item := w.putAt(w.anyKey())
	return w.single(http.MethodPut, a, item, false)
}

// patched returns a patch and its JSON.
func (w *Writer) patched(at RecordKey) (RecordOp, map[string]any) {
	before := w.State[at]
	after := before
	after.Row = Row{Revision: before.Revision + 1}
	patch := map[string]any{"p": nil}
	if after.Value.P = 0; before.Value.P == 0 || w.Random.IntN(2) == 0 {
		w.serial++
		after.Value.P = w.serial
		patch["p"] = w.serial
	}
	return RecordOp{Op: "put", RecordKey: at, Before: before, After: after}, patch
}

func (w *Writer) patch() *Operation {
	a, patch := w.patched(w.ExistingKey())
	return w.single(http.MethodPatch, a, patch, true)
}

func (w *Writer) delete() *Operation {
	at := w.ExistingKey()
	if w.Random.IntN(4) == 0 {
		at = w.anyKey()
	}
	return w.single(http.MethodDelete, RecordOp{Op: "delete", RecordKey: at, Before: w.State[at]}, nil, true)
}

// counted returns an increment and its JSON.
func (w *Writer) counted(at RecordKey) (RecordOp, map[string]any) {
	by := int64(1 + w.Random.IntN(9))
	before := w.State[at]
	after := before
	after.Row = Row{Revision: before.Revision + 1}
	after.Value.N += by
	if before.Revision == 0 {
		after.metadata = "{}"
	}
	return RecordOp{Op: "increment", RecordKey: at, Before: before, After: after, by: by},
		map[string]any{"pointer": "/n", "by": by, "create": true}
}

// increment increments a number. The shared record needs an idempotency key, because reading it does not show whether an
// increment happened.
func (w *Writer) increment() *Operation {
	at := w.anyKey()
	shared := w.Random.IntN(2) == 0
	if shared {
		at = Counter
	}
	a, item := w.counted(at)
	var d *Operation
	if shared {
		d = &Operation{Writer: w.Name, Call: Call{Method: http.MethodPost, Path: at.Path() + "/increment", Body: JSON(item), Header: map[string]string{}}, Acts: []RecordOp{a}}
	} else {
		d = w.single(http.MethodPost, a, item, false)
		d.Path += "/increment"
	}
	if shared || w.Random.IntN(2) == 0 {
		w.onlyOnce(d)
	}
	return d
}

// onlyOnce adds an idempotency key.
func (w *Writer) onlyOnce(d *Operation) {
	w.serial++
	d.Header["Idempotency-Key"] = fmt.Sprintf("%s-%d", w.Name, w.serial)
}

func (w *Writer) bulk() *Operation {
	first := w.anyKey()
	d := &Operation{Writer: w.Name, list: "items", Call: Call{Method: http.MethodPost, Path: "/namespaces/" + first.Namespace + "/records", Header: map[string]string{}}}
	var items []any
	for range 1 + w.Random.IntN(8) {
		at := RecordKey{first.Namespace, w.anyKey().Key}
		if d.touches(at) {
			continue
		}
		a, item := w.putAt(at)
		item["key"] = at.Key
		items = append(items, w.addItem(d, a, item))
	}
	d.Body = JSON(map[string]any{"items": items})
	return d
}

// touches reports whether the operation contains the record, which may occur only once.
func (d *Operation) touches(at RecordKey) bool {
	for i := range d.Acts {
		if d.Acts[i].RecordKey == at {
			return true
		}
	}
	return false
}

// addItem adds an item for a. Only one item may have a failing precondition, because it refuses the whole operation.
func (w *Writer) addItem(d *Operation, a RecordOp, item map[string]any) map[string]any {
	name, value, refused := w.choosePrecondition(a.Before)
	if name != "" && (a.Op != "delete" || a.Before.Revision > 0) && (refused == nil || d.Rejected == nil) {
		item[name] = value
		if refused != nil {
			d.Rejected, refused.cause, refused.Code = refused, refused.Code, "BULK_PARTIAL_FAILURE"
			index := len(d.Acts)
			refused.index = &index
		}
	}
	d.Acts = append(d.Acts, a)
	return item
}

func (w *Writer) batch() *Operation {
	d := &Operation{Writer: w.Name, list: "results", Call: Call{Method: http.MethodPost, Path: "/batch", Header: map[string]string{}}}
	var ops []any
	for range 1 + w.Random.IntN(6) {
		at := w.anyKey()
		if d.touches(at) {
			continue
		}
		before := w.State[at]
		a, item := RecordOp{Op: "delete", RecordKey: at, Before: before}, map[string]any{}
		switch w.Random.IntN(4) {
		case 0:
			a, item = w.putAt(at)
		case 1:
			a, item = w.counted(at)
		case 2:
			a.Op, item["ifRevision"] = "check", before.Revision
		}
		item["op"], item["namespace"], item["key"] = a.Op, at.Namespace, at.Key
		if a.Op == "check" {
			d.Acts = append(d.Acts, a)
		} else {
			item = w.addItem(d, a, item)
		}
		ops = append(ops, item)
	}
	if w.Random.IntN(3) > 0 {
		w.onlyOnce(d)
		a, item := w.counted(Counter)
		item["op"], item["namespace"], item["key"] = a.Op, Counter.Namespace, Counter.Key
		d.Acts, ops = append(d.Acts, a), append(ops, item)
	}
	d.Body = JSON(map[string]any{"ops": ops})
	return d
}

// JSON encodes strings and numbers.
func JSON(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(text)
}

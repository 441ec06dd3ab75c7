package sync

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/anishathalye/porcupine"

	syncload "holdfast/internal/workload/sync"
	"holdfast/test/fault/harness"
)

// Few records are contended, because a history is checked per user: a user's timestamps form one sequence over all
// collections.
const (
	hotCollections = 2
	hotRecords     = 3
)

type userState struct {
	last   syncload.Moment
	stamps [hotCollections]syncload.Moment // 0 if the collection does not exist
	cells  [hotCollections]cells
}

type cells [hotRecords]cell

// cell is a record. Its payload is a unique number, or 0 if the record does not exist.
type cell struct {
	payload  int
	modified syncload.Moment
}

type kind int

const (
	doPut kind = iota
	doPost
	doDelete
	doDeleteAll
	doGet
	doList
	doStamps
	kinds
)

func (k kind) String() string {
	return [...]string{"PUT", "POST", "DELETE", "DELETE all of", "GET", "GET all of", "GET info/collections"}[k]
}

type ask struct {
	kind               kind
	collection, record int
	payloads           [hotRecords]int // for PUT and POST; 0 if not sent
	conditional        bool
	since              syncload.Moment
}

func (a ask) String() string {
	text := fmt.Sprintf("%v %d/%d %v", a.kind, a.collection, a.record, a.payloads)
	if a.conditional {
		text += " unmodified since " + a.since.String()
	}
	return text
}

type reply struct {
	status   int
	modified syncload.Moment
	stamp    syncload.Moment // from a write
	cells    cells
	stamps   [hotCollections]syncload.Moment
}

// step reports whether a server in state w may answer a with r, and returns the next state.
func (w userState) step(a ask, r reply) (bool, userState) {
	at := &w.cells[a.collection][a.record]
	target := w.stamps[a.collection]
	switch a.kind {
	case doPut, doGet, doDelete:
		target = at.modified
	case doStamps:
		target = w.last
	}
	switch {
	case at.payload == 0 && (a.kind == doGet || a.kind == doDelete):
		return r.status == http.StatusNotFound, w
	case a.conditional && target > a.since:
		return r.status == http.StatusPreconditionFailed && r.modified == target, w
	case r.status != http.StatusOK:
		return false, w
	}
	switch a.kind {
	case doGet:
		return r.cells[a.record] == *at && r.modified == target, w
	case doList:
		return r.cells == w.cells[a.collection] && r.modified == target, w
	case doStamps:
		return r.stamps == w.stamps && r.modified == target, w
	case doDeleteAll:
		if target == 0 {
			return r.stamp == w.last && r.modified == 0, w
		}
		ok := r.stamp > w.last && r.modified == target
		w.last, w.stamps[a.collection], w.cells[a.collection] = r.stamp, 0, cells{}
		return ok, w
	case doDelete:
		*at = cell{}
	default:
		for i, p := range a.payloads {
			if p != 0 {
				w.cells[a.collection][i] = cell{p, r.stamp}
			}
		}
	}
	ok := r.stamp > w.last && r.modified == r.stamp
	w.last, w.stamps[a.collection] = r.stamp, r.stamp
	return ok, w
}

func model() porcupine.Model {
	return porcupine.Model{
		Init:  func() any { return userState{} },
		Step:  func(w, a, r any) (bool, any) { return w.(userState).step(a.(ask), r.(reply)) },
		Equal: func(a, b any) bool { return a.(userState) == b.(userState) },
	}
}

func addTo(h *harness.History, from, to int64, a ask, r reply) {
	*h = append(*h, porcupine.Operation{Input: a, Call: from, Output: r, Return: to, Metadata: len(*h)})
}

var (
	cellOne, cellTwo = cell{1, 100}, cell{2, 200}
	putOne           = ask{kind: doPut, payloads: [hotRecords]int{1}}
	putTwo           = ask{kind: doPut, payloads: [hotRecords]int{2}}
)

func wrote(stamp syncload.Moment) reply { return reply{status: 200, modified: stamp, stamp: stamp} }

func found(c cell) reply { return reply{status: 200, modified: c.modified, cells: cells{c}} }

func unless(a ask, m syncload.Moment) ask {
	a.conditional, a.since = true, m
	return a
}

var histories = map[string]struct {
	right bool
	make  func(h *harness.History)
}{
	"one after the other": {true, func(h *harness.History) {
		addTo(h, 0, 1, putOne, wrote(100))
		addTo(h, 2, 3, putTwo, wrote(200))
		addTo(h, 4, 5, ask{kind: doGet}, found(cellTwo))
		addTo(h, 6, 7, ask{kind: doList}, found(cellTwo))
		addTo(h, 8, 9, ask{kind: doStamps}, reply{status: 200, modified: 200, stamps: [hotCollections]syncload.Moment{200}})
	}},
	"a read during a write sees it or not": {true, func(h *harness.History) {
		addTo(h, 0, 1, putOne, wrote(100))
		addTo(h, 2, 9, putTwo, wrote(200))
		addTo(h, 3, 4, ask{kind: doGet}, found(cellOne))
		addTo(h, 5, 6, ask{kind: doGet}, found(cellTwo))
	}},
	"a stale read": {false, func(h *harness.History) {
		addTo(h, 0, 1, putOne, wrote(100))
		addTo(h, 2, 3, putTwo, wrote(200))
		addTo(h, 4, 5, ask{kind: doGet}, found(cellOne))
	}},
	"a read that sees a write and then not": {false, func(h *harness.History) {
		addTo(h, 0, 1, putOne, wrote(100))
		addTo(h, 2, 9, putTwo, wrote(200))
		addTo(h, 3, 4, ask{kind: doGet}, found(cellTwo))
		addTo(h, 5, 6, ask{kind: doGet}, found(cellOne))
	}},
	"a lost update": {false, func(h *harness.History) {
		addTo(h, 0, 1, putOne, wrote(100))
		addTo(h, 2, 9, unless(putTwo, 100), wrote(200))
		addTo(h, 2, 9, unless(ask{kind: doPut, payloads: [hotRecords]int{3}}, 100), wrote(300))
	}},
	"a record created twice": {false, func(h *harness.History) {
		addTo(h, 0, 9, unless(putOne, 0), wrote(100))
		addTo(h, 0, 9, unless(putTwo, 0), wrote(200))
	}},
	"a refusal for no reason": {false, func(h *harness.History) {
		addTo(h, 0, 1, putOne, wrote(100))
		addTo(h, 2, 3, unless(putTwo, 100), reply{status: 412, modified: 100})
	}},
	"a refusal with an outdated timestamp": {false, func(h *harness.History) {
		addTo(h, 0, 1, putOne, wrote(100))
		addTo(h, 2, 3, putTwo, wrote(200))
		addTo(h, 4, 5, unless(putTwo, 0), reply{status: 412, modified: 100})
	}},
	"a refusal in place": {true, func(h *harness.History) {
		addTo(h, 0, 1, putOne, wrote(100))
		addTo(h, 2, 3, unless(putTwo, 0), reply{status: 412, modified: 100})
	}},
	"a timestamp twice": {false, func(h *harness.History) {
		addTo(h, 0, 9, putOne, wrote(100))
		addTo(h, 0, 9, ask{kind: doPut, record: 1, payloads: [hotRecords]int{0, 2}}, wrote(100))
	}},
	"timestamps against the order of time": {false, func(h *harness.History) {
		addTo(h, 0, 1, putOne, wrote(200))
		addTo(h, 2, 3, ask{kind: doPut, collection: 1, payloads: [hotRecords]int{2}}, wrote(100))
	}},
	"half of a POST": {false, func(h *harness.History) {
		addTo(h, 0, 9, ask{kind: doPost, payloads: [hotRecords]int{1, 2}}, wrote(100))
		addTo(h, 1, 2, ask{kind: doList}, found(cellOne))
	}},
	"a deleted record": {false, func(h *harness.History) {
		addTo(h, 0, 1, putOne, wrote(100))
		addTo(h, 2, 3, ask{kind: doDelete}, wrote(200))
		addTo(h, 4, 5, ask{kind: doGet}, found(cellOne))
	}},
	"deleted twice": {false, func(h *harness.History) {
		addTo(h, 0, 1, putOne, wrote(100))
		addTo(h, 2, 9, ask{kind: doDelete}, wrote(200))
		addTo(h, 2, 9, ask{kind: doDelete}, wrote(300))
	}},
	"a collection deleted": {true, func(h *harness.History) {
		addTo(h, 0, 1, putOne, wrote(100))
		addTo(h, 2, 3, ask{kind: doDeleteAll}, reply{status: 200, modified: 100, stamp: 200})
		addTo(h, 4, 5, ask{kind: doDeleteAll}, reply{status: 200, stamp: 200})
		addTo(h, 6, 7, ask{kind: doGet}, reply{status: 404})
	}},
}

// TestSyncModel checks that the model accepts correct histories and rejects a wrong response in an otherwise correct
// history.
func TestSyncModel(t *testing.T) {
	t.Parallel()
	for name, c := range histories {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var h harness.History
			c.make(&h)
			if why := harness.Disorder(model(), h); (why == "") != c.right {
				t.Errorf("correct: %v, but the model reports %q", c.right, why)
			}
		})
	}
}

package ext

import (
	"net/http"
	"testing"

	"github.com/anishathalye/porcupine"

	"holdfast/test/fault/harness"
)

type keyState struct {
	revision int64 // 0 if the record does not exist
	seq      int64
	n        int64 // the put's unique number
	p        int64
	last     int64 // the newest change to the key that a client saw
}

type move struct {
	kind         string // "put", "patch", "increment", "delete", "get", or "check", a get without the value
	value        int64  // put number, patched value, or increment
	precondition movePrecondition
}

// movePrecondition is a request's precondition: a member name and its value, or "" for none.
type movePrecondition struct {
	name  string // "ifRevision" or "ifMatch"
	value int64
}

type outcome struct {
	status        int
	revision, seq int64
	n, p          int64 // from a get; an increment returns only n
	current       int64
	existed       int // from a delete: 1 or -1 if the record did or did not exist, 0 if unknown
}

// step reports whether a server in state c may answer a move with o, and returns the next state.
func (c keyState) step(m move, o outcome) (bool, keyState) {
	failed := 0
	switch {
	case m.precondition.name == "ifMatch" && (c.revision == 0 || m.precondition.value != c.seq):
		failed = http.StatusPreconditionFailed
	case m.precondition.name == "ifRevision" && m.precondition.value != c.revision, m.kind == "delete" && m.precondition.name != "" && c.revision == 0:
		failed = http.StatusConflict
	}
	if failed != 0 {
		return o.status == failed && o.current == c.revision, c
	}
	if c.revision == 0 && (m.kind == "get" || m.kind == "patch") {
		return o.status == http.StatusNotFound, c
	}
	if o.status >= http.StatusBadRequest {
		return false, c
	}
	switch m.kind {
	case "get":
		return o.revision == c.revision && o.seq == c.seq && o.n == c.n && o.p == c.p, c
	case "check":
		return o.revision == c.revision && o.seq == c.seq, c
	case "delete":
		ok := o.existed == 0 || (o.existed > 0) == (c.revision > 0)
		return ok, keyState{last: c.last}
	}
	if o.revision != c.revision+1 || o.seq <= c.last {
		return false, c
	}
	switch m.kind {
	case "put":
		c.n, c.p = m.value, 0
	case "patch":
		c.p = m.value
	case "increment":
		if c.n += m.value; o.n != c.n {
			return false, c
		}
	}
	c.revision, c.seq, c.last = o.revision, o.seq, o.seq
	return true, c
}

func keyModel() porcupine.Model {
	return porcupine.Model{
		Init:  func() any { return keyState{} },
		Step:  func(c, m, o any) (bool, any) { return c.(keyState).step(m.(move), o.(outcome)) },
		Equal: func(a, b any) bool { return a.(keyState) == b.(keyState) },
	}
}

func happened(h *harness.History, client int, from, to int64, m move, o outcome) {
	*h = append(*h, porcupine.Operation{ClientId: client, Input: m, Call: from, Output: o, Return: to, Metadata: len(*h)})
}

func putNumber(n int64) move { return move{kind: "put", value: n} }

func wroteAs(revision, seq int64) outcome { return outcome{status: 200, revision: revision, seq: seq} }

var keyHistories = map[string]struct {
	right bool
	make  func(h *harness.History)
}{
	"one after the other": {true, func(h *harness.History) {
		happened(h, 0, 0, 1, putNumber(1), wroteAs(1, 10))
		happened(h, 0, 2, 3, move{kind: "increment", value: 2}, outcome{status: 200, revision: 2, seq: 11, n: 3})
		happened(h, 0, 4, 5, move{kind: "patch", value: 7}, wroteAs(3, 14))
		happened(h, 0, 6, 7, move{kind: "get"}, outcome{status: 200, revision: 3, seq: 14, n: 3, p: 7})
		happened(h, 0, 8, 9, move{kind: "delete", precondition: movePrecondition{"ifMatch", 14}}, outcome{status: 204})
		happened(h, 0, 10, 11, putNumber(2), wroteAs(1, 16))
	}},
	"a revision twice": {false, func(h *harness.History) {
		happened(h, 0, 0, 9, putNumber(1), wroteAs(1, 10))
		happened(h, 1, 0, 9, putNumber(2), wroteAs(1, 11))
	}},
	"a revision left out": {false, func(h *harness.History) {
		happened(h, 0, 0, 9, putNumber(1), wroteAs(1, 10))
		happened(h, 1, 0, 9, putNumber(2), wroteAs(3, 11))
	}},
	"changes against the order of revisions": {false, func(h *harness.History) {
		happened(h, 0, 0, 9, putNumber(1), wroteAs(1, 11))
		happened(h, 1, 0, 9, putNumber(2), wroteAs(2, 10))
	}},
	"a lost increment": {false, func(h *harness.History) {
		happened(h, 0, 0, 1, putNumber(1), wroteAs(1, 10))
		happened(h, 0, 2, 9, move{kind: "increment", value: 2}, outcome{status: 200, revision: 2, seq: 11, n: 3})
		happened(h, 1, 2, 9, move{kind: "increment", value: 3}, outcome{status: 200, revision: 3, seq: 12, n: 4})
	}},
	"a precondition that did not hold": {false, func(h *harness.History) {
		happened(h, 0, 0, 1, putNumber(1), wroteAs(1, 10))
		happened(h, 0, 2, 3, move{kind: "put", value: 2, precondition: movePrecondition{"ifRevision", 0}}, wroteAs(2, 11))
	}},
	"a refusal with an outdated revision": {false, func(h *harness.History) {
		happened(h, 0, 0, 1, putNumber(1), wroteAs(1, 10))
		happened(h, 0, 2, 3, putNumber(2), wroteAs(2, 11))
		happened(h, 0, 4, 5, move{kind: "put", value: 2, precondition: movePrecondition{"ifRevision", 0}}, outcome{status: 409, current: 1})
	}},
	"an ETag that matches a new record": {false, func(h *harness.History) {
		happened(h, 0, 0, 1, putNumber(1), wroteAs(1, 10))
		happened(h, 0, 2, 3, move{kind: "delete"}, outcome{status: 204})
		happened(h, 0, 4, 5, putNumber(2), wroteAs(1, 12))
		happened(h, 0, 6, 7, move{kind: "put", value: 3, precondition: movePrecondition{"ifMatch", 10}}, wroteAs(2, 13))
	}},
	"a stale read": {false, func(h *harness.History) {
		happened(h, 0, 0, 1, putNumber(1), wroteAs(1, 10))
		happened(h, 0, 2, 3, putNumber(2), wroteAs(2, 11))
		happened(h, 1, 4, 5, move{kind: "get"}, outcome{status: 200, revision: 1, seq: 10, n: 1})
	}},
	"a record that comes back": {false, func(h *harness.History) {
		happened(h, 0, 0, 1, putNumber(1), wroteAs(1, 10))
		happened(h, 0, 2, 3, move{kind: "delete"}, outcome{status: 204})
		happened(h, 1, 4, 5, move{kind: "check"}, outcome{status: 200, revision: 1, seq: 10})
	}},
	"deleted twice": {false, func(h *harness.History) {
		happened(h, 0, 0, 1, putNumber(1), wroteAs(1, 10))
		happened(h, 0, 2, 9, move{kind: "delete"}, outcome{status: 200, existed: 1})
		happened(h, 1, 2, 9, move{kind: "delete"}, outcome{status: 200, existed: 1})
	}},
}

// TestKeyModel checks that the model accepts correct histories and rejects each wrong response.
func TestKeyModel(t *testing.T) {
	t.Parallel()
	for name, c := range keyHistories {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var h harness.History
			c.make(&h)
			if why := harness.Disorder(keyModel(), h); (why == "") != c.right {
				t.Errorf("correct: %v, but the model reports %q", c.right, why)
			}
		})
	}
}

package fault

import (
	"net/http"
	"testing"

	"github.com/anishathalye/porcupine"
)

// cellar is all that is known of one key of an install.
type cellar struct {
	revision int64 // 0: there is no record
	seq      int64 // of the change that wrote it
	n        int64 // its number, which no put sends twice
	p        int64 // what a patch has set
	last     int64 // the newest change of the key that anybody was told of
}

// move is what a request does to a key.
type move struct {
	kind  string // "put", "patch", "increment", "delete", "get", or "check", which is a get that does not see the value
	value int64  // of a put the number, of a patch what it sets, of an increment what it adds
	guard moveGuard
}

// moveGuard is what a request wants of the record: "" nothing, else a member
// that says so, and its value.
type moveGuard struct {
	name  string // "ifRevision", "ifMatch"
	value int64  // a revision, a change
}

// outcome is what its answer says.
type outcome struct {
	status        int // of the request, or of the item that it has failed by
	revision, seq int64
	n, p          int64 // of a get, and n of an increment
	current       int64 // of a refusal
	existed       int   // of a delete: 1, or -1 when it did not; 0: it does not say
}

// step says whether a server that has c may answer a move with o, and what it
// has then.
func (c cellar) step(m move, o outcome) (bool, cellar) {
	failed := 0
	switch {
	case m.guard.name == "ifMatch" && (c.revision == 0 || m.guard.value != c.seq):
		failed = http.StatusPreconditionFailed
	case m.guard.name == "ifRevision" && m.guard.value != c.revision, m.kind == "delete" && m.guard.name != "" && c.revision == 0:
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
		return ok, cellar{last: c.last}
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

// keyModel is a key, to which everything happens at one moment.
func keyModel() porcupine.Model {
	return porcupine.Model{
		Init:  func() any { return cellar{} },
		Step:  func(c, m, o any) (bool, any) { return c.(cellar).step(m.(move), o.(outcome)) },
		Equal: func(a, b any) bool { return a.(cellar) == b.(cellar) },
	}
}

// happened adds a move to a history.
func (h *history) happened(client int, from, to int64, m move, o outcome) {
	*h = append(*h, porcupine.Operation{ClientId: client, Input: m, Call: from, Output: o, Return: to, Metadata: len(*h)})
}

func putNumber(n int64) move { return move{kind: "put", value: n} }

func wroteAs(revision, seq int64) outcome { return outcome{status: 200, revision: revision, seq: seq} }

var keyHistories = map[string]struct {
	right bool
	make  func(h *history)
}{
	"one after the other": {true, func(h *history) {
		h.happened(0, 0, 1, putNumber(1), wroteAs(1, 10))
		h.happened(0, 2, 3, move{kind: "increment", value: 2}, outcome{status: 200, revision: 2, seq: 11, n: 3})
		h.happened(0, 4, 5, move{kind: "patch", value: 7}, wroteAs(3, 14))
		h.happened(0, 6, 7, move{kind: "get"}, outcome{status: 200, revision: 3, seq: 14, n: 3, p: 7})
		h.happened(0, 8, 9, move{kind: "delete", guard: moveGuard{"ifMatch", 14}}, outcome{status: 204})
		h.happened(0, 10, 11, putNumber(2), wroteAs(1, 16))
	}},
	"a revision twice": {false, func(h *history) {
		h.happened(0, 0, 9, putNumber(1), wroteAs(1, 10))
		h.happened(1, 0, 9, putNumber(2), wroteAs(1, 11))
	}},
	"a revision left out": {false, func(h *history) {
		h.happened(0, 0, 9, putNumber(1), wroteAs(1, 10))
		h.happened(1, 0, 9, putNumber(2), wroteAs(3, 11))
	}},
	"changes against the order of revisions": {false, func(h *history) {
		h.happened(0, 0, 9, putNumber(1), wroteAs(1, 11))
		h.happened(1, 0, 9, putNumber(2), wroteAs(2, 10))
	}},
	"a lost increment": {false, func(h *history) {
		h.happened(0, 0, 1, putNumber(1), wroteAs(1, 10))
		h.happened(0, 2, 9, move{kind: "increment", value: 2}, outcome{status: 200, revision: 2, seq: 11, n: 3})
		h.happened(1, 2, 9, move{kind: "increment", value: 3}, outcome{status: 200, revision: 3, seq: 12, n: 4})
	}},
	"a guard that did not hold": {false, func(h *history) {
		h.happened(0, 0, 1, putNumber(1), wroteAs(1, 10))
		h.happened(0, 2, 3, move{kind: "put", value: 2, guard: moveGuard{"ifRevision", 0}}, wroteAs(2, 11))
	}},
	"a refusal with the revision of another time": {false, func(h *history) {
		h.happened(0, 0, 1, putNumber(1), wroteAs(1, 10))
		h.happened(0, 2, 3, putNumber(2), wroteAs(2, 11))
		h.happened(0, 4, 5, move{kind: "put", value: 2, guard: moveGuard{"ifRevision", 0}}, outcome{status: 409, current: 1})
	}},
	"a tag that meets another life": {false, func(h *history) {
		h.happened(0, 0, 1, putNumber(1), wroteAs(1, 10))
		h.happened(0, 2, 3, move{kind: "delete"}, outcome{status: 204})
		h.happened(0, 4, 5, putNumber(2), wroteAs(1, 12))
		h.happened(0, 6, 7, move{kind: "put", value: 3, guard: moveGuard{"ifMatch", 10}}, wroteAs(2, 13))
	}},
	"a stale read": {false, func(h *history) {
		h.happened(0, 0, 1, putNumber(1), wroteAs(1, 10))
		h.happened(0, 2, 3, putNumber(2), wroteAs(2, 11))
		h.happened(1, 4, 5, move{kind: "get"}, outcome{status: 200, revision: 1, seq: 10, n: 1})
	}},
	"a record that comes back": {false, func(h *history) {
		h.happened(0, 0, 1, putNumber(1), wroteAs(1, 10))
		h.happened(0, 2, 3, move{kind: "delete"}, outcome{status: 204})
		h.happened(1, 4, 5, move{kind: "check"}, outcome{status: 200, revision: 1, seq: 10})
	}},
	"deleted twice": {false, func(h *history) {
		h.happened(0, 0, 1, putNumber(1), wroteAs(1, 10))
		h.happened(0, 2, 9, move{kind: "delete"}, outcome{status: 200, existed: 1})
		h.happened(1, 2, 9, move{kind: "delete"}, outcome{status: 200, existed: 1})
	}},
}

// The model accepts what a server may do with a key and nothing else.
func TestKeyModelBites(t *testing.T) {
	t.Parallel()
	for name, c := range keyHistories {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var h history
			c.make(&h)
			if why := disorder(keyModel(), h); (why == "") != c.right {
				t.Errorf("right: %v, but it says %q", c.right, why)
			}
		})
	}
}

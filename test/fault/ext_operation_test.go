package fault

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"holdfast/test/binary"
)

// entry is a record of an install.
type entry struct {
	value    document
	metadata string // as JSON
	ttl      bool   // it expires, long after the test
	rowState
}

// rowState is the result of a change; empty after a delete.
type rowState struct{ revision, seq int64 }

// document is a value. A put by an extWriter has a text that is never sent twice.
type document struct {
	n    int64  // changed by increments
	p    int    // set or removed by a patch; 0: missing
	by   string // writer and number of the put
	fill int    // bytes
}

// String returns the canonical JSON of the value: shorter names first.
func (d document) String() string {
	text := fmt.Sprintf(`{"n":%d`, d.n)
	if d.p != 0 {
		text += fmt.Sprintf(`,"p":%d`, d.p)
	}
	if d.by != "" {
		text += fmt.Sprintf(`,"by":%q,"fill":%q`, d.by, strings.Repeat("x", d.fill))
	}
	return text + "}"
}

// parseDocument reads a value in the format of String.
func parseDocument(text json.RawMessage) (d document, err error) {
	var wire struct {
		N    int64  `json:"n"`
		P    int    `json:"p"`
		By   string `json:"by"`
		Fill string `json:"fill"`
	}
	if err := json.Unmarshal(text, &wire); err != nil {
		return d, err
	}
	d = document{wire.N, wire.P, wire.By, len(wire.Fill)}
	if d.String() != string(text) {
		return d, fmt.Errorf("a value that was never sent: %.100q", text)
	}
	return d, nil
}

// entries are all records of a writer.
type entries map[spot]entry

// spots returns the keys in order, so that a choice among them follows from the seed.
func (s entries) spots() []spot { return slices.SortedFunc(maps.Keys(s), spot.compare) }

func (s spot) compare(other spot) int {
	return cmp.Or(strings.Compare(s.namespace, other.namespace), strings.Compare(s.key, other.key))
}

// change is a line of an install's feed.
type change struct {
	op string // "put" or "delete"
	spot
	rowState          // for a delete the revision that was deleted
	sent, acked int64 // by the harness's clock
}

func (c change) String() string {
	return fmt.Sprintf("%s of %s/%s, revision %d, seq %d", c.op, c.namespace, c.key, c.revision, c.seq)
}

// recordOp is the effect of an operation on one record.
type recordOp struct {
	op string // "put", "delete", "check" or "increment", as in a batch
	spot
	before, after entry // revision 0: it does not exist
	by            int64 // of an increment
}

// changes reports whether the recordOp has a line in the feed.
func (a *recordOp) changes() bool {
	return a.op == "put" || a.op == "increment" || a.op == "delete" && a.before.revision > 0
}

// operation is one request and its effects when it is acknowledged.
type operation struct {
	extWriter string
	call
	acts     []recordOp
	list     string     // the member of the answer with the results; "": the answer is one
	rejected *rejection // the expected error; then nothing is done
	known    int64      // the newest change when it was sent
	sent     int64      // by the harness's clock
	refused  bool       // on every attempt, not merely lost
}

// rejection is an expected error.
type rejection struct {
	status  int
	code    string
	cause   string
	index   *int
	current *int64
}

// once returns the idempotency key; "" if there is none.
func (d *operation) once() string { return d.header["Idempotency-Key"] }

func (d *operation) String() string { return d.extWriter + "'s " + d.call.String() }

// applied returns the records of a writer after the operation.
func (d *operation) applied(before entries) entries {
	after := maps.Clone(before)
	if d.rejected != nil {
		return after
	}
	for i := range d.acts {
		switch a := &d.acts[i]; {
		case a.spot == counter, a.op == "check":
		case a.op == "delete":
			delete(after, a.spot)
		default:
			after[a.spot] = a.after
		}
	}
	return after
}

// trail returns the lines of the operation in the feed.
func (d *operation) trail(now int64) (lines []change) {
	if d.rejected != nil {
		return nil
	}
	for i := range d.acts {
		a := &d.acts[i]
		if !a.changes() {
			continue
		}
		line := change{op: "put", spot: a.spot, rowState: a.after.rowState, sent: d.sent, acked: now}
		if a.op == "delete" {
			line.op, line.rowState = "delete", rowState{revision: a.before.revision}
		}
		lines = append(lines, line)
	}
	return lines
}

// result is the answer to a recordOp.
type result struct {
	Namespace string       `json:"namespace"`
	Key       string       `json:"key"`
	Revision  int64        `json:"revision"`
	ETag      *string      `json:"etag"`
	Created   *bool        `json:"created"`
	Existed   *bool        `json:"existed"`
	Expires   *string      `json:"ttlExpiresAt"`
	Sum       *json.Number `json:"sum"`
}

// read checks the answer to an operation, and stores what it says in the recordOps.
func (d *operation) read(a binary.Answer) error {
	if d.rejected != nil {
		return d.rejected.held(a)
	}
	if a.Status >= http.StatusBadRequest {
		return fmt.Errorf("%s: %d %s", d, a.Status, a.Body)
	}
	if d.method == http.MethodDelete {
		if a.Status != http.StatusNoContent || a.Body != "" {
			return fmt.Errorf("%s: %d %s", d, a.Status, a.Body)
		}
		return nil
	}
	results, err := d.results(a)
	if err != nil {
		return fmt.Errorf("%s: %s: %w", d, a.Body, err)
	}
	for i := range d.acts {
		if err := d.acts[i].took(&results[i], a.Header.Get("Idempotency-Replayed") != ""); err != nil {
			return fmt.Errorf("%s: %d in %d %s: %w", d, i, a.Status, a.Body, err)
		}
	}
	if d.list == "" {
		return d.single(a, &results[0])
	}
	return d.together()
}

// results returns the results in the answer, one for each recordOp.
func (d *operation) results(a binary.Answer) (results []result, err error) {
	if d.list == "" {
		results = make([]result, 1)
		err = json.Unmarshal([]byte(a.Body), &results[0])
	} else {
		var lists map[string]json.RawMessage
		if err = json.Unmarshal([]byte(a.Body), &lists); err == nil {
			err = json.Unmarshal(lists[d.list], &results)
		}
	}
	if err == nil && len(results) != len(d.acts) {
		err = fmt.Errorf("%d results for %d operations", len(results), len(d.acts))
	}
	return results, err
}

// single checks the members that only the answer about one record has.
func (d *operation) single(a binary.Answer, r *result) error {
	status := http.StatusOK
	if d.method != http.MethodPatch && d.acts[0].after.revision == 1 {
		status = http.StatusCreated
	}
	if a.Status != status || r.ETag == nil || a.Header.Get("ETag") != *r.ETag {
		return fmt.Errorf("%s: %d %s %s, want %d and the ETag in both", d, a.Status, a.Header.Get("ETag"), a.Body, status)
	}
	return nil
}

// together checks that the numbers of the changes are consecutive, as in one transaction.
func (d *operation) together() error {
	first, n := int64(0), int64(0)
	for i := range d.acts {
		a := &d.acts[i]
		if !a.changes() {
			continue
		}
		if at := a.after.seq; a.op != "delete" && first == 0 {
			first = at - n
		} else if a.op != "delete" && at != first+n {
			return fmt.Errorf("%s: its change %d has the number %d, the first has %d", d, n, at, first)
		}
		n++
	}
	return nil
}

// took compares a result with the recordOp, and stores what was unknown.
func (a *recordOp) took(r *result, replayed bool) error {
	if a.op == "delete" {
		if want := a.before.revision > 0; r.Existed == nil || *r.Existed != want {
			return fmt.Errorf("it existed: %v", want)
		}
		return nil
	}
	after := a.after
	if a.op == "check" {
		after = a.before
	}
	if r.Key != a.key || r.Namespace != "" && r.Namespace != a.namespace {
		return fmt.Errorf("it is the record %s/%s", a.namespace, a.key)
	}
	if a.op == "check" && after.revision == 0 {
		if r.Revision != 0 || r.ETag != nil {
			return fmt.Errorf("there is no record")
		}
		return nil
	}
	if r.ETag == nil || a.op != "check" && (r.Expires != nil) != after.ttl {
		return fmt.Errorf("no ETag, or it expires: %v", after.ttl)
	}
	seq, err := seqOf(*r.ETag)
	if err != nil {
		return err
	}
	if a.spot == counter {
		a.after.rowState = rowState{r.Revision, seq}
		return nil
	}
	switch {
	case r.Revision != after.revision:
		return fmt.Errorf("want revision %d", after.revision)
	case a.op == "check" && seq != after.seq:
		return fmt.Errorf("want the change %d", after.seq)
	case a.op == "increment" && !(replayed && r.Sum == nil) && (r.Sum == nil || r.Sum.String() != fmt.Sprint(after.value.n)):
		return fmt.Errorf("want the sum %d", after.value.n)
	case r.Created != nil && *r.Created != (after.revision == 1):
		return fmt.Errorf("it was created: %v", after.revision == 1)
	}
	a.after.seq = seq
	return nil
}

// held checks an answer with an error.
func (r *rejection) held(a binary.Answer) error {
	var e struct {
		Error struct {
			Code    string `json:"code"`
			Cause   string `json:"cause"`
			Index   *int   `json:"index"`
			Current *int64 `json:"currentRevision"`
		} `json:"error"`
	}
	if err := json.Unmarshal([]byte(a.Body), &e); err != nil {
		return fmt.Errorf("%d %s: %w", a.Status, a.Body, err)
	}
	if a.Status != r.status || e.Error.Code != r.code || e.Error.Cause != r.cause || !same(e.Error.Index, r.index) || !same(e.Error.Current, r.current) {
		return fmt.Errorf("%d %s, want %s", a.Status, a.Body, r)
	}
	return nil
}

func (r *rejection) String() string {
	text := fmt.Sprintf("%d %s", r.status, r.code)
	if r.index != nil {
		text += fmt.Sprintf(" of item %d for %s", *r.index, r.cause)
	}
	if r.current != nil {
		text += fmt.Sprintf(" at revision %d", *r.current)
	}
	return text
}

func same[T comparable](a, b *T) bool {
	return a == nil && b == nil || a != nil && b != nil && *a == *b
}

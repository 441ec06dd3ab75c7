package ext

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"holdfast/internal/workload"
)

// Entry is a record as the writer expects it.
type Entry struct {
	Value    Document
	metadata string
	ttl      bool // it expires, long after the test
	Row
}

// Row is a change's result; empty after a delete.
type Row struct{ Revision, Seq int64 }

// Document is a value. A writer's puts have unique texts.
type Document struct {
	N    int64  // changed by increments
	P    int    // set or removed by a patch; 0: missing
	by   string // writer and number of the put
	fill int    // bytes
}

// String returns the value's canonical JSON: shorter names first.
func (d Document) String() string {
	text := fmt.Sprintf(`{"n":%d`, d.N)
	if d.P != 0 {
		text += fmt.Sprintf(`,"p":%d`, d.P)
	}
	if d.by != "" {
		text += fmt.Sprintf(`,"by":%q,"fill":%q`, d.by, strings.Repeat("x", d.fill))
	}
	return text + "}"
}

// parseDocument rejects values that no writer sent.
func parseDocument(text json.RawMessage) (d Document, err error) {
	var wire struct {
		N    int64  `json:"n"`
		P    int    `json:"p"`
		By   string `json:"by"`
		Fill string `json:"fill"`
	}
	if err := json.Unmarshal(text, &wire); err != nil {
		return d, err
	}
	d = Document{wire.N, wire.P, wire.By, len(wire.Fill)}
	if d.String() != string(text) {
		return d, fmt.Errorf("a value that was never sent: %.100q", text)
	}
	return d, nil
}

// Entries are all of a writer's records.
type Entries map[RecordKey]Entry

// keys returns the records in a fixed order, so that choices depend only on the seed.
func (s Entries) keys() []RecordKey { return slices.SortedFunc(maps.Keys(s), RecordKey.Compare) }

// Compare orders by namespace and key.
func (s RecordKey) Compare(other RecordKey) int {
	return cmp.Or(strings.Compare(s.Namespace, other.Namespace), strings.Compare(s.Key, other.Key))
}

// Change is a line in the feed.
type Change struct {
	Op string // "put" or "delete"
	RecordKey
	Row               // for a delete, the deleted revision
	sent, acked int64 // harness's clock
}

func (c Change) String() string {
	return fmt.Sprintf("%s of %s/%s, revision %d, seq %d", c.Op, c.Namespace, c.Key, c.Revision, c.Seq)
}

// RecordOp is an operation on a record, with the states before and after.
type RecordOp struct {
	Op string // "put", "delete", "check" or "increment", as in a batch
	RecordKey
	Before, After Entry // revision 0: missing
	by            int64 // increment
}

// changes reports whether the operation appears in the feed.
func (a *RecordOp) changes() bool {
	return a.Op == "put" || a.Op == "increment" || a.Op == "delete" && a.Before.Revision > 0
}

// Operation is a request with its effects on success.
type Operation struct {
	Writer string
	Call
	Acts     []RecordOp
	list     string     // member with the results; "": the answer is the result
	Rejected *Rejection // expected error; then nothing happens
	Known    int64      // newest change when sent
	Sent     int64      // harness's clock
	Refused  bool       // on every attempt, not merely lost
}

// Rejection is an expected error.
type Rejection struct {
	Status  int
	Code    string
	cause   string
	index   *int
	current *int64
}

// Once returns the idempotency key; "" without.
func (d *Operation) Once() string { return d.Header["Idempotency-Key"] }

func (d *Operation) String() string { return d.Writer + "'s " + d.Call.String() }

// applied returns the records after the operation, without modifying before.
func (d *Operation) applied(before Entries) Entries {
	after := maps.Clone(before)
	if d.Rejected != nil {
		return after
	}
	for i := range d.Acts {
		switch a := &d.Acts[i]; {
		case a.RecordKey == Counter, a.Op == "check":
		case a.Op == "delete":
			delete(after, a.RecordKey)
		default:
			after[a.RecordKey] = a.After
		}
	}
	return after
}

// trail returns the changes that the operation makes.
func (d *Operation) trail(now int64) (lines []Change) {
	if d.Rejected != nil {
		return nil
	}
	for i := range d.Acts {
		a := &d.Acts[i]
		if !a.changes() {
			continue
		}
		line := Change{Op: "put", RecordKey: a.RecordKey, Row: a.After.Row, sent: d.Sent, acked: now}
		if a.Op == "delete" {
			line.Op, line.Row = "delete", Row{Revision: a.Before.Revision}
		}
		lines = append(lines, line)
	}
	return lines
}

// Result is an operation's result in an answer.
type Result struct {
	Namespace string       `json:"namespace"`
	Key       string       `json:"key"`
	Revision  int64        `json:"revision"`
	ETag      *string      `json:"etag"`
	Created   *bool        `json:"created"`
	Existed   *bool        `json:"existed"`
	Expires   *string      `json:"ttlExpiresAt"`
	Sum       *json.Number `json:"sum"`
}

// Read checks an answer, and takes the change numbers from it.
func (d *Operation) Read(a workload.Answer) error {
	if d.Rejected != nil {
		return d.Rejected.Check(a)
	}
	if a.Status >= http.StatusBadRequest {
		return fmt.Errorf("%s: %d %s", d, a.Status, a.Body)
	}
	if d.Method == http.MethodDelete {
		if a.Status != http.StatusNoContent || a.Body != "" {
			return fmt.Errorf("%s: %d %s", d, a.Status, a.Body)
		}
		return nil
	}
	results, err := d.results(a)
	if err != nil {
		return fmt.Errorf("%s: %s: %w", d, a.Body, err)
	}
	for i := range d.Acts {
		if err := d.Acts[i].took(&results[i], a.Header.Get("Idempotency-Replayed") != ""); err != nil {
			return fmt.Errorf("%s: %d in %d %s: %w", d, i, a.Status, a.Body, err)
		}
	}
	if d.list == "" {
		return d.single(a, &results[0])
	}
	return d.Together()
}

// results decodes the results, whose number must be right.
func (d *Operation) results(a workload.Answer) (results []Result, err error) {
	if d.list == "" {
		results = make([]Result, 1)
		err = json.Unmarshal([]byte(a.Body), &results[0])
	} else {
		var lists map[string]json.RawMessage
		if err = json.Unmarshal([]byte(a.Body), &lists); err == nil {
			err = json.Unmarshal(lists[d.list], &results)
		}
	}
	if err == nil && len(results) != len(d.Acts) {
		err = fmt.Errorf("%d results for %d operations", len(results), len(d.Acts))
	}
	return results, err
}

// single checks status and ETag of a request for a single record.
func (d *Operation) single(a workload.Answer, r *Result) error {
	status := http.StatusOK
	if d.Method != http.MethodPatch && d.Acts[0].After.Revision == 1 {
		status = http.StatusCreated
	}
	if a.Status != status || r.ETag == nil || a.Header.Get("ETag") != *r.ETag {
		return fmt.Errorf("%s: %d %s %s, want %d and the ETag in both", d, a.Status, a.Header.Get("ETag"), a.Body, status)
	}
	return nil
}

// Together checks that the change numbers are consecutive, as in one transaction.
func (d *Operation) Together() error {
	first, n := int64(0), int64(0)
	for i := range d.Acts {
		a := &d.Acts[i]
		if !a.changes() {
			continue
		}
		if at := a.After.Seq; a.Op != "delete" && first == 0 {
			first = at - n
		} else if a.Op != "delete" && at != first+n {
			return fmt.Errorf("%s: its change %d has the number %d, the first has %d", d, n, at, first)
		}
		n++
	}
	return nil
}

// took checks a result. A replayed answer may lack the sum.
func (a *RecordOp) took(r *Result, replayed bool) error {
	if a.Op == "delete" {
		if want := a.Before.Revision > 0; r.Existed == nil || *r.Existed != want {
			return fmt.Errorf("it existed: %v", want)
		}
		return nil
	}
	after := a.After
	if a.Op == "check" {
		after = a.Before
	}
	if r.Key != a.Key || r.Namespace != "" && r.Namespace != a.Namespace {
		return fmt.Errorf("it is the record %s/%s", a.Namespace, a.Key)
	}
	if a.Op == "check" && after.Revision == 0 {
		if r.Revision != 0 || r.ETag != nil {
			return fmt.Errorf("there is no record")
		}
		return nil
	}
	if r.ETag == nil || a.Op != "check" && (r.Expires != nil) != after.ttl {
		return fmt.Errorf("no ETag, or it expires: %v", after.ttl)
	}
	seq, err := Seq(*r.ETag)
	if err != nil {
		return err
	}
	if a.RecordKey == Counter {
		a.After.Row = Row{r.Revision, seq}
		return nil
	}
	switch {
	case r.Revision != after.Revision:
		return fmt.Errorf("want revision %d", after.Revision)
	case a.Op == "check" && seq != after.Seq:
		return fmt.Errorf("want the change %d", after.Seq)
	case a.Op == "increment" && !(replayed && r.Sum == nil) && (r.Sum == nil || r.Sum.String() != fmt.Sprint(after.Value.N)):
		return fmt.Errorf("want the sum %d", after.Value.N)
	case r.Created != nil && *r.Created != (after.Revision == 1):
		return fmt.Errorf("it was created: %v", after.Revision == 1)
	}
	a.After.Seq = seq
	return nil
}

// Check compares an error answer.
func (r *Rejection) Check(a workload.Answer) error {
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
	if a.Status != r.Status || e.Error.Code != r.Code || e.Error.Cause != r.cause || !same(e.Error.Index, r.index) || !same(e.Error.Current, r.current) {
		return fmt.Errorf("%d %s, want %s", a.Status, a.Body, r)
	}
	return nil
}

func (r *Rejection) String() string {
	text := fmt.Sprintf("%d %s", r.Status, r.Code)
	if r.index != nil {
		text += fmt.Sprintf(" of item %d for %s", *r.index, r.cause)
	}
	if r.current != nil {
		text += fmt.Sprintf(" at revision %d", *r.current)
	}
	return text
}

// same compares optional values.
func same[T comparable](a, b *T) bool {
	return a == nil && b == nil || a != nil && b != nil && *a == *b
}

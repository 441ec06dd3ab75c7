package ext

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"holdfast/internal/workload"
)

// Record is a record in an answer.
type Record struct {
	Namespace string          `json:"namespace"`
	Key       string          `json:"key"`
	Revision  int64           `json:"revision"`
	ETag      string          `json:"etag"`
	Expires   *string         `json:"ttlExpiresAt"`
	Value     json.RawMessage `json:"value"`
	Metadata  json.RawMessage `json:"metadata"`
}

// Entry decodes the record into its expected state.
func (r *Record) Entry() (Entry, error) {
	return ParseEntry(r.Value, r.Metadata, r.Expires != nil, r.Revision, r.ETag)
}

// ParseEntry decodes a record into its expected state.
func ParseEntry(value, metadata json.RawMessage, expires bool, revision int64, etag string) (e Entry, err error) {
	if e.Value, err = parseDocument(value); err != nil {
		return e, err
	}
	e.metadata, e.ttl, e.Revision = string(metadata), expires, revision
	e.Seq, err = Seq(etag)
	return e, err
}

// Feed is an answer with changes.
type Feed struct {
	Changes []struct {
		Seq       int64  `json:"seq"`
		Op        string `json:"op"`
		Namespace string `json:"namespace"`
		Key       string `json:"key"`
		Revision  int64  `json:"revision"`
	} `json:"changes"`
	Next int64 `json:"nextSince"`
}

// After returns an answer's changes, which must follow since without a gap.
func (f *Feed) After(since int64) (lines []Change, err error) {
	for i, c := range f.Changes {
		if c.Seq != since+int64(i)+1 {
			return nil, fmt.Errorf("after the change %d comes %d", since+int64(i), c.Seq)
		}
		lines = append(lines, Change{Op: c.Op, RecordKey: RecordKey{c.Namespace, c.Key}, Row: Row{c.Revision, c.Seq}})
	}
	if f.Next != since+int64(len(lines)) {
		return nil, fmt.Errorf("%d changes after %d, and the next cursor is %d", len(lines), since, f.Next)
	}
	return lines, nil
}

// Followed checks the changes after since, and returns the number to continue with.
func Followed(a workload.Answer, since, known int64) (int64, error) {
	var f Feed
	if err := json.Unmarshal([]byte(a.Body), &f); err != nil || a.Status != http.StatusOK {
		return since, fmt.Errorf("%d %s", a.Status, a.Body)
	}
	lines, err := f.After(since)
	if err == nil && len(lines) < 1000 && f.Next < known {
		err = fmt.Errorf("the changes end with %d, but %d was known before the request", f.Next, known)
	}
	return f.Next, err
}

// Listed decodes a list into records by key.
func Listed(a workload.Answer) (map[string]Entry, error) {
	var page struct {
		Items []Record `json:"items"`
		Next  *string  `json:"nextCursor"`
	}
	if err := json.Unmarshal([]byte(a.Body), &page); err != nil || a.Status != http.StatusOK {
		return nil, fmt.Errorf("%d %s", a.Status, a.Body)
	}
	all := map[string]Entry{}
	for i := range page.Items {
		e, err := page.Items[i].Entry()
		if err != nil {
			return nil, err
		}
		all[page.Items[i].Key] = e
	}
	return all, nil
}

// Saw checks a read record: it is as last acknowledged, or as the unanswered operation left it.
func (w *Writer) Saw(at RecordKey, a workload.Answer) error {
	before, after := w.State[at], w.Lost.applied(w.State)[at]
	if a.Status == http.StatusNotFound && after == (Entry{}) {
		return nil
	}
	var r Record
	if err := json.Unmarshal([]byte(a.Body), &r); a.Status != http.StatusOK || err != nil {
		return fmt.Errorf("%d %s", a.Status, a.Body)
	}
	got, err := r.Entry()
	if err != nil {
		return err
	}
	if got != before && !got.is(after) {
		return fmt.Errorf("%+v, want %+v or %+v", got, before, after)
	}
	return nil
}

// is compares all but the change number, which nobody knew before the answer.
func (e Entry) is(expected Entry) bool {
	if expected.Seq = e.Seq; e.Seq == 0 {
		return false
	}
	return e == expected
}

// Had reports whether a feed contains the writer's changes as of some moment in the span.
func (w *Writer) Had(lines []Change, begun, ended int64) bool {
	there, known := w.Own(lines), w.Own(w.Trail)
	n := len(there)
	if n > len(known) && w.Lost != nil && w.Lost.Sent < ended {
		known = append(known, w.Own(w.Lost.trail(ended))...)
	}
	switch {
	case n > len(known) || !slices.EqualFunc(there, known[:n], Change.Like):
		return false
	case n < len(known) && (known[n].acked < begun || n > 0 && known[n-1].acked == known[n].acked):
		return false
	}
	return n == 0 || known[n-1].sent < ended
}

// Like compares a change with a known change, whose number may be unknown (0).
func (c Change) Like(known Change) bool {
	return c.Op == known.Op && c.RecordKey == known.RecordKey && c.Revision == known.Revision && (known.Seq == 0 || known.Seq == c.Seq)
}

// Follow applies changes to records, and returns an error for each revision out of sequence.
func Follow(rows map[RecordKey]Row, lines []Change) (differences []error) {
	for _, line := range lines {
		before := rows[line.RecordKey]
		if line.Op == "put" {
			if rows[line.RecordKey] = line.Row; line.Revision == before.Revision+1 {
				continue
			}
		} else if delete(rows, line.RecordKey); before.Revision > 0 && line.Revision == before.Revision {
			continue
		}
		differences = append(differences, fmt.Errorf("%v, after revision %d", line, before.Revision))
	}
	return differences
}

// Own returns the changes to the writer's own records.
func (w *Writer) Own(all []Change) (some []Change) {
	for _, line := range all {
		if strings.HasPrefix(line.Key, w.Name+"-") {
			some = append(some, line)
		}
	}
	return some
}

// Found compares an install's records with the writer's. An unanswered operation happened entirely or not at all, and
// affects no other records.
func (w *Writer) Found(all Entries, now int64) (done bool, err error) {
	there := Entries{}
	for at, e := range all {
		if strings.HasPrefix(at.Key, w.Name+"-") {
			there[at] = e
		}
	}
	d, before := w.Lost, w.State
	w.Lost = nil
	if maps.Equal(there, before) {
		return false, nil // deleting a missing record has no effect, so either is fine
	}
	if d == nil {
		w.State = there
		return false, fmt.Errorf("%s, all acknowledged:%s", w.Name, workload.Difference(there, before))
	}
	for i := range d.Acts {
		d.Acts[i].After.Seq = there[d.Acts[i].RecordKey].Seq
	}
	if after := d.applied(before); !maps.Equal(there, after) {
		err = fmt.Errorf("%s, no answer to %s; without it:%s\nwith it:%s", w.Name, d, workload.Difference(there, before), workload.Difference(there, after))
	}
	err = errors.Join(err, d.Together())
	w.Done(d, now)
	w.State = there
	return true, err
}

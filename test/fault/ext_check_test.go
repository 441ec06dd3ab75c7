package fault

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"holdfast/test/binary"
)

// wireRecord is a record as it is listed and exported.
type wireRecord struct {
	Namespace string          `json:"namespace"`
	Key       string          `json:"key"`
	Revision  int64           `json:"revision"`
	ETag      string          `json:"etag"`
	Expires   *string         `json:"ttlExpiresAt"`
	Value     json.RawMessage `json:"value"`
	Metadata  json.RawMessage `json:"metadata"`
}

// entry returns what a writer knows of a record.
func (r *wireRecord) entry() (e entry, err error) {
	if e.value, err = parseDocument(r.Value); err != nil {
		return e, err
	}
	e.metadata, e.ttl, e.revision = string(r.Metadata), r.Expires != nil, r.Revision
	e.seq, err = seqOf(r.ETag)
	return e, err
}

// wireFeed is an answer with changes.
type wireFeed struct {
	Changes []struct {
		Seq       int64  `json:"seq"`
		Op        string `json:"op"`
		Namespace string `json:"namespace"`
		Key       string `json:"key"`
		Revision  int64  `json:"revision"`
	} `json:"changes"`
	Next int64 `json:"nextSince"`
}

// after returns the changes of an answer, which must follow a number without a gap.
func (f *wireFeed) after(since int64) (lines []change, err error) {
	for i, c := range f.Changes {
		if c.Seq != since+int64(i)+1 {
			return nil, fmt.Errorf("after the change %d comes %d", since+int64(i), c.Seq)
		}
		lines = append(lines, change{op: c.Op, spot: spot{c.Namespace, c.Key}, rowState: rowState{c.Revision, c.Seq}})
	}
	if f.Next != since+int64(len(lines)) {
		return nil, fmt.Errorf("%d changes after %d, and the next cursor is %d", len(lines), since, f.Next)
	}
	return lines, nil
}

// read lists shared records and changes until the fault is over.
func (in *install) read(h *harness, l *load, choose *rand.Rand) {
	since := in.knows()
	for n := 0; !closed(l.over); n++ {
		namespaces := extNamespaces()
		c := call{method: http.MethodGet, path: "/namespaces/" + namespaces[choose.IntN(len(namespaces))] + "/records?limit=100&values=true&metadata=true"}
		if n%2 == 1 {
			c.path = fmt.Sprintf("/changes?limit=1000&since=%d", since)
		}
		known := in.knows()
		if a, answered := h.askExt(l, h.serverOf(n/2), in, c); answered {
			var err error
			if n%2 == 0 {
				_, err = listedEntries(a)
			} else {
				since, err = followed(a, since, known)
			}
			if err != nil {
				h.t.Errorf("a reader of %s: %v", in.id, err)
				l.end()
				return
			}
			h.tally.reads.Add(1)
		}
		pause(l.over, 40*time.Millisecond)
	}
}

// followed checks an answer with the changes after a number, given one that was known before, and
// returns the number to continue with.
func followed(a binary.Answer, since, known int64) (int64, error) {
	var f wireFeed
	if err := json.Unmarshal([]byte(a.Body), &f); err != nil || a.Status != http.StatusOK {
		return since, fmt.Errorf("%d %s", a.Status, a.Body)
	}
	lines, err := f.after(since)
	if err == nil && len(lines) < 1000 && f.Next < known {
		err = fmt.Errorf("the changes end with %d, but %d was known before the request", f.Next, known)
	}
	return f.Next, err
}

// listedEntries returns the records of a page.
func listedEntries(a binary.Answer) (map[string]entry, error) {
	var page struct {
		Items []wireRecord `json:"items"`
		Next  *string      `json:"nextCursor"`
	}
	if err := json.Unmarshal([]byte(a.Body), &page); err != nil || a.Status != http.StatusOK {
		return nil, fmt.Errorf("%d %s", a.Status, a.Body)
	}
	all := map[string]entry{}
	for i := range page.Items {
		e, err := page.Items[i].entry()
		if err != nil {
			return nil, err
		}
		all[page.Items[i].Key] = e
	}
	return all, nil
}

// look reads a record of a writer that has lost an operation: it is in the state before or after
// the operation.
func (w *extWriter) look(h *harness, l *load) {
	if len(w.state) == 0 {
		return
	}
	at := w.existingSpot()
	a, answered := h.askExt(l, h.serverOf(w.n), w.of, call{method: http.MethodGet, path: at.at()})
	if !answered {
		return
	}
	h.tally.reads.Add(1)
	if err := w.saw(at, a); err != nil {
		h.t.Errorf("%s, after no answer to %s: %s/%s: %v", w.name, w.lost, at.namespace, at.key, err)
		l.end()
	}
}

func (w *extWriter) saw(at spot, a binary.Answer) error {
	before, after := w.state[at], w.lost.applied(w.state)[at]
	if a.Status == http.StatusNotFound && after == (entry{}) {
		return nil
	}
	var r wireRecord
	if err := json.Unmarshal([]byte(a.Body), &r); a.Status != http.StatusOK || err != nil {
		return fmt.Errorf("%d %s", a.Status, a.Body)
	}
	got, err := r.entry()
	if err != nil {
		return err
	}
	if got != before && !got.is(after) {
		return fmt.Errorf("%+v, want %+v or %+v", got, before, after)
	}
	return nil
}

// is compares a record that was read with one whose change number may be unknown.
func (e entry) is(expected entry) bool {
	if expected.seq = e.seq; e.seq == 0 {
		return false
	}
	return e == expected
}

// checkInstall compares the data of an install with what its writers know, and tells them what is
// there.
func (h *harness) checkInstall(in *install) {
	h.t.Helper()
	for _, w := range in.extWriters {
		h.retryLost(w)
	}
	there := h.entries(in)
	for _, w := range in.extWriters {
		h.settleOperation(w, there)
	}
	h.checkTrails(in, h.checkFeed(in, there))
	if got := there[counter].value.n; got != in.counted {
		h.t.Errorf("%s: the shared counter is %d, want %d", in.id, got, in.counted)
	}
}

// retryLost repeats the idempotent operations without an answer.
func (h *harness) retryLost(w *extWriter) {
	h.t.Helper()
	d := w.lost
	if d == nil || d.once() == "" {
		return
	}
	a, err := w.of.send(h.t.Context(), h.client, h.serverOf(w.n).URL, d.call)
	if err == nil {
		err = d.read(a)
	}
	if err != nil {
		h.t.Errorf("%s, asked again: %v", w.name, err)
		return
	}
	w.lost = nil
	w.done(d, h.clock.Add(1))
	h.decided(d, d.refused, a.Header.Get("Idempotency-Replayed") != "")
}

// settleOperation determines whether an operation without an answer was done. It was done as a
// whole or not at all, and all other records are unaffected.
func (h *harness) settleOperation(w *extWriter, all entries) {
	h.t.Helper()
	there := entries{}
	for at, e := range all {
		if strings.HasPrefix(at.key, w.name+"-") {
			there[at] = e
		}
	}
	d := w.lost
	w.lost = nil
	if maps.Equal(there, w.state) {
		// Deleting what does not exist does nothing, so it does not matter.
		if d != nil {
			h.decided(d, d.refused, false)
		}
		return
	}
	if d == nil {
		h.t.Errorf("%s, all acknowledged:%s", w.name, difference(there, w.state))
		w.state = there
		return
	}
	for i := range d.acts {
		d.acts[i].after.seq = there[d.acts[i].spot].seq
	}
	if after := d.applied(w.state); !maps.Equal(there, after) {
		h.t.Errorf("%s, no answer to %s; without it:%s\nwith it:%s", w.name, d, difference(there, w.state), difference(there, after))
	}
	if err := d.together(); err != nil {
		h.t.Error(err)
	}
	w.done(d, h.clock.Add(1))
	h.decided(d, d.refused, true)
	w.state = there
}

// entries returns all records of an install. Pages, export, counts and usage must agree.
func (h *harness) entries(in *install) entries {
	h.t.Helper()
	exported := h.export(in)
	all := entries{}
	var usage struct {
		Bytes      struct{ Used int64 }
		Keys       struct{ Used int64 }
		Namespaces struct{ Used int64 }
		By         []namespaceUsage `json:"byNamespace"`
	}
	h.call(in, http.StatusOK, call{method: http.MethodGet, path: "/usage"}, &usage)
	var sums []namespaceUsage
	keys, bytes := int64(0), int64(0)
	for _, ns := range slices.Sorted(slices.Values(append(extNamespaces(), counter.namespace))) {
		sum := namespaceUsage{Namespace: ns}
		for _, r := range h.pages(in, ns) {
			e, err := r.entry()
			must(h.t, err)
			all[spot{ns, r.Key}] = e
			sum.Keys++
			sum.Bytes += int64(len(r.Value) + len(r.Metadata))
		}
		if keys, bytes = keys+sum.Keys, bytes+sum.Bytes; sum.Keys > 0 {
			sums = append(sums, sum)
		}
	}
	if !maps.Equal(all, exported) {
		h.t.Errorf("%s: export and listing differ:%s", in.id, difference(exported, all))
	}
	if !slices.Equal(usage.By, sums) || usage.Keys.Used != keys || usage.Bytes.Used != bytes || usage.Namespaces.Used != int64(len(sums)) {
		h.t.Errorf("%s: the usage is %+v, listed %+v", in.id, usage, sums)
	}
	var list struct{ Namespaces []namespaceUsage }
	h.call(in, http.StatusOK, call{method: http.MethodGet, path: "/namespaces"}, &list)
	if !slices.Equal(list.Namespaces, sums) {
		h.t.Errorf("%s: the namespaces are %+v, listed %+v", in.id, list.Namespaces, sums)
	}
	return all
}

type namespaceUsage struct {
	Namespace   string
	Keys, Bytes int64
}

// pages returns the records of a namespace, read in small pages.
func (h *harness) pages(in *install, namespace string) (all []wireRecord) {
	h.t.Helper()
	for cursor := ""; ; {
		var page struct {
			Items []wireRecord
			Next  *string `json:"nextCursor"`
		}
		h.call(in, http.StatusOK, call{method: http.MethodGet, path: "/namespaces/" + namespace + "/records?limit=20&values=true&metadata=true" + cursor}, &page)
		if all = append(all, page.Items...); page.Next == nil {
			return all
		}
		cursor = "&cursor=" + url.QueryEscape(*page.Next)
	}
}

// export returns all records of an install from one export, which must be complete.
func (h *harness) export(in *install) entries {
	h.t.Helper()
	a := h.call(in, http.StatusOK, call{method: http.MethodGet, path: "/export"}, nil)
	all, complete := entries{}, false
	for lines := bufio.NewScanner(strings.NewReader(a.Body)); lines.Scan(); {
		var line struct {
			wireRecord
			Export   int
			Schema   json.RawMessage
			Cursor   string
			Complete bool
			Records  int
		}
		must(h.t, json.Unmarshal(lines.Bytes(), &line))
		switch {
		case complete:
			h.t.Errorf("after the end of an export: %s", lines.Text())
		case line.Complete:
			if complete = true; line.Records != len(all) {
				h.t.Errorf("an export has %d records and says %d", len(all), line.Records)
			}
		case line.Cursor == "" && line.Export == 0 && line.Schema == nil:
			e, err := line.entry()
			must(h.t, err)
			all[spot{line.Namespace, line.Key}] = e
		}
	}
	if !complete {
		h.t.Errorf("an export is cut off: %.200s", a.Body)
	}
	return all
}

// changes returns the changes of an install after a number.
func (h *harness) changes(in *install, since int64) (all []change) {
	h.t.Helper()
	for {
		var f wireFeed
		h.call(in, http.StatusOK, call{method: http.MethodGet, path: fmt.Sprintf("/changes?limit=1000&since=%d", since)}, &f)
		lines, err := f.after(since)
		must(h.t, err)
		if all, since = append(all, lines...), f.Next; len(lines) == 0 {
			return all
		}
	}
}

// checkFeed compares the changes since the last check with the records, and returns them.
func (h *harness) checkFeed(in *install, there entries) []change {
	h.t.Helper()
	lines := h.changes(in, int64(len(in.feed)))
	h.follow(in.rows, lines)
	in.feed = append(in.feed, lines...)
	rows := map[spot]rowState{}
	for at, e := range there {
		rows[at] = e.rowState
	}
	if !maps.Equal(rows, in.rows) {
		h.t.Errorf("%s: records and changes differ: %v, %v", in.id, rows, in.rows)
	}
	return lines
}

// checkTrails compares changes with what each writer has changed, in order.
func (h *harness) checkTrails(in *install, lines []change) {
	h.t.Helper()
	counted := 0
	for _, w := range in.extWriters {
		var own, told []change
		for _, line := range lines {
			if strings.HasPrefix(line.key, w.name+"-") {
				own = append(own, line)
			}
		}
		for _, line := range w.trail {
			if line.spot == counter {
				counted++
				if line.seq == 0 || line.seq > int64(len(in.feed)) || !in.feed[line.seq-1].like(line) {
					h.t.Errorf("%s: %v is not in the feed", w.name, line)
				}
			} else {
				told = append(told, line)
			}
		}
		if !slices.EqualFunc(own, told, change.like) {
			h.t.Errorf("%s: of the writer %s the feed has %v, want %v", in.id, w.name, own, told)
		}
	}
	for _, line := range lines {
		if line.spot == counter {
			counted--
		}
	}
	if counted != 0 {
		h.t.Errorf("%s: the feed lacks %d changes of the counter", in.id, counted)
	}
}

// copied returns the changes of a copy. Those of a copy that leaps end in a gap, which must be
// reported.
func (h *harness) copied(in *install, leaps bool) (all []change) {
	h.t.Helper()
	for {
		a, err := in.send(h.t.Context(), h.client, h.server.URL, call{method: http.MethodGet, path: fmt.Sprintf("/changes?limit=1000&since=%d", len(all))})
		if err == nil && leaps && a.Status == http.StatusGone {
			return all
		}
		var f wireFeed
		must(h.t, errors.Join(err, json.Unmarshal([]byte(a.Body), &f)))
		lines, err := f.after(int64(len(all)))
		must(h.t, err)
		all = append(all, lines...)
		switch {
		case len(lines) > 0:
		case leaps:
			h.t.Fatalf("the changes of a copy end with %d, want a gap: %d %s", len(all), a.Status, a.Body)
		default:
			return all
		}
	}
}

// checkInstallMoment checks that a copy has the data of an install at one moment of a span of the
// clock: every operation acknowledged before it, none sent after it, and each as a whole.
func (h *harness) checkInstallMoment(in *install, begun, ended int64, leaps bool) {
	h.t.Helper()
	there := h.entries(in)
	lines := h.copied(in, leaps)
	rows, copied := map[spot]rowState{}, map[spot]rowState{}
	h.follow(rows, lines)
	for at, e := range there {
		copied[at] = e.rowState
	}
	if !maps.Equal(rows, copied) {
		h.t.Errorf("%s: records and changes of the copy differ: %v, %v", in.id, copied, rows)
	}
	before := in.feed[:in.before]
	if len(lines) < len(before) || !slices.Equal(lines[:len(before)], before) {
		h.t.Fatalf("%s: the copy does not have all of the %d earlier changes", in.id, len(before))
	}
	for _, w := range in.extWriters {
		if !w.had(lines[len(before):], begun, ended) {
			h.t.Errorf("%s, with the changes %v and no answer to %v, never had this state from %d to %d: %v", w.name, w.trail, w.lost, begun, ended, lines[len(before):])
		}
	}
}

// had reports whether a feed has the writer's changes of some moment of the span.
func (w *extWriter) had(lines []change, begun, ended int64) bool {
	own := func(all []change) (some []change) {
		for _, line := range all {
			if strings.HasPrefix(line.key, w.name+"-") {
				some = append(some, line)
			}
		}
		return some
	}
	there, known := own(lines), own(w.trail)
	n := len(there)
	if n > len(known) && w.lost != nil && w.lost.sent < ended {
		known = append(known, own(w.lost.trail(ended))...)
	}
	switch {
	case n > len(known) || !slices.EqualFunc(there, known[:n], change.like):
		return false
	case n < len(known) && (known[n].acked < begun || n > 0 && known[n-1].acked == known[n].acked):
		return false
	}
	return n == 0 || known[n-1].sent < ended
}

// like compares a line of the feed with what is known of it.
func (c change) like(known change) bool {
	return c.op == known.op && c.spot == known.spot && c.revision == known.revision && (known.seq == 0 || known.seq == c.seq)
}

// follow applies changes to records, and checks that the revisions of each key start at 1 and have
// no gap.
func (h *harness) follow(rows map[spot]rowState, lines []change) {
	h.t.Helper()
	for _, line := range lines {
		before := rows[line.spot]
		if line.op == "put" {
			if rows[line.spot] = line.rowState; line.revision == before.revision+1 {
				continue
			}
		} else if delete(rows, line.spot); before.revision > 0 && line.revision == before.revision {
			continue
		}
		h.t.Errorf("%v, after revision %d", line, before.revision)
	}
}

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

// entry is what an author knows of a record.
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

// after are the changes of an answer, which follow on one another from a number.
func (f *wireFeed) after(since int64) (lines []change, err error) {
	for i, c := range f.Changes {
		if c.Seq != since+int64(i)+1 {
			return nil, fmt.Errorf("after the change %d comes %d", since+int64(i), c.Seq)
		}
		lines = append(lines, change{op: c.Op, spot: spot{c.Namespace, c.Key}, rowState: rowState{c.Revision, c.Seq}})
	}
	if f.Next != since+int64(len(lines)) {
		return nil, fmt.Errorf("%d changes since %d, and then it goes on with %d", len(lines), since, f.Next)
	}
	return lines, nil
}

// read lists what an install's authors share, and what has changed, until the
// fault is over.
func (in *install) read(h *harness, l *load, choose *rand.Rand) {
	since := in.knows()
	for n := 0; !closed(l.over); n++ {
		server := h.server
		if h.second != nil && n%4 > 1 {
			server = h.second
		}
		namespaces := extNamespaces()
		c := call{method: http.MethodGet, path: "/namespaces/" + namespaces[choose.IntN(len(namespaces))] + "/records?limit=100&values=true&metadata=true"}
		if n%2 == 1 {
			c.path = fmt.Sprintf("/changes?limit=1000&since=%d", since)
		}
		known := in.knows()
		if a, answered := h.tell(l, server, in, c); answered {
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

// followed judges an answer with the changes since one, when another was known
// already, and returns with which it goes on.
func followed(a binary.Answer, since, known int64) (int64, error) {
	var f wireFeed
	if err := json.Unmarshal([]byte(a.Body), &f); err != nil || a.Status != http.StatusOK {
		return since, fmt.Errorf("%d %s", a.Status, a.Body)
	}
	lines, err := f.after(since)
	if err == nil && len(lines) < 1000 && f.Next < known {
		err = fmt.Errorf("the changes end with %d, and %d was known when they were asked for", f.Next, known)
	}
	return f.Next, err
}

// listedEntries are the records of a page.
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

// look reads a record of an author who has lost a deed: it is as it was before,
// or as the deed has made it.
func (w *author) look(h *harness, l *load) {
	if len(w.state) == 0 {
		return
	}
	at := w.somewhere()
	a, answered := h.tell(l, h.serverOf(w.n), w.of, call{method: http.MethodGet, path: at.at()})
	if !answered {
		return
	}
	h.tally.reads.Add(1)
	if err := w.saw(at, a); err != nil {
		h.t.Errorf("%s, after no answer to %s: %s/%s: %v", w.name, w.lost, at.namespace, at.key, err)
		l.end()
	}
}

func (w *author) saw(at spot, a binary.Answer) error {
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

// is reports whether a record that was read is one of which only the number of
// its change is not known.
func (e entry) is(expected entry) bool {
	if expected.seq = e.seq; e.seq == 0 {
		return false
	}
	return e == expected
}

// checkInstall compares what is there of an install with what its authors know,
// and makes them know what is there.
func (h *harness) checkInstall(in *install) {
	h.t.Helper()
	for _, w := range in.authors {
		h.again(w)
	}
	there := h.entries(in)
	for _, w := range in.authors {
		h.settleDeed(w, there)
	}
	h.checkTrails(in, h.checkFeed(in, there))
	if got := there[counter].value.n; got != in.counted {
		h.t.Errorf("%s: the counter of all is %d, and was counted up to %d", in.id, got, in.counted)
	}
}

// again asks for what was not answered and happens once: now it is done,
// whether it was before or not.
func (h *harness) again(w *author) {
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

// settleDeed decides what has become of a deed without an answer: it was done as
// a whole, or nothing of it was, and all the others are there in any case.
func (h *harness) settleDeed(w *author, all entries) {
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
		// What deletes what is not there does nothing: then it makes no difference.
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

// entries are all that is there of an install. What the server says of it must
// agree with itself: pages, export, counts and usage.
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
		h.t.Errorf("%s: what is exported is not what is listed:%s", in.id, difference(exported, all))
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

// pages are the records of a namespace, a few at a time.
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

// export is all that an install has, in one answer, which is whole.
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
			h.t.Errorf("behind the end of an export: %s", lines.Text())
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
		h.t.Errorf("an export breaks off: %.200s", a.Body)
	}
	return all
}

// changes are those of an install since one, to the newest.
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

// checkFeed holds the changes since the last check, which it returns, against
// what is there.
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
		h.t.Errorf("%s: what is there is not what the changes come to: %v, %v", in.id, rows, in.rows)
	}
	return lines
}

// checkTrails holds changes against what each author knows to have changed, in
// its order.
func (h *harness) checkTrails(in *install, lines []change) {
	h.t.Helper()
	counted := 0
	for _, w := range in.authors {
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
			h.t.Errorf("%s: of %s's the feed has %v, and there were %v", in.id, w.name, own, told)
		}
	}
	for _, line := range lines {
		if line.spot == counter {
			counted--
		}
	}
	if counted != 0 {
		h.t.Errorf("%s: of the counter the feed has %d changes too few", in.id, counted)
	}
}

// copied are the changes that a copy has. Those of one that leaps end in a gap,
// which is told as such.
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
			h.t.Fatalf("the changes of a copy end with %d, and not in a gap: %d %s", len(all), a.Status, a.Body)
		default:
			return all
		}
	}
}

// checkInstallMoment wants that what is there of an install, in a copy, is what
// was there at one moment of a span of the clock: every deed that was
// acknowledged before it, none that was sent after it, and each as a whole.
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
		h.t.Errorf("%s: what was copied is not what the changes come to: %v, %v", in.id, copied, rows)
	}
	before := in.feed[:in.before]
	if len(lines) < len(before) || !slices.Equal(lines[:len(before)], before) {
		h.t.Fatalf("%s: of %d changes of before the copy has not all", in.id, len(before))
	}
	for _, w := range in.authors {
		if !w.had(lines[len(before):], begun, ended) {
			h.t.Errorf("%s, who has changed %v, and has no answer to %v, was never so in the span from %d to %d: %v", w.name, w.trail, w.lost, begun, ended, lines[len(before):])
		}
	}
}

// had reports whether the author's changes, in a feed with those of others, were
// these at a moment of the span.
func (w *author) had(lines []change, begun, ended int64) bool {
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

// follow applies changes to what was there, and wants that each life of a key
// has the revisions from 1 on.
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

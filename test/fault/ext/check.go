package ext

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"time"

	sdk "holdfast/client/ext"
	"holdfast/internal/workload"
	"holdfast/internal/workload/ext"
	"holdfast/test/fault/harness"
)

func readExt(h *harness.Harness, l *harness.Load, in *ext.Install, choose *rand.Rand) {
	since := in.Knows()
	for n := 0; !harness.Closed(l.Over); n++ {
		namespaces := ext.Namespaces()
		c := ext.Call{Method: http.MethodGet, Path: "/namespaces/" + namespaces[choose.IntN(len(namespaces))] + "/records?limit=100&values=true&metadata=true"}
		if n%2 == 1 {
			c.Path = fmt.Sprintf("/changes?limit=1000&since=%d", since)
		}
		known := in.Knows()
		if a, answered := askExt(h, l, h.ServerOf(n/2), in, c); answered {
			var err error
			if n%2 == 0 {
				_, err = ext.Listed(a)
			} else {
				since, err = ext.Followed(a, since, known)
			}
			if err != nil {
				h.T.Errorf("a reader of %s: %v", in.ID, err)
				l.End()
				return
			}
			h.Tally.Reads.Add(1)
		}
		harness.Pause(l.Over, 40*time.Millisecond)
	}
}

// lookExt reads a record after a lost response. The record must have the state before or after the operation.
func lookExt(h *harness.Harness, l *harness.Load, w *ext.Writer) error {
	if len(w.State) == 0 {
		return nil
	}
	at := w.ExistingKey()
	a, answered := askExt(h, l, h.ServerOf(w.N), w.Install, ext.Call{Method: http.MethodGet, Path: at.Path()})
	if !answered {
		return nil
	}
	h.Tally.Reads.Add(1)
	if err := w.Saw(at, a); err != nil {
		return fmt.Errorf("%s, no response to %s: %s/%s: %w", w.Name, w.Lost, at.Namespace, at.Key, err)
	}
	return nil
}

// checkInstall compares an install's data with its writers' model, and updates the model.
func checkInstall(h *harness.Harness, in *ext.Install) {
	h.T.Helper()
	for _, w := range in.Writers {
		retryExt(h, w)
	}
	there := entriesOf(h, in)
	for _, w := range in.Writers {
		settleExt(h, w, there)
	}
	checkTrails(h, in, checkFeed(h, in, there))
	if got := there[ext.Counter].Value.N; got != in.Counted {
		h.T.Errorf("%s: the shared counter is %d, want %d", in.ID, got, in.Counted)
	}
}

// retryExt retries idempotent operations without a response.
func retryExt(h *harness.Harness, w *ext.Writer) {
	h.T.Helper()
	d := w.Lost
	if d == nil || d.Once() == "" {
		return
	}
	a, err := w.Install.Send(h.T.Context(), h.Client, h.ServerOf(w.N).URL, d.Call)
	if err == nil {
		err = d.Read(a)
	}
	if err != nil {
		h.T.Errorf("%s, sent again: %v", w.Name, err)
		return
	}
	w.Lost = nil
	w.Done(d, h.Clock.Add(1))
	h.Decided(d, d.Refused, a.Header.Get("Idempotency-Replayed") != "")
}

// settleExt finds out whether an operation without a response took effect.
func settleExt(h *harness.Harness, w *ext.Writer, all ext.Entries) {
	h.T.Helper()
	d := w.Lost
	done, err := w.Found(all, h.Clock.Add(1))
	if err != nil {
		h.T.Error(err)
	}
	if d != nil {
		h.Decided(d, d.Refused, done)
	}
}

// entriesOf returns an install's records. Pages, export, counts and usage must agree.
func entriesOf(h *harness.Harness, in *ext.Install) ext.Entries {
	h.T.Helper()
	exported := exportOf(h, in)
	all := ext.Entries{}
	client := sdkOf(h, in)
	usage, err := client.Usage(h.T.Context())
	harness.Must(h.T, err)
	var sums []sdk.NamespaceUsage
	keys, bytes := int64(0), int64(0)
	for _, ns := range slices.Sorted(slices.Values(append(ext.Namespaces(), ext.Counter.Namespace))) {
		sum := sdk.NamespaceUsage{Namespace: ns}
		for _, r := range pagesOf(h, in, ns) {
			e, err := ext.ParseEntry(r.Value, r.Metadata, r.TTLExpiresAt != nil, r.Revision, r.Etag)
			harness.Must(h.T, err)
			all[ext.RecordKey{Namespace: ns, Key: r.Key}] = e
			sum.Keys++
			sum.Bytes += int64(len(r.Value) + len(r.Metadata))
		}
		if keys, bytes = keys+sum.Keys, bytes+sum.Bytes; sum.Keys > 0 {
			sums = append(sums, sum)
		}
	}
	if !maps.Equal(all, exported) {
		h.T.Errorf("%s: export and listing differ:%s", in.ID, workload.Difference(exported, all))
	}
	if !slices.Equal(usage.ByNamespace, sums) || usage.Keys.Used != keys || usage.Bytes.Used != bytes || usage.Namespaces.Used != int64(len(sums)) {
		h.T.Errorf("%s: the usage is %+v, listed %+v", in.ID, usage, sums)
	}
	list, err := client.Namespaces(h.T.Context())
	harness.Must(h.T, err)
	if !slices.Equal(list, sums) {
		h.T.Errorf("%s: the namespaces are %+v, listed %+v", in.ID, list, sums)
	}
	return all
}

func sdkOf(h *harness.Harness, in *ext.Install) sdk.Install {
	h.T.Helper()
	client, err := in.SDK(h.Server.URL, h.Client)
	harness.Must(h.T, err)
	return client
}

func pagesOf(h *harness.Harness, in *ext.Install, namespace string) (all []sdk.ListItem) {
	h.T.Helper()
	for r, err := range sdkOf(h, in).Records(namespace).List(h.T.Context(), sdk.List{Values: true, Metadata: true, Page: 20}) {
		harness.Must(h.T, err)
		all = append(all, r)
	}
	return all
}

// exportOf returns the records in an export, which must be complete.
func exportOf(h *harness.Harness, in *ext.Install) ext.Entries {
	h.T.Helper()
	a := callExt(h, in, http.StatusOK, ext.Call{Method: http.MethodGet, Path: "/export"}, nil)
	all, complete := ext.Entries{}, false
	for lines := bufio.NewScanner(strings.NewReader(a.Body)); lines.Scan(); {
		var line struct {
			ext.Record
			Export   int
			Schema   json.RawMessage
			Cursor   string
			Complete bool
			Records  int
		}
		harness.Must(h.T, json.Unmarshal(lines.Bytes(), &line))
		switch {
		case complete:
			h.T.Errorf("data after the end of an export: %s", lines.Text())
		case line.Complete:
			if complete = true; line.Records != len(all) {
				h.T.Errorf("export contains %d records but reports %d", len(all), line.Records)
			}
		case line.Cursor == "" && line.Export == 0 && line.Schema == nil:
			e, err := line.Entry()
			harness.Must(h.T, err)
			all[ext.RecordKey{Namespace: line.Namespace, Key: line.Key}] = e
		}
	}
	if !complete {
		h.T.Errorf("export truncated: %.200s", a.Body)
	}
	return all
}

func changesOf(h *harness.Harness, in *ext.Install, since int64) (all []ext.Change) {
	h.T.Helper()
	for {
		var f ext.Feed
		callExt(h, in, http.StatusOK, ext.Call{Method: http.MethodGet, Path: fmt.Sprintf("/changes?limit=1000&since=%d", since)}, &f)
		lines, err := f.After(since)
		harness.Must(h.T, err)
		if all, since = append(all, lines...), f.Next; len(lines) == 0 {
			return all
		}
	}
}

// checkFeed compares the changes since the last check with the records, and returns the changes.
func checkFeed(h *harness.Harness, in *ext.Install, there ext.Entries) []ext.Change {
	h.T.Helper()
	lines := changesOf(h, in, int64(len(in.Feed)))
	for _, err := range ext.Follow(in.Rows, lines) {
		h.T.Error(err)
	}
	in.Feed = append(in.Feed, lines...)
	rows := map[ext.RecordKey]ext.Row{}
	for at, e := range there {
		rows[at] = e.Row
	}
	if !maps.Equal(rows, in.Rows) {
		h.T.Errorf("%s: records and changes differ: %v, %v", in.ID, rows, in.Rows)
	}
	return lines
}

// checkTrails checks that the feed contains each writer's changes in order.
func checkTrails(h *harness.Harness, in *ext.Install, lines []ext.Change) {
	h.T.Helper()
	counted := 0
	for _, w := range in.Writers {
		own, told := w.Own(lines), []ext.Change(nil)
		for _, line := range w.Trail {
			if line.RecordKey == ext.Counter {
				counted++
				if line.Seq == 0 || line.Seq > int64(len(in.Feed)) || !in.Feed[line.Seq-1].Like(line) {
					h.T.Errorf("%s: %v is not in the feed", w.Name, line)
				}
			} else {
				told = append(told, line)
			}
		}
		if !slices.EqualFunc(own, told, ext.Change.Like) {
			h.T.Errorf("%s: changes of the writer %s in the feed: %v, want %v", in.ID, w.Name, own, told)
		}
	}
	for _, line := range lines {
		if line.RecordKey == ext.Counter {
			counted--
		}
	}
	if counted != 0 {
		h.T.Errorf("%s: the feed lacks %d changes of the counter", in.ID, counted)
	}
}

// copiedChanges returns a copy's changes. If the copy skips numbers, the changes end in a reported gap.
func copiedChanges(h *harness.Harness, in *ext.Install, leaps bool) (all []ext.Change) {
	h.T.Helper()
	for {
		a, err := in.Send(h.T.Context(), h.Client, h.Server.URL, ext.Call{Method: http.MethodGet, Path: fmt.Sprintf("/changes?limit=1000&since=%d", len(all))})
		if err == nil && leaps && a.Status == http.StatusGone {
			return all
		}
		var f ext.Feed
		harness.Must(h.T, errors.Join(err, json.Unmarshal([]byte(a.Body), &f)))
		lines, err := f.After(int64(len(all)))
		harness.Must(h.T, err)
		all = append(all, lines...)
		switch {
		case len(lines) > 0:
		case leaps && len(all) == 0 && in.Before == 0: // the copy lacks the install, so it skips no numbers
			return all
		case leaps:
			h.T.Fatalf("the changes of a copy end at %d, want a gap: %d %s", len(all), a.Status, a.Body)
		default:
			return all
		}
	}
}

// checkInstallMoment checks that a copy contains an install's data at one moment: every operation acknowledged before
// the copy began, none sent after it ended, and no partial operation.
func checkInstallMoment(h *harness.Harness, in *ext.Install, begun, ended int64, leaps bool) {
	h.T.Helper()
	there := entriesOf(h, in)
	lines := copiedChanges(h, in, leaps)
	rows, copied := map[ext.RecordKey]ext.Row{}, map[ext.RecordKey]ext.Row{}
	for _, err := range ext.Follow(rows, lines) {
		h.T.Error(err)
	}
	for at, e := range there {
		copied[at] = e.Row
	}
	if !maps.Equal(rows, copied) {
		h.T.Errorf("%s: records and changes of the copy differ: %v, %v", in.ID, copied, rows)
	}
	before := in.Feed[:in.Before]
	if len(lines) < len(before) || !slices.Equal(lines[:len(before)], before) {
		h.T.Fatalf("%s: the copy lacks some of the %d earlier changes", in.ID, len(before))
	}
	for _, w := range in.Writers {
		if !w.Had(lines[len(before):], begun, ended) {
			h.T.Errorf("%s, with the changes %v and no response to %v, never had this state from %d to %d: %v", w.Name, w.Trail, w.Lost, begun, ended, lines[len(before):])
		}
	}
}

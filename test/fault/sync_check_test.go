package fault

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
)

// check compares the data of a user with what the writers know, and tells them what is there.
func (h *harness) check(u *user) {
	h.t.Helper()
	stamps, there := h.read(u)
	for _, w := range u.writers {
		h.settle(w, there[w.name])
	}
	for _, collection := range shared() {
		if last := u.touched[collection]; last > 0 && h.stamp(stamps[collection]) < last {
			h.t.Errorf("%s has the timestamp %q, but a write there has %v", collection, stamps[collection], last)
		}
	}
}

// read returns all data of a user: the timestamps of the collections, and the records by writer.
// The server's answers must agree with each other.
func (h *harness) read(u *user) (stamps map[string]json.Number, there map[string]state) {
	h.t.Helper()
	h.get(u, "/info/collections", &stamps)
	there = map[string]state{}
	for _, w := range u.writers {
		there[w.name] = state{}
	}
	records, bytes, all := map[string]int64{}, map[string]int64{}, int64(0)
	for collection, text := range stamps {
		stamp := h.stamp(text)
		var listed []wire
		h.get(u, "/storage/"+collection+"?full=1", &listed)
		for _, r := range listed {
			name, _, _ := strings.Cut(r.ID, "-")
			if there[name] == nil {
				h.t.Fatalf("a record that was never sent: %s/%s", collection, r.ID)
			}
			there[name][key{collection, r.ID}] = record{r.Payload, r.Sortindex, h.stamp(r.Modified)}
			records[collection]++
			bytes[collection] += int64(len(r.Payload))
			all += int64(len(r.Payload))
			if h.stamp(r.Modified) > stamp {
				h.t.Errorf("%s has the timestamp %v, its collection %s has %v", r.ID, r.Modified, collection, stamp)
			}
		}
	}
	h.sums(u, records, bytes, all)
	return stamps, there
}

// settle determines whether the write without an answer was done. It was done as a whole or not at
// all, and all other records are unaffected.
func (h *harness) settle(w *writer, there state) {
	h.t.Helper()
	lost := w.lost
	w.lost = nil
	if lost == nil || lost.staged {
		if lost != nil {
			w.batch = nil // its contents are unknown; it is never committed
		}
		if !maps.Equal(there, w.state) {
			h.t.Errorf("%s, all acknowledged:%s", w.name, difference(there, w.state))
		}
		return
	}
	stamp := lost.stampIn(there)
	after := lost.applied(w.state, stamp)
	switch {
	case maps.Equal(there, w.state):
		h.decided(lost, lost.refused, false) // its batch is still open and can be committed
	case maps.Equal(there, after):
		h.decided(lost, lost.refused, true)
		if lost.commits {
			w.batch = nil
		}
		if stamp > 0 { // nothing shows the timestamp of a deletion
			if err := w.user.stamped(lost, stamp); err != nil {
				h.t.Error(err)
			}
		}
	default:
		h.t.Errorf("%s, no answer to %s; without it:%s\nwith it:%s", w.name, lost, difference(there, w.state), difference(there, after))
	}
	w.state = there
}

// sums compares counts and sizes with the listed records.
func (h *harness) sums(u *user, records, bytes map[string]int64, all int64) {
	h.t.Helper()
	var counts map[string]int64
	h.get(u, "/info/collection_counts", &counts)
	if !maps.Equal(counts, records) {
		h.t.Errorf("counts %v, listed %v", counts, records)
	}
	usage, listed := map[string]float64{}, map[string]float64{} // in kilobytes
	for collection, n := range bytes {
		listed[collection] = float64(n) / 1024
	}
	h.get(u, "/info/collection_usage", &usage)
	if !maps.Equal(usage, listed) {
		h.t.Errorf("usage %v, listed %v", usage, listed)
	}
	quota := [2]float64{} // the second is null: no limit
	h.get(u, "/info/quota", &quota)
	if want := float64(all) / 1024; quota[0] != want {
		h.t.Errorf("quota %v, listed %v", quota[0], want)
	}
}

// get reads JSON of a user.
func (h *harness) get(u *user, path string, into any) {
	h.t.Helper()
	a, err := u.send(h, http.MethodGet, path, "")
	if err == nil && a.Status != http.StatusOK {
		err = fmt.Errorf("%d %s", a.Status, a.Body)
	}
	if err == nil {
		err = json.Unmarshal([]byte(a.Body), into)
	}
	if err != nil {
		h.t.Fatalf("GET %s: %v", path, err)
	}
}

// stamp parses a timestamp of an answer; 0 if it is missing.
func (h *harness) stamp(n json.Number) moment {
	h.t.Helper()
	if n == "" {
		return 0
	}
	stamp, err := parseMoment(n.String())
	must(h.t, err)
	return stamp
}

// difference names the first few records that differ.
func difference[K, V comparable](there, want map[K]V) string {
	var lines []string
	for at, r := range want {
		if got, ok := there[at]; !ok {
			lines = append(lines, fmt.Sprintf("%v is missing, want %+v", at, r))
		} else if got != r {
			lines = append(lines, fmt.Sprintf("%v is %+v, want %+v", at, got, r))
		}
	}
	for at, r := range there {
		if _, ok := want[at]; !ok {
			lines = append(lines, fmt.Sprintf("%v is there: %+v", at, r))
		}
	}
	slices.Sort(lines)
	if n := len(lines); n > 5 {
		lines = append(lines[:5], fmt.Sprintf("and %d more", n-5))
	}
	return "\n  " + strings.Join(lines, "\n  ")
}

func (r record) String() string {
	return fmt.Sprintf("%.20q (%d bytes, sortindex %d) of %v", r.payload, len(r.payload), r.sortindex, r.modified)
}

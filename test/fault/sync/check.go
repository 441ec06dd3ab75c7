package sync

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"holdfast/internal/workload"
	syncload "holdfast/internal/workload/sync"
	"holdfast/test/fault/harness"
)

// checkUser compares a user's data with its writers' model, and updates the model.
func checkUser(h *harness.Harness, u *syncload.User) {
	h.T.Helper()
	stamps, there := readUser(h, u)
	for _, w := range u.Writers {
		settleSync(h, w, there[w.Name])
	}
	for _, collection := range syncload.Shared() {
		if last := u.Touched[collection]; last > 0 && stampIn(h, stamps[collection]) < last {
			h.T.Errorf("%s has the timestamp %q, but a write there has %v", collection, stamps[collection], last)
		}
	}
}

// readUser returns all data of a user: timestamps by collection, and records by writer. The server's responses must
// agree.
func readUser(h *harness.Harness, u *syncload.User) (stamps map[string]json.Number, there map[string]syncload.State) {
	h.T.Helper()
	getSync(h, u, "/info/collections", &stamps)
	there = map[string]syncload.State{}
	for _, w := range u.Writers {
		there[w.Name] = syncload.State{}
	}
	records, bytes, all := map[string]int64{}, map[string]int64{}, int64(0)
	for collection, text := range stamps {
		stamp := stampIn(h, text)
		var listed []syncload.Record
		getSync(h, u, "/storage/"+collection+"?full=1", &listed)
		for _, r := range listed {
			name, _, _ := strings.Cut(r.ID, "-")
			if there[name] == nil {
				h.T.Fatalf("a record that was never sent: %s/%s", collection, r.ID)
			}
			got, err := syncload.ReadContent(r)
			harness.Must(h.T, err)
			there[name][syncload.Key{Collection: collection, ID: r.ID}] = got
			records[collection]++
			bytes[collection] += int64(len(r.Payload))
			all += int64(len(r.Payload))
			if stampIn(h, r.Modified) > stamp {
				h.T.Errorf("%s has the timestamp %v, its collection %s has %v", r.ID, r.Modified, collection, stamp)
			}
		}
	}
	checkSums(h, u, records, bytes, all)
	return stamps, there
}

// settleSync finds out whether a write without a response took effect.
func settleSync(h *harness.Harness, w *syncload.Writer, there syncload.State) {
	h.T.Helper()
	lost := w.Lost
	decided, done, err := w.Found(there)
	if err != nil {
		h.T.Error(err)
	}
	if decided {
		h.Decided(lost, lost.Refused, done)
	}
}

// checkSums compares counts, usage and quota with the listed records.
func checkSums(h *harness.Harness, u *syncload.User, records, bytes map[string]int64, all int64) {
	h.T.Helper()
	var counts map[string]int64
	getSync(h, u, "/info/collection_counts", &counts)
	if !maps.Equal(counts, records) {
		h.T.Errorf("counts %v, listed %v", counts, records)
	}
	usage, listed := map[string]float64{}, map[string]float64{}
	for collection, n := range bytes {
		listed[collection] = float64(n) / 1024
	}
	getSync(h, u, "/info/collection_usage", &usage)
	if !maps.Equal(usage, listed) {
		h.T.Errorf("usage %v, listed %v", usage, listed)
	}
	quota := [2]float64{} // the second is null, which means no limit
	getSync(h, u, "/info/quota", &quota)
	if want := float64(all) / 1024; quota[0] != want {
		h.T.Errorf("quota %v, listed %v", quota[0], want)
	}
}

func getSync(h *harness.Harness, u *syncload.User, path string, into any) {
	h.T.Helper()
	a, err := sendSync(h, h.Server, u, http.MethodGet, path, "")
	if err == nil && a.Status != http.StatusOK {
		err = fmt.Errorf("%d %s", a.Status, a.Body)
	}
	if err == nil {
		err = json.Unmarshal([]byte(a.Body), into)
	}
	if err != nil {
		h.T.Fatalf("GET %s: %v", path, err)
	}
}

func stampIn(h *harness.Harness, n json.Number) syncload.Moment {
	h.T.Helper()
	if n == "" {
		return 0
	}
	stamp, err := syncload.ParseMoment(n.String())
	harness.Must(h.T, err)
	return stamp
}

// checkUserMoment looks for a timestamp at which the user had exactly this data: it contains every write acknowledged
// before the copy began, none sent after it ended, and the others in order, completely or not at all.
func checkUserMoment(h *harness.Harness, u *syncload.User, begun, ended int64) {
	h.T.Helper()
	_, there := readUser(h, u)
	cuts := []syncload.Moment{0}
	for _, w := range u.Writers {
		for _, v := range w.Trail {
			cuts = append(cuts, v.Stamp)
		}
	}
	slices.Sort(cuts)
	for _, cut := range slices.Compact(cuts) {
		if !slices.ContainsFunc(u.Writers, func(w *syncload.Writer) bool { return !w.Was(there[w.Name], cut, begun, ended) }) {
			return
		}
	}
	for _, w := range u.Writers {
		h.T.Errorf("%s never had this state, in timestamp order; the last state differs by%s", w.Name, workload.Difference(there[w.Name], w.State))
	}
}

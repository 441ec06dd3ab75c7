package sync

import (
	"fmt"
	"net/http"
	"strconv"
	"testing"
	"time"

	syncload "holdfast/internal/workload/sync"
	"holdfast/test/binary"
	"holdfast/test/fault/harness"
)

// TestKilledCommit kills a server during a batch commit. Either the whole batch is stored, or nothing is stored and
// the batch is still open and can be committed.
func TestKilledCommit(t *testing.T) {
	t.Parallel()
	harness.OnEngines(t, []harness.Service{Service()}, append(harness.Both(), harness.InSoak(harness.OnSpanner)...), killedCommits)
}

func killedCommits(t *testing.T, _ harness.Engine, data string, vars ...string) {
	t.Helper()
	h := harness.New(t, []harness.Service{Service()}, false, data, append(vars, "HOLDFAST_SYNCSTORAGE__LIMITS__MAX_POST_RECORDS=1000")...)
	h.Server = h.Serve()
	u := harness.NewUser(t, harness.Secret, harness.ProbeUser)
	const names = 50 // the server limits the collections per user
	const records = 300
	whole, nothing := 0, 0
	length := time.Hour // duration of the shortest commit so far; the first is not disturbed
	for round := range int(harness.Number(t, "FAULT_ROUNDS", 4)) {
		if round%names == names-1 {
			u = harness.NewUser(t, harness.Secret, harness.ProbeUser+int64(round))
		}
		collection := fmt.Sprintf("batch-%d", round)
		path := syncload.Commit(collection, stageBatch(h, u, collection, records))
		var a binary.Answer
		var err error
		answered := make(chan struct{})
		when := time.Duration(h.Choice(round).Int64N(int64(length)))
		start := time.Now()
		go func() {
			if a, err = sendSync(h, h.Server, u, http.MethodPost, path, "[]"); err == nil {
				length = min(length, time.Since(start))
			}
			close(answered)
		}()
		if round == 0 {
			when = harness.Bound
		}
		harness.Pause(answered, when)
		h.Server.Kill()
		<-answered
		h.Server = h.Serve()
		acknowledged := err == nil && a.Status == http.StatusOK
		// The commit may still be in progress; this request runs after it.
		there := countRecords(h, u, collection)
		again, err := sendSync(h, h.Server, u, http.MethodPost, path, "[]")
		harness.Must(t, err)
		switch {
		case again.Status == http.StatusOK && there == 0 && !acknowledged:
			nothing++
		case again.Status == http.StatusBadRequest && (there == records || there == 0 && !acknowledged):
			whole++
		default:
			t.Fatalf("round %d, seed %d: commit: %d %s, then %d of %d records, then %d %s", round, h.Seed, a.Status, a.Body, there, records, again.Status, again.Body)
		}
		if n := countRecords(h, u, collection); n != records {
			t.Fatalf("round %d, seed %d: %d of %d records at the end", round, h.Seed, n, records)
		}
		wantSync(h, u, http.StatusOK, http.MethodDelete, "/storage/"+collection, "")
	}
	t.Logf("%d commits were done, %d were not; one takes %v", whole, nothing, length)
}

func stageBatch(h *harness.Harness, u *syncload.User, collection string, records int) (id string) {
	h.T.Helper()
	body := syncload.Records(0, records, func(n int) syncload.Record {
		return syncload.Record{ID: strconv.Itoa(n), Payload: fmt.Sprintf("%d of %s", n, collection)}
	})
	id, err := syncload.Opened([]byte(wantSync(h, u, http.StatusAccepted, http.MethodPost, syncload.Append(collection, ""), body).Body))
	harness.Must(h.T, err)
	return id
}

func countRecords(h *harness.Harness, u *syncload.User, collection string) int64 {
	h.T.Helper()
	var counts map[string]int64
	getSync(h, u, "/info/collection_counts", &counts)
	return counts[collection]
}

func wantSync(h *harness.Harness, u *syncload.User, status int, method, path, body string) binary.Answer {
	h.T.Helper()
	a, err := sendSync(h, h.Server, u, method, path, body)
	if err != nil || a.Status != status {
		h.T.Fatalf("%s %s: %d %s %v, want %d", method, path, a.Status, a.Body, err, status)
	}
	return a
}

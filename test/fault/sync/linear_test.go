package sync

import (
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	syncload "holdfast/internal/workload/sync"
	"holdfast/test/binary"
	"holdfast/test/fault/harness"
)

// TestLinearizable checks that many clients' requests, through two server processes if the engine supports it, are
// linearizable: in some order, consistent with their times, every response is correct.
//
// FAULT_MINUTE sets the duration.
func TestLinearizable(t *testing.T) {
	t.Parallel()
	harness.OnEngines(t, []harness.Service{Service()}, append([]harness.Engine{harness.OnPostgres, harness.OnCitus}, harness.InSoak(harness.OnSQLite, harness.OnSpanner)...), runCrowd)
}

const (
	contentionUsers = 4

	// All clients start at once and send a few requests each: a moderate load with much overlap.
	wavePeriod = 400 * time.Millisecond
	waveMost   = 4

	// After this number of waves the clients move to new users, whose first writes also compete. This limits the history
	// that is searched for an order.
	wavesPerUser = 8
)

type contention struct {
	t       *testing.T
	client  *http.Client
	server  *binary.Server
	start   time.Time
	users   []*syncload.User
	serial  atomic.Int64
	mu      sync.Mutex
	history map[*syncload.User]harness.History
}

func runCrowd(t *testing.T, e harness.Engine, data string, vars ...string) {
	t.Helper()
	long := harness.ContentionTime(t)
	if e == harness.OnSpanner {
		long /= 4 // the emulator is always busy, and its writes wait for each other
	}
	h := harness.StartContention(t, Service(), e.Servers(), data, vars...)
	h.Client.Timeout = harness.Bound
	c := &contention{t: t, client: h.Client, server: h.Server, start: time.Now(), history: map[*syncload.User]harness.History{}}
	waves := max(1, int(long/wavePeriod))
	for uid := range (waves/wavesPerUser + 2) * contentionUsers {
		c.users = append(c.users, harness.NewUser(t, harness.Secret, int64(uid+1)))
	}
	c.run(waves)
	if t.Failed() {
		return
	}
	requests := 0
	for i, u := range c.users {
		c.settle(h, i, u)
		requests += len(c.history[u])
		if why := harness.Disorder(model(), c.history[u]); why != "" {
			t.Fatalf("user %s: %s", u.Path, why)
		}
	}
	t.Logf("%d requests of %d users in %v", requests, len(c.users), time.Since(c.start).Round(time.Second))
}

func (c *contention) run(waves int) {
	harness.InWaves(c.t, waves, wavePeriod, func(client, wave int) error {
		// A user's first and last clients move at different waves.
		return c.burst(client, c.users[(wave+client%wavesPerUser)/wavesPerUser*contentionUsers+client%contentionUsers])
	})
}

func (c *contention) burst(client int, u *syncload.User) error {
	var known syncload.Moment
	for range 1 + rand.IntN(waveMost) {
		a := c.next(known)
		r, err := c.record(client, u, a)
		if err != nil {
			return err
		}
		known = max(r.modified, r.stamp)
	}
	return nil
}

func (c *contention) next(known syncload.Moment) ask {
	a := ask{kind: kind(rand.IntN(int(kinds))), collection: rand.IntN(hotCollections), record: rand.IntN(hotRecords)}
	switch n := rand.IntN(20); { // most requests concern one record; deleting everything would leave no contention
	case n < 8:
		a.kind = doPut
	case n < 12:
		a.kind = doGet
	}
	switch a.kind {
	case doStamps: // needs no collection or records
		a.collection, a.record = 0, 0
	case doPut:
		a.payloads[a.record] = int(c.serial.Add(1))
	case doPost:
		for i := range a.payloads {
			if i == a.record || rand.IntN(2) == 0 {
				a.payloads[i] = int(c.serial.Add(1))
			}
		}
	}
	if rand.IntN(2) == 0 {
		a.conditional = true
		if rand.IntN(4) > 0 {
			a.since = known
		}
	}
	return a
}

func (c *contention) record(client int, u *syncload.User, a ask) (reply, error) {
	from := time.Since(c.start)
	r, err := c.send(u, a)
	to := time.Since(c.start)
	if err != nil {
		return r, fmt.Errorf("%s %v: %w", u.Path, a, err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.history[u] = append(c.history[u], porcupine.Operation{
		ClientId: client, Input: a, Call: int64(from), Output: r, Return: int64(to), Metadata: len(c.history[u]),
	})
	return r, nil
}

func (c *contention) settle(h *harness.Harness, i int, u *syncload.User) {
	c.t.Helper()
	records, bytes, all := map[string]int64{}, map[string]int64{}, int64(0)
	for collection := range hotCollections {
		r, err := c.record(i, u, ask{kind: doList, collection: collection})
		harness.Must(c.t, err)
		for _, there := range r.cells {
			if there.payload != 0 {
				n := int64(len(payload(there.payload)))
				records[hot(collection)]++
				bytes[hot(collection)] += n
				all += n
			}
		}
	}
	checkSums(h, u, records, bytes, all)
}

// hot returns a contended collection's name. Each new server must look it up.
func hot(collection int) string { return fmt.Sprintf("hot-%d", collection) }

func payload(n int) string { return fmt.Sprintf("%d %s", n, strings.Repeat("x", n%300)) }

func numberOf(payload string) (int, error) {
	digits, _, _ := strings.Cut(payload, " ")
	return strconv.Atoi(digits)
}

func (c *contention) send(u *syncload.User, a ask) (r reply, err error) {
	method, path, body := a.wire()
	req, err := u.Credentials(c.server.URL).Request(c.t.Context(), method, path, body)
	if err != nil {
		return r, err
	}
	if a.conditional {
		req.Header.Set("X-If-Unmodified-Since", a.since.String())
	}
	resp, err := c.client.Do(req)
	if err != nil {
		return r, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return r, err
	}
	return a.read(resp, text)
}

// wire returns a path relative to the user's storage.
func (a ask) wire() (method, path, body string) {
	path = "/storage/" + hot(a.collection)
	records := []syncload.Record{}
	for i, p := range a.payloads {
		if p != 0 {
			records = append(records, syncload.Record{ID: strconv.Itoa(i), Payload: payload(p)})
		}
	}
	switch a.kind {
	case doPut:
		return http.MethodPut, path + "/" + strconv.Itoa(a.record), syncload.JSON(records[0])
	case doPost:
		return http.MethodPost, path, syncload.JSON(records)
	case doDelete:
		return http.MethodDelete, path + "/" + strconv.Itoa(a.record), ""
	case doDeleteAll:
		return http.MethodDelete, path, ""
	case doGet:
		return http.MethodGet, path + "/" + strconv.Itoa(a.record), ""
	case doList:
		return http.MethodGet, path + "?full=1", ""
	}
	return http.MethodGet, "/info/collections", ""
}

// read decodes a response, and returns an error if the protocol does not allow it here.
func (a ask) read(resp *http.Response, text []byte) (r reply, err error) {
	r.status = resp.StatusCode
	if r.status == http.StatusNotFound {
		return r, nil // the response contains nothing else
	}
	if r.modified, err = syncload.ParseMoment(resp.Header.Get("X-Last-Modified")); err != nil {
		return r, fmt.Errorf("%d %s: %w", r.status, text, err)
	}
	if r.status != http.StatusOK {
		return r, nil
	}
	switch a.kind {
	case doGet:
		var one syncload.Record
		if err := json.Unmarshal(text, &one); err != nil {
			return r, err
		}
		return r, r.add(one)
	case doList:
		var all []syncload.Record
		if err := json.Unmarshal(text, &all); err != nil {
			return r, err
		}
		for _, one := range all {
			if err := r.add(one); err != nil {
				return r, err
			}
		}
		return r, nil
	case doStamps:
		var all map[string]json.Number
		if err := json.Unmarshal(text, &all); err != nil {
			return r, err
		}
		for i := range r.stamps {
			if n, ok := all[hot(i)]; ok {
				if r.stamps[i], err = syncload.ParseMoment(n.String()); err != nil {
					return r, err
				}
			}
		}
		return r, nil
	}
	r.stamp, err = stampOf(text)
	return r, err
}

func (r *reply) add(w syncload.Record) error {
	i, err := strconv.Atoi(w.ID)
	if err != nil || i >= hotRecords {
		return fmt.Errorf("a record that was never sent: %q", w.ID)
	}
	modified, err := syncload.ParseMoment(w.Modified.String())
	if err != nil {
		return err
	}
	n, err := numberOf(w.Payload)
	if err != nil || payload(n) != w.Payload {
		return fmt.Errorf("a payload that was never sent: %q", w.Payload)
	}
	r.cells[i] = cell{n, modified}
	return nil
}

// stampOf returns the timestamp in a write's response: a number, or the member modified.
func stampOf(text []byte) (syncload.Moment, error) {
	var n json.Number
	if err := json.Unmarshal(text, &n); err == nil {
		return syncload.ParseMoment(n.String())
	}
	var ack syncload.Acknowledgement
	if err := json.Unmarshal(text, &ack); err != nil {
		return 0, err
	}
	return syncload.ParseMoment(ack.Modified.String())
}

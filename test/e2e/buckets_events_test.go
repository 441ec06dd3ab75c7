package e2e

import (
	"crypto/md5"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"holdfast/internal/testdb"
	"holdfast/internal/workload/buckets"
	"holdfast/test/binary"
)

// eventHook is a webhook that records each key's events in the order of first delivery.
type eventHook struct {
	t  *testing.T
	mu sync.Mutex

	events   map[string][]string // ETags by key, or event names if there is no ETag
	last     map[string]string   // last sequencer by key
	seen     map[string]bool     // keys with sequencers
	requests int
	tests    int
	arrived  chan struct{} // receives after each delivery
}

type eventBody struct {
	Event   string
	Records []struct {
		EventName string
		S3        struct {
			Object struct{ Key, ETag, Sequencer string }
		}
	}
}

// ServeHTTP refuses a third of the requests.
func (h *eventHook) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	text, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.requests++; h.requests%3 == 0 {
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	var body eventBody
	if err := json.Unmarshal(text, &body); err != nil || (len(body.Records) == 0) != (body.Event == "s3:TestEvent") || !strings.HasPrefix(r.Header.Get("webhook-signature"), "v1,") {
		h.t.Errorf("%v: %s", err, text)
	}
	if body.Event != "" {
		h.tests++
	}
	for _, e := range body.Records {
		o := e.S3.Object
		id := o.Key + " " + o.Sequencer
		if h.seen[id] {
			continue
		}
		h.seen[id] = true
		if o.Sequencer <= h.last[o.Key] {
			h.t.Errorf("%s: %s comes after %s", o.Key, o.Sequencer, h.last[o.Key])
		}
		h.last[o.Key] = o.Sequencer
		what := o.ETag
		if what == "" {
			what = e.EventName
		}
		h.events[o.Key] = append(h.events[o.Key], what)
	}
	select {
	case h.arrived <- struct{}{}:
	default:
	}
}

// eventWrite is a write to a key. Each key has one writer.
type eventWrite struct {
	what  string
	acked bool
}

// missing returns the first acknowledged write without an event, or "". Events must be in order; an event without a
// write fails the test.
func (h *eventHook) missing(key string, all []eventWrite) string {
	h.mu.Lock()
	defer h.mu.Unlock()
	got := h.events[key]
	for _, w := range all {
		switch {
		case len(got) > 0 && got[0] == w.what:
			got = got[1:]
		case w.acked:
			return fmt.Sprintf("%s: %s, and these events are left: %v", key, w.what, got)
		}
	}
	if len(got) > 0 {
		h.t.Errorf("%s: events without a write: %v", key, got)
	}
	return ""
}

// TestEventsSurviveKills checks that a server that is killed repeatedly publishes exactly the events for acknowledged
// writes, in order per key.
func TestEventsSurviveKills(t *testing.T) {
	t.Parallel()
	t.Run("sqlite", func(t *testing.T) {
		t.Parallel()
		eventsSurviveKills(t)
	})
	t.Run("postgres", func(t *testing.T) {
		t.Parallel()
		vars := onlyBuckets(testdb.DurablePostgres(t).URL())
		binary.Migrate(t, t.TempDir(), vars...)
		eventsSurviveKills(t, vars...)
	})
}

func eventsSurviveKills(t *testing.T, vars ...string) {
	const writers, kills, between = 4, 4, 60
	h := &eventHook{t: t, arrived: make(chan struct{}, 1), events: map[string][]string{}, last: map[string]string{}, seen: map[string]bool{}}
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	data := t.TempDir()
	vars = append(vars, "HOLDFAST_BUCKETS__LISTEN="+testdb.FreeAddress(t), "HOLDFAST_BUCKETS__DESTINATIONS__HOOK__URL="+server.URL, "HOLDFAST_BUCKETS__DESTINATIONS__HOOK__SECRET=whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
	s := binary.Start(t, data, vars...)
	c := s.S3(t)
	must := func(method, target, body string) {
		t.Helper()
		if a, err := c.Send(t.Context(), method, target, body); err != nil || a.Status != http.StatusOK {
			t.Fatalf("%s %s: %d %s %v", method, target, a.Status, a.Body, err)
		}
	}
	must(http.MethodPut, "/box", "")
	must(http.MethodPut, "/box?notification", `<NotificationConfiguration><QueueConfiguration><Queue>arn:holdfast:webhook:::hook</Queue><Event>s3:ObjectCreated:*</Event><Event>s3:ObjectRemoved:*</Event></QueueConfiguration></NotificationConfiguration>`)

	l := &eventLoad{acks: make(chan struct{}, 1<<17)}
	wrote := make([]map[string][]eventWrite, writers)
	var work sync.WaitGroup
	for w := range writers {
		wrote[w] = map[string][]eventWrite{}
		work.Go(func() { l.write(t, c, w, wrote[w]) })
	}
	for range kills {
		l.await(t, between)
		l.down.Lock()
		s.Kill()
		s = binary.Start(t, data, vars...)
		l.down.Unlock()
	}
	l.await(t, between)
	l.stop.Store(true)
	work.Wait()
	deadline := time.After(2 * binary.Bound)
	for _, of := range wrote {
		for key, all := range of {
			for missing := h.missing(key, all); missing != ""; missing = h.missing(key, all) {
				select {
				case <-h.arrived:
				case <-deadline:
					t.Fatal(missing)
				}
				if t.Failed() {
					t.Fatal(missing)
				}
			}
		}
	}
	if h.mu.Lock(); h.tests == 0 {
		t.Error("no test event arrived")
	}
	h.mu.Unlock()
	t.Logf("%d acknowledged writes, %d requests", l.acked.Load(), h.requests)
}

type eventLoad struct {
	acked atomic.Int64
	acks  chan struct{}
	stop  atomic.Bool
	down  sync.RWMutex // write-locked while the server is down
}

func (l *eventLoad) await(t *testing.T, n int) {
	t.Helper()
	for len(l.acks) > 0 {
		<-l.acks
	}
	for deadline := time.After(2 * binary.Bound); n > 0; n-- {
		select {
		case <-l.acks:
		case <-deadline:
			t.Fatalf("%d acknowledged writes are missing", n)
		}
	}
}

func (l *eventLoad) write(t *testing.T, c *buckets.Client, writer int, wrote map[string][]eventWrite) {
	for n := 0; !l.stop.Load() && !t.Failed(); n++ {
		key := fmt.Sprintf("w%d/%d", writer, n%3)
		body, method, want := fmt.Sprintf("%d %d", writer, n), http.MethodPut, http.StatusOK
		what := fmt.Sprintf("%x", md5.Sum([]byte(body)))
		if all := wrote[key]; len(all) > 0 && all[len(all)-1].acked && all[len(all)-1].what != eventRemoved && n%4 == 3 {
			body, method, want, what = "", http.MethodDelete, http.StatusNoContent, eventRemoved
		}
		a, err := c.Send(t.Context(), method, "/box/"+key, body)
		ok := err == nil && a.Status == want
		wrote[key] = append(wrote[key], eventWrite{what, ok})
		if ok {
			l.acked.Add(1)
			l.acks <- struct{}{}
		} else {
			l.down.RLock()
			l.down.RUnlock() //nolint:staticcheck // waits until the server is there again
		}
	}
}

const eventRemoved = "ObjectRemoved:Delete"

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

// eventHook is a webhook that remembers the events of each key in the order of their first delivery.
type eventHook struct {
	t  *testing.T
	mu sync.Mutex

	events   map[string][]string // by key: the ETag, or the name of an event without one
	last     map[string]string   // the sequencer of the last of them
	seen     map[string]bool     // sequencers of keys
	requests int
}

type eventBody struct {
	Records []struct {
		EventName string
		S3        struct {
			Object struct{ Key, ETag, Sequencer string }
		}
	}
}

// ServeHTTP implements http.Handler. It refuses a third of the requests.
func (h *eventHook) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	text, err := io.ReadAll(r.Body)
	if err != nil {
		return // the server was killed
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.requests++; h.requests%3 == 0 {
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	var body eventBody
	if err := json.Unmarshal(text, &body); err != nil || len(body.Records) == 0 || !strings.HasPrefix(r.Header.Get("webhook-signature"), "v1,") {
		h.t.Errorf("%v: %s", err, text)
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
}

// eventWrite is a write of a key, in the order in which its only writer has sent it.
type eventWrite struct {
	what  string
	acked bool
}

// missing returns the first acknowledged write whose event has not arrived in order; "" if all have. An event of a write that has
// not begun fails the test.
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

// TestEventsSurviveKills: a server that is killed again and again publishes an event of every acknowledged write, in the order of
// each key, and none of another.
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
	h := &eventHook{t: t, events: map[string][]string{}, last: map[string]string{}, seen: map[string]bool{}}
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	data := t.TempDir()
	vars = append(vars, "HOLDFAST_BUCKETS__LISTEN="+binary.FreePort(t), "HOLDFAST_BUCKETS__DESTINATIONS__HOOK__URL="+server.URL, "HOLDFAST_BUCKETS__DESTINATIONS__HOOK__SECRET=secret")
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

	var acked atomic.Int64
	var stop atomic.Bool
	wrote := make([]map[string][]eventWrite, writers)
	var work sync.WaitGroup
	for w := range writers {
		wrote[w] = map[string][]eventWrite{}
		work.Go(func() { writeUntil(t, c, w, wrote[w], &acked, &stop) })
	}
	for range kills {
		for begin := acked.Load(); acked.Load() < begin+between && !t.Failed(); {
			time.Sleep(5 * time.Millisecond)
		}
		s.Kill()
		s = binary.Start(t, data, vars...)
	}
	for begin := acked.Load(); acked.Load() < begin+between && !t.Failed(); {
		time.Sleep(5 * time.Millisecond)
	}
	stop.Store(true)
	work.Wait()
	deadline := time.Now().Add(2 * binary.Bound)
	for _, of := range wrote {
		for key, all := range of {
			for missing := h.missing(key, all); missing != ""; missing = h.missing(key, all) {
				if time.Now().After(deadline) || t.Failed() {
					t.Fatal(missing)
				}
				time.Sleep(50 * time.Millisecond)
			}
		}
	}
	t.Logf("%d acknowledged writes, %d requests", acked.Load(), h.requests)
}

// writeUntil writes and deletes the keys of one writer.
func writeUntil(t *testing.T, c *buckets.Client, writer int, wrote map[string][]eventWrite, acked *atomic.Int64, stop *atomic.Bool) {
	for n := 0; !stop.Load() && !t.Failed(); n++ {
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
			acked.Add(1)
		} else {
			time.Sleep(20 * time.Millisecond) // it was killed
		}
	}
}

const eventRemoved = "ObjectRemoved:Delete"

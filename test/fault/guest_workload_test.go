package fault

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"holdfast/internal/testdb"
	"holdfast/internal/workload/guest"
	"holdfast/test/binary"
)

// guestService is guests under faults.
func guestService() service {
	w := &guestWorkload{}
	return service{
		name: "guest", section: "GUEST", vars: []string{
			"HOLDFAST_GUEST__ENABLED=true", "HOLDFAST_GUEST__RATE_LIMITS=false", "HOLDFAST_GUEST__BOTS__ENABLED=false",
			"HOLDFAST_GUEST__HANDOFF_URL=https://book.example/#{token}", "HOLDFAST_GUEST__HANDOFF_LIFE=30m", "HOLDFAST_SERVER__INTERNAL_LISTEN=127.0.0.1:0",
		},
		own: w.settings,
		workload: func(_ *testing.T, few bool) workload {
			w.add(map[bool]int{true: 2, false: 6}[few])
			return w
		},
		someRows: `SELECT 1 FROM bff_consumer.wishlist_anonymous WHERE property_id::text LIKE '0000000%' FOR UPDATE`,
		locks: []string{
			`LOCK TABLE bff_consumer.wishlist_anonymous IN ACCESS EXCLUSIVE MODE`,
			`LOCK TABLE bff_consumer.outbox IN ACCESS EXCLUSIVE MODE`,
		},
		next: nextRelease{migrations: map[string]string{
			"internal/guest/sqlite":   `ALTER TABLE bff_consumer_wishlist_anonymous ADD COLUMN future INTEGER NOT NULL DEFAULT 0;`,
			"internal/guest/postgres": `ALTER TABLE bff_consumer.wishlist_anonymous ADD COLUMN future BIGINT NOT NULL DEFAULT 0;`,
		}},
	}
}

// guestWorkload has one browser for each session, and a booking site.
type guestWorkload struct {
	guests   []*guest.Guest
	events   string              // file of the published events
	redis    *testdb.RedisServer // of processes that share a database; nil: hot state is in memory
	token    string              // of the booking site; "" before the first round
	internal sync.Map            // address of the internal listener, by server
}

// settings returns settings for one test. Events are not on the disk that fills up.
func (w *guestWorkload) settings(t *testing.T, postgres bool) []string {
	t.Helper()
	w.events = filepath.Join(t.TempDir(), "events")
	vars := []string{"HOLDFAST_GUEST__EVENTS=file:" + w.events}
	if postgres {
		w.redis = testdb.OwnRedis(t)
		vars = append(vars, "HOLDFAST_GUEST__HOT="+w.redis.URL())
	}
	return vars
}

func (w *guestWorkload) add(n int) {
	for range n {
		w.guests = append(w.guests, guest.NewGuest(len(w.guests)))
	}
}

func (w *guestWorkload) grow(_ *testing.T, n int) { w.add(max(0, n-len(w.guests))) }

func (w *guestWorkload) clients(h *harness, l *load) (all []client) {
	h.t.Helper()
	if w.token == "" {
		w.token = strings.TrimSpace(h.server.Verb("guest", "token", "--service", "booking"))
	}
	for _, g := range w.guests {
		if g.Cookie == "" {
			g.HTTP = h.client
			must(h.t, g.Begin(h.t.Context(), h.server.URL))
		}
		g.Forget()
		all = append(all, func(choose *rand.Rand) {
			g.Random = choose
			w.run(h, l, g)
		})
	}
	return all
}

// send sends a change, which the booking site does if it consumes a handoff.
func (w *guestWorkload) send(h *harness, s *binary.Server, g *guest.Guest, d *guest.Change) (binary.Answer, error) {
	if d.Kind == "consume" {
		return w.consume(h, s, *d.Handoff, d.Key)
	}
	return g.Send(h.t.Context(), s.URL, d.Call)
}

// consume consumes a handoff at the internal listener of a server.
func (w *guestWorkload) consume(h *harness, s *binary.Server, of guest.Handoff, key string) (binary.Answer, error) {
	url, ok := w.internal.Load(s)
	if !ok {
		url = s.Internal()
		w.internal.Store(s, url)
	}
	return guest.Site{HTTP: h.client, Token: w.token}.Send(h.t.Context(), url.(string), "consume", of, key)
}

// run changes a session until the fault is over. It sends a change without an answer again, with
// the same key.
func (w *guestWorkload) run(h *harness, l *load, g *guest.Guest) {
	for !closed(l.over) {
		d := g.Lost
		if d == nil {
			d = g.Next(!h.leaps)
			d.Sent = h.clock.Add(1)
		} else {
			pause(l.over, 20*time.Millisecond)
		}
		a, answered := w.ask(h, l, g, d)
		inFlight := answered && guest.IsInFlight(a)
		if !answered || inFlight {
			d.Refused = (d.Refused || !d.Tried) && !answered && unavailable(a)
			d.Tried, g.Lost = true, d
			if l.deadly && !answered {
				return // the server may be dead
			}
			continue
		}
		err := g.Acknowledge(d, a, h.clock.Add(1))
		if err == nil {
			l.acknowledge()
			err = w.reread(h, l, g)
		}
		if err != nil {
			h.t.Error(err)
			l.end()
			return
		}
	}
}

func (w *guestWorkload) ask(h *harness, l *load, g *guest.Guest, d *guest.Change) (binary.Answer, bool) {
	s := h.serverOf(g.N)
	return h.judge(l, d.Method, d.Path, func() (binary.Answer, error) { return w.send(h, s, g, d) })
}

// reread sometimes reads the wishlist, or repeats the last change, which has its first answer.
func (w *guestWorkload) reread(h *harness, l *load, g *guest.Guest) error {
	switch n := g.Random.IntN(6); {
	case n < 2:
		if a, answered := w.ask(h, l, g, &guest.Change{Call: guest.Call{Method: http.MethodGet, Path: "/wishlist"}}); answered {
			h.tally.reads.Add(1)
			if got, err := guest.Wishes(a); err != nil || got != g.State.Wishes {
				return fmt.Errorf("%s was acknowledged, and then the wishlist is %s, want %s: %w", g.Last, got, g.State.Wishes, err)
			}
		}
	case n < 3 && !h.leaps: // answers are kept for a day
		d := g.Last
		if a, answered := w.ask(h, l, g, d); answered && fmt.Sprint(a.Status, a.Body) != d.Answer && !guest.IsInFlight(a) {
			return fmt.Errorf("%s, repeated: %d %s, want %s", d, a.Status, a.Body, d.Answer)
		}
	}
	return nil
}

// read reads the state of a session outside of a round.
func (w *guestWorkload) read(h *harness, g *guest.Guest) (s guest.State) {
	h.t.Helper()
	a, err := g.Send(h.t.Context(), h.server.URL, guest.Call{Method: http.MethodGet, Path: "/wishlist"})
	must(h.t, err)
	s.Wishes, err = guest.Wishes(a)
	must(h.t, err)
	a, err = g.Send(h.t.Context(), h.server.URL, guest.Call{Method: http.MethodGet, Path: "/handoff?limit=1"})
	must(h.t, err)
	s.Handoff, err = guest.LastHandoff(a)
	must(h.t, err)
	return s
}

func (w *guestWorkload) unanswered() (all []string) {
	for _, g := range w.guests {
		if g.Lost != nil {
			all = append(all, g.Lost.String())
		}
	}
	return all
}

// check reads every session. A change without an answer has happened as a whole or not at all, and
// an acknowledged one is not done again.
func (w *guestWorkload) check(h *harness) {
	h.t.Helper()
	for _, g := range w.guests {
		if g.Cookie == "" {
			continue // it joins in the next round
		}
		w.settle(h, g)
		d := g.Last
		if d == nil || h.leaps {
			continue
		}
		a, err := w.send(h, h.server, g, d)
		for start := time.Now(); err == nil && guest.IsInFlight(a) && time.Since(start) < bound; { // of a server that was killed
			pause(nil, 20*time.Millisecond)
			a, err = w.send(h, h.server, g, d)
		}
		must(h.t, err)
		if fmt.Sprint(a.Status, a.Body) != d.Answer {
			h.t.Errorf("%s, repeated: %d %s, want %s", d, a.Status, a.Body, d.Answer)
		}
	}
}

// settle compares the state of a session with what is known of it.
func (w *guestWorkload) settle(h *harness, g *guest.Guest) {
	h.t.Helper()
	got, before, d := w.read(h, g), g.State, g.Lost
	if d == nil {
		if got != before {
			h.t.Errorf("guest %d has %+v, and was acknowledged with %+v", g.N, got, before)
		}
		return
	}
	done, err := g.Found(got, h.clock.Add(1))
	if err != nil {
		h.t.Error(err)
	} else if done || d.Changes(before) {
		h.decided(d, d.Refused, done)
	}
}

// forget loses the hot state, which another database shares: it has copies of rows.
func (w *guestWorkload) forget(h *harness) {
	h.t.Helper()
	if w.redis != nil {
		w.redis.Must(h.t, "FLUSHALL")
	}
}

// checkCopy compares the sessions with those at one moment of the copy. What was consumed at any
// time cannot be consumed in it, and after a restore no earlier handoff.
func (w *guestWorkload) checkCopy(h *harness, begun, ended int64, restored bool) {
	h.t.Helper()
	w.forget(h)
	defer w.forget(h)
	for _, g := range w.guests {
		if g.Cookie == "" {
			continue
		}
		if got := w.read(h, g); !g.Was(got, begun, ended) {
			h.t.Errorf("guest %d has in the copy %+v, which it never had from %d to %d; the last was %+v", g.N, got, begun, ended, g.State)
		}
		for _, m := range []*guest.Handoff{g.Burned, g.Open} {
			if m == nil || m == g.Open && !restored {
				continue
			}
			a, err := w.consume(h, h.server, *m, "copy")
			if err != nil || !slices.Contains([]int{http.StatusForbidden, http.StatusNotFound, http.StatusConflict}, a.Status) {
				h.t.Errorf("a handoff of the original in the copy: %d %s %v", a.Status, a.Body, err)
			}
		}
	}
	if a, err := w.probe(h, h.server); err != nil || a.Status != http.StatusCreated {
		h.t.Errorf("a change of the copy: %d %s %v", a.Status, a.Body, err)
	}
}

func (w *guestWorkload) probe(h *harness, s *binary.Server) (binary.Answer, error) {
	h.t.Helper()
	v := guest.Visitor{HTTP: h.client}
	must(h.t, v.Begin(h.t.Context(), s.URL))
	return v.Send(h.t.Context(), s.URL, guest.Call{Method: http.MethodPost, Path: "/wishlist", Body: guest.Wish(1), Key: "probe"})
}

// reads returns requests for handoffs, of which there are no copies.
func (w *guestWorkload) reads(h *harness) (all []func() (binary.Answer, error)) {
	for n := range 4 * len(w.guests) {
		v := w.guests[n%len(w.guests)].Visitor // its requests come at the same time
		all = append(all, func() (binary.Answer, error) {
			return v.Send(h.t.Context(), h.serverOf(n).URL, guest.Call{Method: http.MethodGet, Path: "/handoff"})
		})
	}
	return all
}

// finish waits until the events of all changes are published, and expects no others, in the order
// of the changes.
func (w *guestWorkload) finish(h *harness) {
	h.t.Helper()
	for start := time.Now(); ; pause(nil, 20*time.Millisecond) {
		got := w.published(h)
		missing := 0
		for _, g := range w.guests {
			missing += len(g.Events) - len(got[g.Session()])
		}
		if missing > 0 && time.Since(start) < bound {
			continue
		}
		for _, g := range w.guests {
			if !slices.Equal(got[g.Session()], g.Events) {
				h.t.Errorf("guest %d has changed %v, and published is %v", g.N, g.Events, got[g.Session()])
			}
		}
		return
	}
}

// published returns the events of each session in their order. One that was published again counts
// at its first place.
func (w *guestWorkload) published(h *harness) map[string][]string {
	h.t.Helper()
	text, err := os.ReadFile(w.events)
	if err != nil && !os.IsNotExist(err) {
		h.t.Fatal(err)
	}
	got, seen := map[string][]string{}, map[string]bool{}
	for line := range bytes.Lines(text) {
		var e struct {
			ID, Owner, Topic string
			Payload          struct{ PropertyID string }
		}
		if json.Unmarshal(line, &e) != nil || seen[e.ID] { // a line may be cut off when the server is killed
			continue
		}
		seen[e.ID] = true
		got[e.Owner] = append(got[e.Owner], strings.TrimPrefix(e.Topic, "melmastoon.bff.consumer.")+" "+e.Payload.PropertyID)
	}
	return got
}

// haveRedis reports whether the machine has what processes need that share a database.
func haveRedis() bool {
	_, err := exec.LookPath("redis-server")
	return err == nil
}

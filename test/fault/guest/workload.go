// Package guest tests guest sessions under faults. It contains the workload for all services' fault tests, and its own
// tests.
package guest

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
	"holdfast/test/fault/harness"
)

func Service() harness.Service {
	w := &guestWorkload{profile: guest.HotelSearch}
	return harness.Service{
		Name: "guest", Section: "GUEST", Vars: []string{
			"HOLDFAST_GUEST__ENABLED=true", "HOLDFAST_GUEST__RATE_LIMITS=false", "HOLDFAST_GUEST__BOTS__ENABLED=false",
			"HOLDFAST_GUEST__HANDOFF_URL=https://book.example/#{token}", "HOLDFAST_GUEST__HANDOFF_LIFE=30m", "HOLDFAST_SERVER__INTERNAL_LISTEN=127.0.0.1:0",
		},
		Own: w.settings,
		Workload: func(_ *testing.T, few bool) harness.Workload {
			w.add(map[bool]int{true: 2, false: 6}[few])
			return w
		},
		SomeRows: `SELECT 1 FROM bff_consumer.wishlist_anonymous WHERE property_id::text LIKE '0000000%' OR item_id LIKE 'sku-%' FOR UPDATE`,
		Locks: []string{
			`LOCK TABLE bff_consumer.wishlist_anonymous IN ACCESS EXCLUSIVE MODE`,
			`LOCK TABLE bff_consumer.outbox IN ACCESS EXCLUSIVE MODE`,
		},
		Next: harness.NextRelease{Migrations: map[string]string{
			"internal/guest/sqlite":   `ALTER TABLE bff_consumer_wishlist_anonymous ADD COLUMN future INTEGER NOT NULL DEFAULT 0;`,
			"internal/guest/postgres": `ALTER TABLE bff_consumer.wishlist_anonymous ADD COLUMN future BIGINT NOT NULL DEFAULT 0;`,
		}},
	}
}

type guestWorkload struct {
	profile  *guest.Profile
	guests   []*guest.Guest
	events   string
	redis    *testdb.RedisServer // shared by processes on the same database; nil if hot state is in memory
	token    string              // booking site token; "" before the first round
	internal sync.Map            // internal listener addresses by server
}

func siteOn(postgres bool) *guest.Profile {
	if name := os.Getenv("FAULT_PROFILE"); name == guest.Shop.Name || name == "" && postgres {
		return guest.Shop
	}
	return guest.HotelSearch
}

func (w *guestWorkload) settings(t *testing.T, postgres bool) []string {
	t.Helper()
	w.events = filepath.Join(t.TempDir(), "events")
	vars := []string{"HOLDFAST_GUEST__EVENTS=file:" + w.events}
	if postgres {
		w.redis = testdb.OwnRedis(t)
		vars = append(vars, "HOLDFAST_GUEST__HOT="+w.redis.URL())
	}
	w.profile = siteOn(postgres)
	for _, g := range w.guests {
		g.Profile = w.profile
	}
	return append(vars, w.profile.Vars...)
}

func (w *guestWorkload) add(n int) {
	for range n {
		g := guest.NewGuest(len(w.guests))
		g.Profile = w.profile
		w.guests = append(w.guests, g)
	}
}

func (w *guestWorkload) Grow(_ *testing.T, n int) { w.add(max(0, n-len(w.guests))) }

func (w *guestWorkload) Clients(h *harness.Harness, l *harness.Load) []harness.Client {
	h.T.Helper()
	if w.token == "" {
		w.token = strings.TrimSpace(h.Server.Verb("guest", "tokens", "create", "--service", "booking"))
	}
	for _, g := range w.guests {
		if g.Cookie == "" {
			g.HTTP = h.Client
			harness.Must(h.T, g.Begin(h.T.Context(), h.Server.URL))
		}
		g.Forget()
	}
	return harness.Clients(w.guests, func(g *guest.Guest, choose *rand.Rand) {
		g.Random = choose
		w.run(h, l, g)
	})
}

func (w *guestWorkload) send(h *harness.Harness, s *binary.Server, g *guest.Guest, d *guest.Change) (binary.Answer, error) {
	if d.Kind == "consume" {
		return w.consume(h, s, *d.Handoff, d.Key)
	}
	return g.Send(h.T.Context(), s.URL, d.Call)
}

func (w *guestWorkload) consume(h *harness.Harness, s *binary.Server, of guest.Handoff, key string) (binary.Answer, error) {
	url, ok := w.internal.Load(s)
	if !ok {
		url = s.Internal()
		w.internal.Store(s, url)
	}
	return guest.Site{HTTP: h.Client, Token: w.token}.Send(h.T.Context(), url.(string), "consume", of, key)
}

// run changes a session until the fault ends. After a lost response it retries the change with the same key.
func (w *guestWorkload) run(h *harness.Harness, l *harness.Load, g *guest.Guest) {
	h.Drive(l, func() (harness.Result, error) {
		d := g.Lost
		if d == nil {
			d = g.Next(!h.Leaps)
			d.Sent = h.Clock.Add(1)
		} else {
			harness.Pause(l.Over, 20*time.Millisecond)
		}
		a, answered := w.ask(h, l, g, d)
		if !answered || guest.IsInFlight(a) {
			d.Refused = (d.Refused || !d.Tried) && !answered && harness.Unavailable(a)
			d.Tried, g.Lost = true, d
			if answered {
				return harness.Nothing, nil
			}
			return harness.Lost, nil
		}
		err := g.Acknowledge(d, a, h.Clock.Add(1))
		if err == nil {
			err = w.reread(h, l, g)
		}
		return harness.Acknowledged, err
	})
}

func (w *guestWorkload) ask(h *harness.Harness, l *harness.Load, g *guest.Guest, d *guest.Change) (binary.Answer, bool) {
	s := h.ServerOf(g.N)
	return h.Judge(l, d.Method, d.Path, func() (binary.Answer, error) { return w.send(h, s, g, d) })
}

// reread sometimes reads the wishlist, or repeats the last change, which must get the first response again.
func (w *guestWorkload) reread(h *harness.Harness, l *harness.Load, g *guest.Guest) error {
	switch n := g.Random.IntN(6); {
	case n < 2:
		if a, answered := w.ask(h, l, g, &guest.Change{Call: guest.Call{Method: http.MethodGet, Path: "/wishlist"}}); answered {
			h.Tally.Reads.Add(1)
			if got, err := guest.Wishes(a); err != nil || got != g.State.Wishes {
				return fmt.Errorf("%s was acknowledged, but then the wishlist is %s, want %s: %w", g.Last, got, g.State.Wishes, err)
			}
		}
	case n < 3 && !h.Leaps: // responses are kept for a day
		d := g.Last
		if a, answered := w.ask(h, l, g, d); answered && fmt.Sprint(a.Status, a.Body) != d.Answer && !guest.IsInFlight(a) {
			return fmt.Errorf("%s, repeated: %d %s, want %s", d, a.Status, a.Body, d.Answer)
		}
	}
	return nil
}

func (w *guestWorkload) read(h *harness.Harness, g *guest.Guest) (s guest.State) {
	h.T.Helper()
	a, err := g.Send(h.T.Context(), h.Server.URL, guest.Call{Method: http.MethodGet, Path: "/wishlist"})
	harness.Must(h.T, err)
	s.Wishes, err = guest.Wishes(a)
	harness.Must(h.T, err)
	a, err = g.Send(h.T.Context(), h.Server.URL, guest.Call{Method: http.MethodGet, Path: "/handoff?limit=1"})
	harness.Must(h.T, err)
	s.Handoff, err = guest.LastHandoff(a)
	harness.Must(h.T, err)
	return s
}

func (w *guestWorkload) Unanswered() []string {
	return harness.Unanswered(w.guests, func(g *guest.Guest) *guest.Change { return g.Lost })
}

// Check reads every session. A change without a response took effect completely or not at all. An acknowledged change
// must not be repeated when it is sent again.
func (w *guestWorkload) Check(h *harness.Harness) {
	h.T.Helper()
	for _, g := range w.guests {
		if g.Cookie == "" {
			continue
		}
		w.settle(h, g)
		d := g.Last
		if d == nil || h.Leaps {
			continue
		}
		a, err := w.send(h, h.Server, g, d)
		for start := time.Now(); err == nil && guest.IsInFlight(a) && time.Since(start) < harness.Bound; { // a killed server was processing the request
			harness.Pause(nil, 20*time.Millisecond)
			a, err = w.send(h, h.Server, g, d)
		}
		harness.Must(h.T, err)
		if fmt.Sprint(a.Status, a.Body) != d.Answer {
			h.T.Errorf("%s, repeated: %d %s, want %s", d, a.Status, a.Body, d.Answer)
		}
	}
}

func (w *guestWorkload) settle(h *harness.Harness, g *guest.Guest) {
	h.T.Helper()
	got, before, d := w.read(h, g), g.State, g.Lost
	if d == nil {
		if got != before {
			h.T.Errorf("guest %d: state %+v, acknowledged %+v", g.N, got, before)
		}
		return
	}
	done, err := g.Found(got, h.Clock.Add(1))
	if err != nil {
		h.T.Error(err)
	} else if done || d.Changes(before) {
		h.Decided(d, d.Refused, done)
	}
}

// forget drops the shared hot state, because it caches the previous database's rows.
func (w *guestWorkload) forget(h *harness.Harness) {
	h.T.Helper()
	if w.redis != nil {
		w.redis.Must(h.T, "FLUSHALL")
	}
}

// CheckCopy compares the sessions with their state at one moment during the copy. The copy must refuse every consumed
// handoff and, after a restore, every earlier handoff.
func (w *guestWorkload) CheckCopy(h *harness.Harness, begun, ended int64, restored bool) {
	h.T.Helper()
	w.forget(h)
	defer w.forget(h)
	for _, g := range w.guests {
		if g.Cookie == "" {
			continue
		}
		if got := w.read(h, g); !g.Was(got, begun, ended) {
			h.T.Errorf("guest %d: state %+v in the copy, never reached from %d to %d; last state %+v", g.N, got, begun, ended, g.State)
		}
		for _, m := range []*guest.Handoff{g.Burned, g.Open} {
			if m == nil || m == g.Open && !restored {
				continue
			}
			a, err := w.consume(h, h.Server, *m, "copy")
			if err != nil || !slices.Contains([]int{http.StatusForbidden, http.StatusNotFound, http.StatusConflict}, a.Status) {
				h.T.Errorf("a handoff of the original in the copy: %d %s %v", a.Status, a.Body, err)
			}
		}
	}
	if a, err := w.Probe(h, h.Server); err != nil || a.Status != http.StatusCreated {
		h.T.Errorf("a change of the copy: %d %s %v", a.Status, a.Body, err)
	}
}

func (w *guestWorkload) Probe(h *harness.Harness, s *binary.Server) (binary.Answer, error) {
	h.T.Helper()
	v := guest.Visitor{HTTP: h.Client}
	harness.Must(h.T, v.Begin(h.T.Context(), s.URL))
	return v.Send(h.T.Context(), s.URL, guest.Call{Method: http.MethodPost, Path: "/wishlist", Body: w.profile.Wish(1), Key: "probe"})
}

// Reads requests handoffs, because handoffs are not cached.
func (w *guestWorkload) Reads(h *harness.Harness) (all []func() (binary.Answer, error)) {
	for n := range 4 * len(w.guests) {
		v := w.guests[n%len(w.guests)].Visitor
		all = append(all, func() (binary.Answer, error) {
			return v.Send(h.T.Context(), h.ServerOf(n).URL, guest.Call{Method: http.MethodGet, Path: "/handoff"})
		})
	}
	return all
}

// Finish waits until all changes' events are published in order, and fails on any other event.
func (w *guestWorkload) Finish(h *harness.Harness) {
	h.T.Helper()
	for start := time.Now(); ; harness.Pause(nil, 20*time.Millisecond) {
		got := w.published(h)
		missing := 0
		for _, g := range w.guests {
			missing += len(g.Events) - len(got[g.Session()])
		}
		if missing > 0 && time.Since(start) < harness.Bound {
			continue
		}
		for _, g := range w.guests {
			if !slices.Equal(got[g.Session()], g.Events) {
				h.T.Errorf("guest %d: changes %v, published events %v", g.N, g.Events, got[g.Session()])
			}
		}
		return
	}
}

// published returns each session's events in order. A repeated event counts at its first position.
func (w *guestWorkload) published(h *harness.Harness) map[string][]string {
	h.T.Helper()
	text, err := os.ReadFile(w.events)
	if err != nil && !os.IsNotExist(err) {
		h.T.Fatal(err)
	}
	got, seen := map[string][]string{}, map[string]bool{}
	for line := range bytes.Lines(text) {
		var e struct {
			ID, Owner, Topic string
			Payload          struct{ PropertyID, ItemID string }
		}
		if json.Unmarshal(line, &e) != nil || seen[e.ID] { // a kill may cut off a line
			continue
		}
		seen[e.ID] = true
		got[e.Owner] = append(got[e.Owner], strings.TrimPrefix(e.Topic, w.profile.Prefix)+" "+e.Payload.PropertyID+e.Payload.ItemID)
	}
	return got
}

// HaveRedis reports whether Redis is installed. Processes on a shared database need Redis.
func HaveRedis() bool {
	_, err := exec.LookPath("redis-server")
	return err == nil
}

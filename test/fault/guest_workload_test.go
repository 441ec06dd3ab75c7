package fault

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
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
	guests   []*guest
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
		w.guests = append(w.guests, &guest{n: len(w.guests), of: w, state: guestState{wishes: "{}"}, history: []guestVersion{{guestState: guestState{wishes: "{}"}}}})
	}
}

func (w *guestWorkload) grow(_ *testing.T, n int) { w.add(max(0, n-len(w.guests))) }

// guest sends one change of its session after the other.
type guest struct {
	of     *guestWorkload
	n      int
	choose *rand.Rand
	cookie string
	keys   int // of idempotency

	state   guestState // the last that was acknowledged
	history []guestVersion
	wishes  map[string]string // of state: the notes by property
	lost    *guestChange      // without an answer
	last    *guestChange      // with its answer
	events  []string          // of the changes that were done
	open    *handoff          // the last, unless it was consumed or its token was lost
	burned  *handoff          // the last that was consumed
}

// guestState is what the server has of a session.
type guestState struct {
	wishes  string // JSON: notes by property
	handoff string // ID and status of the last; "": none
}

// guestVersion is a state that was current from a moment between sent and acknowledged on.
type guestVersion struct {
	guestState
	sent, acknowledged int64
}

// handoff is a handoff as it was minted.
type handoff struct{ HandoffID, Token string }

// guestChange is a change with its idempotency key.
type guestChange struct {
	kind, method, path, body, key string
	after                         guestState
	wishes                        map[string]string
	event                         string // "": none
	handoff                       *handoff
	sent                          int64
	tried, refused                bool   // refused at every attempt
	answer                        string // of the acknowledgement
}

func (d *guestChange) String() string { return d.kind + " " + d.path + d.body }

// begin begins a session.
func (g *guest) begin(h *harness, s *binary.Server) {
	h.t.Helper()
	req, err := http.NewRequestWithContext(h.t.Context(), http.MethodPost, s.URL+"/bff/consumer/v1/session", http.NoBody)
	must(h.t, err)
	resp, err := h.client.Do(req)
	must(h.t, err)
	must(h.t, resp.Body.Close())
	if resp.StatusCode != http.StatusCreated || len(resp.Cookies()) != 1 {
		h.t.Fatalf("POST /session: %s", resp.Status)
	}
	g.cookie = resp.Cookies()[0].Value
}

// session is the ordering key of the events.
func (g *guest) session() string { id, _, _ := strings.Cut(g.cookie, "."); return id }

func (w *guestWorkload) clients(h *harness, l *load) (all []client) {
	h.t.Helper()
	if w.token == "" {
		w.token = strings.TrimSpace(h.server.Verb("guest", "token", "--service", "booking"))
	}
	for _, g := range w.guests {
		if g.cookie == "" {
			g.begin(h, h.server)
		}
		all = append(all, func(choose *rand.Rand) {
			g.choose, g.history = choose, g.history[len(g.history)-1:]
			g.run(h, l)
		})
	}
	return all
}

// send sends a request of a session, or of the booking site if it is about a handoff.
func (g *guest) send(h *harness, s *binary.Server, method, path, body, key string) (binary.Answer, error) {
	url := s.URL + "/bff/consumer/v1" + path
	site := strings.HasPrefix(path, "/internal/")
	if site {
		at, ok := g.of.internal.Load(s)
		if !ok {
			at = s.AwaitOutput(`(?m)^  internal +(\S+)$`)[1]
			g.of.internal.Store(s, at)
		}
		url = at.(string) + path
	}
	r, err := http.NewRequestWithContext(h.t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		return binary.Answer{}, err
	}
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	if key != "" {
		r.Header.Set("Idempotency-Key", key)
	}
	if site {
		r.Header.Set("Authorization", "Bearer "+g.of.token)
	} else {
		r.Header.Set("Cookie", "gms="+g.cookie)
	}
	resp, err := h.client.Do(r)
	if err != nil {
		return binary.Answer{}, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	return binary.Answer{Status: resp.StatusCode, Header: resp.Header, Body: string(text)}, err
}

// run changes the session until the fault is over. It sends a change without an answer again, with
// the same key.
func (g *guest) run(h *harness, l *load) {
	for !closed(l.over) {
		d := g.lost
		if d == nil {
			d = g.next(h)
			d.sent = h.clock.Add(1)
		} else {
			pause(l.over, 20*time.Millisecond)
		}
		a, answered := g.ask(h, l, d.method, d.path, d.body, d.key)
		inFlight := answered && isInFlight(a)
		if !answered || inFlight {
			d.refused = (d.refused || !d.tried) && !answered && unavailable(a)
			d.tried, g.lost = true, d
			if l.deadly && !answered {
				return // the server may be dead
			}
			continue
		}
		if err := g.acknowledged(h, d, a); err != nil {
			h.t.Error(err)
			l.end()
			return
		}
		l.acknowledge()
		if err := g.reread(h, l); err != nil {
			h.t.Error(err)
			l.end()
			return
		}
	}
}

func (g *guest) ask(h *harness, l *load, method, path, body, key string) (binary.Answer, bool) {
	s := h.serverOf(g.n)
	return h.judge(l, method, path, func() (binary.Answer, error) { return g.send(h, s, method, path, body, key) })
}

// isInFlight reports whether another request of the session is in progress.
func isInFlight(a binary.Answer) bool {
	return a.Status == http.StatusConflict && strings.Contains(a.Body, `"in-flight"`)
}

// reread sometimes reads the wishlist, or repeats the last change, which has its first answer.
func (g *guest) reread(h *harness, l *load) error {
	switch n := g.choose.IntN(6); {
	case n < 2:
		if a, answered := g.ask(h, l, http.MethodGet, "/wishlist", "", ""); answered {
			h.tally.reads.Add(1)
			if got, err := wishesOf(a); err != nil || got != g.state.wishes {
				return fmt.Errorf("%s was acknowledged, and then the wishlist is %s, want %s: %w", g.last, got, g.state.wishes, err)
			}
		}
	case n < 3 && !h.leaps: // answers are kept for a day
		d := g.last
		if a, answered := g.ask(h, l, d.method, d.path, d.body, d.key); answered && fmt.Sprint(a.Status, a.Body) != d.answer && !isInFlight(a) {
			return fmt.Errorf("%s, repeated: %d %s, want %s", d, a.Status, a.Body, d.answer)
		}
	}
	return nil
}

// next chooses a change. Some change nothing.
func (g *guest) next(h *harness) *guestChange {
	g.keys++
	d := &guestChange{key: fmt.Sprintf("%d-%d", g.n, g.keys), after: g.state, wishes: maps.Clone(g.wishes)}
	if d.wishes == nil {
		d.wishes = map[string]string{}
	}
	property := guestProperty(g.choose.IntN(6))
	_, live := d.wishes[property]
	note := fmt.Sprint("note ", g.keys)
	switch n := g.choose.IntN(10); {
	case n < 2:
		d.kind, d.method, d.path = "remove", http.MethodDelete, "/wishlist/"+property
		if live {
			d.event = "wishlist.removed.v1 " + property
			delete(d.wishes, property)
		}
	case n < 4 && live:
		d.kind, d.method, d.path, d.body = "note", http.MethodPatch, "/wishlist/"+property, fmt.Sprintf(`{"note":%q}`, note)
		d.wishes[property] = note
	case n < 6 && !h.leaps && g.open != nil:
		d.kind, d.method, d.path, d.body = "consume", http.MethodPost, "/internal/handoff/"+g.open.HandoffID+"/consume", `{"token":"`+g.open.Token+`"}`
		d.handoff, d.after.handoff = g.open, g.open.HandoffID+" consumed"
	case n < 6 && !h.leaps:
		pause(nil, 2*time.Millisecond) // the list of handoffs orders them by the millisecond
		d.kind, d.method, d.path, d.body = "mint", http.MethodPost, stormMint, stormStay
		d.event = "handoff.initiated.v1 " + stormMint[strings.LastIndexByte(stormMint, '/')+1:]
	default:
		d.kind, d.method, d.path = "add", http.MethodPost, "/wishlist"
		d.body = fmt.Sprintf(`{"tenantId":"11111111-2222-4333-8444-555555555555","propertyId":%q,"source":"list","note":%q}`, property, note)
		if !live {
			d.event = "wishlist.added.v1 " + property
			d.wishes[property] = note
		}
	}
	text, err := json.Marshal(d.wishes)
	must(h.t, err)
	d.after.wishes = string(text)
	return d
}

// acknowledged checks the answer of a change and records it.
func (g *guest) acknowledged(h *harness, d *guestChange, a binary.Answer) error {
	want := http.StatusOK
	switch {
	case d.kind == "mint", d.kind == "add" && d.event != "":
		want = http.StatusCreated
	case d.kind == "remove":
		want = http.StatusNoContent
	}
	if a.Status != want {
		return fmt.Errorf("%s: %d %s, want %d", d, a.Status, a.Body, want)
	}
	if d.kind == "mint" {
		d.handoff = &handoff{}
		if err := json.Unmarshal([]byte(a.Body), d.handoff); err != nil {
			return fmt.Errorf("%s: %s: %w", d, a.Body, err)
		}
		d.after.handoff = d.handoff.HandoffID + " open"
	}
	d.answer = fmt.Sprint(a.Status, a.Body)
	g.last = d
	g.done(h, d)
	return nil
}

// done records that a change has happened.
func (g *guest) done(h *harness, d *guestChange) {
	g.lost, g.state, g.wishes = nil, d.after, d.wishes
	g.history = append(g.history, guestVersion{d.after, d.sent, h.clock.Add(1)})
	switch d.kind {
	case "mint":
		g.open = d.handoff // nil if the token was lost
	case "consume":
		g.open, g.burned = nil, d.handoff
	}
	if d.event != "" {
		g.events = append(g.events, d.event)
	}
}

// wishesOf returns the notes by property in a list.
func wishesOf(a binary.Answer) (string, error) {
	var page struct {
		Items []struct{ PropertyID, Note string }
	}
	if err := json.Unmarshal([]byte(a.Body), &page); err != nil || a.Status != http.StatusOK {
		return "", fmt.Errorf("GET /wishlist: %d %s %w", a.Status, a.Body, err)
	}
	notes := map[string]string{}
	for _, i := range page.Items {
		notes[i.PropertyID] = i.Note
	}
	text, err := json.Marshal(notes)
	return string(text), err
}

// read reads the state of the session outside of a round.
func (g *guest) read(h *harness) (s guestState) {
	h.t.Helper()
	a, err := g.send(h, h.server, http.MethodGet, "/wishlist", "", "")
	must(h.t, err)
	s.wishes, err = wishesOf(a)
	must(h.t, err)
	a, err = g.send(h, h.server, http.MethodGet, "/handoff?limit=1", "", "")
	must(h.t, err)
	var page struct {
		Items []struct{ HandoffID, Status string }
	}
	if err := json.Unmarshal([]byte(a.Body), &page); err != nil || a.Status != http.StatusOK {
		h.t.Fatalf("GET /handoff: %d %s %v", a.Status, a.Body, err)
	}
	for _, i := range page.Items {
		s.handoff = i.HandoffID + " " + i.Status
	}
	return s
}

// isAfter reports whether the server has the state after a change, which may have made a handoff
// with an unknown ID.
func (d *guestChange) isAfter(before, got guestState) bool {
	if d.kind == "mint" {
		return got.wishes == before.wishes && got.handoff != before.handoff && strings.HasSuffix(got.handoff, " open")
	}
	return got == d.after
}

func (w *guestWorkload) unanswered() (all []string) {
	for _, g := range w.guests {
		if g.lost != nil {
			all = append(all, g.lost.String())
		}
	}
	return all
}

// check reads every session. A change without an answer has happened as a whole or not at all, and
// an acknowledged one is not done again.
func (w *guestWorkload) check(h *harness) {
	h.t.Helper()
	for _, g := range w.guests {
		if g.cookie == "" {
			continue // it joins in the next round
		}
		got, d := g.read(h), g.lost
		switch {
		case d == nil && got == g.state:
		case d == nil:
			h.t.Errorf("guest %d has %+v, and was acknowledged with %+v", g.n, got, g.state)
		case got == g.state:
			if g.lost = nil; d.after != g.state || d.kind == "mint" {
				h.decided(d, d.refused, false)
			}
		case d.isAfter(g.state, got):
			h.decided(d, d.refused, true)
			d.after = got
			g.done(h, d)
		default:
			h.t.Errorf("%s was not answered, and guest %d has %+v; before: %+v", d, g.n, got, g.state)
		}
		if d := g.last; d != nil && !h.leaps {
			a, err := g.send(h, h.server, d.method, d.path, d.body, d.key)
			for start := time.Now(); err == nil && isInFlight(a) && time.Since(start) < bound; { // of a server that was killed
				pause(nil, 20*time.Millisecond)
				a, err = g.send(h, h.server, d.method, d.path, d.body, d.key)
			}
			must(h.t, err)
			if fmt.Sprint(a.Status, a.Body) != d.answer {
				h.t.Errorf("%s, repeated: %d %s, want %s", d, a.Status, a.Body, d.answer)
			}
		}
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
		if g.cookie == "" {
			continue
		}
		got := g.read(h)
		var possible []guestState
		for _, v := range g.history {
			if v.acknowledged < begun {
				possible = nil
			}
			if v.sent <= ended {
				possible = append(possible, v.guestState)
			}
		}
		if !slices.Contains(possible, got) && (g.lost == nil || !g.lost.isAfter(g.state, got)) {
			h.t.Errorf("guest %d has in the copy %+v, expected one of %+v", g.n, got, possible)
		}
		for _, m := range []*handoff{g.burned, g.open} {
			if m == nil || m == g.open && !restored {
				continue
			}
			a, err := g.send(h, h.server, http.MethodPost, "/internal/handoff/"+m.HandoffID+"/consume", `{"token":"`+m.Token+`"}`, "copy")
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
	g := &guest{of: w}
	g.begin(h, s)
	return g.send(h, s, http.MethodPost, "/wishlist", guestWish(1), "probe")
}

// reads returns requests for handoffs, of which there are no copies.
func (w *guestWorkload) reads(h *harness) (all []func() (binary.Answer, error)) {
	for n := range 4 * len(w.guests) {
		g := w.guests[n%len(w.guests)]
		all = append(all, func() (binary.Answer, error) { return g.send(h, h.serverOf(n), http.MethodGet, "/handoff", "", "") })
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
			missing += len(g.events) - len(got[g.session()])
		}
		if missing > 0 && time.Since(start) < bound {
			continue
		}
		for _, g := range w.guests {
			if !slices.Equal(got[g.session()], g.events) {
				h.t.Errorf("guest %d has changed %v, and published is %v", g.n, g.events, got[g.session()])
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

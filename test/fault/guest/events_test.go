package guest

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"holdfast/internal/testdb"
	"holdfast/internal/workload/guest"
	"holdfast/test/binary"
	"holdfast/test/fault/harness"
)

func oneGuestServer(t *testing.T, vars ...string) *guests {
	t.Helper()
	data := t.TempDir()
	site := siteOn(slices.ContainsFunc(vars, func(v string) bool { return strings.HasPrefix(v, "HOLDFAST_GUEST__DATABASE_URL=postgres") }))
	vars = append(vars, site.Vars...)
	vars = append([]string{
		"HOLDFAST_GUEST__ENABLED=true", "HOLDFAST_SYNCSTORAGE__ENABLED=false", "HOLDFAST_TOKENSERVER__ENABLED=false",
		"HOLDFAST_GUEST__RATE_LIMITS=false", "HOLDFAST_GUEST__HANDOFF_URL=https://book.example.com/#{token}",
	}, vars...)
	binary.Migrate(t, data, vars...)
	return &guests{t: t, profile: site, servers: []*binary.Server{binary.Start(t, data, vars...)}}
}

type guestHook struct {
	*httptest.Server

	begin func(path string) (accept bool)

	mu      sync.Mutex
	refuse  func(e *guestEvent) bool
	changed chan struct{}
	again   int // repeated publications
	seen    map[string]bool
	got     map[string][]string // subjects by session, in order
}

type guestEvent struct {
	ID, Type, PartitionKey string
	Data                   struct{ PropertyID, ItemID string }
}

func newGuestHook(t *testing.T) *guestHook {
	t.Helper()
	h := &guestHook{changed: make(chan struct{}, 1), seen: map[string]bool{}, got: map[string][]string{}, refuse: func(*guestEvent) bool { return false }}
	h.begin = func(string) bool { return true }
	h.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil { // the server was killed
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		var e guestEvent
		if err := json.Unmarshal(body, &e); err != nil {
			t.Errorf("%v: %s", err, body)
		}
		if !h.begin(r.URL.Path) {
			http.Error(w, "later", http.StatusServiceUnavailable)
			return
		}
		h.mu.Lock()
		defer h.mu.Unlock()
		if h.refuse(&e) {
			http.Error(w, "poison", http.StatusBadRequest)
			return
		}
		if h.seen[e.ID] { // delivery is at least once
			h.again++
		} else {
			h.seen[e.ID] = true
			kind := strings.TrimPrefix(strings.TrimPrefix(e.Type, guest.HotelSearch.Prefix), guest.Shop.Prefix)
			h.got[e.PartitionKey] = append(h.got[e.PartitionKey], kind+" "+e.Data.PropertyID+e.Data.ItemID)
		}
		select {
		case h.changed <- struct{}{}:
		default:
		}
	}))
	t.Cleanup(h.Close)
	return h
}

func (h *guestHook) repeated() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.again
}

func (h *guestHook) refuses(fn func(e *guestEvent) bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.refuse = fn
}

func (h *guestHook) await(t *testing.T, what string, want map[string][]string) {
	t.Helper()
	for guard := time.After(2 * time.Minute); ; {
		h.mu.Lock()
		got := maps.Clone(h.got)
		h.mu.Unlock()
		if maps.EqualFunc(got, want, slices.Equal) {
			return
		}
		select {
		case <-h.changed:
		case <-guard:
			t.Fatalf("%s: got %v, want %v", what, got, want)
		}
	}
}

func (v *visitor) add(n int) (event string) {
	v.t.Helper()
	return v.addAt(0, n)
}

func (v *visitor) addAt(server, n int) (event string) {
	v.t.Helper()
	if status, text := v.change(server, http.MethodPost, "/wishlist", v.site().Wish(n)); status != http.StatusCreated {
		v.t.Errorf("add: %d %s", status, text)
	}
	v.live[v.site().Item(n)] = true
	return "wishlist.added.v1 " + v.site().Item(n)
}

func (v *visitor) toggle(n int) (event string) {
	v.t.Helper()
	if !v.live[v.site().Item(n)] {
		return v.add(n)
	}
	if status, text := v.change(0, http.MethodDelete, "/wishlist/"+v.site().Item(n), ""); status != http.StatusNoContent {
		v.t.Errorf("remove: %d %s", status, text)
	}
	delete(v.live, v.site().Item(n))
	return "wishlist.removed.v1 " + v.site().Item(n)
}

// TestGuestRefusedEvent lets the webhook always refuse one event among many. The other sessions' events are published,
// the refused event is set aside, and its session's next events follow. The relay retries an audited event until the
// webhook accepts it.
func TestGuestRefusedEvent(t *testing.T) {
	t.Parallel()
	const poison = 666
	hook := newGuestHook(t)
	tries := 3 // for the audited event; more than event_attempts
	hook.refuses(func(e *guestEvent) bool {
		if strings.HasSuffix(e.Type, "handoff.initiated.v1") && tries > 0 {
			tries--
			return true
		}
		return e.Data.PropertyID+e.Data.ItemID == siteOn(false).Item(poison) && strings.Contains(e.Type, "wishlist")
	})
	g := oneGuestServer(t, "HOLDFAST_GUEST__EVENTS="+hook.URL, "HOLDFAST_GUEST__EVENT_ATTEMPTS=2")
	want := map[string][]string{}
	poisoned := g.visitor("poisoned")
	want[poisoned.Session()] = []string{poisoned.add(1)}
	hook.await(t, "before the poison", want)
	late := poisoned.add(poison)
	want[poisoned.Session()] = append(want[poisoned.Session()], poisoned.add(2))
	for i := range 3 {
		v := g.visitor(fmt.Sprint("other-", i))
		for n := range 10 * int(harness.Number(t, "FAULT_ROUNDS", 1)) {
			want[v.Session()] = append(want[v.Session()], v.add(n))
		}
	}
	audited := g.visitor("audited")
	if status, text := audited.change(0, http.MethodPost, g.site().Mint("1"), g.site().Cargo); status != http.StatusCreated {
		t.Fatalf("mint: %d %s", status, text)
	}
	want[audited.Session()] = []string{"handoff.initiated.v1 " + g.site().Handed("1"), audited.add(2)}
	hook.await(t, "with a poison event", want)

	s := g.servers[0]
	dead := s.Verb("guest", "dead-letters", "list", "--json")
	if strings.Count(dead, "\n") != 1 || !strings.Contains(dead, g.site().Item(poison)) {
		t.Errorf("set aside:\n%s", dead)
	}
	hook.refuses(func(*guestEvent) bool { return false })
	s.Verb("guest", "dead-letters", "retry-all")
	want[poisoned.Session()] = append(want[poisoned.Session()], late, poisoned.add(3)) // wakes the relay
	hook.await(t, "after a retry", want)
}

// TestGuestKilledEventDeletion deletes old events while guests are served. It kills the command, and the next run
// deletes the rest. Pending, set-aside and younger events must remain.
func TestGuestKilledEventDeletion(t *testing.T) {
	t.Parallel()
	url := testdb.PostgresDatabase(t)
	g := oneGuestServer(t, "HOLDFAST_GUEST__DATABASE_URL="+url, "HOLDFAST_GUEST__SWEEP_INTERVAL=0s")
	s, v := g.servers[0], g.visitor("deletion")
	db, err := pgx.Connect(t.Context(), url)
	harness.Must(t, err)
	defer func() { harness.Must(t, db.Close(t.Context())) }()
	old := 15_000 * int(harness.Number(t, "FAULT_ROUNDS", 1))
	for _, kind := range []struct {
		rows            int
		published, dead string
		name            string
	}{{old, "now() - interval '31 days'", "NULL", "01"}, {500, "NULL", "now() - interval '31 days'", "02"}, {500, "now() - interval '29 days'", "NULL", "03"}} {
		_, err := db.Exec(t.Context(), `INSERT INTO bff_consumer.outbox (id, topic, ordering_key, subject, payload, headers, retention_class, created_at, published_at, dead_at)
			SELECT 'evt_' || '`+kind.name+`' || lpad(upper(to_hex(n)), 24, '0'), 'old.v1', 'gms_' || n, '`+kind.name+`', '{}', '{}', 'operational', now() - interval '32 days',
			`+kind.published+`, `+kind.dead+` FROM generate_series(1, $1) n`, kind.rows)
		harness.Must(t, err)
	}
	count := func(subject string) (n int) {
		t.Helper()
		harness.Must(t, db.QueryRow(t.Context(), `SELECT count(*) FROM bff_consumer.outbox WHERE subject = $1`, subject).Scan(&n))
		return n
	}
	command := exec.CommandContext(t.Context(), binary.Path(), "guest", "jobs", "run", "events")
	command.Env = s.Env
	harness.Must(t, command.Start())
	for n := 0; count("01") == old; n++ {
		v.add(n % 100) // changes during the deletion; also paces this loop
		v.change(0, http.MethodDelete, "/wishlist/"+g.site().Item(n%100), "")
		delete(v.live, g.site().Item(n%100))
	}
	harness.Must(t, command.Process.Kill())
	_ = command.Wait()
	t.Logf("%d of %d rows were left after the kill", count("01"), old)
	v.add(500)
	r := binary.Run(t, s.Env, "guest", "jobs", "run", "events")
	for start := time.Now(); r.Status != 0 && time.Since(start) < harness.Bound && strings.Contains(r.Stderr, "another process runs this job"); { // PostgreSQL has not noticed the kill yet
		r = binary.Run(t, s.Env, "guest", "jobs", "run", "events")
	}
	if r.Status != 0 || !strings.Contains(r.Stdout, "deleted") {
		t.Errorf("%s%s", r.Stdout, r.Stderr)
	}
	if got := []int{count("01"), count("02"), count("03")}; !slices.Equal(got, []int{0, 500, 500}) {
		t.Errorf("old, set aside and young events: %v", got)
	}
	v.compare(0, "after the deletion")
}

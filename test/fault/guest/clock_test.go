package guest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
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

func (g *guests) atSite(server int, token, operation string, of guest.Handoff, key string) (status int, text string) {
	g.t.Helper()
	url := g.servers[server].Internal()
	a, err := guest.Site{Token: token}.Send(g.t.Context(), url, operation, of, key)
	harness.Must(g.t, err)
	return a.Status, a.Body
}

func (g *guests) clockedTokens() (tokens []string) {
	g.t.Helper()
	for _, s := range g.servers {
		r := binary.RunOf(g.t, binary.Build(g.t, "holdfast/test/fault/clocked"), s.Env, "guest", "tokens", "create", "--service", "booking")
		if r.Status != 0 {
			g.t.Fatalf("guest tokens create: %s", r.Stderr)
		}
		tokens = append(tokens, strings.TrimSpace(r.Stdout))
	}
	return tokens
}

// TestGuestClockSkew runs three processes whose clocks differ by ten minutes. All processes accept service and handoff
// tokens until they expire by the database clock. Lists and events keep the order in which changes were made, and the
// rate limit equals a single process's limit.
func TestGuestClockSkew(t *testing.T) {
	t.Parallel()
	const perMinute, burst = 60, 20
	url := testdb.PostgresDatabase(t)
	hook := newGuestHook(t)
	off := []time.Duration{-10 * time.Minute, 0, 10 * time.Minute}
	clocks, brief := make([]*harness.Clock, len(off)), len(off) // brief is a server whose handoffs expire after a second
	g := guestsOf(t, len(off)+1, func(i int, data string, vars []string) *binary.Server {
		if i == brief {
			return harness.NewClock(t).Serve(data, append(vars, "HOLDFAST_GUEST__HANDOFF_LIFE=1s")...)
		}
		clocks[i] = harness.NewClock(t)
		clocks[i].Set(off[i])
		return clocks[i].Serve(data, vars...)
	}, "HOLDFAST_GUEST__DATABASE_URL="+url, "HOLDFAST_SERVER__INTERNAL_LISTEN=127.0.0.1:0", "HOLDFAST_GUEST__EVENTS="+hook.URL,
		stormSite, "HOLDFAST_GUEST__HANDOFF_LIFE=5m", "HOLDFAST_GUEST__BOTS__ENABLED=false",
		"HOLDFAST_GUEST__RATE_LIMITS=true", fmt.Sprint("HOLDFAST_GUEST__RATES__SESSION=", perMinute), "HOLDFAST_GUEST__RATES__BOOTSTRAP=10000",
		"HOLDFAST_GUEST__RATES__MINT=10000", "HOLDFAST_GUEST__RATES__WISHLIST=10000")
	tokens := g.clockedTokens()
	v := g.visitor("skew")
	db, err := pgx.Connect(t.Context(), url)
	harness.Must(t, err)
	defer func() { harness.Must(t, db.Close(t.Context())) }()
	want := func(status int, server int, token, operation string, of guest.Handoff, key string) (text string) {
		t.Helper()
		got, text := g.atSite(server, token, operation, of, key)
		if got != status {
			t.Errorf("%s at %v: %d %s, want %d", operation, off[server], got, text, status)
		}
		return text
	}
	var events []string
	for i := range off {
		mint := func(server int) (m guest.Handoff) {
			t.Helper()
			name := fmt.Sprint(i, "-", server)
			status, text := v.change(server, http.MethodPost, g.site().Mint(name), g.site().Cargo)
			if err := json.Unmarshal([]byte(text), &m); status != http.StatusCreated || err != nil {
				t.Fatalf("mint at server %d: %d %s", server, status, text)
			}
			events = append(events, "handoff.initiated.v1 "+g.site().Handed(name))
			return m
		}
		good, late := mint(i), mint(brief)
		for j := range off {
			want(http.StatusOK, j, tokens[i], "verify", good, "v")
		}
		last := (i + 1) % len(off)
		answer := want(http.StatusOK, last, tokens[i], "consume", good, "a")
		_, err := db.Exec(t.Context(), `SELECT pg_sleep_until(expires_at) FROM bff_consumer.handoff_replay_log WHERE id = $1`, late.HandoffID)
		harness.Must(t, err)
		for j := range off {
			if again := want(http.StatusOK, j, tokens[j], "consume", good, "a"); again != answer {
				t.Errorf("repeated at %v: %s, want %s", off[j], again, answer)
			}
			want(http.StatusConflict, j, tokens[i], "consume", good, "b")
			want(http.StatusGone, j, tokens[i], "consume", late, "a")
		}
		events = append(events, "bot_suspected.v1 "+g.site().Handed(fmt.Sprint(i, "-", i))) // a single attempt, sent three times
	}

	var added []string
	for i, server := range []int{2, 1, 0, 2} {
		events = append(events, v.addAt(server, i))
		added = append(added, g.site().Item(i))
	}
	slices.Reverse(added)
	for i := range off {
		_, _, text := v.send(i, http.MethodGet, "/wishlist", "", "")
		if at := strings.Index; !slices.IsSortedFunc(added, func(a, b string) int { return at(text, a) - at(text, b) }) {
			t.Errorf("the list at %v is not in the order of the changes: %s", off[i], text)
		}
	}
	hook.await(t, "three clocks", map[string][]string{v.Session(): events})

	clocks[2].Set(-time.Hour)
	admitted, lasted := g.hammer(g.visitor("skew-rate").Cookie, time.Second)
	least, most := float64(burst), burst+perMinute/60*lasted.Seconds()+1
	if g.withoutRedis() == 0 && (float64(admitted) < least || float64(admitted) > most) {
		t.Errorf("%d requests of a session were admitted in %s, %.0f to %.0f allowed", admitted, lasted, least, most)
	}
	v.compare(2, "after its clock was set back")
}

// TestGuestExpiredSessionsInMemory checks that in-memory sessions expire by the clock without a request, and that new
// sessions reuse their memory. The soak repeats this with a million sessions (FAULT_SESSIONS) for six times
// FAULT_MINUTE; FAULT_MINUTE=20m takes two hours.
func TestGuestExpiredSessionsInMemory(t *testing.T) {
	t.Parallel()
	testdb.SoakOnly(t, "it takes a minute or more")
	_, soak := os.LookupEnv("FAULT_MINUTE")
	sessions, memory, lasts, rounds := 100, int64(1<<20), time.Duration(0), 2
	if soak {
		sessions, memory, lasts = int(harness.Number(t, "FAULT_SESSIONS", 1_000_000)), 1<<30, 6*harness.ContentionTime(t)
	}
	data, c := t.TempDir(), harness.NewClock(t)
	s := c.Serve(data, "HOLDFAST_GUEST__ENABLED=true", "HOLDFAST_SYNCSTORAGE__ENABLED=false", "HOLDFAST_TOKENSERVER__ENABLED=false",
		"HOLDFAST_GUEST__RATE_LIMITS=false", "HOLDFAST_GUEST__BOTS__ENABLED=false", "HOLDFAST_GUEST__SWEEP_INTERVAL=0s", "HOLDFAST_LOG__ACCESS=false",
		fmt.Sprint("HOLDFAST_GUEST__HOT_MEMORY=", memory))
	g := &guests{t: t, servers: []*binary.Server{s}}
	in := &harness.Instance{T: t, Server: s}
	start := time.Now()
	for round := 0; round < rounds || time.Since(start) < lasts; round++ {
		old := g.visitor(fmt.Sprint("expired-", round))
		g.prefer(old, "de")
		before := g.metric(0, "holdfast_guest_hot_entries")
		var all sync.WaitGroup
		const browsers = 16
		for w := range browsers {
			all.Go(func() {
				for n := w; n < sessions && !t.Failed(); n += browsers {
					g.prefer(g.visitor(""), "fr")
				}
			})
		}
		all.Wait()
		if n := g.metric(0, "holdfast_guest_hot_entries"); n < before+float64(sessions)/2 {
			t.Errorf("%d sessions began, and hot state grew from %.0f entries to %.0f", sessions, before, n)
		}
		t.Logf("round %d: %.0f entries, %d MB resident, pauses of the garbage collector up to %.2f ms", round, g.metric(0, "holdfast_guest_hot_entries"),
			in.Resident("VmRSS")>>20, 1e3*g.metric(0, `go_gc_duration_seconds{quantile="1"}`))
		c.Set(time.Duration(round+1) * 31 * 24 * time.Hour)
		due := time.Now()
		s.AwaitAnswer("/metrics", func(_ int, body string) bool { return strings.Contains(body, "\nholdfast_guest_hot_entries 0\n") })
		if late := time.Since(due); soak && late > 2*time.Second+busy {
			t.Errorf("expired sessions were in memory for %s", late)
		}
		if status, _, text := old.send(0, http.MethodGet, "/session", "", ""); status != http.StatusOK || strings.Contains(text, `"locale":"de"`) {
			t.Errorf("an expired session: %d %s", status, text)
		}
		if r := in.Resident("VmRSS"); r > 2*memory+harness.MemoryOverhead {
			t.Errorf("%d MB resident", r>>20)
		}
		if p := g.metric(0, `go_gc_duration_seconds{quantile="0.75"}`); soak && p > 0.005 {
			t.Errorf("pauses of the garbage collector: %.2f ms", 1e3*p)
		}
		if t.Failed() {
			return
		}
	}
}

func (g *guests) prefer(v *visitor, locale string) {
	if status, _, text := v.send(0, http.MethodPatch, "/session/preferences", `{"locale":"`+locale+`"}`, ""); status != http.StatusOK {
		g.t.Errorf("preferences: %d %s", status, text)
	}
}

package guest

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"holdfast/internal/testdb"
	"holdfast/internal/workload/guest"
	"holdfast/test/binary"
	"holdfast/test/fault/harness"
)

type guests struct {
	t       *testing.T
	profile *guest.Profile
	redis   *testdb.RedisServer
	servers []*binary.Server
}

func (g *guests) site() *guest.Profile {
	if g.profile == nil {
		return guest.HotelSearch
	}
	return g.profile
}

func newGuests(t *testing.T, n int, vars ...string) *guests {
	t.Helper()
	return guestsOf(t, n, func(_ int, data string, vars []string) *binary.Server { return binary.Start(t, data, vars...) }, vars...)
}

func guestsOf(t *testing.T, n int, start func(i int, data string, vars []string) *binary.Server, vars ...string) *guests {
	t.Helper()
	g := &guests{t: t, profile: siteOn(true), redis: testdb.OwnRedis(t, "--maxmemory-policy", "noeviction")}
	vars = append([]string{
		"HOLDFAST_GUEST__ENABLED=true", "HOLDFAST_SYNCSTORAGE__ENABLED=false", "HOLDFAST_TOKENSERVER__ENABLED=false",
		"HOLDFAST_GUEST__HOT=" + g.redis.URL(), "HOLDFAST_GUEST__DATABASE_URL=" + testdb.PostgresDatabase(t),
		"HOLDFAST_GUEST__COOKIE_SECRET=" + strings.Repeat("s", 32), "HOLDFAST_GUEST__HANDOFF_SECRET=" + strings.Repeat("h", 32),
		"HOLDFAST_GUEST__RATE_LIMITS=false",
	}, append(vars, g.profile.Vars...)...)
	data := t.TempDir()
	binary.Migrate(t, data, vars...)
	for i := range n {
		g.servers = append(g.servers, start(i, data, slices.Clone(vars)))
		data = t.TempDir()
	}
	return g
}

type visitor struct {
	*guests
	guest.Visitor
	name   string
	keys   int
	live   map[string]bool
	repeat *guest.Change
}

func (g *guests) visitor(name string) *visitor {
	g.t.Helper()
	v := g.browser(name, "")
	harness.Must(g.t, v.Begin(g.t.Context(), g.servers[0].URL))
	return v
}

func (g *guests) browser(name, cookie string) *visitor {
	return &visitor{guests: g, Visitor: guest.Visitor{HTTP: stormClient, Cookie: cookie}, name: name, live: map[string]bool{}}
}

func (v *visitor) ask(server int, c guest.Call) (binary.Answer, error) {
	return v.Send(v.t.Context(), v.servers[server%len(v.servers)].URL, c)
}

func (v *visitor) send(server int, method, path, body, key string) (status int, h http.Header, text string) {
	a, err := v.ask(server, guest.Call{Method: method, Path: path, Body: body, Key: key})
	if err != nil {
		v.t.Error(err)
	}
	return a.Status, a.Header, a.Body
}

// change sends a change with a new key, and retries while another change in the session is in flight.
func (v *visitor) change(server int, method, path, body string) (status int, text string) {
	v.keys++
	r := &guest.Change{Call: guest.Call{Method: method, Path: path, Body: body, Key: fmt.Sprintf("%s-%d", v.name, v.keys)}}
	status, text = v.patiently(server, r)
	r.Answer = fmt.Sprint(status, text)
	v.repeat = r
	return status, text
}

func (v *visitor) patiently(server int, r *guest.Change) (status int, text string) {
	for {
		a, err := v.ask(server, r.Call)
		if err != nil {
			v.t.Error(err)
		}
		if !guest.IsInFlight(a) {
			return a.Status, a.Body
		}
		time.Sleep(20 * time.Millisecond) // sooner than Retry-After
	}
}

func (v *visitor) list(server int) (properties []string, more bool) {
	status, _, text := v.send(server, http.MethodGet, "/wishlist", "", "")
	var page struct {
		Items      []struct{ PropertyID, ItemID string }
		NextCursor *string
	}
	if err := json.Unmarshal([]byte(text), &page); err != nil || status != http.StatusOK {
		v.t.Errorf("GET /wishlist: %d %s", status, text)
	}
	for _, i := range page.Items {
		properties = append(properties, i.PropertyID+i.ItemID)
	}
	slices.Sort(properties)
	return properties, page.NextCursor != nil
}

func (v *visitor) compare(server int, what string) {
	got, _ := v.list(server)
	if want := slices.Sorted(maps.Keys(v.live)); !slices.Equal(got, want) {
		v.t.Errorf("%s: the wishlist of %s at server %d is %v, want %v", what, v.name, server, got, want)
	}
}

// step sends a random request and compares the response with the model.
func (v *visitor) step(random *rand.Rand, what string) {
	server, n := random.IntN(len(v.servers)), random.IntN(8)
	switch random.IntN(4) {
	case 0:
		want := http.StatusCreated
		if v.live[v.site().Item(n)] {
			want = http.StatusOK
		}
		if status, text := v.change(server, http.MethodPost, "/wishlist", v.site().Wish(n)); status != want {
			v.t.Errorf("%s: add: %d %s, want %d", what, status, text, want)
		}
		v.live[v.site().Item(n)] = true
	case 1:
		if status, text := v.change(server, http.MethodDelete, "/wishlist/"+v.site().Item(n), ""); status != http.StatusNoContent {
			v.t.Errorf("%s: remove: %d %s", what, status, text)
		}
		delete(v.live, v.site().Item(n))
	case 2:
		if v.repeat != nil {
			if status, text := v.patiently(server, v.repeat); fmt.Sprint(status, text) != v.repeat.Answer {
				v.t.Errorf("%s: repeated: %d %s, want %s", what, status, text, v.repeat.Answer)
			}
		}
	default:
		if status, _, text := v.send(server, http.MethodGet, "/session", "", ""); status != http.StatusOK {
			v.t.Errorf("%s: GET /session: %d %s", what, status, text)
		}
	}
	v.compare(random.IntN(len(v.servers)), what)
}

// TestGuestRedisFlush repeatedly flushes Redis while guests use two processes. Wishlists must match a model, no change
// is executed twice, a repeated request gets its first response unless that is spent, no handoff is consumed twice, and
// none is minted for a suspended tenant.
func TestGuestRedisFlush(t *testing.T) {
	t.Parallel()
	t.Run("one", func(t *testing.T) {
		t.Parallel()
		g := newGuests(t, 2, stormSite, internalListener)
		g.flushed([]*testdb.RedisServer{g.redis})
	})
	t.Run("cluster", func(t *testing.T) {
		t.Parallel()
		testdb.SoakOnly(t, "one server has shown the same")
		nodes := testdb.RedisCluster(t)
		g := newGuests(t, 2, stormSite, internalListener, "HOLDFAST_GUEST__HOT="+nodes[0].URL())
		g.flushed(nodes)
	})
}

const internalListener = "HOLDFAST_SERVER__INTERNAL_LISTEN=127.0.0.1:0"

func (g *guests) flushed(nodes []*testdb.RedisServer) {
	g.t.Helper()
	f := &flushing{
		guests: g, nodes: nodes, token: strings.TrimSpace(g.servers[0].Verb("guest", "tokens", "create", "--service", "booking")), suspended: g.suspendTenant(),
	}
	rounds := int(harness.Number(g.t, "FAULT_ROUNDS", 1))
	var all sync.WaitGroup
	for w := range 4 {
		v := g.visitor(fmt.Sprint("flush-", w))
		all.Go(func() {
			random := rand.New(rand.NewPCG(uint64(w), harness.Number(g.t, "FAULT_SEED", 1)))
			var burned guest.Handoff
			for n := range 40 * rounds {
				f.step(v, random, n, &burned)
				if v.step(random, "flushing"); g.t.Failed() {
					return
				}
			}
		})
	}
	all.Wait()
	g.t.Logf("%d steps; %d handoffs to a suspended tenant and %d second uses were refused; hot state was degraded %.0f times",
		f.sent.Load(), f.probes.Load(), f.consumed.Load(), g.metric(0, degradedCache)+g.withoutRedis())
}

type flushing struct {
	*guests
	nodes     []*testdb.RedisServer
	token     string
	suspended string // mint request for a suspended tenant

	sent, probes, consumed atomic.Int64
}

// step runs a step that must succeed without hot state. Every tenth step flushes Redis.
func (f *flushing) step(v *visitor, random *rand.Rand, n int, burned *guest.Handoff) {
	if f.sent.Add(1)%10 == 0 {
		for _, node := range f.nodes {
			if _, err := node.Command("FLUSHALL"); err != nil {
				f.t.Error(err)
			}
		}
	}
	server := random.IntN(len(f.servers))
	switch n % 8 {
	case 0:
		f.probes.Add(1)
		probe := &guest.Change{Call: guest.Call{Method: http.MethodPost, Path: f.suspended, Body: f.site().Cargo, Key: fmt.Sprint(v.name, "-probe-", n)}}
		if status, text := v.patiently(server, probe); status != http.StatusForbidden || !strings.Contains(text, "tenant-suspended") {
			f.t.Errorf("mint for a suspended tenant: %d %s", status, text)
		}
	case 1:
		if status, text := v.change(server, http.MethodPost, f.site().Mint(fmt.Sprint(v.name, "-", n)), f.site().Cargo); status != http.StatusCreated || json.Unmarshal([]byte(text), burned) != nil {
			f.t.Errorf("mint: %d %s", status, text)
		}
		if status, text := f.atSite(server, f.token, "consume", *burned, "a"); status != http.StatusOK {
			f.t.Errorf("consume: %d %s", status, text)
		}
		// The mint's first response would grant what is spent.
		if status, text := v.patiently(server, v.repeat); status != http.StatusConflict || !strings.Contains(text, "handoff-consumed") {
			f.t.Errorf("mint, repeated after the consume: %d %s", status, text)
		}
		v.repeat = nil
	default:
		f.consumed.Add(1)
		if status, text := f.atSite(server, f.token, "consume", *burned, fmt.Sprint("b", n)); burned.HandoffID != "" && status != http.StatusConflict {
			f.t.Errorf("consumed again: %d %s", status, text)
		}
	}
}

// suspendTenant returns the path that mints a handoff for a suspended tenant.
func (g *guests) suspendTenant() (mint string) {
	g.t.Helper()
	if g.site() == guest.Shop {
		const other = "33333333-2222-4333-8444-555555555555"
		g.servers[0].Verb("guest", "tenants", "suspend", other, "--reason", "test")
		return strings.Replace(g.site().Mint("suspended"), guest.Tenant, other, 1)
	}
	v := g.visitor("search")
	status, _, text := v.send(0, http.MethodPost, "/search", `{"pageSize":50}`, "")
	var found struct {
		Items []struct{ TenantID, PropertyID string }
	}
	if err := json.Unmarshal([]byte(text), &found); status != http.StatusOK || err != nil {
		g.t.Fatalf("search: %d %s", status, text)
	}
	for _, i := range found.Items {
		if i.TenantID != guest.Tenant {
			g.servers[0].Verb("guest", "tenants", "suspend", i.TenantID, "--reason", "test")
			return "/handoff/" + i.TenantID + "/" + i.PropertyID
		}
	}
	g.t.Fatal("the catalogue has one tenant only")
	return ""
}

var outages = []struct {
	name       string
	begin, end func(t *testing.T, r *testdb.RedisServer)
}{
	{"silent", func(t *testing.T, r *testdb.RedisServer) { harness.Must(t, r.Pause()) }, func(t *testing.T, r *testdb.RedisServer) { harness.Must(t, r.Continue()) }},
	{"gone", func(t *testing.T, r *testdb.RedisServer) { harness.Must(t, r.Kill()) }, func(t *testing.T, r *testdb.RedisServer) { harness.Must(t, r.Start()) }},
	{"full", func(t *testing.T, r *testdb.RedisServer) { r.Must(t, "CONFIG", "SET", "maxmemory", "1") }, func(t *testing.T, r *testdb.RedisServer) {
		r.Must(t, "CONFIG", "SET", "maxmemory", "0")
	}},
	{"a replica", func(t *testing.T, r *testdb.RedisServer) { r.Must(t, "REPLICAOF", "127.0.0.1", "1") }, func(t *testing.T, r *testdb.RedisServer) {
		r.Must(t, "REPLICAOF", "NO", "ONE")
	}},
}

// TestGuestRedisOutage makes Redis hang, disappear, fill up, or become a replica. Every route still answers quickly,
// wishlists are complete, and the processes use Redis again within seconds. Only the soak checks times, because it
// runs nothing else.
func TestGuestRedisOutage(t *testing.T) {
	t.Parallel()
	_, soak := os.LookupEnv("FAULT_ROUNDS")
	g := newGuests(t, 1)
	v := g.visitor("outage")
	random := rand.New(rand.NewPCG(7, harness.Number(t, "FAULT_SEED", 1)))
	goroutines := int(g.metric(0, "go_goroutines"))
	for round := range int(harness.Number(t, "FAULT_ROUNDS", 1)) * len(outages) {
		o := outages[round%len(outages)]
		normal := v.tour(o.name+", before", false)
		o.begin(t, g.redis)
		var took []time.Duration
		for range 3 {
			took = append(took, v.tour(o.name, true)...)
			v.step(random, o.name)
		}
		slices.Sort(took)
		slices.Sort(normal)
		slowest, usual := took[len(took)-1], normal[len(normal)-1]
		t.Logf("%s: the slowest request took %s, half of them %s; before: %s", o.name, slowest, took[len(took)/2], usual)
		if most := 300*time.Millisecond + 2*usual + busy; soak && slowest > most {
			t.Errorf("%s: a request took %s, at most %s expected", o.name, slowest, most)
		}
		if n := int(g.metric(0, "go_goroutines")); n > goroutines+100 {
			t.Errorf("%s: %d goroutines, %d before", o.name, n, goroutines)
		}
		o.end(t, g.redis)
		start := time.Now()
		if status, _ := v.sendUntil(http.MethodPatch, "/session/preferences", `{"locale":"de"}`, "", http.StatusOK); status != http.StatusOK {
			t.Fatalf("%s: Redis is not used again: %d", o.name, status)
		}
		if took := time.Since(start); soak && took > 5*time.Second+busy {
			t.Errorf("%s: Redis was used again after %s", o.name, took)
		}
		v.step(random, "after "+o.name)
	}
}

func (v *visitor) sendUntil(method, path, body, key string, statuses ...int) (status int, text string) {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for start := time.Now(); ; <-tick.C {
		status, _, text = v.send(0, method, path, body, key)
		if slices.Contains(statuses, status) || time.Since(start) > binary.Bound {
			return status, text
		}
	}
}

const busy = 5 * time.Second

// tour sends a request to every route that needs hot state, and returns their durations. During an outage, the server
// may refuse changes to state that exists only in Redis.
func (v *visitor) tour(what string, outage bool) (took []time.Duration) {
	timed := func(method, path, body, key string, statuses ...int) {
		start := time.Now()
		status, _, text := v.send(0, method, path, body, key)
		took = append(took, time.Since(start))
		if !outage && status == http.StatusServiceUnavailable { // Redis was slow on a busy machine
			status, text = v.sendUntil(method, path, body, key, statuses...)
		}
		if !slices.Contains(statuses, status) && (!outage || status != http.StatusServiceUnavailable || key != "" || method == http.MethodGet) {
			v.t.Errorf("%s: %s %s: %d %s", what, method, path, status, text)
		}
	}
	key := func() string { v.keys++; return fmt.Sprintf("%s-%d", v.name, v.keys) }
	timed(http.MethodGet, "/session", "", "", http.StatusOK)
	timed(http.MethodPatch, "/session/preferences", `{"currency":"EUR"}`, "", http.StatusOK)
	timed(http.MethodPost, "/session/recently-viewed", `{"tenantId":"`+guest.Tenant+`","`+v.site().Member+`":"`+v.site().Item(1)+`"}`, "", http.StatusCreated)
	timed(http.MethodGet, "/session/recently-viewed", "", "", http.StatusOK)
	timed(http.MethodGet, "/session/history", "", "", http.StatusOK)
	timed(http.MethodPost, "/wishlist", v.site().Wish(1000), key(), http.StatusCreated)
	timed(http.MethodGet, "/wishlist", "", "", http.StatusOK)
	timed(http.MethodDelete, "/wishlist/"+v.site().Item(1000), "", key(), http.StatusNoContent)
	return took
}

func (g *guests) metric(server int, name string) float64 {
	g.t.Helper()
	body := g.servers[server].Await("/metrics", http.StatusOK)
	found := regexp.MustCompile(`(?m)^` + regexp.QuoteMeta(name) + ` (\S+)$`).FindStringSubmatch(body)
	if found == nil {
		g.t.Fatalf("no metric %s", name)
	}
	v, err := strconv.ParseFloat(found[1], 64)
	harness.Must(g.t, err)
	return v
}

// TestGuestChangeAfterFlush checks that a change between a flush and the first read does not cache a wishlist that
// contains only this change.
func TestGuestChangeAfterFlush(t *testing.T) {
	t.Parallel()
	g := newGuests(t, 2)
	v := g.visitor("flush")
	for n := range 2 * int(harness.Number(t, "FAULT_ROUNDS", 2)) {
		v.list(n)
		g.redis.Must(t, "FLUSHALL")
		if status, text := v.change(n, http.MethodPost, "/wishlist", g.site().Wish(n%90)); status/100 != 2 {
			t.Fatalf("add: %d %s", status, text)
		}
		v.live[g.site().Item(n%90)] = true
		for server := range g.servers {
			v.compare(server, "after a flush")
		}
	}
}

// TestGuestWishlistLimit sends 300 concurrent adds to a wishlist through two processes. Exactly 100 succeed, and no
// reader sees more while entries are added and removed.
func TestGuestWishlistLimit(t *testing.T) {
	t.Parallel()
	g := newGuests(t, 2)
	for round := range int(harness.Number(t, "FAULT_ROUNDS", 1)) {
		v := g.visitor(fmt.Sprint("limit-", round))
		cookie := v.Cookie
		var added, full atomic.Int64
		var all sync.WaitGroup
		slots := make(chan struct{}, 50)
		for n := range 300 {
			all.Go(func() {
				slots <- struct{}{}
				defer func() { <-slots }()
				one := g.browser(fmt.Sprintf("%s-%d", v.name, n), cookie)
				switch status, text := one.change(n, http.MethodPost, "/wishlist", g.site().Wish(n)); {
				case status == http.StatusCreated:
					added.Add(1)
				case status == http.StatusConflict && strings.Contains(text, "wishlist-full"):
					full.Add(1)
				default:
					t.Errorf("add: %d %s", status, text)
				}
			})
		}
		all.Wait()
		if added.Load() != 100 || full.Load() != 200 {
			t.Fatalf("%d added, %d refused", added.Load(), full.Load())
		}
		for w := range 6 {
			all.Go(func() {
				one := g.browser(fmt.Sprintf("%s-mix-%d", v.name, w), cookie)
				random := rand.New(rand.NewPCG(uint64(w), uint64(round)))
				for range 15 {
					n := random.IntN(300)
					one.change(w, http.MethodDelete, "/wishlist/"+g.site().Item(n), "")
					one.change(w, http.MethodPost, "/wishlist", g.site().Wish(random.IntN(300)))
					if got, more := one.list(w); len(got) > 100 || more {
						t.Errorf("%d entries, more: %v", len(got), more)
					}
				}
			})
		}
		all.Wait()
	}
}

// TestGuestRateLimit checks that three processes together admit no more than the rate limit, and hardly less: through
// Redis, and a third each while Redis is unavailable.
func TestGuestRateLimit(t *testing.T) {
	t.Parallel()
	const perSecond, burst = 20, 400
	g := newGuests(t, 3, "HOLDFAST_GUEST__RATE_LIMITS=true", "HOLDFAST_GUEST__PROCESSES=3", fmt.Sprintf("HOLDFAST_GUEST__RATES__SESSION=%d", 60*perSecond))
	seconds := time.Duration(min(2*harness.Number(t, "FAULT_ROUNDS", 1)-1, 60)) * time.Second
	for _, away := range []bool{false, true} {
		v := g.visitor("rate")
		if away {
			harness.Must(t, g.redis.Kill())
		}
		admitted, lasted := g.hammer(v.Cookie, seconds)
		least, most := 0.95*(burst+perSecond*seconds.Seconds()), burst+perSecond*lasted.Seconds()+1
		if away {
			most += 3 // each of the three parts is rounded
		} else if g.withoutRedis() > 0 { // Redis may be too slow on a busy machine
			most = 2*most + 3
			least = 0
		}
		if float64(admitted) > most || float64(admitted) < least {
			t.Errorf("Redis away %v: %d admitted in %s, %.0f to %.0f allowed", away, admitted, lasted, least, most)
		}
	}
}

func (g *guests) withoutRedis() (n float64) {
	g.t.Helper()
	for i := range g.servers {
		n += g.metric(i, `holdfast_guest_hot_degraded_total{operation="rate"}`)
	}
	return n
}

// hammer sends a session's requests to all processes for d and, on a busy machine, until each client is refused, which
// shows that the limit is reached. It returns how many were admitted in which time.
func (g *guests) hammer(cookie string, d time.Duration) (admitted int64, lasted time.Duration) {
	var n atomic.Int64
	var all sync.WaitGroup
	start := time.Now()
	for w := range 2 * len(g.servers) {
		all.Go(func() {
			one := g.browser("", cookie)
			for refused := false; !refused || time.Since(start) < d; {
				if time.Since(start) > d+time.Minute {
					g.t.Errorf("server %d refused nothing in %s", w%len(g.servers), time.Since(start))
					return
				}
				status, h, text := one.send(w, http.MethodGet, "/session", "", "")
				refused = status == http.StatusTooManyRequests
				switch {
				case status == http.StatusOK:
					n.Add(1)
				case !refused || h.Get("Retry-After") == "" || h.Get("RateLimit") == "":
					g.t.Errorf("%d %v %s", status, h, text)
					return
				}
			}
		})
	}
	all.Wait()
	return n.Load(), time.Since(start)
}

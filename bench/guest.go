package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"time"

	"holdfast/internal/clock"
	"holdfast/internal/guest"
	hotmemory "holdfast/internal/guest/memory"
	"holdfast/internal/testdb"
	load "holdfast/internal/workload/guest"
)

const (
	guestRate    = 200 // requests per second
	guestWarm    = 4   // window divided by warm-up
	guestCallers = 16

	guestRelayGoal  = 5000
	guestRatioGoal  = 0.6 // relative to a bare handler that sends the same Redis commands
	guestMemoryGoal = 1 << 30
	guestDelayGoal  = 250 * time.Millisecond // time from commit to broker
)

type guestHot struct {
	name string
	url  string // Redis URL; "" for memory
	read time.Duration
}

func guestHead(o *options, out io.Writer) {
	fmt.Fprintf(out, "%d requests per second in %v windows, median of %d, on %d connections. Request times include the wait for a connection. "+
		"Warm-up requests before each window, for a quarter of its length, do not count. Each session sends one request per second. "+
		"Rate limits are on, and not reached. Goals limit the 99th percentile (p99).\n\n", guestRate, o.window, o.runs, guestCallers)
	fmt.Fprintln(out, "| work | engine | hot state | per second | p50 | p99 | goal | server CPU µs/op |")
	fmt.Fprintln(out, "|---|---|---|--:|--:|--:|---|--:|")
}

func measureGuest(ctx context.Context, o *options, e *engine, out io.Writer) error {
	redis, err := testdb.StartRedis()
	if err != nil {
		return err
	}
	defer redis.Remove()
	broker, err := openGuestBroker(ctx)
	if err != nil {
		return err
	}
	defer broker.close()
	for _, hot := range []guestHot{{name: "memory", read: time.Millisecond}, {name: "Redis", url: redis.URL(), read: 3 * time.Millisecond}} {
		g := &guestBench{o: o, hot: hot, broker: broker, out: out}
		if err := g.on(ctx, e); err != nil {
			return fmt.Errorf("%s: %w", hot.name, err)
		}
	}
	return nil
}

type guestBench struct {
	o        *options
	hot      guestHot
	broker   *guestBroker
	out      io.Writer
	s        *server
	internal string
	token    string
	keys     int
}

func (g *guestBench) on(ctx context.Context, e *engine) error {
	internal, err := testdb.FreePort()
	if err != nil {
		return err
	}
	g.internal = "http://" + internal
	g.broker.next()
	settings := append(e.url("GUEST"),
		"HOLDFAST_GUEST__ENABLED=true", "HOLDFAST_SERVER__INTERNAL_LISTEN="+internal, "HOLDFAST_GUEST__HANDOFF_URL=https://book.example/#{token}",
		"HOLDFAST_GUEST__EVENTS="+g.broker.url(), "HOLDFAST_BUCKETS__ENABLED=false",
		"HOLDFAST_GUEST__COOKIE_SECRET="+strings.Repeat("c", 32), "HOLDFAST_GUEST__HANDOFF_SECRET="+strings.Repeat("h", 32),
		"HOLDFAST_GUEST__BOTS__ENABLED=false") // because all requests look alike
	if g.hot.url != "" {
		settings = append(settings, "HOLDFAST_GUEST__HOT="+g.hot.url)
	}
	for _, class := range []string{"SESSION", "BOOTSTRAP", "WISHLIST", "MINT", "TELEMETRY"} {
		settings = append(settings, "HOLDFAST_GUEST__RATES__"+class+"=1000000")
	}
	if g.s, err = serve(ctx, g.o.binary, e, settings); err != nil {
		return err
	}
	return errors.Join(g.measure(ctx), g.s.remove())
}

func (g *guestBench) measure(ctx context.Context) (err error) {
	if g.token, err = g.command(ctx, "guest", "tokens", "create", "--service", "booking"); err != nil {
		return err
	}
	n := max(1, int(guestRate*g.o.window.Seconds()))
	n += n / guestWarm
	var read, add, mint, consume, relay []guestSample
	for range g.o.runs {
		sessions, err := g.begin(ctx, min(n, guestRate)) // a guest does only one thing per second
		if err != nil {
			return err
		}
		if read, err = g.paced(ctx, read, n, g.public(sessions), func(ctx context.Context, c *caller, _ int) error {
			_, err := c.send(ctx, http.MethodGet, load.API+"/session", nil, "")
			return err
		}); err != nil {
			return fmt.Errorf("read: %w", err)
		}
		if add, err = g.paced(ctx, add, n, g.public(sessions), addWish); err != nil {
			return fmt.Errorf("add: %w", err)
		}
		minted := make([]load.Handoff, n)
		if mint, err = g.paced(ctx, mint, n, g.public(sessions), mintInto(minted)); err != nil {
			return fmt.Errorf("mint: %w", err)
		}
		if consume, err = g.paced(ctx, consume, n, g.site(), consumeOf(minted)); err != nil {
			return fmt.Errorf("consume: %w", err)
		}
		if relay, err = g.relay(ctx, relay); err != nil {
			return fmt.Errorf("relay: %w", err)
		}
	}
	g.row("read a session", read, g.hot.read)
	g.row("add to the wishlist", add, 20*time.Millisecond)
	g.row("mint a handoff", mint, 30*time.Millisecond)
	g.row("consume a handoff", consume, 20*time.Millisecond)
	g.broker.rows(g, relay)
	if g.hot.url != "" {
		return g.measureBare(ctx)
	}
	return g.measureSessions()
}

type guestStep func(ctx context.Context, c *caller, i int) error

func addWish(ctx context.Context, c *caller, i int) error {
	_, err := c.send(ctx, http.MethodPost, load.API+"/wishlist", []byte(load.Wish(i)), "")
	return err
}

func mintInto(minted []load.Handoff) guestStep {
	return func(ctx context.Context, c *caller, i int) error {
		text, err := c.send(ctx, http.MethodPost, load.API+load.Mint, []byte(load.Stay), "")
		return errors.Join(err, json.Unmarshal(text, &minted[i]))
	}
}

func consumeOf(minted []load.Handoff) guestStep {
	return func(ctx context.Context, c *caller, i int) error {
		path, body := load.Site{}.Ask("consume", minted[i])
		_, err := c.send(ctx, http.MethodPost, path, []byte(body), "")
		return err
	}
}

type guestSample struct {
	ops           float64
	p50, p99, cpu time.Duration
}

func (g *guestBench) row(work string, all []guestSample, goal time.Duration) {
	p99 := median(all, func(s guestSample) time.Duration { return s.p99 })
	text := "–"
	if goal > 0 {
		if text = ms(goal); p99 >= goal {
			text = "**missed** " + text
		}
	}
	fmt.Fprintf(g.out, "| %s | %s | %s | %.0f | %s | %s | %s | %d |\n", work, g.s.engine.name, g.hot.name, median(all, func(s guestSample) float64 { return s.ops }),
		ms(median(all, func(s guestSample) time.Duration { return s.p50 })), ms(p99), text,
		median(all, func(s guestSample) time.Duration { return s.cpu }).Microseconds())
}

func (g *guestBench) begin(ctx context.Context, n int) (cookies []string, err error) {
	for range n {
		var v load.Visitor
		if err := v.Begin(ctx, "http://"+g.s.listen); err != nil {
			return nil, err
		}
		cookies = append(cookies, v.Cookie)
	}
	return cookies, nil
}

type guestSide struct {
	url  string
	sign func(i int, r *http.Request)
}

func (g *guestBench) public(cookies []string) guestSide {
	return guestSide{"http://" + g.s.listen, func(i int, r *http.Request) { r.Header.Set("Cookie", cookies[i%len(cookies)]) }}
}

func (g *guestBench) site() guestSide {
	return guestSide{g.internal, func(_ int, r *http.Request) { r.Header.Set("Authorization", "Bearer "+g.token) }}
}

func (g *guestBench) dial(ctx context.Context, n int, to guestSide) (all []*caller, hangUp func(), err error) {
	owners := make([]credentials, n)
	for i := range owners {
		owners[i].Endpoint = to.url
	}
	if all, hangUp, err = dialAll(ctx, owners); err != nil {
		return nil, nil, err
	}
	for i, c := range all {
		g.keys++
		prefix, sent := fmt.Sprintf("%d-%d-", g.keys, i), 0
		c.sign = func(r *http.Request) error {
			sent++
			r.Header.Set("Idempotency-Key", fmt.Sprintf("%s%d", prefix, sent))
			to.sign(c.number, r)
			return nil
		}
	}
	return all, hangUp, nil
}

// Times include the wait for a free connection. The first requests do not count.
func (g *guestBench) paced(ctx context.Context, before []guestSample, n int, to guestSide, step guestStep) ([]guestSample, error) {
	all, hangUp, err := g.dial(ctx, guestCallers, to)
	if err != nil {
		return nil, err
	}
	defer hangUp()
	type job struct {
		i  int
		at time.Time
	}
	jobs := make(chan job, n)
	took := make([]time.Duration, n)
	go func() {
		defer close(jobs)
		for start, i := time.Now(), 0; i < n && ctx.Err() == nil; i++ {
			time.Sleep(time.Until(start.Add(time.Duration(i) * time.Second / guestRate)))
			jobs <- job{i, time.Now()}
		}
	}()
	p, err := g.s.measured(ctx, len(all), times(1), func(ctx context.Context, c, _ int) error {
		for j := range jobs {
			all[c].number = j.i
			if err := step(ctx, all[c], j.i); err != nil {
				return err
			}
			took[j.i] = time.Since(j.at)
		}
		return nil
	}, nil)
	if err != nil {
		return nil, err
	}
	counted := took[n/(guestWarm+1):]
	slices.Sort(counted)
	return append(before, guestSample{perSecond(n, p.all), counted[len(counted)/2], counted[len(counted)*99/100], p.serverCPU / time.Duration(n)}), nil
}

func (g *guestBench) closed(ctx context.Context, to guestSide, window time.Duration, path string) (float64, error) {
	all, hangUp, err := g.dial(ctx, guestCallers, to)
	if err != nil {
		return 0, err
	}
	defer hangUp()
	return rate(ctx, len(all), lasting(window), func(ctx context.Context, c, i int) error {
		all[c].number = i
		_, err := all[c].send(ctx, http.MethodGet, path, nil, "")
		return err
	})
}

func (g *guestBench) measureBare(ctx context.Context) error {
	listen, err := testdb.FreePort()
	if err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, self)
	cmd.Env = append(os.Environ(), guestBareListen+"="+listen, guestBareRedis+"="+g.hot.url)
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		return err
	}
	defer func() { _ = errors.Join(cmd.Process.Kill(), cmd.Wait()) }()
	err = g.s.until(ctx, func() error {
		c, err := dial(ctx, credentials{Endpoint: "http://" + listen})
		if err == nil {
			c.hangUp()
		}
		return err
	})
	if err != nil {
		return err
	}
	cookies, err := g.begin(ctx, 100)
	if err != nil {
		return err
	}
	to := g.public(cookies)
	var ours, bare, ratios []float64
	for range g.o.runs {
		rate, err := g.closed(ctx, to, g.o.window, load.API+"/session")
		if err != nil {
			return err
		}
		limit, err := g.closed(ctx, guestSide{"http://" + listen, to.sign}, g.o.window, load.API+"/session")
		if err != nil {
			return fmt.Errorf("bare handler: %w", err)
		}
		ours, bare, ratios = append(ours, rate), append(bare, limit), append(ratios, rate/limit)
	}
	middle := func(all []float64) float64 { return median(all, func(f float64) float64 { return f }) }
	goal := fmt.Sprintf("%.2f", guestRatioGoal)
	if middle(ratios) < guestRatioGoal {
		goal = "**missed** " + goal
	}
	fmt.Fprintf(g.out, "| read sessions as fast as possible: %.2f of a bare handler with the same Redis commands, %.0f/s | %s | %s | %.0f | – | – | %s | – |\n",
		middle(ratios), middle(bare), g.s.engine.name, g.hot.name, middle(ours), goal)
	return nil
}

func (g *guestBench) measureSessions() error {
	n := g.o.size.guests
	heap := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := heap()
	hot := hotmemory.New(clock.System, 4*guestMemoryGoal)
	locale, currency := "de-AT", "EUR"
	for range n {
		if _, err := hot.Session(context.Background(), guest.NewID(guest.SessionPrefix, clock.System()), guest.Change{Locale: &locale, Currency: &currency}); err != nil {
			return err
		}
	}
	used := max(0, int64(heap())-int64(before))
	runtime.KeepAlive(hot)
	goal := mb(guestMemoryGoal)
	if used >= guestMemoryGoal {
		goal = "**missed** " + goal
	}
	fmt.Fprintf(g.out, "| %s sessions in memory: %s | – | memory | – | – | – | %s | – |\n", thousands(n), mb(used), goal)
	return nil
}

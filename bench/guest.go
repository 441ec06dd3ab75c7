package main

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	"holdfast/internal/broker"
	"holdfast/internal/broker/nats"
	"holdfast/internal/testdb"
	workload "holdfast/internal/workload/guest"
)

const (
	guestFile    = "guest.db"
	guestRate    = 200 // requests per second
	guestWarm    = 4   // window divided by warm-up
	guestCallers = 16

	guestRelayGoal = 5000                   // events per second
	guestDelayGoal = 250 * time.Millisecond // time from commit to broker
)

func guestTable(o *options, out io.Writer) *table {
	fmt.Fprintf(out, "%d requests per second in %v windows, median of %d, on %d connections. Request times include the wait for a connection. "+
		"Warm-up requests before each window, for a quarter of its length, do not count. Each session sends one request per second. "+
		"Rate limits are on, and not reached. Goals limit the 99th percentile (p99).\n\n", guestRate, o.window, o.runs, guestCallers)
	return newTable(out, "work|engine|hot state|per second>|p50>|p99>|goal|server CPU µs/op>")
}

// measureGuest uses hot state in memory and in Redis.
func measureGuest(ctx context.Context, o *options, e *engine, t *table) error {
	redis, err := testdb.StartRedis()
	if err != nil {
		return err
	}
	defer redis.Remove()
	b, err := openGuestBroker()
	if err != nil {
		return err
	}
	defer b.close()
	for _, hot := range []struct {
		name, setting string
		read          time.Duration // goal
	}{{"memory", "", time.Millisecond}, {"Redis", redis.URL(), 3 * time.Millisecond}} {
		g := &guestBench{o: o, broker: b}
		b.topic = "bench" + strings.ToLower(rand.Text()[:8])
		settings := []string{
			"HOLDFAST_GUEST__EVENTS=" + b.url(), "HOLDFAST_GUEST__BOTS__ENABLED=false", // because all requests look alike
		}
		if hot.setting != "" {
			settings = append(settings, "HOLDFAST_GUEST__HOT="+hot.setting)
		}
		for _, class := range []string{"SESSION", "BOOTSTRAP", "WISHLIST", "MINT", "TELEMETRY"} {
			settings = append(settings, "HOLDFAST_GUEST__RATES__"+class+"=1000000")
		}
		if err := g.onServer(ctx, e, settings, func() error { return g.measure(ctx, t, hot.name, hot.read) }); err != nil {
			return fmt.Errorf("%s: %w", hot.name, err)
		}
	}
	return nil
}

// guestBench is a server for guests and the sites that receive their handoffs.
type guestBench struct {
	o        *options
	broker   *guestBroker
	s        *server
	internal string
	token    string // of a site
	keys     int    // so that no idempotency key is used twice
}

func (g *guestBench) onServer(ctx context.Context, e *engine, settings []string, fn func() error) error {
	internal, err := testdb.FreePort()
	if err != nil {
		return err
	}
	g.internal = "http://" + internal
	return onServer(ctx, g.o.binary, e, append(settings, "HOLDFAST_GUEST__ENABLED=true", "HOLDFAST_BUCKETS__ENABLED=false",
		"HOLDFAST_SERVER__INTERNAL_LISTEN="+internal, "HOLDFAST_GUEST__HANDOFF_URL=https://book.example/#{token}"), func(s *server) error {
		g.s = s
		if g.token, err = s.command(ctx, "guest", "tokens", "create", "--service", "booking"); err != nil {
			return err
		}
		return fn()
	})
}

func (g *guestBench) measure(ctx context.Context, t *table, hot string, read time.Duration) error {
	n := max(1, int(guestRate*g.o.window.Seconds()))
	n += n / guestWarm
	var sessions []string
	minted := make([]workload.Handoff, n)
	works := []struct {
		name string
		goal time.Duration
		to   func() guestSide
		step guestStep
	}{
		{"read a session", read, func() guestSide { return g.public(sessions) }, func(ctx context.Context, c *caller, _ int) error {
			_, err := c.send(ctx, http.MethodGet, workload.API+"/session", nil)
			return err
		}},
		{"add to the wishlist", 20 * time.Millisecond, func() guestSide { return g.public(sessions) }, addWish},
		{"mint a handoff", 30 * time.Millisecond, func() guestSide { return g.public(sessions) }, mintInto(minted)},
		{"consume a handoff", 20 * time.Millisecond, func() guestSide { return g.bearer(g.token) }, consumeOf(minted)},
	}
	samples := make([][]sample, len(works)+2)
	for range g.o.runs {
		var err error
		if sessions, err = g.begin(ctx, min(n, guestRate)); err != nil { // a guest does only one thing per second
			return err
		}
		for i, w := range works {
			got, err := g.paced(ctx, n, w.to(), w.step)
			if err != nil {
				return fmt.Errorf("%s: %w", w.name, err)
			}
			samples[i] = append(samples[i], got)
		}
		if g.broker.client == nil {
			continue
		}
		delay, behind, err := g.relay(ctx)
		if err != nil {
			return fmt.Errorf("relay: %w", err)
		}
		samples[len(works)], samples[len(works)+1] = append(samples[len(works)], delay), append(samples[len(works)+1], behind)
	}
	row := func(name string, m sample, goal time.Duration) {
		t.row(name, g.s.engine.name, hot, m.ops, m.p50, m.p99, goalCell(m.p99 >= goal, goal), micros(m.cpu))
	}
	for i, w := range works {
		row(w.name, medians(samples[i]), w.goal)
	}
	if g.broker.client != nil {
		behind := medians(samples[len(works)+1])
		row("from commit to broker (NATS)", medians(samples[len(works)]), guestDelayGoal)
		t.row(fmt.Sprintf("publish %s waiting events (NATS)", thousands(g.o.size.events)), g.s.engine.name, hot, behind.ops, none, none,
			goalCell(behind.ops < guestRelayGoal, thousands(guestRelayGoal)+"/s"), micros(behind.cpu))
	}
	return nil
}

type guestStep func(ctx context.Context, c *caller, i int) error

func addWish(ctx context.Context, c *caller, i int) error {
	_, err := c.send(ctx, http.MethodPost, workload.API+"/wishlist", []byte(workload.Wish(i)))
	return err
}

func mintInto(minted []workload.Handoff) guestStep {
	return func(ctx context.Context, c *caller, i int) error {
		text, err := c.send(ctx, http.MethodPost, workload.API+workload.Mint, []byte(workload.Stay))
		return errors.Join(err, json.Unmarshal(text, &minted[i]))
	}
}

func consumeOf(minted []workload.Handoff) guestStep {
	return func(ctx context.Context, c *caller, i int) error {
		path, body := workload.Site{}.Ask("consume", minted[i])
		_, err := c.send(ctx, http.MethodPost, path, []byte(body))
		return err
	}
}

// begin starts sessions, and returns their cookies.
func (g *guestBench) begin(ctx context.Context, n int) (cookies []string, err error) {
	for range n {
		var v workload.Visitor
		if err := v.Begin(ctx, "http://"+g.s.listen); err != nil {
			return nil, err
		}
		cookies = append(cookies, v.Cookie)
	}
	return cookies, nil
}

// guestSide is an address with headers for the i-th request.
type guestSide struct {
	url  string
	sign func(i int, r *http.Request)
}

func (g *guestBench) public(cookies []string) guestSide {
	return guestSide{"http://" + g.s.listen, func(i int, r *http.Request) { r.Header.Set("Cookie", cookies[i%len(cookies)]) }}
}

func (g *guestBench) bearer(token string) guestSide {
	return guestSide{g.internal, func(_ int, r *http.Request) { r.Header.Set("Authorization", "Bearer "+token) }}
}

func (g *guestBench) withCallers(ctx context.Context, to guestSide, fn func([]*caller) error) error {
	return withAll(ctx, slices.Repeat([]credentials{{Endpoint: to.url}}, guestCallers), func(all []*caller) error {
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
		return fn(all)
	})
}

// paced sends n requests at guestRate. Times include the wait for a free connection. The first requests do not count.
func (g *guestBench) paced(ctx context.Context, n int, to guestSide, step guestStep) (got sample, err error) {
	type job struct {
		i  int
		at time.Time
	}
	jobs, took := make(chan job, n), make([]time.Duration, n)
	err = g.withCallers(ctx, to, func(all []*caller) error {
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
			return err
		}
		counted := phase{took: took[n/(guestWarm+1):], all: p.all}
		got = counted.sample()
		got.ops, got.cpu = perSecond(n, p.all), p.cpu/time.Duration(n)
		return nil
	})
	return got, err
}

// guestBroker is a NATS server. It is empty if nats-server is not installed.
type guestBroker struct {
	server *testdb.BrokerServer
	client *nats.Broker
	topic  string
	runs   int // makes the IDs of waiting events unique
}

func openGuestBroker() (*guestBroker, error) {
	b := &guestBroker{}
	s, err := testdb.StartNATS()
	if errors.Is(err, testdb.ErrNoNATS) {
		fmt.Fprintf(os.Stderr, "bench: events: skipped: %v\n", err)
		return b, nil
	}
	if err != nil {
		return nil, err
	}
	b.server = s
	b.client, err = nats.Open(nats.Options{URL: "nats://" + s.Address()})
	return b, err
}

func (b *guestBroker) close() {
	if b.client != nil {
		_ = b.client.Close()
	}
	if b.server != nil {
		b.server.Remove()
	}
}

func (b *guestBroker) url() string {
	if b.server == nil {
		return "memory"
	}
	return "nats://" + b.server.Address() + "/" + b.topic
}

type arrival struct {
	at    time.Time
	delay time.Duration // since the event
}

// receive subscribes until fn returns; next waits for the next page views.
func (b *guestBroker) receive(ctx context.Context, fn func(next func(n int) ([]arrival, error)) error) error {
	if err := b.client.Ensure(ctx, b.topic, b.topic); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	views, ended := make(chan arrival), make(chan error, 1)
	go func() {
		ended <- b.client.Subscribe(ctx, b.topic, b.topic, func(ctx context.Context, d *broker.Delivery) {
			if now := time.Now(); strings.HasSuffix(d.Type, "page_view.recorded.v1") {
				select {
				case views <- arrival{now, now.Sub(d.Time)}:
				case <-ctx.Done():
				}
			}
			d.Ack()
		})
	}()
	err := fn(func(n int) (all []arrival, err error) {
		for range n {
			select {
			case a := <-views:
				all = append(all, a)
			case err := <-ended:
				return nil, fmt.Errorf("the subscription ended: %w", err)
			case <-time.After(time.Minute):
				return nil, fmt.Errorf("%d of %d events arrived", len(all), n)
			}
		}
		return all, nil
	})
	cancel()
	return err
}

// relay measures the time from commit to broker, and then how fast a starting server publishes waiting events.
func (g *guestBench) relay(ctx context.Context) (delay, behind sample, err error) {
	n, events := max(1, int(guestRate*g.o.window.Seconds())), g.o.size.events
	sessions, err := g.begin(ctx, g.o.size.browsers) // each session's events are ordered
	if err != nil {
		return delay, behind, err
	}
	err = g.broker.receive(ctx, func(next func(int) ([]arrival, error)) error {
		sent := make(chan error, 1)
		go func() {
			_, err := g.paced(ctx, n, g.public(sessions), func(ctx context.Context, c *caller, _ int) error {
				_, err := c.send(ctx, http.MethodPost, workload.API+"/telemetry/page-view", []byte(`{"items":[{"page":"home"}]}`))
				return err
			})
			sent <- err
		}()
		all, err := next(n)
		if err = errors.Join(<-sent, err); err != nil {
			return err
		}
		p := phase{took: each(all, func(a arrival) time.Duration { return a.delay }), all: time.Second}
		delay = p.sample()
		delay.ops = guestRate

		g.s.stop()
		g.broker.runs++
		if err := g.s.fillTables(ctx, guestFile, []string{liteGuestEvents}, []string{pgGuestEvents, `CHECKPOINT`}, events, g.broker.runs); err != nil {
			return err
		}
		if all, err = next(events); err != nil {
			return err
		}
		spent, err := g.s.spent()
		behind.ops = perSecond(events, all[len(all)-1].at.Sub(all[0].at))
		behind.cpu = spent.server.since(nil) / time.Duration(events)
		return err
	})
	return delay, behind, err
}

// Events like the service's events, for 1,000 sessions. Parameters: their number, and two digits for their IDs.
const (
	guestEventColumns = `(id, topic, ordering_key, subject, payload, headers, retention_class, created_at)`
	guestEventData    = `{"pageViewId":"mpv_01M84AYJ8Q59937Z2B96HPJ3J1","sessionId":"gms_01M84AYJ8Q59937Z2B96HPJ3J1","page":"home"}`

	pgGuestEvents = `INSERT INTO bff_consumer.outbox ` + guestEventColumns + `
		SELECT 'evt_%02[2]d' || lpad(n::text, 24, '0'), 'melmastoon.bff.consumer.page_view.recorded.v1', 'gms_' || lpad((n %% 1000)::text, 26, '0'), 'mpv_01M84AYJ8Q59937Z2B96HPJ3J1',
			'` + guestEventData + `', '{}', 'operational', now() FROM generate_series(1, %[1]d) n`
	liteGuestEvents = `WITH RECURSIVE e (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM e WHERE n < %[1]d)
		INSERT INTO bff_consumer_outbox ` + guestEventColumns + `
		SELECT printf('evt_%02[2]d%%024d', n), 'melmastoon.bff.consumer.page_view.recorded.v1', printf('gms_%%026d', n %% 1000), 'mpv_01M84AYJ8Q59937Z2B96HPJ3J1',
			'` + guestEventData + `', '{}', 'operational', unixepoch() * 1000000 FROM e`
)

package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"holdfast/internal/broker"
	"holdfast/internal/broker/nats"
	"holdfast/internal/testdb"
)

// guestBroker is a NATS server with a subscriber, or empty if nats-server is not installed.
type guestBroker struct {
	server *testdb.BrokerServer
	client *nats.Broker
	topic  string

	mu          sync.Mutex
	n           int
	first, last time.Time
	delays      []time.Duration // from the time of an event until it arrived
	err         error
}

func openGuestBroker(_ context.Context) (*guestBroker, error) {
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
		_ = b.client.Close() // it has nothing to lose
	}
	if b.server != nil {
		b.server.Remove()
	}
}

// next chooses a new topic for the next server.
func (b *guestBroker) next() { b.topic = "bench" + strings.ToLower(rand.Text()[:8]) }

func (b *guestBroker) url() string {
	if b.server == nil {
		return "memory"
	}
	return "nats://" + b.server.Address() + "/" + b.topic
}

// receive receives messages until the function that it returns is called.
func (b *guestBroker) receive(ctx context.Context) (stop func(), err error) {
	if err := b.client.Ensure(ctx, b.topic, b.topic); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		err := b.client.Subscribe(ctx, b.topic, b.topic, func(_ context.Context, d *broker.Delivery) {
			now := time.Now()
			b.mu.Lock()
			if b.n++; b.n == 1 {
				b.first = now
			}
			b.last, b.delays = now, append(b.delays, now.Sub(d.Time))
			b.mu.Unlock()
			d.Ack()
		})
		if ctx.Err() == nil {
			b.mu.Lock()
			b.err = err
			b.mu.Unlock()
		}
	}()
	return func() { cancel(); <-ended }, nil
}

// await waits until n messages have arrived since drain. It gives up when none has arrived for a
// minute.
func (b *guestBroker) await(ctx context.Context, n int) error {
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for since := time.Now(); ; {
		b.mu.Lock()
		got, last, err := b.n, b.last, b.err
		b.mu.Unlock()
		if last.After(since) {
			since = last
		}
		switch {
		case err != nil:
			return err
		case got >= n:
			return nil
		case time.Since(since) > time.Minute:
			return fmt.Errorf("%d of %d events arrived", got, n)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// drain waits until nothing has arrived for half a second, and forgets what has.
func (b *guestBroker) drain() {
	for before := -1; ; time.Sleep(500 * time.Millisecond) {
		b.mu.Lock()
		now := b.n
		if now == before {
			b.n, b.delays = 0, nil
			b.mu.Unlock()
			return
		}
		before = now
		b.mu.Unlock()
	}
}

// relay measures the time from the commit of an event to its arrival, of requests at guestRate, and how many events a relay publishes that are written faster.
func (g *guestBench) relay(ctx context.Context, before []guestSample) ([]guestSample, error) {
	if g.broker.client == nil {
		return nil, nil
	}
	stop, err := g.broker.receive(ctx)
	if err != nil {
		return nil, err
	}
	defer stop()
	sessions, err := g.begin(ctx, g.o.size.browsers) // each orders its events
	if err != nil {
		return nil, err
	}
	g.broker.drain()
	n := max(1, int(guestRate*g.o.window.Seconds()))
	view := func(items int) func(ctx context.Context, c *caller, _ int) error {
		body := []byte(`{"items":[` + strings.TrimSuffix(strings.Repeat(`{"page":"home"},`, items), ",") + `]}`)
		return func(ctx context.Context, c *caller, _ int) error {
			_, err := c.send(ctx, http.MethodPost, guestAPI+"/telemetry/page-view", body, "")
			return err
		}
	}
	if _, err := g.paced(ctx, nil, n, g.public(sessions), view(1)); err != nil {
		return nil, err
	}
	if err := g.broker.await(ctx, n); err != nil {
		return nil, err
	}
	slices.Sort(g.broker.delays)
	got := guestSample{p50: g.broker.delays[n/2], p99: g.broker.delays[n*99/100]}
	g.broker.drain()

	all, hangUp, err := g.dial(ctx, guestCallers, g.public(sessions))
	if err != nil {
		return nil, err
	}
	defer hangUp()
	const items = 50
	each := g.o.size.events / items / len(all)
	spent, err := g.s.measured(ctx, len(all), times(each), func(ctx context.Context, c, i int) error {
		all[c].number = c + i*len(all)
		return view(items)(ctx, all[c], i)
	}, func(ctx context.Context, _ *server) error { return g.broker.await(ctx, each*len(all)*items) })
	if err != nil {
		return nil, err
	}
	published := each * len(all) * items
	got.ops, got.cpu = perSecond(published, g.broker.last.Sub(g.broker.first)), spent.serverCPU/time.Duration(published)
	return append(before, got), nil
}

// rows prints the rows of events.
func (b *guestBroker) rows(g *guestBench, all []guestSample) {
	if len(all) == 0 {
		return
	}
	delay := make([]guestSample, len(all))
	for i, s := range all {
		delay[i] = guestSample{ops: guestRate, p50: s.p50, p99: s.p99}
	}
	g.row("from commit to broker (NATS)", delay, guestDelayGoal)
	rate := median(all, func(s guestSample) float64 { return s.ops })
	goal := thousands(guestRelayGoal) + "/s"
	if rate < guestRelayGoal {
		goal = "**missed** " + goal
	}
	fmt.Fprintf(g.out, "| publish events that are written faster (NATS) | %s | %s | %s | – | – | %s | %d |\n", g.s.engine.name, g.hot.name, thousands(int(rate)), goal,
		median(all, func(s guestSample) time.Duration { return s.cpu }).Microseconds())
}

package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"holdfast/internal/broker"
	"holdfast/internal/broker/nats"
	"holdfast/internal/testdb"
	load "holdfast/internal/workload/guest"
)

// guestBroker is a NATS server with a subscriber. It is empty if nats-server is not installed.
type guestBroker struct {
	server *testdb.BrokerServer
	client *nats.Broker
	topic  string
	runs   int

	mu          sync.Mutex
	n           int
	first, last time.Time
	delays      []time.Duration // from event time to arrival
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
		_ = b.client.Close()
	}
	if b.server != nil {
		b.server.Remove()
	}
}

func (b *guestBroker) next() { b.topic = "bench" + strings.ToLower(rand.Text()[:8]) }

func (b *guestBroker) url() string {
	if b.server == nil {
		return "memory"
	}
	return "nats://" + b.server.Address() + "/" + b.topic
}

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

func (g *guestBench) relay(ctx context.Context, before []guestSample) ([]guestSample, error) {
	if g.broker.client == nil {
		return nil, nil
	}
	stop, err := g.broker.receive(ctx)
	if err != nil {
		return nil, err
	}
	defer stop()
	sessions, err := g.begin(ctx, g.o.size.browsers) // each session's events are ordered
	if err != nil {
		return nil, err
	}
	g.broker.drain()
	n := max(1, int(guestRate*g.o.window.Seconds()))
	if _, err := g.paced(ctx, nil, n, g.public(sessions), func(ctx context.Context, c *caller, _ int) error {
		_, err := c.send(ctx, http.MethodPost, load.API+"/telemetry/page-view", []byte(`{"items":[{"page":"home"}]}`), "")
		return err
	}); err != nil {
		return nil, err
	}
	if err := g.broker.await(ctx, n); err != nil {
		return nil, err
	}
	slices.Sort(g.broker.delays)
	got := guestSample{p50: g.broker.delays[n/2], p99: g.broker.delays[n*99/100]}
	g.broker.drain()

	if err := g.publishBehind(ctx, &got); err != nil {
		return nil, err
	}
	return append(before, got), nil
}

func (g *guestBench) publishBehind(ctx context.Context, got *guestSample) error {
	g.s.stop()
	n := g.o.size.events
	g.broker.runs++
	var err error
	if g.s.engine.postgres != nil {
		err = errors.Join(g.s.engine.exec(ctx, fmt.Sprintf(pgGuestEvents, g.broker.runs, n)), g.s.engine.settle(ctx, ""))
	} else {
		err = fillFile(filepath.Join(g.s.data(), "guest.db"), []string{fmt.Sprintf(liteGuestEvents, n, g.broker.runs)})
	}
	if err != nil {
		return err
	}
	if err := g.s.start(ctx); err != nil {
		return err
	}
	if err := g.broker.await(ctx, n); err != nil {
		return err
	}
	spent, err := g.s.spent()
	got.ops, got.cpu = perSecond(n, g.broker.last.Sub(g.broker.first)), spent.server.since(nil)/time.Duration(n)
	return err
}

// Events like the service's events, for 1,000 sessions. Parameters: two digits for their IDs, and their number.
const (
	guestEventColumns = `(id, topic, ordering_key, subject, payload, headers, retention_class, created_at)`
	guestEventData    = `{"pageViewId":"mpv_01M84AYJ8Q59937Z2B96HPJ3J1","sessionId":"gms_01M84AYJ8Q59937Z2B96HPJ3J1","page":"home"}`

	pgGuestEvents = `INSERT INTO bff_consumer.outbox ` + guestEventColumns + `
		SELECT 'evt_%02d' || lpad(n::text, 24, '0'), 'melmastoon.bff.consumer.page.viewed.v1', 'gms_' || lpad((n %% 1000)::text, 26, '0'), 'mpv_01M84AYJ8Q59937Z2B96HPJ3J1',
			'` + guestEventData + `', '{}', 'operational', now() FROM generate_series(1, %d) n`
	liteGuestEvents = `WITH RECURSIVE e (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM e WHERE n < %d)
		INSERT INTO bff_consumer_outbox ` + guestEventColumns + `
		SELECT printf('evt_%02d%%024d', n), 'melmastoon.bff.consumer.page.viewed.v1', printf('gms_%%026d', n %% 1000), 'mpv_01M84AYJ8Q59937Z2B96HPJ3J1',
			'` + guestEventData + `', '{}', 'operational', unixepoch() * 1000000 FROM e`
)

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
	fmt.Fprintf(g.out, "| publish %s waiting events (NATS) | %s | %s | %s | – | – | %s | %d |\n", thousands(g.o.size.events), g.s.engine.name, g.hot.name, thousands(int(rate)), goal,
		median(all, func(s guestSample) time.Duration { return s.cpu }).Microseconds())
}

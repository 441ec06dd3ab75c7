package guest

import (
	"context"
	"errors"
	"fmt"
	"time"

	"holdfast/internal/app/service"
	"holdfast/internal/broker"
	"holdfast/internal/broker/memory"
	"holdfast/internal/broker/sinks"
	"holdfast/internal/guest/backend"
	"holdfast/internal/guest/httpapi"
	"holdfast/internal/outbox"
)

type events struct {
	cfg     Events
	source  string
	waker   *outbox.Waker
	brokers sinks.Brokers
	share   int // relay partitions; 0: default
	memory  broker.Broker
	feed    *httpapi.DemoFeed
}

func newEvents(cfg Events, source string) *events {
	return &events{cfg: cfg, source: source, waker: outbox.NewWaker(), memory: memory.New()}
}

func (e *events) start(ctx context.Context, d *service.Deps, st backend.Store, receive receiver) (end func() error, err error) {
	endReceiving, err := e.startReceiving(ctx, d, receive)
	if err != nil {
		return nil, err
	}
	endRelay, err := e.startRelay(ctx, d, st)
	if err != nil {
		return nil, errors.Join(err, endReceiving())
	}
	return func() error { return errors.Join(endReceiving(), endRelay()) }, nil
}

func (e *events) startRelay(ctx context.Context, d *service.Deps, st backend.Store) (end func() error, err error) {
	sink, closeSink, err := e.brokers.Open(ctx, sinks.Options{
		Setting: e.cfg.Sink, Source: e.source, Secret: e.cfg.Secret, Log: d.Log, Clock: d.Clock, Memory: e.memory,
	})
	if err != nil {
		return nil, fmt.Errorf("guest.events: %w", err)
	}
	if e.feed != nil {
		sink = shownSink{sink, e.feed, d.Clock}
	}
	return service.Relay{
		Service: Name, Ping: st.Ping, Close: closeSink,
		Options: outbox.Options{
			Box: st.Outbox(), Waker: e.waker, Sink: sink, Share: e.share, Attempts: e.cfg.Attempts, Hint: deadHint, Poll: pollEvents, Look: time.Second,
		},
	}.Start(ctx, d), nil
}

// pollEvents is short, so that another process soon takes over from a killed relay.
const pollEvents = 10 * time.Second

const deadHint = "run holdfast guest dead-letters list to list such events, and holdfast guest dead-letters retry-all to publish them"

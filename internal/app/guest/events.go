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
	"holdfast/internal/conf/settings"
	"holdfast/internal/guest/backend"
	"holdfast/internal/guest/httpapi"
	"holdfast/internal/outbox"
)

// events is the work with events in the background: the relay, which publishes, and the subscription, which receives.
type events struct {
	cfg Events
	// source is the CloudEvents source of all published events.
	source string
	// waker wakes the relay after a mutation, so that events need not wait for the next poll.
	waker *outbox.Waker
	// brokers are the brokers that the sink and the subscription may use.
	brokers sinks.Brokers
	share   int // relay partitions; 0: default
	// memory is the broker for guest.events = "memory". Nobody subscribes to it.
	memory broker.Broker
	// feed is nil without the demo.
	feed *httpapi.DemoFeed
}

// newEvents starts nothing. The store needs the waker before it is opened.
func newEvents(cfg Events, source string) *events {
	return &events{cfg: cfg, source: source, waker: outbox.NewWaker(), memory: memory.New()}
}

// start subscribes first: received events may suspend tenants, and should take effect soon. end stops both, and
// publishes the remaining events.
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

// startRelay opens the sink, and starts the relay when the database is reachable. end closes the sink.
func (e *events) startRelay(ctx context.Context, d *service.Deps, st backend.Store) (end func() error, err error) {
	sink, closeSink, err := e.brokers.Open(ctx, sinks.Options{
		Setting: e.cfg.Sink, Source: e.source, Secrets: settings.WebhookSecrets(e.cfg.Secret, e.cfg.OldSecret), Log: d.Log, Clock: d.Clock, Memory: e.memory,
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

// deadHint is logged with each new dead letter.
const deadHint = "run holdfast guest dead-letters list to list such events, and holdfast guest dead-letters retry-all to publish them"

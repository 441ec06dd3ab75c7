package guest

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"holdfast/internal/app/service"
	"holdfast/internal/broker"
	"holdfast/internal/clock"
	"holdfast/internal/errcode"
	"holdfast/internal/guest/httpapi"
	"holdfast/internal/inbox"
	"holdfast/internal/web"
)

// receiver applies a received event. On an error the event is redelivered, unless the error is errcode.Invalid.
type receiver func(context.Context, inbox.Event) (inbox.Result, error)

// startReceiving subscribes to events about tenants, if guest.receive is set. end waits until the current event is
// handled.
func (e *events) startReceiving(ctx context.Context, d *service.Deps, receive receiver) (end func() error, err error) {
	if e.cfg.Receive == "" {
		return func() error { return nil }, nil
	}
	b, names, err := e.brokers.Broker(ctx, e.cfg.Receive)
	if err != nil {
		return nil, fmt.Errorf("guest.receive: %w", err)
	}
	ctx, stop := context.WithCancel(context.WithoutCancel(ctx))
	var running sync.WaitGroup
	running.Go(func() { subscribe(ctx, b, subscription{names[0], names[1]}, d.Log, receive) })
	return func() error {
		stop()
		running.Wait()
		return b.Close()
	}, nil
}

// pauseReceiving is the pause before another attempt, also after a subscription that ended without an error.
const pauseReceiving = time.Second

// subscription names a topic and a subscription at the broker, the two names in guest.receive.
type subscription struct{ topic, name string }

// subscribe creates the topic and the subscription if they are missing, and receives until ctx ends.
func subscribe(ctx context.Context, b broker.Broker, s subscription, log *slog.Logger, receive receiver) {
	for ctx.Err() == nil {
		err := b.Ensure(ctx, s.topic, s.name)
		if err == nil {
			err = b.Subscribe(ctx, s.topic, s.name, func(ctx context.Context, m *broker.Delivery) { deliver(ctx, m, log, receive) })
		}
		if err != nil && ctx.Err() == nil {
			log.Warn("could not receive events", "error", err, "retry_in", pauseReceiving)
		}
		clock.Sleep(ctx, pauseReceiving)
	}
}

// deliver acknowledges an event that was applied or can never be applied. Others are delivered again.
func deliver(ctx context.Context, m *broker.Delivery, log *slog.Logger, receive receiver) {
	_, err := receive(ctx, toInbox(&m.Event))
	switch {
	case err == nil:
		m.Ack()
	case errcode.Is(err, errcode.Invalid):
		log.Error("event rejected", "error", err)
		m.Ack()
	default:
		log.Warn("could not receive an event", "error", err)
		m.Nack()
	}
}

// parseEvent parses a pushed CloudEvent: from headers in binary mode, or, if headers is nil, from the body in
// structured mode. It unescapes the headers in place.
func parseEvent(headers map[string]string, body []byte) (inbox.Event, error) {
	var e broker.Event
	var err error
	if headers == nil {
		err = json.Unmarshal(body, &e)
	} else {
		for name, value := range headers {
			headers[name] = broker.Unescape(value)
		}
		e, err = broker.FromHeaders(headers, body)
	}
	return toInbox(&e), err
}

// mountEvents returns the route for pushed events, on the internal listener: it needs a service token for events.
func mountEvents(h *httpapi.EventReceiver) service.Mount {
	return service.Mount{Listener: service.Internal, Paths: []string{"/internal/events"}, Mount: web.Mount{
		Owns: httpapi.OwnsEvents, Service: web.Service{Serve: h.Serve, Error: httpapi.WriteError, Route: httpapi.LabelEvents, Routes: httpapi.EventRoutes()},
	}}
}

// toInbox keeps the fields that identify and apply an event.
func toInbox(e *broker.Event) inbox.Event {
	return inbox.Event{Source: e.Source, ID: e.ID, Type: e.Type, Time: e.Time, Body: e.Data}
}

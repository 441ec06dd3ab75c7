package buckets

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"holdfast/internal/app/service"
	"holdfast/internal/broker/sinks"
	"holdfast/internal/buckets"
	"holdfast/internal/buckets/backend"
	"holdfast/internal/conf/settings"
	"holdfast/internal/outbox"
)

// publisher runs one relay per destination, so that an unavailable destination does not delay others.
type publisher struct {
	s    *Buckets
	ping func(context.Context) error
	// boxes and wakers are by destination; dead has the set-aside events for all destinations.
	boxes  map[string]outbox.Box
	wakers map[string]*outbox.Waker
	dead   outbox.Dead
}

// newPublisher connects the store with the relays: a write with events wakes its destination's relay.
func newPublisher(s *Buckets, st backend.Store) *publisher {
	p := &publisher{s: s, ping: st.Ping, boxes: map[string]outbox.Box{}, wakers: map[string]*outbox.Waker{}}
	p.dead = dead{st.DeadEvents(), p}
	for name := range s.cfg.Destinations {
		p.boxes[name], p.wakers[name] = st.Outbox(name), outbox.NewWaker()
	}
	st.OnEvents(func(destination, owner, stream string) { p.wakers[destination].Wake(owner, stream) })
	return p
}

// dead wakes the relays when an event is queued again, because its destination is unknown here.
type dead struct {
	outbox.Dead
	p *publisher
}

// RetryDead wakes all relays, because the event may belong to any destination.
func (d dead) RetryDead(ctx context.Context, id outbox.ID) (bool, error) {
	found, err := d.Dead.RetryDead(ctx, id)
	for _, w := range d.p.wakers {
		if found {
			w.Wake(id.Owner, id.Stream)
		}
	}
	return found, err
}

// backlogs counts waiting events by destination, and set-aside events if there may be any.
func (p *publisher) backlogs(ctx context.Context) (facts []service.Fact, err error) {
	for _, name := range slices.Sorted(maps.Keys(p.boxes)) {
		waiting, err := service.WaitingCell(ctx, p.boxes[name], p.s.deps.Clock())
		if err != nil {
			return nil, err
		}
		facts = append(facts, service.Fact{Name: "Notifications to " + name, Cell: waiting})
	}
	n, err := p.dead.CountDead(ctx)
	if err != nil || n == 0 && len(p.boxes) == 0 {
		return facts, err
	}
	return append(facts, service.Fact{Name: "Notifications set aside", Cell: service.DeadCell(n)}), nil
}

// probe checks all destinations at once, because each may take seconds. It publishes nothing.
func (s *Buckets) probe(ctx context.Context) []service.Finding {
	names := slices.Sorted(maps.Keys(s.cfg.Destinations))
	findings := make([]service.Finding, len(names))
	var checks sync.WaitGroup
	for i, name := range names {
		what := "buckets.destinations." + name
		checks.Go(func() {
			text, err := s.brokers.Check(ctx, s.cfg.Destinations[name].URL)
			findings[i] = service.Finding{State: service.OK, What: what, Says: text}
			if err != nil {
				findings[i] = service.Finding{
					State: service.Wrong, What: what, Says: err.Error(),
					Fix: "correct its url, or make it reachable; until then events wait in the database, for buckets.drop_events_after",
				}
			}
		})
	}
	checks.Wait()
	return findings
}

// eventSource is the CloudEvents source.
const eventSource = "/buckets"

// start starts the relays. end publishes the remaining events within a timeout.
func (p *publisher) start(ctx context.Context) (end func() error, err error) {
	var ends []func() error
	end = func() (err error) {
		for _, e := range ends {
			err = errors.Join(err, e())
		}
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(p.s.cfg.Destinations)) {
		d := p.s.cfg.Destinations[name]
		sink, closeSink, err := p.s.brokers.Open(ctx, sinks.Options{
			Setting: d.URL, Source: eventSource, Secrets: settings.WebhookSecrets(d.Secret, d.OldSecrets), Log: p.s.deps.Log, Clock: p.s.deps.Clock, Encode: encodeRecord,
		})
		if err != nil {
			return nil, errors.Join(fmt.Errorf("buckets.destinations.%s: %w", name, err), end())
		}
		if d.Kind() != "webhook" {
			sink = recordSink{sink}
		}
		ends = append(ends, service.Relay{
			Service: Name + "/" + name, Ping: p.ping, Close: closeSink,
			Options: outbox.Options{Box: p.boxes[name], Waker: p.wakers[name], Sink: sink, Poll: pollEvents, Hint: deadHint},
		}.Start(ctx, p.s.deps))
	}
	return end, nil
}

// pollEvents is the polling interval for events of killed processes.
const pollEvents = 10 * time.Second

// encodeRecord returns the body that S3 sends: a list with the record, or a test event.
func encodeRecord(event *outbox.Event) (body []byte, contentType string, err error) {
	_, record, err := buckets.EventRecord(event.Payload, event.Seq, buckets.At(event.At))
	if err != nil {
		return nil, "", err
	}
	const contentTypeJSON = "application/json"
	if buckets.IsTestEvent(event.Key) {
		return record, contentTypeJSON, nil
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err = e.Encode(map[string]any{"Records": []json.RawMessage{record}})
	return b.Bytes(), contentTypeJSON, err
}

// recordSink publishes each event by itself to a broker, with S3's event name as topic.
type recordSink struct{ outbox.Sink }

// Publish replaces the payload with the record, in a copy.
func (r recordSink) Publish(ctx context.Context, events []outbox.Event) error {
	all := slices.Clone(events)
	for i := range all {
		name, _, err := buckets.EventRecord(all[i].Payload, all[i].Seq, buckets.At(all[i].At))
		if err != nil {
			return err
		}
		body, _, err := encodeRecord(&events[i])
		if err != nil {
			return err
		}
		all[i].Topic, all[i].Payload = name, bytes.TrimSpace(body)
	}
	return r.Sink.Publish(ctx, all)
}

// dropEvents drops events that were not accepted in time, so that they do not fill the disk.
func (s *Buckets) dropEvents(ctx context.Context, now time.Time, _ int) (int, error) {
	dropped, dead, err := s.opened.DropEvents(ctx, buckets.At(now.Add(-s.cfg.EventsAfter)), int64(s.cfg.MaxEvents))
	n := dead
	if dead > 0 {
		s.deps.Log.Error("set-aside events dropped", "events", dead, "hint", "see buckets.drop_events_after")
	}
	for _, d := range dropped {
		n += d.Events
		s.metrics.dropped.WithLabelValues(d.Destination).Add(float64(d.Events))
		s.deps.Log.Error("events dropped because their destination did not accept them", "destination", d.Destination, "events", d.Events,
			"hint", "see buckets.drop_events_after and buckets.max_events")
	}
	return int(n), err
}

package telemetry

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"sync"
	"time"

	"holdfast/internal/errcode"
	"holdfast/internal/guest"
	"holdfast/internal/guest/catalogue"
)

// observed buffers events until the database stores them, so that read-only requests neither wait for the database
// nor fail without it. A killed process loses the last second.
type observed struct {
	//
	// keeps a session's events in order; held while a step is with the database
	flushing sync.Mutex

	// protects events
	mu sync.Mutex
	// oldest first; at most maxObserved, plus a step that put returned
	events []SessionEvent
}

const (
	maxObserved  = 10_000 // while the database is unavailable
	observedStep = 500    // events per transaction
)

// add appends an event, or returns false if the buffer is full and the event is lost.
func (o *observed) add(e SessionEvent) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.events) >= maxObserved {
		return false
	}
	o.events = append(o.events, e)
	return true
}

// take removes and returns the oldest events, up to a transaction's worth. The caller holds flushing.
func (o *observed) take() (some []SessionEvent) {
	o.mu.Lock()
	defer o.mu.Unlock()
	n := min(len(o.events), observedStep)
	some = slices.Clone(o.events[:n])
	o.events = slices.Delete(o.events, 0, n)
	return some
}

// put returns events that take removed, in front of newer ones. The caller holds flushing.
func (o *observed) put(some []SessionEvent) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.events = append(some, o.events...)
}

// drop forgets an erased session's events.
func (o *observed) drop(session guest.ID) {
	o.flushing.Lock() // taken events are now in the database or back here
	defer o.flushing.Unlock()
	o.mu.Lock()
	defer o.mu.Unlock()
	o.events = slices.DeleteFunc(o.events, func(e SessionEvent) bool { return e.Session == session })
}

// Started publishes a session start, after the guest received the cookie.
func (s *Service) Started(ctx context.Context, session guest.Session) {
	var campaign json.RawMessage
	if session.Campaign != "" {
		campaign = json.RawMessage(session.Campaign)
	}
	s.observe(ctx, session.ID, observation{s.profile(), Sessions, "session.started.v1", string(session.ID), s.Samples().Sessions, struct {
		CreatedAt time.Time       `json:"createdAt"`
		Campaign  json.RawMessage `json:"campaign,omitempty"`
	}{session.Created, campaign}})
}

// AttributesChanged publishes the names, not the values, of changed attributes. It is never sampled: consumers that
// follow attributes need each change.
func (s *Service) AttributesChanged(ctx context.Context, session guest.ID, c guest.ChangedAttributes) {
	s.observe(ctx, session, observation{s.profile(), Attributes, "session.attributes_changed.v1", string(session), 1, struct {
		Changed []string `json:"changed"`
		Version string   `json:"version"`
		Bytes   int      `json:"bytes"`
	}{c.Members, c.Tag(), len(c.Object())}})
}

// Executed is a search that a guest ran, without the text that the guest typed.
type Executed struct {
	SearchID guest.ID `json:"searchId,omitempty"` // "" for map searches
	Kind     string   `json:"kind"`               // list or map
	Query    any      `json:"query"`              // without free text
	HasText  bool     `json:"hasText"`            // whether the query contained free text
	// matches on all pages
	Total int `json:"total"`
	// where the answer came from
	Cache catalogue.CacheState `json:"cache"`
}

// Executed publishes a search. Like the methods below, it buffers the event and never fails.
func (s *Service) Executed(ctx context.Context, session guest.ID, e Executed) {
	s.observe(ctx, session, observation{s.profile(), Searches, "search.executed.v1", string(cmp.Or(e.SearchID, session)), s.Samples().Searches, e})
}

// DetailViewed is a viewed property, in profile hotel.
type DetailViewed struct {
	TenantID   string `json:"tenantId"`
	PropertyID string `json:"propertyId"`
	// BCP 47
	Locale string `json:"locale"`
	// ISO 4217
	Currency string `json:"currency"`
	// where the answer came from
	Cache catalogue.CacheState `json:"cache"`
}

// DetailViewed publishes a viewed property, if the guest has a session.
func (s *Service) DetailViewed(ctx context.Context, session guest.ID, v DetailViewed) {
	s.observe(ctx, session, observation{s.profile(), DetailViews, "detail.viewed.v1", v.PropertyID, s.Samples().DetailViews, v})
}

// ItemViewed is a viewed item, in profiles other than hotel.
type ItemViewed struct {
	ItemID string `json:"itemId"`
	// the upstream's name in the profile
	Upstream string               `json:"upstream"`
	Cache    catalogue.CacheState `json:"cache"`
}

// ItemViewed publishes a viewed item, if the guest has a session.
func (s *Service) ItemViewed(ctx context.Context, session guest.ID, v ItemViewed) {
	s.observe(ctx, session, observation{s.profile(), DetailViews, "detail.viewed.v1", v.ItemID, s.Samples().DetailViews, v})
}

// observation is an event that the service itself observes, before sampling.
type observation struct {
	profile *guest.Profile
	// for metrics
	kind string
	// event type without the profile's prefix
	topic string
	// the CloudEvents subject
	subject string
	// publish for 1 in rate sessions
	rate int
	// encodes as a JSON object; event adds sessionId
	payload any
}

// observe samples an observation and buffers its event until Repair or Flush.
func (s *Service) observe(ctx context.Context, session guest.ID, o observation) {
	result := SampledOut
	if session.IsSampled(o.rate) {
		e, err := o.event(session, s.opts.Clock())
		result = Published
		if err != nil || !s.observed.add(SessionEvent{session, guest.TraceOf(ctx), e}) {
			result = Dropped
		}
	}
	if s.opts.Recorded != nil {
		s.opts.Recorded(o.kind, result, 1)
	}
}

// event builds the event with the time of observation, since it is stored later.
func (o *observation) event(session guest.ID, now time.Time) (guest.Event, error) {
	text, err := json.Marshal(o.payload)
	if err != nil {
		return guest.Event{}, errcode.Wrap(errcode.Internal, "encode an event", err)
	}
	now = now.UTC().Truncate(time.Microsecond)
	e := guest.Event{
		ID: guest.NewID(guest.EventPrefix, now), Type: o.profile.EventType(o.topic), Subject: o.subject, Retention: guest.Operational, At: now,
		Payload: slices.Concat([]byte(`{"sessionId":"`+session+`",`), text[1:]),
	}
	if o.rate > 1 {
		e.SampleRate = o.rate
	}
	return e, nil
}

// Flush writes buffered events until none is left, or until only events remain whose sessions have a mutation in
// progress. After an error, the events stay in the buffer. Servers call it when they stop.
func (s *Service) Flush(ctx context.Context) error {
	s.observed.flushing.Lock()
	defer s.observed.flushing.Unlock()
	for {
		some := s.observed.take()
		if len(some) == 0 {
			return nil
		}
		rest, err := s.opts.Store.AppendEvents(ctx, some)
		if err != nil {
			rest = some
		}
		s.observed.put(rest)
		if err != nil || len(rest) > 0 {
			return err
		}
	}
}

// Repair writes buffered events. It is a step for guest.Run.
func (s *Service) Repair(ctx context.Context) {
	_ = s.Flush(ctx) // retried by the next step
}

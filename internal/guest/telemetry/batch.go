package telemetry

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"holdfast/internal/conf"
	"holdfast/internal/errcode"
	"holdfast/internal/guest"
	"holdfast/internal/ident"
)

// PageView is a page that a front end reports, as in the request. The event has the same members, an id and the
// session.
type PageView struct {
	// a value in Pages
	Page string `json:"page"`
	// a UUID, or "" outside a tenant
	TenantID string `json:"tenantId,omitempty"`
	// a UUID; only in profile guest.Hotel
	PropertyID string  `json:"propertyId,omitempty"`
	ItemID     *string `json:"itemId,omitempty"` // not in profile guest.Hotel
	// the search that led here, or ""
	SearchID   guest.ID  `json:"searchId,omitempty"`
	OccurredAt time.Time `json:"occurredAt"` // browser clock; zero in a request: now
	// time on the page in milliseconds; at most a day
	DurationMS int `json:"durationMs,omitempty"`
}

// FunnelEvent is a guest's step towards a booking.
type FunnelEvent struct {
	// a value in Steps
	Step     string `json:"step"`
	TenantID string `json:"tenantId,omitempty"`
	// as in PageView
	PropertyID string `json:"propertyId,omitempty"`
	// as in PageView
	ItemID   *string  `json:"itemId,omitempty"`
	SearchID guest.ID `json:"searchId,omitempty"`
	// only useful in step handoff; "" otherwise
	HandoffID guest.ID `json:"handoffId,omitempty"`
	// as in PageView
	OccurredAt time.Time `json:"occurredAt"`
}

// Values for PageView.Page and FunnelEvent.Step.
var (
	Pages = []string{"home", "list", "map", "detail", "wishlist", "handoff", "other"}
	Steps = []string{"search", "results", "detail", "availability", "wishlist", "handoff"}
)

// MaxBatch is the maximum number of items in a request.
const MaxBatch = 50

// A day in milliseconds.
const maxDuration = 24 * 60 * 60 * 1000

// Batch size errors.
var (
	ErrBatchTooLarge = errcode.Newf(errcode.TooLarge, "items: expected at most %d", MaxBatch)
	ErrBatchEmpty    = errcode.Wrap(errcode.Invalid, expectedItems, guest.FieldErrors{{Pointer: "/items", Code: guest.CodeInvalid, Detail: expectedItems}})
)

const expectedItems = "items: expected an array of 1 to 50 objects"

// SampleRates publish telemetry for 1/n sessions; 1 or less: all. Sampling is per session, so that funnels stay
// complete.
type SampleRates struct {
	PageViews    int `toml:"sample_page_views" reload:"true" doc:"Publish page views for 1 in this many sessions. Events report it in the extension sampledrate."`
	FunnelEvents int `toml:"sample_funnel_events" reload:"true" doc:"Sampling for funnel events: 1 in this many sessions."`
	Searches     int `toml:"sample_searches" reload:"true" doc:"Sampling for searches: 1 in this many sessions."`
	DetailViews  int `toml:"sample_detail_views" reload:"true" doc:"Sampling for property views: 1 in this many sessions."`
	Sessions     int `toml:"sample_sessions" reload:"true" doc:"Sampling for session starts: 1 in this many sessions."`
}

// DefaultSampleRates publishes everything.
func DefaultSampleRates() SampleRates {
	return SampleRates{PageViews: 1, FunnelEvents: 1, Searches: 1, DetailViews: 1, Sessions: 1}
}

// maxSampleRate is the maximum of the CloudEvents extension sampledrate.
const maxSampleRate = 1<<31 - 1

// Check returns the rates that are out of range, by their names in [guest].
func (r *SampleRates) Check() (problems conf.Problems) {
	for name, n := range map[string]int{
		"sample_page_views": r.PageViews, "sample_funnel_events": r.FunnelEvents, "sample_searches": r.Searches, "sample_detail_views": r.DetailViews, "sample_sessions": r.Sessions,
	} {
		if n < 1 || n > maxSampleRate {
			problems.Addf(name, "must be from 1 to %d", maxSampleRate)
		}
	}
	return problems
}

// Telemetry kinds and results, for Options.Recorded.
const (
	PageViews    = "page-view"
	FunnelEvents = "funnel"
	Searches     = "search"
	DetailViews  = "detail"
	Sessions     = "session"
	Attributes   = "attributes"

	Published  = "published"
	SampledOut = "sampled-out"
	Dropped    = "dropped" // the database was unavailable for too long
)

// Record is a checked batch to store. Its Mutation makes repeated requests return the first answer.
type Record struct {
	guest.Mutation
	// a generated id per item, in the request's order; returned even if nothing is published
	IDs    []guest.ID
	Events []guest.Event // without times; empty if the session is not sampled
}

// Recorded is the answer to a batch.
type Recorded struct {
	// in the request's order
	IDs []guest.ID `json:"ids"`
}

// Decide returns the answer and the events to append. Stores call it inside the transaction, with the database's time.
func (r *Record) Decide(now time.Time) (Recorded, []guest.Event) {
	events := slices.Clone(r.Events)
	for i := range events {
		events[i].At = now
	}
	return Recorded{r.IDs}, events
}

// RecordPageViews publishes page views, each a JSON object, or returns FieldErrors.
func (s *Service) RecordPageViews(ctx context.Context, m guest.Mutation, items []json.RawMessage) (guest.Once[Recorded], error) {
	return record(ctx, s, m, batch[PageView]{m.Profile, PageViews, guest.PageViewPrefix, "page_view.recorded.v1", s.Samples().PageViews, items, checkPageView})
}

// RecordFunnelEvents publishes funnel events, each a JSON object, or returns FieldErrors.
func (s *Service) RecordFunnelEvents(ctx context.Context, m guest.Mutation, items []json.RawMessage) (guest.Once[Recorded], error) {
	return record(ctx, s, m, batch[FunnelEvent]{m.Profile, FunnelEvents, guest.FunnelPrefix, "funnel.recorded.v1", s.Samples().FunnelEvents, items, checkFunnelEvent})
}

// batch is a request with items of a kind, before they are read.
type batch[T any] struct {
	profile *guest.Profile
	kind    string // event type without the profile's prefix
	prefix  string // for generated IDs
	topic   string // for metrics: PageViews or FunnelEvents
	// publish for 1 in rate sessions
	rate int
	// JSON, as received
	items []json.RawMessage

	// check calls report for each invalid member.
	check func(p *guest.Profile, v *T, now time.Time, report func(member, detail string))
}

// record checks a batch, and then stores its events once per idempotency key. A batch is stored whole or not at all.
// Without sampling, too, the request is remembered, so that a repeated request gets the same ids.
func record[T any](ctx context.Context, s *Service, m guest.Mutation, b batch[T]) (o guest.Once[Recorded], err error) {
	r := Record{Mutation: m}
	r.IDs, r.Events, err = b.read(m.Session, s.opts.Clock().UTC().Truncate(time.Millisecond))
	if err != nil {
		return o, err
	}
	result := Published
	if !m.Session.IsSampled(b.rate) {
		result, r.Events = SampledOut, nil
	}
	o, err = guest.DoOnce(ctx, s.opts.Guests, m, func() (guest.Once[Recorded], error) { return s.opts.Store.Record(ctx, r) })
	if err == nil && !o.Replayed && s.opts.Recorded != nil {
		s.opts.Recorded(b.kind, result, len(r.IDs))
	}
	return o, err
}

// read decodes and checks every item, and returns the ids and events. now fills in missing times; it is the service's
// clock, in milliseconds. It collects the errors of all items, up to guest.MaxFieldErrors.
func (b *batch[T]) read(session guest.ID, now time.Time) ([]guest.ID, []guest.Event, error) {
	switch {
	case len(b.items) == 0:
		return nil, nil, ErrBatchEmpty
	case len(b.items) > MaxBatch:
		return nil, nil, ErrBatchTooLarge
	}
	ids, events := make([]guest.ID, len(b.items)), make([]guest.Event, len(b.items))
	var problems guest.FieldErrors
	for i, text := range b.items {
		var v T
		pointer := fmt.Sprintf("/items/%d", i)
		at := func(member, detail string) {
			if member != "" {
				member = "/" + strings.ReplaceAll(member, ".", "/")
			}
			problems = append(problems, guest.FieldError{Pointer: pointer + member, Code: guest.CodeInvalid, Detail: detail})
		}
		if err := decodeItem(text, &v); err != nil {
			at(memberOf(err))
			continue
		}
		b.check(b.profile, &v, now, at)
		ids[i] = guest.NewID(b.prefix, now)
		var err error
		if events[i], err = b.event(session, ids[i], v, now); err != nil {
			return nil, nil, err
		}
	}
	if len(problems) > 0 {
		return nil, nil, errcode.Wrap(errcode.Invalid, "items: some are not valid, see errors", problems[:min(len(problems), guest.MaxFieldErrors)])
	}
	return ids, events, nil
}

// event builds an item's event. Its id is generated here; the store sets the time.
func (b *batch[T]) event(session, id guest.ID, v T, now time.Time) (guest.Event, error) {
	text, err := json.Marshal(v)
	if err != nil {
		return guest.Event{}, errcode.Wrap(errcode.Internal, "encode an event", err)
	}
	payload := fmt.Appendf(nil, `{"id":%q,"sessionId":%q,`, id, session)
	e := guest.Event{ID: guest.NewID(guest.EventPrefix, now), Type: b.profile.EventType(b.topic), Subject: string(id), Retention: guest.Operational, Payload: append(payload, text[1:]...)}
	if b.rate > 1 {
		e.SampleRate = b.rate
	}
	return e, nil
}

// decodeItem refuses unknown members, so that a front end notices a typing error instead of losing the data.
func decodeItem(text json.RawMessage, into any) error {
	if len(text) == 0 || text[0] != '{' {
		return errors.New("expected an object")
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	return d.Decode(into)
}

// memberOf turns a decoding error into the invalid member's name, "" if it is unknown, and an explanation without the
// decoder's words.
func memberOf(err error) (member, detail string) {
	if mistyped, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		return mistyped.Field, "unexpected " + strings.Fields(mistyped.Value)[0]
	}
	if _, ok := errors.AsType[*time.ParseError](err); ok {
		return "occurredAt", expectedTime
	}
	return "", expectedMembers
}

const expectedMembers = "expected an object with the members of the documentation only"

const expectedTime = "expected a time as in RFC 3339, from 1900 to 9999"

// checkPageView also writes canonical values back: lower-case UUIDs, and times in UTC and milliseconds.
func checkPageView(p *guest.Profile, v *PageView, now time.Time, report func(member, detail string)) {
	if ofOtherProfile(p, v.PropertyID, v.ItemID) {
		report("", expectedMembers)
		return
	}
	if !slices.Contains(Pages, v.Page) {
		report("page", "expected "+strings.Join(Pages, ", "))
	}
	if v.DurationMS < 0 || v.DurationMS > maxDuration {
		report("durationMs", fmt.Sprintf("expected 0 to %d", maxDuration))
	}
	checkLocation(location{p, &v.TenantID, &v.PropertyID, v.ItemID, v.SearchID, &v.OccurredAt}, now, report)
}

// checkFunnelEvent works like checkPageView.
func checkFunnelEvent(p *guest.Profile, v *FunnelEvent, now time.Time, report func(member, detail string)) {
	if ofOtherProfile(p, v.PropertyID, v.ItemID) {
		report("", expectedMembers)
		return
	}
	if !slices.Contains(Steps, v.Step) {
		report("step", "expected "+strings.Join(Steps, ", "))
	}
	checkID("handoffId", guest.HandoffPrefix, v.HandoffID, report)
	checkLocation(location{p, &v.TenantID, &v.PropertyID, v.ItemID, v.SearchID, &v.OccurredAt}, now, report)
}

// location points to the members that page views and funnel events share.
type location struct {
	// decides between property and item
	profile          *guest.Profile
	tenant, property *string
	item             *string
	search           guest.ID
	// set to now if zero
	at *time.Time
}

// checkLocation checks the shared members and writes canonical values back.
func checkLocation(p location, now time.Time, report func(member, detail string)) {
	var ok bool
	if *p.tenant != "" {
		if *p.tenant, ok = guest.ParseTenant(*p.tenant); !ok {
			report("tenantId", "expected a UUID")
		}
	}
	checkItem(p, report)
	checkID("searchId", guest.SearchPrefix, p.search, report)
	switch {
	case p.at.IsZero():
		*p.at = now
	case p.at.UTC().Year() < 1900 || p.at.UTC().Year() > 9999:
		report("occurredAt", expectedTime)
	default:
		*p.at = p.at.UTC().Truncate(time.Millisecond)
	}
}

// ofOtherProfile reports whether the item uses a member from another profile, which counts as an unknown member.
func ofOtherProfile(p *guest.Profile, property string, item *string) bool {
	if p.IsHotel() {
		return item != nil
	}
	return property != ""
}

// checkItem accepts a missing property or item: a page view of the home page has neither.
func checkItem(p location, report func(member, detail string)) {
	var ok bool
	switch {
	case *p.property != "":
		if *p.property, ok = ident.ParseUUID(*p.property); !ok {
			report("propertyId", guest.ExpectedUUID)
		}
	case p.item != nil:
		if *p.item, ok = p.profile.ParseItem(*p.item); !ok {
			report("itemId", p.profile.ExpectedItem())
		}
	}
}

// checkID accepts "" and ids with the prefix.
func checkID(member, prefix string, id guest.ID, report func(member, detail string)) {
	if _, ok := guest.ParseID(prefix, string(id)); id != "" && !ok {
		report(member, "expected "+prefix+" and a ULID")
	}
}

package httpapi

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strings"
	"sync"
	"time"

	"holdfast/internal/guest"
	"holdfast/internal/guest/tenants"
	"holdfast/internal/web"
)

// DemoFeed keeps this process's latest published events, so that demo guests can follow their own session.
type DemoFeed struct {
	mu     sync.Mutex
	events []demoEvent // oldest first
}

const (
	mostFed      = 500     // events, all sessions together
	mostFedBytes = 2 << 10 // payload bytes per event; longer payloads are omitted
	mostShown    = 30      // events per answer
)

// demoEvent is an event as the demo shows it.
type demoEvent struct {
	session     guest.ID
	ID          string          `json:"id"`
	Type        string          `json:"type"`
	At          time.Time       `json:"at"`
	PublishedAt time.Time       `json:"publishedAt"`
	Data        json.RawMessage `json:"data,omitempty"` // with the short session ID
}

// Published adds an event. session may be any ordering key: only sessions are kept. A large payload is left out.
func (f *DemoFeed) Published(session string, e guest.Event, at time.Time) {
	id, ok := guest.ParseID(guest.SessionPrefix, session)
	if !ok {
		return
	}
	added := demoEvent{session: id, ID: string(e.ID), Type: e.Type, At: e.At, PublishedAt: at}
	if len(e.Payload) <= mostFedBytes {
		added.Data = bytes.ReplaceAll(e.Payload, []byte(id), []byte(shortID(id)))
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.events) == mostFed {
		f.events = append(f.events[:0], f.events[1:]...)
	}
	f.events = append(f.events, added)
}

// Forget drops an erased session's events.
func (f *DemoFeed) Forget(session guest.ID) {
	f.mu.Lock()
	defer f.mu.Unlock()
	kept := f.events[:0]
	for _, e := range f.events {
		if e.session != session {
			kept = append(kept, e)
		}
	}
	clear(f.events[len(kept):])
	f.events = kept
}

// of returns a session's events after the event with an ID, or all if that event is gone.
func (f *DemoFeed) of(session guest.ID, after string) []demoEvent {
	f.mu.Lock()
	defer f.mu.Unlock()
	own := []demoEvent{}
	for _, e := range f.events {
		switch {
		case e.session != session:
		case e.ID == after:
			own = own[:0]
		default:
			own = append(own, e)
		}
	}
	return own[max(0, len(own)-mostShown):]
}

// shortID identifies a session to its own guest only.
func shortID(id guest.ID) string { return guest.SessionPrefix + "…" + string(id[max(0, len(id)-6):]) }

// liveView is the demo's side panel.
type liveView struct {
	Session     *liveSession         `json:"session"` // null without a session cookie
	HotState    string               `json:"hotState"`
	Suspensions []tenants.BriefState `json:"suspensions"`
	Events      []demoEvent          `json:"events"`
}

// liveSession is a guest's own session as the side panel shows it; ID is shortened, so that nobody can use it.
type liveSession struct {
	ID          string          `json:"id"`
	CreatedAt   time.Time       `json:"createdAt"`
	ExpiresAt   time.Time       `json:"expiresAt"`
	Preferences preferencesView `json:"preferences"`
}

// live answers with the side panel, for polling.
func (d *Demo) live(x *exchange) error {
	values, err := x.parameters("after")
	if err != nil {
		return err
	}
	v := liveView{HotState: d.HotState, Suspensions: d.Tenants.Brief(), Events: []demoEvent{}}
	if x.session != "" {
		if err := web.AcquireSlot(x.in); err != nil {
			return err
		}
		s, err := x.Guests.Session(x.ctx(), x.session, guest.Change{})
		if err != nil {
			return err
		}
		v.Session = &liveSession{shortID(s.ID), s.Created, x.Handoffs.Now().UTC().Add(guest.SessionLife).Truncate(time.Second), preferencesView{s.Locale, s.Currency}}
		v.Events = d.Feed.of(x.session, values.Get("after"))
	}
	return x.sendJSON(http.StatusOK, v)
}

// loseHotState loses the session's hot state, but not the rate limits, which protect the server.
func (d *Demo) loseHotState(x *exchange) error {
	if err := web.AcquireSlot(x.in); err != nil {
		return err
	}
	if err := x.Guests.LoseHot(x.ctx(), x.session); err != nil {
		return err
	}
	send(x.out, answer{Status: http.StatusNoContent})
	return nil
}

// tenant reads the tenant from the body.
func (d *Demo) tenant(x *exchange) (id string, err error) {
	var in struct {
		TenantID string `json:"tenantId"`
	}
	if err := decode(x.body, &in); err != nil {
		return "", err
	}
	if err := web.AcquireSlot(x.in); err != nil {
		return "", err
	}
	if id, ok := guest.ParseTenant(in.TenantID); ok && d.Suspends(id) {
		return id, nil
	}
	return "", refuseMember("tenantId", "expected a tenant from the built-in catalogue")
}

// suspend suspends a tenant for a moment, so that visitors see the effect.
func (d *Demo) suspend(x *exchange) error {
	id, err := d.tenant(x)
	if err != nil {
		return err
	}
	state, err := d.Tenants.SuspendBriefly(x.ctx(), id)
	if err != nil {
		return err
	}
	return x.sendJSON(http.StatusOK, state)
}

// reinstate ends the suspension.
func (d *Demo) reinstate(x *exchange) error {
	id, err := d.tenant(x)
	if err != nil {
		return err
	}
	if err := d.Tenants.EndBrief(x.ctx(), strings.ToLower(id)); err != nil {
		return err
	}
	send(x.out, answer{Status: http.StatusNoContent})
	return nil
}

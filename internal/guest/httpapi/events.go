package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"

	"holdfast/internal/auth/bearer"
	"holdfast/internal/clock"
	"holdfast/internal/errcode"
	"holdfast/internal/guest"
	"holdfast/internal/inbox"
	"holdfast/internal/web"
	"holdfast/internal/web/problem"
)

// EventReceiver receives tenant events pushed to the internal listener in the HTTP binding of CloudEvents 1.0.
type EventReceiver struct {
	// headers is nil in structured mode; in binary mode it holds the request headers with lower-case names.
	Parse func(headers map[string]string, body []byte) (inbox.Event, error)

	// After an error the sender retries.
	Receive func(ctx context.Context, e inbox.Event) (inbox.Result, error)

	Tokens *bearer.Keyring
	Clock  clock.Clock
}

const eventsPath = "/internal/events"

// OwnsEvents reports whether EventReceiver serves a raw path on the internal listener.
func OwnsEvents(path string) bool { return path == eventsPath }

// EventRoutes returns the path with its method.
func EventRoutes() []web.Route { return []web.Route{{Label: eventsPath, Method: http.MethodPost}} }

// LabelEvents returns the route for metrics and logs.
func LabelEvents(string) string { return eventsPath }

// EventClaims returns a service token's claims for pushing events only. Such a service can suspend tenants.
func EventClaims(service string) (map[string]any, error) {
	c, err := ServiceClaims(service, "")
	if err == nil {
		c["events"] = true
	}
	return c, err
}

// In bytes.
const maxEvent = inbox.MaxBody

// Content-Type for a whole event in the body (CloudEvents HTTP binding, section 3.2).
const structuredType = "application/cloudevents+json"

var (
	errEventToken = web.Refuse(http.StatusForbidden, "denied", "the token does not allow pushing events: create a token with holdfast guest tokens create --events")
	errEventType  = web.Refuse(http.StatusUnsupportedMediaType, "media-type", "expected Content-Type "+structuredType+", or the header ce-specversion")
)

// Serve implements web.Handler.
func (h *EventReceiver) Serve(w http.ResponseWriter, r *http.Request, _ web.Address) error {
	w.Header().Set("Cache-Control", "private, no-store")
	if r.Method != http.MethodPost {
		return web.RefuseMethod(w, http.MethodPost)
	}
	service, members, err := authenticateService(h.Tokens, h.Clock, r)
	if err != nil {
		return err
	}
	web.Identify(r, "guest service "+service)
	if string(members["events"]) != "true" {
		return errEventToken
	}
	e, err := h.read(w, r)
	if err != nil {
		return err
	}
	if err := web.AcquireSlot(r); err != nil {
		return err
	}
	result, err := h.Receive(r.Context(), e)
	if invalid, ok := errors.AsType[*inbox.AttributeError](err); ok {
		return refuseAttribute(err, invalid.Name, r.Header.Get("Ce-Specversion") != "")
	}
	if err != nil {
		return err
	}
	a, err := jsonAnswer(http.StatusOK, map[string]inbox.Result{"result": result})
	if err == nil {
		send(w, a)
	}
	return err
}

// refuseAttribute points to a wrong attribute: in a header if binary, else in the body.
func refuseAttribute(err error, name string, binary bool) error {
	message := errcode.Message(err)
	field := guest.FieldError{Pointer: "/" + name, Code: "invalid", Detail: message}
	if binary {
		field.Pointer, field.Header = "", "ce-"+name
	}
	return web.RefuseFor(guest.FieldErrors{field}, http.StatusUnprocessableEntity, "invalid", message)
}

// read accepts an event in structured or binary mode.
func (h *EventReceiver) read(w http.ResponseWriter, r *http.Request) (e inbox.Event, err error) {
	body, err := web.ReadBody(w, r, maxEvent, problem.BodyErrors(maxEvent))
	if err != nil {
		return e, err
	}
	var headers map[string]string
	switch {
	case r.Header.Get("Ce-Specversion") != "":
		headers = map[string]string{}
		for name, values := range r.Header {
			headers[strings.ToLower(name)] = values[0]
		}
	case mediaType(r.Header.Get("Content-Type")) != structuredType:
		return e, errEventType
	}
	if e, err = h.Parse(headers, body); err != nil {
		return e, web.RefuseFor(err, http.StatusBadRequest, "invalid", "the event is malformed: "+err.Error())
	}
	return e, nil
}

// authenticateService verifies a service token and returns the service's name and the claims.
func authenticateService(tokens *bearer.Keyring, now clock.Clock, r *http.Request) (service string, members map[string]json.RawMessage, err error) {
	values := r.Header.Values("Authorization")
	if len(values) != 1 {
		return "", nil, unauthenticated(bearer.ErrMissing)
	}
	c, err := tokens.Parse(values[0], now())
	if err != nil {
		return "", nil, unauthenticated(err)
	}
	// json would match a struct's members case-insensitively.
	if json.Unmarshal(c.Raw, &members) != nil || json.Unmarshal(members["service"], &service) != nil || !serviceName.MatchString(service) {
		return "", nil, unauthenticated(bearer.Malformed("the claim service must be the name of a service: create a token with holdfast guest tokens create"))
	}
	return service, members, nil
}

// ReceivedResults are the metric labels for received events.
var ReceivedResults = []string{string(inbox.Applied), string(inbox.Stale), string(inbox.Duplicate), string(inbox.Quarantined), "rejected", "failed"}

// ReceivedResult returns the metric label for an event.
func ReceivedResult(result inbox.Result, err error) string {
	switch {
	case err == nil:
		return string(result)
	case errcode.Is(err, errcode.Invalid):
		return "rejected"
	}
	return "failed"
}

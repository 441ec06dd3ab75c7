package httpapi

import (
	"encoding/json"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"holdfast/internal/auth/bearer"
	"holdfast/internal/clock"
	"holdfast/internal/errcode"
	"holdfast/internal/guest"
	"holdfast/internal/guest/handoffs"
	"holdfast/internal/web"
)

// Audience is the aud claim in service tokens, which keeps out tokens for other purposes.
const Audience = "holdfast guest"

// ServiceClaims returns a service token's claims. With a tenant, the service can consume only this tenant's
// handoffs.
func ServiceClaims(service, tenant string) (map[string]any, error) {
	c := map[string]any{"service": service}
	if !serviceName.MatchString(service) {
		return nil, errcode.New(errcode.Invalid, "must be 1 to 64 characters from a-z, 0-9 and -")
	}
	if tenant != "" {
		id, ok := guest.ParseTenant(tenant)
		if !ok {
			return nil, errcode.New(errcode.Invalid, "the tenant must be a UUID, or tnt_ and a ULID")
		}
		c["tenant_id"] = id
	}
	return c, nil
}

var serviceName = regexp.MustCompile(`^[a-z0-9-]{1,64}$`)

// Receiver serves booking sites on the internal listener, authenticated by service tokens.
type Receiver struct {
	Handoffs *handoffs.Service
	Tokens   *bearer.Keyring
	Clock    clock.Clock

	// Count is called after each consume request.
	Count func(result string)
}

const receiverPrefix = "/internal/handoff/"

var receiverOperations = []string{"consume", "verify", "remove-items"}

// OwnsReceiver reports whether Receiver serves a raw path on the internal listener.
func OwnsReceiver(path string) bool { return strings.HasPrefix(path, receiverPrefix) }

// LabelReceiver returns the route for metrics and logs.
func LabelReceiver(path string) string {
	if _, operation, ok := parseReceiver(path); ok {
		return receiverPrefix + "{id}/" + operation
	}
	return "unknown"
}

// ReceiverRoutes returns all paths with their methods.
func ReceiverRoutes() []web.Route {
	var all []web.Route
	for _, operation := range receiverOperations {
		all = append(all, web.Route{Label: receiverPrefix + "{id}/" + operation, Method: http.MethodPost})
	}
	return all
}

// parseReceiver parses a raw path.
func parseReceiver(path string) (id, operation string, ok bool) {
	id, operation, _ = strings.Cut(strings.TrimPrefix(path, receiverPrefix), "/")
	id, err := url.PathUnescape(id)
	return id, operation, err == nil && slices.Contains(receiverOperations, operation)
}

// The metric label for a handoff that was consumed or verified.
const consumed = "consumed"

// ConsumeResults are all arguments of Receiver.Count.
var ConsumeResults = []string{
	consumed, "handoff-consumed", "handoff-voided", "handoff-expired", "not-found", "token-invalid", "other-browser", "tenant-suspended", "unauthenticated", "invalid", "unavailable",
}

// Serve implements web.Handler. It counts each request by its result.
func (h *Receiver) Serve(w http.ResponseWriter, r *http.Request, at web.Address) error {
	w.Header().Set("Cache-Control", "private, no-store")
	id, operation, ok := parseReceiver(at.Path)
	if !ok {
		return errPath
	}
	if r.Method != http.MethodPost {
		return web.RefuseMethod(w, http.MethodPost)
	}
	switch operation {
	case "remove-items":
		return h.removeItems(w, r, id)
	case "verify":
		return h.serve(w, r, id, false)
	}
	err := h.serve(w, r, id, true)
	h.Count(resultOf(err))
	return err
}

// resultOf returns the metric label for an error.
func resultOf(err error) string {
	if err == nil {
		return consumed
	}
	if code := asRefusal(err).Code; slices.Contains(ConsumeResults, code) {
		return code
	}
	if errcode.Of(err) == errcode.Unavailable || errcode.Of(err) == errcode.Conflict {
		return "unavailable"
	}
	return "invalid"
}

// serve verifies a handoff and, with consume, uses it up.
func (h *Receiver) serve(w http.ResponseWriter, r *http.Request, id string, consume bool) error {
	request, err := h.authenticate(r)
	if err != nil {
		return err
	}
	web.Identify(r, "guest service "+request.By)
	request.ID, request.Trace = id, traceOf(r)
	if err := readReceiver(w, r, &request); err != nil {
		return err
	}
	operation := h.Handoffs.Verify
	if consume {
		operation = h.Handoffs.Consume
		if request.Key, err = idempotencyKey(r.Header); err != nil {
			return err
		}
	}
	if err := web.AcquireSlot(r); err != nil {
		return err
	}
	received, err := operation(r.Context(), request)
	if err != nil {
		return err
	}
	a, err := jsonAnswer(http.StatusOK, receivedOf(received))
	if err != nil {
		return err
	}
	send(w, a)
	return nil
}

// removeItems removes sold items from the guest's list. Profiles with stays lack this route.
func (h *Receiver) removeItems(w http.ResponseWriter, r *http.Request, id string) error {
	if h.Handoffs.Profile().IsHotel() {
		return errPath
	}
	by, err := h.authenticate(r)
	if err != nil {
		return err
	}
	web.Identify(r, "guest service "+by.By)
	body, err := readJSON(w, r, maxSoldBody, false)
	if err != nil {
		return err
	}
	var in struct {
		Items []struct {
			ItemID   string `json:"itemId"`
			Quantity *int   `json:"quantity"`
		} `json:"items"`
	}
	if err := decode(body, &in); err != nil {
		return err
	}
	request := handoffs.RemoveItemsRequest{ID: id, By: by.By, Tenant: by.Tenant, Trace: traceOf(r)}
	for _, item := range in.Items {
		sold := guest.SoldItem{Item: item.ItemID}
		if item.Quantity != nil {
			if sold.Quantity = *item.Quantity; sold.Quantity == 0 {
				sold.Quantity = -1 // 0 is not valid, and not the whole entry
			}
		}
		request.Items = append(request.Items, sold)
	}
	if err := web.AcquireSlot(r); err != nil {
		return err
	}
	removed, err := h.Handoffs.RemoveItems(r.Context(), request)
	if err != nil {
		return err
	}
	a, err := jsonAnswer(http.StatusOK, removed)
	if err != nil {
		return err
	}
	send(w, a)
	return nil
}

// maxSoldBody fits 100 items with the longest IDs, in bytes.
const maxSoldBody = 64 << 10

// receivedView is a consumed handoff in profile hotel.
type receivedView struct {
	HandoffID  guest.ID `json:"handoffId"`
	SessionID  guest.ID `json:"sessionId"`
	TenantID   string   `json:"tenantId"`
	PropertyID string   `json:"propertyId"`
	stayView
	receivedState
}

// receivedItem is a consumed handoff in other profiles.
type receivedItem struct {
	HandoffID guest.ID        `json:"handoffId"`
	SessionID guest.ID        `json:"sessionId"`
	TenantID  string          `json:"tenantId"`
	ItemID    string          `json:"itemId"`
	Payload   json.RawMessage `json:"payload"`
	Currency  string          `json:"currency"`
	Locale    string          `json:"locale"`
	receivedState
}

// receivedState holds the members that both views share.
type receivedState struct {
	Campaign   json.RawMessage `json:"campaign,omitempty"`
	MintedAt   time.Time       `json:"mintedAt"`
	ExpiresAt  time.Time       `json:"expiresAt"`
	ConsumedAt *time.Time      `json:"consumedAt,omitempty"`
	Suspect    bool            `json:"suspect"`
}

// receivedOf chooses the view.
func receivedOf(r handoffs.Received) any {
	state := receivedState{r.Campaign, r.Minted, r.Expires, timeOrNil(r.Consumed), r.Suspect}
	if r.Payload != nil {
		return receivedItem{r.ID, r.Session, r.Tenant, r.Item, r.Payload, r.Currency, r.Locale, state}
	}
	return receivedView{r.ID, r.Session, r.Tenant, r.Item, stayView(r.Stay), state}
}

// timeOrNil makes JSON contain null for the zero time.
func timeOrNil(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}

// authenticate reads the service token: who consumes, and for which tenant.
func (h *Receiver) authenticate(r *http.Request) (request handoffs.ConsumeRequest, err error) {
	service, members, err := authenticateService(h.Tokens, h.Clock, r)
	if err != nil {
		return request, err
	}
	request.By = service
	if _, events := members["events"]; events { // only for pushing events
		return request, unauthenticated(bearer.Malformed("it only allows pushing events: create a token without --events"))
	}
	if raw, limited := members["tenant_id"]; limited {
		var ok bool
		if json.Unmarshal(raw, &request.Tenant) != nil {
			return request, unauthenticated(errTenantClaim)
		}
		if request.Tenant, ok = guest.ParseTenant(request.Tenant); !ok {
			return request, unauthenticated(errTenantClaim)
		}
	}
	return request, nil
}

var errTenantClaim = bearer.Malformed("the claim tenant_id must be a tenant's ID")

// unauthenticated answers 401 with the cause's text.
func unauthenticated(cause error) error {
	return web.RefuseFor(cause, http.StatusUnauthorized, "unauthenticated", cause.Error())
}

// readReceiver reads the body into the request.
func readReceiver(w http.ResponseWriter, r *http.Request, into *handoffs.ConsumeRequest) error {
	body, err := readJSON(w, r, maxBody, false)
	if err != nil {
		return err
	}
	var in struct {
		Token string `json:"token"`
		Guest *struct {
			UserAgent      string `json:"userAgent"`
			AcceptLanguage string `json:"acceptLanguage"`
			IP             string `json:"ip"`
		} `json:"guest"`
	}
	if err := decode(body, &in); err != nil {
		return err
	}
	if in.Token == "" {
		return refuseMember("token", "expected the token of the handoff")
	}
	into.Token = in.Token
	if in.Guest != nil {
		into.Visitor = &guest.Visitor{UserAgent: in.Guest.UserAgent, AcceptLanguage: in.Guest.AcceptLanguage, IP: in.Guest.IP}
	}
	return nil
}

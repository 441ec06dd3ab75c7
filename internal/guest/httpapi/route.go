package httpapi

import (
	"net/http"
	"net/url"
	"slices"
	"strings"

	"holdfast/internal/guest"
	"holdfast/internal/web"
)

const prefix = "/bff/consumer/v1/"

// Owns reports whether this service serves a raw path on the main listener.
func Owns(path string) bool { return strings.HasPrefix(path+"/", prefix) }

// route is a parsed path. An empty template: there is no such path.
type route struct {
	template string // "" if unknown
	search   string // /search/{srsId}; path values are unescaped but not validated
	tenant   string
	item     string
	session  string
	upstream string
	names    []string // path segments after the upstream
	country  string
	region   string
}

// Label returns a raw path's template for metrics and logs.
func Label(path string) string {
	if rt := parseRoute(path); rt.template != "" {
		return rt.template
	}
	return "unknown"
}

// parseRoute parses the raw path, not cleaned or decoded.
func parseRoute(path string) (rt route) {
	rest := strings.TrimPrefix(path, prefix)
	switch rest {
	case "session", "session/preferences", "session/attributes", "session/link", "user/sessions", "session/recently-viewed", "session/history", "session/clear", "wishlist", "handoff", "search", "search/map", "telemetry/page-view", "telemetry/funnel",
		"openapi.json":
		rt.template = "/" + rest
		return rt
	}
	if name, ok := strings.CutPrefix(rest, "wishlist/"); ok && name != "" && !strings.Contains(name, "/") {
		if property, err := url.PathUnescape(name); err == nil {
			return route{template: "/wishlist/{propertyId}", item: property}
		}
	}
	if name, ok := strings.CutPrefix(rest, "search/"); ok && strings.HasPrefix(name, guest.SearchPrefix) && !strings.Contains(name, "/") {
		return route{template: "/search/{srsId}", search: name}
	}
	if names, ok := strings.CutPrefix(rest, "handoff/"); ok {
		return parseHandoff(names)
	}
	return parseBrowse(strings.Split(rest, "/"))
}

// parseBrowse parses paths that name items, searches or places.
func parseBrowse(parts []string) route {
	for i, p := range parts {
		var err error
		if parts[i], err = url.PathUnescape(p); err != nil || p == "" {
			return route{}
		}
	}
	switch {
	case len(parts) == 3 && parts[0] == "user" && parts[1] == "sessions":
		return route{template: "/user/sessions/{sessionId}", session: parts[2]}
	case len(parts) == 2 && parts[0] == "hotels":
		return route{template: "/hotels/{propertyId}", item: parts[1]}
	case len(parts) == 3 && parts[0] == "hotels" && parts[2] == "availability":
		return route{template: "/hotels/{propertyId}/availability", item: parts[1]}
	case len(parts) == 3 && parts[0] == "facets":
		return route{template: "/facets/{country}/{region}", country: parts[1], region: parts[2]}
	case len(parts) == 3 && parts[0] == "brands" && parts[2] == "peek":
		return route{template: "/brands/{tenantId}/peek", tenant: parts[1]}
	case len(parts) >= 2 && parts[0] == "catalogue":
		return route{template: upstreamRoute, upstream: parts[1], names: parts[2:]}
	case len(parts) == 3 && parts[0] == "tenants" && parts[2] == "jwks.json":
		return route{template: keySetRoute, tenant: parts[1]}
	}
	return route{}
}

const keySetRoute = "/tenants/{tenantId}/jwks.json"

// hotelTemplates exist only in the hotel profile.
var hotelTemplates = []string{
	"/search", "/search/map", "/search/{srsId}", "/session/history", "/hotels/{propertyId}", "/hotels/{propertyId}/availability", "/facets/{country}/{region}", "/brands/{tenantId}/peek",
}

// upstreamRoute is followed by segments for the upstream.
const upstreamRoute = "/catalogue/{upstream}"

// Routes returns a profile's paths with their methods.
func Routes(p *guest.Profile) (all []web.Route) {
	for label := range actions {
		for method := range methodsOf(route{template: label}, p) {
			all = append(all, web.Route{Label: label, Method: method})
		}
	}
	if !p.IsHotel() && len(p.Upstreams) > 0 {
		all = append(all, web.Route{Label: upstreamRoute, Method: http.MethodGet})
	}
	return all
}

// Conditions declares the condition headers of the API.
func (h *Handler) Conditions(r *http.Request, at web.Address) (c web.Conditions) {
	if act := methodsOf(parseRoute(at.Path), h.Guests.Profile())[r.Method]; act != nil {
		c.Applied = act.conditions
	}
	return c
}

// methodsOf returns the path's actions in a profile, nil if the profile lacks the path.
func methodsOf(r route, p *guest.Profile) map[string]*action {
	if p.IsHotel() {
		return actions[r.template]
	}
	if r.template == upstreamRoute {
		if _, found := upstreamOf(r, p); !found {
			return nil
		}
	}
	if methods := criteriaActions[r.template]; methods != nil && (p.Criteria != nil || r.template == upstreamRoute) {
		return methods
	}
	if slices.Contains(hotelTemplates, r.template) {
		return nil
	}
	return actions[r.template]
}

type action struct {
	serve func(*exchange) error

	open    bool // no session, no rate limit
	begins  bool // starts a missing session
	public  bool // same answer for all guests; no session
	lenient bool // a missing session is like a new one, but is not started
	scored  bool // bots may be refused
	mutates bool // requires an idempotency key
	keyless bool // idempotency key is optional: repeating has the same effect
	body    bool
	patch   bool // also accepts application/merge-patch+json
	most    int  // maximum body bytes; 0: maxBody

	conditions []string // condition headers that the route applies
}

// ofTagged are the conditions of answers with an entity tag.
var ofTagged = []string{"If-None-Match"}

// ofChanges are the conditions for wishlist changes: see guest.Guard.
var ofChanges = []string{"If-Match", "If-None-Match"}

var criteriaActions = map[string]map[string]*action{
	"/search":          {http.MethodPost: {serve: (*exchange).searchItems, begins: true, body: true}},
	"/search/{srsId}":  {http.MethodGet: {serve: (*exchange).getItems}},
	"/session/history": {http.MethodGet: {serve: (*exchange).listHistory}},
	upstreamRoute:      {http.MethodGet: {serve: (*exchange).getAnswer, public: true, conditions: ofTagged}},
}

var actions = map[string]map[string]*action{
	"/session": {
		http.MethodPost: {serve: (*exchange).beginSession, begins: true, scored: true},
		http.MethodGet:  {serve: (*exchange).getSession},
	},
	"/session/preferences": {http.MethodPatch: {serve: (*exchange).setPreferences, body: true}},
	"/session/attributes": {
		http.MethodGet:   {serve: (*exchange).getAttributes, conditions: ofTagged},
		http.MethodPatch: {serve: (*exchange).patchAttributes, body: true, patch: true, most: maxAttributesPatch, conditions: []string{"If-Match"}},
	},
	"/session/link": {
		http.MethodPost:   {serve: (*exchange).linkSession, mutates: true, body: true, conditions: ofChanges},
		http.MethodDelete: {serve: (*exchange).unlinkSession, begins: true},
	},
	"/user/sessions":             {http.MethodGet: {serve: (*exchange).listUserSessions}, http.MethodDelete: {serve: (*exchange).endUserSessions}},
	"/user/sessions/{sessionId}": {http.MethodDelete: {serve: (*exchange).endUserSession}},
	"/session/recently-viewed": {
		http.MethodGet:  {serve: (*exchange).listViewed},
		http.MethodPost: {serve: (*exchange).addViewed, body: true},
	},
	"/session/history":                  {http.MethodGet: {serve: (*exchange).listHistory}},
	"/search":                           {http.MethodPost: {serve: (*exchange).search, begins: true, body: true}},
	"/search/map":                       {http.MethodPost: {serve: (*exchange).searchMap, begins: true, body: true}},
	"/hotels/{propertyId}":              {http.MethodGet: {serve: (*exchange).getHotel, public: true, conditions: ofTagged}},
	"/hotels/{propertyId}/availability": {http.MethodGet: {serve: (*exchange).getAvailability, public: true, conditions: ofTagged}},
	"/facets/{country}/{region}":        {http.MethodGet: {serve: (*exchange).getFacets, public: true, conditions: ofTagged}},
	"/brands/{tenantId}/peek":           {http.MethodGet: {serve: (*exchange).getBrand, public: true, conditions: ofTagged}},
	keySetRoute:                         {http.MethodGet: {serve: (*exchange).getKeySet, public: true, conditions: ofTagged}},
	"/search/{srsId}":                   {http.MethodGet: {serve: (*exchange).getSearch}},
	"/session/clear":                    {http.MethodPost: {serve: (*exchange).clear, mutates: true, conditions: ofChanges}},
	"/wishlist": {
		http.MethodGet:  {serve: (*exchange).listWishes, lenient: true, conditions: ofTagged},
		http.MethodPost: {serve: (*exchange).addWish, mutates: true, body: true, conditions: ofChanges},
	},
	"/wishlist/{propertyId}": {
		http.MethodGet:    {serve: (*exchange).getWish, lenient: true, conditions: ofTagged},
		http.MethodPatch:  {serve: (*exchange).changeWish, mutates: true, body: true, conditions: ofChanges},
		http.MethodDelete: {serve: (*exchange).removeWish, mutates: true, keyless: true, conditions: ofChanges},
	},
	"/openapi.json":                    {http.MethodGet: {serve: (*exchange).document, open: true}},
	"/handoff":                         {http.MethodGet: {serve: (*exchange).listHandoffs}},
	"/handoff/{tenantId}/{propertyId}": {http.MethodPost: {serve: (*exchange).mint, mutates: true, body: true, scored: true}},
	"/telemetry/page-view":             {http.MethodPost: {serve: (*exchange).recordPageViews, mutates: true, body: true, most: maxTelemetry}},
	"/telemetry/funnel":                {http.MethodPost: {serve: (*exchange).recordFunnelEvents, mutates: true, body: true, most: maxTelemetry}},
}

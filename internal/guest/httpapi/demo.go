package httpapi

import (
	"embed"
	"maps"
	"net/http"
	"path"
	"slices"
	"strings"

	"holdfast/internal/guest"
	"holdfast/internal/guest/handoffs"
	"holdfast/internal/guest/tenants"
	"holdfast/internal/web"
)

// Demo serves a demo hotel site, which uses the API with the built-in catalogue, and the booking site for its guests.
type Demo struct {
	*Handler
	Tenants  *tenants.Service
	Feed     *DemoFeed
	HotState string // memory or Redis

	// Suspends reports whether the demo may suspend a tenant.
	Suspends func(tenant string) bool
}

const demoPrefix = "/guest/demo"

const (
	// DemoPage is the hotel site's path.
	DemoPage = demoPrefix

	// DemoSite is the demo booking site's URL.
	DemoSite = demoPrefix + "/booking?hotel={propertyId}#{token}"
)

//go:embed demo
var demoFiles embed.FS

var demoPages = map[string]string{demoPrefix: "index.html", demoPrefix + "/booking": "booking.html"}

var demoKinds = map[string]string{
	".html": "text/html; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".css": "text/css; charset=utf-8", ".svg": "image/svg+xml",
}

// demoAction is an action on the demo's pages.
type demoAction struct {
	serve func(*Demo, *exchange) error
	class guest.Class

	// Required or optional session. Without either, the rate limit is per client address.
	needsSession, takesSession bool

	body bool
}

var demoActions = map[string]map[string]*demoAction{
	demoPrefix + "/arrivals":  {http.MethodPost: {serve: (*Demo).arrive, class: guest.ClassMint, body: true}},
	demoPrefix + "/live":      {http.MethodGet: {serve: (*Demo).live, class: guest.ClassSession, takesSession: true}},
	demoPrefix + "/hot-state": {http.MethodDelete: {serve: (*Demo).loseHotState, class: guest.ClassSession, needsSession: true}},
	demoPrefix + "/suspension": {
		http.MethodPut:    {serve: (*Demo).suspend, class: guest.ClassSession, needsSession: true, body: true},
		http.MethodDelete: {serve: (*Demo).reinstate, class: guest.ClassSession, needsSession: true, body: true},
	},
}

// DemoRoutes returns all paths with their methods.
func DemoRoutes() (all []web.Route) {
	for path, methods := range demoActions {
		for method := range methods {
			all = append(all, web.Route{Label: path, Method: method})
		}
	}
	for _, label := range []string{demoPrefix, demoPrefix + "/booking", demoPrefix + "/demo.js", demoPrefix + "/pictures/{name}"} {
		all = append(all, web.Route{Label: label, Method: http.MethodGet})
	}
	return all
}

const demoPolicy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

// OwnsDemo reports whether Demo serves a raw path on the main listener.
func OwnsDemo(path string) bool { return path == demoPrefix || strings.HasPrefix(path, demoPrefix+"/") }

// LabelDemo returns the route for metrics and logs.
func LabelDemo(at string) string {
	switch name := demoFile(at); {
	case demoActions[at] != nil, name != "" && path.Ext(name) != ".svg":
		return at
	case name != "":
		return demoPrefix + "/pictures/{name}"
	}
	return "unknown"
}

// demoFile returns the file for a path, "" for an unknown path.
func demoFile(at string) string {
	if name := demoPages[at]; name != "" {
		return "demo/" + name
	}
	name, ok := strings.CutPrefix(at, demoPrefix+"/")
	if kind := path.Ext(name); !ok || kind == ".html" || demoKinds[kind] == "" {
		return ""
	}
	if _, err := demoFiles.Open("demo/" + name); err != nil {
		return ""
	}
	return "demo/" + name
}

// Serve implements web.Handler.
func (d *Demo) Serve(w http.ResponseWriter, r *http.Request, at web.Address) error {
	h := w.Header()
	h.Set("Cache-Control", "private, no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Content-Security-Policy", demoPolicy)
	if methods := demoActions[at.Path]; methods != nil {
		a := methods[r.Method]
		if a == nil {
			return web.RefuseMethod(w, slices.Sorted(maps.Keys(methods))...)
		}
		r = r.WithContext(guest.WithHotTime(r.Context(), d.hotTime()))
		return d.act(a, &exchange{Handler: d.Handler, in: r, out: w, at: at, action: &action{begins: !a.needsSession, body: a.body}})
	}
	name := demoFile(at.Path)
	if name == "" {
		return errPath
	}
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		return web.RefuseMethod(w, http.MethodGet, http.MethodHead)
	}
	web.StaticBody(r)
	text, err := demoFiles.ReadFile(name)
	if err != nil {
		return err
	}
	kind := demoKinds[path.Ext(name)]
	switch {
	case r.Method == http.MethodHead:
		text = nil
		h.Set("Content-Type", kind)
	case kind == demoKinds[".svg"]:
		h.Set("Cache-Control", "public, max-age=3600")
	default:
		h.Set("Cache-Control", "no-cache")
	}
	send(w, answer{Status: http.StatusOK, ContentType: kind, Body: text})
	return nil
}

// act runs an action after its checks: the same site, the session if the action uses one, the rate limit, and the body.
func (d *Demo) act(action *demoAction, x *exchange) error {
	if err := x.sameSite(); err != nil {
		return err
	}
	if action.needsSession || action.takesSession {
		if err := x.authenticate(); err != nil {
			return err
		}
	}
	if err := x.take(action.class); err != nil {
		return err
	}
	if err := x.read(); err != nil {
		return err
	}
	return action.serve(d, x)
}

// arrive plays the booking site's server: it consumes the handoff. The same attempt may be repeated.
func (d *Demo) arrive(x *exchange) error {
	var in struct {
		HandoffID string `json:"handoffId"`
		Token     string `json:"token"`
		Attempt   string `json:"attempt"`
	}
	if err := decode(x.body, &in); err != nil {
		return err
	}
	if err := guest.CheckKey(in.Attempt); err != nil {
		return err
	}
	if err := web.AcquireSlot(x.in); err != nil {
		return err
	}
	v := x.visitor()
	arrived, err := d.Handoffs.Consume(x.ctx(), handoffs.ConsumeRequest{
		ID: in.HandoffID, Token: in.Token, By: "demo", Key: in.Attempt, Trace: traceOf(x.in), Visitor: &v,
	})
	if err != nil {
		return err
	}
	return x.sendJSON(http.StatusOK, stayView(arrived.Stay))
}

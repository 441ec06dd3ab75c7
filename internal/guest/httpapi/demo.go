package httpapi

import (
	"embed"
	"net/http"
	"strings"

	"holdfast/internal/guest"
	"holdfast/internal/guest/handoffs"
	"holdfast/internal/web"
)

// Demo serves a page that uses the API with the built-in catalogue, and the server of a
// booking site that receives its guests.
type Demo struct{ Handoffs *handoffs.Service }

// demoPrefix of the paths of Demo.
const demoPrefix = "/guest/demo"

// DemoSite is the URL of the booking site of the demo.
const DemoSite = demoPrefix

//go:embed demo
var demoFiles embed.FS

// demoTypes are the media types of the files, by their paths.
var demoTypes = map[string]struct{ file, kind string }{
	demoPrefix:                   {"demo/index.html", "text/html; charset=utf-8"},
	demoPrefix + "/demo.js":      {"demo/demo.js", "text/javascript; charset=utf-8"},
	demoPrefix + "/challenge.js": {"demo/challenge.js", "text/javascript; charset=utf-8"},
	demoPrefix + "/demo.css":     {"demo/demo.css", "text/css; charset=utf-8"},
}

// demoPolicy lets the page use its own files and this server only.
const demoPolicy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

// OwnsDemo reports whether a raw path on the main listener belongs to Demo.
func OwnsDemo(path string) bool { return path == demoPrefix || strings.HasPrefix(path, demoPrefix+"/") }

// LabelDemo is Label for Demo.
func LabelDemo(path string) string {
	if _, ok := demoTypes[path]; ok || path == demoArrivals {
		return path
	}
	return "unknown"
}

const demoArrivals = demoPrefix + "/arrivals"

// Serve is the web.Handler of the page.
func (d *Demo) Serve(w http.ResponseWriter, r *http.Request, at web.Address) error {
	h := w.Header()
	h.Set("Cache-Control", "private, no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Content-Security-Policy", demoPolicy)
	if at.Path == demoArrivals {
		if r.Method != http.MethodPost {
			return web.RefuseMethod(w, http.MethodPost)
		}
		return d.arrive(w, r, at)
	}
	f, ok := demoTypes[at.Path]
	if !ok {
		return errPath
	}
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		return web.RefuseMethod(w, http.MethodGet, http.MethodHead)
	}
	web.StaticBody(w)
	text, err := demoFiles.ReadFile(f.file)
	if err != nil {
		return err
	}
	if r.Method == http.MethodHead {
		text = nil
		h.Set("Content-Type", f.kind)
	} else {
		h.Set("Cache-Control", "no-cache")
	}
	send(w, answer{Status: http.StatusOK, ContentType: f.kind, Body: text})
	return nil
}

// arrive is what the server of a booking site does when a guest arrives: it consumes the
// handoff. The same attempt may be repeated.
func (d *Demo) arrive(w http.ResponseWriter, r *http.Request, at web.Address) error {
	x := &exchange{in: r, out: w, at: at}
	if err := x.sameSite(); err != nil {
		return err
	}
	body, err := readJSON(w, r, maxBody)
	if err != nil {
		return err
	}
	var in struct {
		HandoffID string `json:"handoffId"`
		Token     string `json:"token"`
		Attempt   string `json:"attempt"`
	}
	if err := decode(body, &in); err != nil {
		return err
	}
	if err := guest.CheckKey(in.Attempt); err != nil {
		return err
	}
	if err := web.AcquireSlot(w, r); err != nil {
		return err
	}
	v := x.visitor()
	arrived, err := d.Handoffs.Consume(r.Context(), handoffs.ConsumeRequest{
		ID: in.HandoffID, Token: in.Token, By: "demo", Key: in.Attempt, Trace: traceOf(r), Visitor: &v,
	})
	if err != nil {
		return err
	}
	return x.sendJSON(http.StatusOK, stayOf(arrived.Stay))
}

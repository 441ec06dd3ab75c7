package app

import (
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"html"
	"net/http"
	"strconv"
	"strings"

	"holdfast/internal/web"
)

// statusStyle is the style of the status page.
//
//go:embed status.css
var statusStyle string

// statusPolicy is the Content-Security-Policy of the status page: it loads nothing and
// uses only its own style.
var statusPolicy = func() string {
	sum := sha256.Sum256([]byte(statusStyle))
	return "default-src 'none'; style-src 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
}()

// serverStatus is the public status of the server.
type serverStatus struct {
	Status    string          `json:"status"` // "ready" or "not ready"
	Services  []serviceStatus `json:"services"`
	Documents string          `json:"documents,omitempty"`
}

// serviceStatus is the public status of a service.
type serviceStatus struct {
	Name    string `json:"name"`
	Title   string `json:"title"`
	Status  string `json:"status"`
	Setting string `json:"setting,omitempty"`
	Address string `json:"address,omitempty"`
	text    string
	guide   string
}

// statusPage handles the root of the main listener: HTML for browsers, JSON for other
// clients.
func (a *App) statusPage(w http.ResponseWriter, r *http.Request, at web.Address) error {
	status := a.status(at.String())
	body, kind := status.page(at.String()), "text/html; charset=utf-8"
	if !prefersHTML(r.Header.Values("Accept")) {
		var err error
		if body, err = json.Marshal(status); err != nil {
			return fmt.Errorf("encode the status: %w", err)
		}
		body, kind = append(body, '\n'), "application/json"
	}
	h := w.Header()
	h.Set("Content-Type", kind)
	h.Set("Content-Length", strconv.Itoa(len(body)))
	h.Set("Content-Security-Policy", statusPolicy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cache-Control", "no-store")
	h.Set("Vary", "Accept")
	w.WriteHeader(http.StatusOK)
	_, _ = w.Write(body) // an error means that the client has left
	return nil
}

// status returns the result of the last check of the services. Addresses begin with
// base.
func (a *App) status(base string) serverStatus {
	all := serverStatus{Status: "ready", Services: []serviceStatus{}, Documents: a.cfg.Server.DocumentsLink}
	for _, s := range a.opened {
		one := serviceStatus{Name: s.name, Title: s.name, Status: "ready"}
		if !a.ready.isReady(s.name) {
			one.Status, all.Status = "not ready", "not ready"
		}
		if s.Client != nil {
			c := s.Client(base)
			one.Title, one.Setting, one.Address, one.text, one.guide = c.Title, c.Setting, c.Address, c.Text, c.Guide
		}
		all.Services = append(all.Services, one)
	}
	return all
}

// page is the status as HTML. html/template would keep the linker from leaving out
// methods that nobody calls.
func (s *serverStatus) page(base string) []byte {
	var b strings.Builder
	put := func(format string, args ...string) {
		escaped := make([]any, len(args))
		for i, a := range args {
			escaped[i] = html.EscapeString(a)
		}
		fmt.Fprintf(&b, format, escaped...)
	}
	put("<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<meta name=\"robots\" content=\"noindex\">\n<title>Holdfast</title>\n<style>")
	b.WriteString(statusStyle)
	put("</style>\n</head>\n<body>\n<main>\n<h1>Holdfast is running</h1>\n<p>This storage server is %s.</p>\n", s.Status)
	for _, one := range s.Services {
		put("<section>\n<h2>%s</h2>\n<p class=\"name\">%s: %s</p>\n", one.Title, one.Name, one.Status)
		if one.Address != "" {
			put("<p>%s:</p>\n", one.text)
			if one.Setting != "" {
				put("<pre>%s</pre>\n<p>to</p>\n", one.Setting)
			}
			put("<pre>%s</pre>\n", one.Address)
		} else if one.text != "" {
			put("<p>%s.</p>\n", one.text)
		}
		if one.guide != "" {
			put("<p>Guide: the file <code>%s</code> that comes with Holdfast.</p>\n", one.guide)
		}
		put("</section>\n")
	}
	put("<footer>")
	if s.Documents != "" {
		put("<p><a href=\"%s\">Documentation</a></p>\n", s.Documents)
	}
	put("<p>For programs: <a href=\"%[1]s/__heartbeat__\">/__heartbeat__</a>, <a href=\"%[1]s/__version__\">/__version__</a></p></footer>\n</main>\n</body>\n</html>\n", base)
	return []byte(b.String())
}

// prefersHTML reports whether a client accepts HTML and does not prefer JSON.
func prefersHTML(accept []string) bool {
	quality := map[string]float64{}
	for entry := range strings.SplitSeq(strings.Join(accept, ","), ",") {
		kind, parameters, _ := strings.Cut(entry, ";")
		q := 1.0
		for p := range strings.SplitSeq(parameters, ";") {
			if text, ok := strings.CutPrefix(strings.ToLower(strings.TrimSpace(p)), "q="); ok {
				if n, err := strconv.ParseFloat(text, 64); err == nil {
					q = n
				}
			}
		}
		quality[strings.ToLower(strings.TrimSpace(kind))] = q
	}
	return quality["text/html"] > 0 && quality["text/html"] >= quality["application/json"]
}

package app

import (
	"context"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"html"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"

	"holdfast/internal/app/console"
	"holdfast/internal/app/service"
	"holdfast/internal/listen"
	"holdfast/internal/readonly"
	"holdfast/internal/web"
)

//go:embed status.css
var statusStyle string

// statusPolicy allows only the embedded style, by its hash.
var statusPolicy = func() string {
	sum := sha256.Sum256([]byte(statusStyle))
	return "default-src 'none'; style-src 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
}()

// serverStatus is the status page, in JSON or as a page. It is public.
type serverStatus struct {
	Status    string          `json:"status"` // "ready" or "not ready"
	Services  []serviceStatus `json:"services"`
	Documents string          `json:"documents,omitempty"`
	console   string          // address for a browser on this machine; "": disabled
	admin     string          // the admin listener's address for a browser on this machine; "": none
	signIn    bool            // a browser opened the page to sign in
}

// serviceStatus is a service on the status page; see service.Client.
type serviceStatus struct {
	Name    string `json:"name"`
	Title   string `json:"title"`
	Status  string `json:"status"`            // "ready" or "not ready", without a reason
	Setting string `json:"setting,omitempty"` // the client's setting, or ""
	Address string `json:"address,omitempty"` // the value for it, or ""
	text    string
	guide   string
	misled  string
}

// statusPage answers browsers with HTML and other programs with JSON.
func (a *App) statusPage(w http.ResponseWriter, r *http.Request, at web.Address) error {
	status := a.status(at.String())
	status.signIn = r.URL.Query().Has("context") // e.g. fx_desktop_v3, as browsers open an accounts server's sign-in page
	if a.isOnThisMachine(r) {
		status.admin = a.adminURL()
		status.console = a.consoleURL()
	}
	body, kind := status.page(at.String()), "text/html; charset=utf-8"
	if !prefersHTML(r.Header.Values("Accept")) {
		var err error
		if body, err = json.Marshal(status); err != nil {
			return fmt.Errorf("encode the status: %w", err)
		}
		body, kind = append(body, '\n'), "application/json"
	}
	sendPage(w, http.StatusOK, kind, body)
	return nil
}

// sendPage sends a page that loads nothing from elsewhere.
func sendPage(w http.ResponseWriter, status int, kind string, body []byte) {
	h := w.Header()
	h.Set("Content-Type", kind)
	h.Set("Content-Length", strconv.Itoa(len(body)))
	h.Set("Content-Security-Policy", statusPolicy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cache-Control", "no-store")
	h.Set("Vary", "Accept")
	w.WriteHeader(status)
	_, _ = w.Write(body) // an error means that the client left
}

// StatePath is the path on the admin listener that answers with a ServerState.
const StatePath = "/status"

// ServerState describes a running server to its operator.
type ServerState struct {
	Version
	Ready         bool            `json:"ready"`
	Process       int             `json:"process"` // ID
	Started       time.Time       `json:"started"`
	Uptime        int64           `json:"uptime"`                  // in seconds
	Data          string          `json:"data"`                    // data folder
	Configuration string          `json:"configuration,omitempty"` // file; "": only variables and flags
	Listeners     []ListenerState `json:"listeners"`
	Services      []ServiceState  `json:"services"`
	ReloadRefused string          `json:"reloadRefused,omitempty"` // why the latest reload failed
	Waiting       []string        `json:"needRestart"`             // changed settings that need a restart
}

// ListenerState is an open listener.
type ListenerState struct {
	Name string `json:"name"`
	URL  string `json:"url"`
}

// ServiceState is a configured service.
type ServiceState struct {
	Name     string `json:"name"`
	State    string `json:"state"`            // ready, not ready or off
	Reason   string `json:"reason,omitempty"` // why it is not ready, off or read-only
	Engine   string `json:"engine,omitempty"`
	Database string `json:"database,omitempty"`          // without secrets
	Pending  *int   `json:"pendingMigrations,omitempty"` // missing: unknown, or no database
}

// state asks the databases, each for up to readyTimeout.
func (a *App) state(ctx context.Context) ServerState {
	now := a.current()
	s := ServerState{
		Version: a.version, Process: os.Getpid(), Started: a.started.UTC().Truncate(time.Second), Uptime: int64(a.now().Sub(a.started) / time.Second),
		Data: a.instance.Data, Configuration: service.Absolute(now.report.File), Listeners: []ListenerState{}, Services: []ServiceState{}, Waiting: *a.reloads.waiting.Load(),
	}
	if now.report.File == "" {
		s.Configuration = ""
	}
	if refused := a.reloads.refused.Load(); refused != nil {
		s.ReloadRefused = refused.Says
	}
	for _, l := range a.cfg.listeners() {
		at, open := a.addresses[l.Name]
		if !open {
			continue
		}
		at = withMachineName(at)
		switch {
		case l.Name == service.Admin:
			at = a.cfg.Server.AdminURL(at)
		case l.Name == service.Redirect:
			at = "http://" + at
		default:
			at = a.scheme() + "://" + at
		}
		s.Listeners = append(s.Listeners, ListenerState{l.Name, at})
	}
	unready := a.unready(ctx)
	s.Ready = len(unready) == 0
	for _, configured := range a.cfg.Services {
		state := ServiceState{Name: configured.Name, State: "off", Reason: whyOff(configured)}
		for _, open := range a.opened {
			if open.Name == configured.Name {
				state.describe(ctx, open, unready[open.Name], a.readOnly)
			}
		}
		s.Services = append(s.Services, state)
	}
	return s
}

// describe fills in the state of an open service.
func (s *ServiceState) describe(ctx context.Context, open *opened, unready error, w *readonly.Switch) {
	if s.State = "ready"; unready != nil {
		s.State, s.Reason = "not ready", unready.Error()
	}
	if len(open.Databases) == 0 {
		return
	}
	d := open.Databases[0]
	s.Engine, s.Database = string(d.Target.Kind), d.Where
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	if db := open.Rows(); db != nil && unready == nil {
		if hold, err := db.ReadOnly(ctx, open.Name); err == nil && hold.Holder != "" {
			s.Reason = w.Describe(open.Name, hold)
		}
	}
	if pending, err := d.Pending(ctx); err == nil {
		n := len(pending)
		s.Pending = &n
	}
}

// isBrowser reports a request by a person's browser: it prefers HTML and has no token.
func isBrowser(r *http.Request) bool {
	return (r.Method == http.MethodGet || r.Method == http.MethodHead) && prefersHTML(r.Header.Values("Accept")) && r.Header.Get("Authorization") == ""
}

// isOnThisMachine reports whether a person on this machine sent the request, not through a proxy: only then is the
// console's address of use.
func (a *App) isOnThisMachine(r *http.Request) bool {
	for _, name := range []string{"Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto", "X-Real-Ip", "Via"} {
		if r.Header.Get(name) != "" {
			return false
		}
	}
	client, _ := a.resolver.Client(r)
	host := r.Host
	if _, _, err := net.SplitHostPort(host); err != nil {
		host = net.JoinHostPort(strings.Trim(host, "[]"), "80")
	}
	return client.IsLoopback() && listen.IsLoopback(host)
}

// adminURL returns the admin listener's address for this machine, or "" if there is none.
func (a *App) adminURL() string {
	at := a.addresses[service.Admin]
	if at == "" {
		return ""
	}
	return a.cfg.Server.AdminURL(listen.WithHostName(at, "127.0.0.1"))
}

// consoleURL returns the console's address for this machine, or "" if it is off.
func (a *App) consoleURL() string {
	if at := a.adminURL(); at != "" && a.console != nil {
		return at + console.Prefix
	}
	return ""
}

// consolePath returns the console's path on the admin listener, or "" if it is off.
func (a *App) consolePath() string {
	if a.console == nil {
		return ""
	}
	return console.Prefix
}

// nothingHere returns a page with a heading and a link.
func nothingHere(heading, to, text string) []byte {
	var p pageText
	p.begin("Holdfast")
	p.put("<h1>%s</h1>\n<p><a href=\"%s\">%s</a></p>\n</main>\n</body>\n</html>\n", heading, to, text)
	return []byte(p.String())
}

// pageText builds HTML. html/template would defeat the linker's dead-code elimination.
type pageText struct{ strings.Builder }

// put formats HTML. args are escaped; format is not.
func (p *pageText) put(format string, args ...string) {
	escaped := make([]any, len(args))
	for i, a := range args {
		escaped[i] = html.EscapeString(service.Printable(a))
	}
	fmt.Fprintf(p, format, escaped...)
}

// begin writes the page up to <main>.
func (p *pageText) begin(title string) {
	p.put("<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<meta name=\"robots\" content=\"noindex\">\n<title>%s</title>\n<style>", title)
	p.WriteString(statusStyle)
	p.put("</style>\n</head>\n<body>\n<main>\n")
}

// status describes the server to clients under the URL base. It asks no service.
func (a *App) status(base string) serverStatus {
	all := serverStatus{Status: "ready", Services: []serviceStatus{}, Documents: a.current().Server.DocumentsLink}
	for _, s := range a.opened {
		status := serviceStatus{Name: s.Name, Title: s.Name, Status: "ready"}
		if !a.ready.isReady(s.Name) {
			status.Status, all.Status = "not ready", "not ready"
		}
		if s.Client != nil {
			c := s.Client(base)
			status.Title, status.Setting, status.Address, status.text, status.guide, status.misled = c.Title, c.Setting, c.Address, c.Text, c.Guide, c.Misled
		}
		all.Services = append(all.Services, status)
	}
	return all
}

// page returns the HTML page.
func (s *serverStatus) page(base string) []byte {
	var b pageText
	put := b.put
	b.begin("Holdfast")
	put("<h1>Holdfast is running</h1>\n<p>This storage server is %s.</p>\n", s.Status)
	for _, status := range s.Services {
		if s.signIn && status.misled != "" {
			put("<p>%s.</p>\n", status.misled)
		}
	}
	if s.console != "" {
		put("<p>Manage it in the <a href=\"%[1]s\">console</a>: %[1]s</p>\n", s.console)
	}
	if s.admin != "" {
		put("<p>Read the <a href=\"%[1]s\">guides</a>: %[1]s</p>\n", s.admin+service.GuidePrefix)
	}
	for _, status := range s.Services {
		put("<section>\n<h2>%s</h2>\n<p class=\"name\">%s: %s</p>\n", status.Title, status.Name, status.Status)
		if status.Address != "" {
			put("<p>%s:</p>\n", status.text)
			if status.Setting != "" {
				put("<pre>%s</pre>\n<p>to</p>\n", status.Setting)
			}
			put("<pre><a href=\"%[1]s\">%[1]s</a></pre>\n", status.Address)
		} else if status.text != "" {
			put("<p>%s.</p>\n", status.text)
		}
		if status.guide != "" {
			s.putGuide(put, status.guide)
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

// putGuide links to a guide on the admin listener, or names its file for a browser on another machine.
func (s *serverStatus) putGuide(put func(format string, args ...string), file string) {
	if s.admin != "" {
		put("<p>Guide: <a href=\"%[1]s\">%[1]s</a></p>\n", s.admin+service.GuideLink(file))
		return
	}
	put("<p>Guide: the file <code>%s</code> that comes with Holdfast.</p>\n", file)
}

// prefersHTML compares an Accept header's qualities. Without text/html in it, programs get JSON.
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

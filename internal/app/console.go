package app

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"holdfast/internal/app/console"
	"holdfast/internal/app/overview"
	"holdfast/internal/app/service"
	"holdfast/internal/certificates"
	"holdfast/internal/changes"
	"holdfast/internal/conf"
	"holdfast/internal/obs"
	"holdfast/internal/operate"
	pages "holdfast/internal/operate/console"
	"holdfast/internal/replication"
	"holdfast/internal/web"
)

// newConsole returns the console with all pages: those written by hand, those for operations, and its own. It must
// run after all services are open.
func (a *App) newConsole() (c *console.Console, err error) {
	if a.proxies, err = web.NewResolver("", a.cfg.Server.TrustedProxies); err != nil {
		return nil, err
	}
	if a.near, err = web.NewResolver("", a.cfg.Server.ConsoleNetworks); err != nil {
		return nil, err
	}
	c = console.New(console.Options{
		Log: a.log, Clock: a.now, Guesses: a.guesses, Resolver: a.proxies, IsNear: a.near.Trusts, OwnHost: a.isOwnHost, Version: a.version.String(),
		AdminToken: a.cfg.Server.AdminToken.Reveal(), ViewerToken: a.cfg.Server.ViewerToken.Reveal(), Changes: a.changes,
		Disabled: a.overview.Disabled,
	})
	own := append(pages.Pages(a.overview.Pages(), a.operations), c.OwnPages()...)
	c.Sections = []console.Section{{Console: service.Console{Title: "Server", Icon: "server", Pages: own, Menu: overview.Menu, Search: a.overview.Search, Choose: pages.Choose(nil, a.operations), Finds: []service.Query{{What: "Settings by a word", Example: "max_requests"}}}}}
	for _, s := range a.opened {
		if s.Console == nil && len(s.operations) == 0 {
			continue
		}
		section := console.Section{Name: s.Name, Console: service.Console{Title: operate.Sentence(s.Name)}}
		if s.Console != nil {
			section.Console = *s.Console
		}
		section.Pages = pages.Pages(explainedPages(section.Pages, a.explainReadOnly(s.Name)), s.operations)
		section.Choose = pages.Choose(section.Choose, s.operations)
		c.Sections = append(c.Sections, section)
	}
	return c, nil
}

// isOwnHost reports whether a Host header may lead to the admin listener. An IP address may: DNS rebinding needs a
// name.
func (a *App) isOwnHost(host string) bool {
	own, _, _ := net.SplitHostPort(a.cfg.Server.AdminListen)
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	host = strings.Trim(host, "[]")
	return net.ParseIP(host) != nil || strings.EqualFold(host, "localhost") || strings.EqualFold(host, own) ||
		a.cfg.Server.adminHasTLS() && strings.EqualFold(host, a.cfg.Server.Domain)
}

// consoleHandler returns nil if the console is off.
func (a *App) consoleHandler() http.Handler {
	if a.console == nil {
		return nil
	}
	o := a.options()
	o.Gate, o.Memory, o.Trace = nil, a.operatorMemory, nil // operators do not wait for clients
	o.Observe = a.metrics.OperatorRequest
	m := &web.Mux{Resolver: a.console.Resolver, Options: o, Default: a.console.Service()}
	a.muxes = append(a.muxes, m)
	return m
}

// newTail keeps the log in memory, except console requests, because the log page sends one every two seconds. Refused ones
// are kept.
func newTail(to io.Writer) *obs.Tail {
	t := obs.NewTail(to)
	t.Skip = func(line []byte) bool {
		_, text, _ := bytes.Cut(line, []byte(" "))
		_, object, _ := bytes.Cut(line, []byte(","))
		ofConsole := bytes.HasPrefix(text, []byte("level=INFO msg=request service=console ")) || bytes.HasPrefix(object, []byte(`"level":"INFO","msg":"request","service":"console",`))
		return ofConsole && !refusedStatus.Match(line)
	}
	return t
}

// refusedStatus finds the status of a refused request in a line of either format, in which routes and methods contain no quote.
var refusedStatus = regexp.MustCompile(`^[^"]* status=40[13] |^\{"time".*?,"status":40[13],`)

// consoleHint returns the hint with a sign-in link. ok is false without a console or an admin listener.
func (a *App) consoleHint(listeners []listener) (hint namedHint, ok bool) {
	at := slices.IndexFunc(listeners, func(l listener) bool { return l.name == service.Admin })
	if a.console == nil || at < 0 {
		return hint, false
	}
	return namedHint{"server", service.Hint{
		Text:  "To manage the server in a browser, open this link, which signs in once within an hour",
		Lines: []string{a.cfg.Server.AdminURL(listeners[at].Addr().String()) + a.console.NewLink()},
	}}, true
}

// newOverview connects the server's own pages to its parts. The functions may be called while the server runs.
func (a *App) newOverview() *overview.Overview {
	o := &overview.Overview{
		Data: a.data, Clock: a.now, Gate: a.gate, Memory: a.memory, Traffic: a.metrics.Traffic, Unready: a.unready, Checks: a.checks,
		Settings: a.settings, Waiting: func() []string { return *a.reloads.waiting.Load() },
	}
	o.Certificate, o.Backups = a.certificate, a.backups
	o.DiskDays = func() int { return a.alerts.Settings().DiskDays }
	o.FirstPage = func(name string) string {
		if a.console == nil {
			return ""
		}
		return a.console.FirstPage(name)
	}
	o.Replica = func() *replication.State { return a.replication.State() }
	for _, s := range a.cfg.Services {
		if !s.Config.IsEnabled() {
			o.Disabled = append(o.Disabled, s.Name)
		}
	}
	return o
}

// certificate also returns how long before expiry to warn. ACME certificates are renewed long before that.
func (a *App) certificate() (state *certificates.State, early time.Duration) {
	if a.certificates == nil {
		return nil, 0
	}
	s := a.certificates.State()
	if _, renewed := a.certificates.(*certificates.ACME); renewed {
		return &s, 24 * time.Hour
	}
	return &s, 14 * 24 * time.Hour
}

// prepareAlerts sets up alerts; Serve runs them.
func (a *App) prepareAlerts() {
	l := a.alerts
	l.Set(a.cfg.Alerts)
	l.Clock, l.Log, l.File = a.now, a.log, filepath.Join(a.data, "alerts.json")
	if l.Server = a.cfg.Server.PublicURL; l.Server == "" {
		l.Server, _ = os.Hostname()
	}
	l.Conditions = a.overview.Conditions
}

// settings returns the settings in use, also after a reload. Generated secrets are said to come from the secrets
// file.
func (a *App) settings() []conf.Setting {
	cfg := a.current()
	all := conf.Settings(cfg.sections(), cfg.report)
	for i := range all {
		if slices.Contains(a.secrets.Settings, all[i].Path) {
			all[i].Where = "secrets file"
		}
	}
	return all
}

// recordChange returns a recorder that logs a service's changes. It is not for commands, which do not write to the
// server's log.
func (a *App) recordChange(of string) operate.Recorder {
	return func(ctx context.Context, done operate.Record) {
		c := service.Change{Service: of, Page: done.Noun(), Action: done.Verb(), Err: done.Err}
		if done.Kind == operate.Download {
			c.Page, c.Action = done.Path, "download"
		}
		for _, in := range done.Inputs {
			c.What = append(c.What, service.Named(in))
		}
		a.changes.Add(ctx, &c)
	}
}

// explainReadOnly adds to errors of a service who made it read-only, and how to end it.
func (a *App) explainReadOnly(name string) func(context.Context, error) error {
	return func(ctx context.Context, err error) error { return a.readOnly.Explain(ctx, name, err) }
}

// explainedPages returns the pages with actions whose errors are explained. Operations explain theirs themselves; this is
// for the pages that a service writes by hand.
func explainedPages(all []service.Page, explain func(context.Context, error) error) []service.Page {
	all = slices.Clone(all)
	for i := range all {
		all[i].Actions = slices.Clone(all[i].Actions)
		for j := range all[i].Actions {
			run := all[i].Actions[j].Run
			all[i].Actions[j].Run = func(ctx context.Context, r *service.PageRequest) (service.Outcome, error) {
				out, err := run(ctx, r)
				if err != nil {
					err = explain(ctx, err)
				}
				return out, err
			}
		}
	}
	return all
}

// beganReadOnly finds in the log of changes which operator made a service read-only at a time. If another server or a command
// made it read-only later, the log's last word is not about that.
func (a *App) beganReadOnly(name string, since time.Time) (who string) {
	for _, e := range a.changes.List(&changes.Filter{Service: "server", Text: "read-only", Limit: 100}) {
		if e.Page == "read-only" && e.Failed == "" && slices.Contains(e.What, service.Named{Name: "service", Value: name}) {
			if e.Action != "on" || !since.IsZero() && (e.At.Before(since.Add(-recordedWithin)) || e.At.After(since.Add(recordedWithin))) {
				return ""
			}
			return e.Who
		}
	}
	return ""
}

// recordedWithin is how far the log of changes and the database may be apart about the time when a service became
// read-only: their clocks differ, and the change is logged once no transaction writes any more.
const recordedWithin = time.Minute

// whereReadOnly returns the place that sets server.read_only for this server, or "".
func (a *App) whereReadOnly() string {
	c := a.current()
	if !c.Server.ReadOnly {
		return ""
	}
	return c.report.Where("server.read_only")
}

// asOperator names the admin token's holder for audits and the log of changes.
func (a *App) asOperator(serve web.Handler) web.Handler {
	return func(w http.ResponseWriter, r *http.Request, at web.Address) error {
		return serve(w, r.WithContext(service.WithOperator(r.Context(), "", a.resolver.Network(r))), at)
	}
}

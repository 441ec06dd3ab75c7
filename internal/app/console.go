package app

import (
	"context"
	"net"
	"net/http"
	"slices"
	"strings"

	"holdfast/internal/app/console"
	"holdfast/internal/app/service"
	"holdfast/internal/conf"
	pages "holdfast/internal/operate/console"
	"holdfast/internal/web"
)

// newConsole returns the console of the server: its own pages and those of the services.
func (a *App) newConsole() (*console.Console, error) {
	proxies, err := web.NewResolver("", a.cfg.Server.TrustedProxies)
	if err != nil {
		return nil, err
	}
	near, err := web.NewResolver("", a.cfg.Server.ConsoleNetworks)
	if err != nil {
		return nil, err
	}
	c, err := console.New(console.Options{
		Log: a.log, Clock: a.now, Resolver: proxies, IsNear: near.Trusts, OwnHost: a.isOwnHost, Version: a.version.String(),
		AdminToken: a.cfg.Server.AdminToken.Reveal(), ViewerToken: a.cfg.Server.ViewerToken.Reveal(),
	})
	if err != nil {
		return nil, err
	}
	own := append([]service.Page{
		{Title: "Overview", Listed: true, Show: a.showOverview}, {Path: "checks", Title: "Checks", Listed: true, Show: a.showChecks},
		{Path: "sweeps", Title: "Sweeps", Listed: true, Show: a.showSweeps}, a.readOnlyPage(), {Path: "settings", Title: "Settings", Listed: true, Show: a.showSettings},
	}, c.OwnPages()...)
	c.Sections = []console.Section{{Console: service.Console{Title: "Server", Pages: own}}}
	for _, s := range a.opened {
		if s.Console != nil {
			section := console.Section{Name: s.Name, Console: *s.Console}
			section.Pages = append(slices.Clone(section.Pages), pages.Pages(s.operations)...)
			c.Sections = append(c.Sections, section)
		}
	}
	return c, nil
}

// isOwnHost reports whether a Host header is an IP address, localhost or the listen
// address.
func (a *App) isOwnHost(host string) bool {
	own, _, _ := net.SplitHostPort(a.cfg.Server.AdminListen)
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	host = strings.Trim(host, "[]")
	return net.ParseIP(host) != nil || strings.EqualFold(host, "localhost") || strings.EqualFold(host, own)
}

// consoleHandler returns the handler of the console, or nil if it is off.
func (a *App) consoleHandler() http.Handler {
	if a.console == nil {
		return nil
	}
	o := a.options()
	o.Gate, o.Memory, o.Trace = nil, a.operatorMemory, nil // operators do not wait for clients
	o.Observe = a.metrics.OperatorRequest
	return &web.Mux{Resolver: a.console.Resolver, Options: o, Default: a.console.Service()}
}

// consoleHint has a link that signs in once, for the terminal at which the server was
// started.
func (a *App) consoleHint(listeners []listener) (hint namedHint, ok bool) {
	at := slices.IndexFunc(listeners, func(l listener) bool { return l.name == service.Admin })
	if a.console == nil || at < 0 {
		return hint, false
	}
	return namedHint{"server", service.Hint{
		Text:  "To manage the server in a browser, open this link, which signs in once within an hour",
		Lines: []string{"http://" + listeners[at].Addr().String() + a.console.NewLink()},
	}}, true
}

// showSettings shows the configuration.
func (a *App) showSettings(context.Context, *service.PageRequest) (*service.View, error) {
	t := &service.Table{Columns: []service.Column{{Title: "Setting"}, {Title: "Value"}, {Title: "Source"}}}
	for _, s := range conf.Settings(a.cfg.sections(), a.cfg.report) {
		if slices.Contains(a.kept, s.Path) {
			s.Where = "secrets file"
		}
		t.Rows = append(t.Rows, []service.Cell{service.TextCell(s.Path), service.TextCell(s.Value), service.TextCell(s.Where)})
	}
	return &service.View{Blocks: []service.Block{
		&service.Text{Body: "The settings as the server uses them, and where each was set. Secrets are hidden. The server reads its configuration only at the start."}, t,
	}}, nil
}

package app

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"holdfast/internal/app/console"
	"holdfast/internal/app/service"
	"holdfast/internal/conf"
	"holdfast/internal/fault"
	"holdfast/internal/web"
)

// newConsole returns the console of the server: its own pages and those of the services.
func (a *App) newConsole() (*console.Console, error) {
	proxies, err := web.NewResolver("", a.cfg.Server.TrustedProxies)
	if err != nil {
		return nil, err
	}
	c, err := console.New(console.Options{
		Log: a.log, Clock: a.now, Resolver: proxies, OwnHost: a.isOwnHost, Version: a.version.String(),
		AdminToken: a.cfg.Server.AdminToken.Reveal(), ViewerToken: a.cfg.Server.ViewerToken.Reveal(),
	})
	if err != nil {
		return nil, err
	}
	own := append([]service.Page{
		{Title: "Overview", Listed: true, Show: a.showOverview}, {Path: "settings", Title: "Settings", Listed: true, Show: a.showSettings},
	}, c.OwnPages()...)
	c.Sections = []console.Section{{Console: service.Console{Title: "Server", Pages: own}}}
	for _, s := range a.opened {
		if s.Console != nil {
			c.Sections = append(c.Sections, console.Section{Name: s.name, Console: *s.Console})
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
	o.Gate, o.Memory, o.Trace = nil, nil, nil // operators do not wait for clients
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

// showOverview is the first page of the console.
func (a *App) showOverview(ctx context.Context, _ *service.PageRequest) (*service.View, error) {
	unready := a.unready(ctx)
	services := &service.Table{
		Title:   "Services",
		Columns: []service.Column{{Title: "Service"}, {Title: "State"}, {Title: "Engine"}, {Title: "Database"}, {Title: "Size", Number: true}, {Title: "Free disk", Number: true}},
	}
	for _, s := range a.opened {
		state := service.Cell{State: service.OK, Text: "ready"}
		if err := unready[s.name]; err != nil {
			state = service.Cell{State: service.Wrong, Text: err.Error()}
		}
		row := []service.Cell{service.TextCell(s.name), state, service.TextCell("-"), service.TextCell("-"), service.TextCell("-"), service.TextCell("-")}
		for _, d := range s.Databases {
			row[2], row[3] = service.TextCell(fmt.Sprint(d.Target.Kind)), service.TextCell(d.Where)
			if d.Embedded() {
				row[4], row[5] = fileSizes(d.Target.Path)
			}
		}
		services.Rows = append(services.Rows, row)
	}
	gate, memory := a.gate.Stats(), a.memory.Stats()
	now := &service.Facts{Title: "Requests", Rows: []service.Fact{
		{Name: "In progress", Cell: service.Cell{Text: fmt.Sprintf("%d of %d", gate.Active, gate.Slots), Share: float64(gate.Active), Most: float64(gate.Slots)}},
		{Name: "Waiting", Cell: service.TextCell(strconv.Itoa(gate.Waiting))},
		{Name: "Rejected because of overload", Cell: service.TextCell(strconv.FormatInt(gate.Shed, 10))},
		{Name: "Memory of requests", Cell: service.Cell{
			Text: service.FormatBytes(memory.Used) + " of " + service.FormatBytes(memory.Capacity), Share: float64(memory.Used), Most: float64(memory.Capacity),
		}},
	}}
	blocks := append([]service.Block{services}, a.history.charts()...)
	return &service.View{Blocks: append(blocks, now, a.backlogs(ctx))}, nil
}

// backlogs returns what waits to be done in the services.
func (a *App) backlogs(ctx context.Context) *service.Table {
	t := &service.Table{Title: "Backlogs", Columns: []service.Column{{Title: "Service"}, {Title: "What"}, {Title: "How much"}}, Empty: "No service reports a backlog."}
	for _, s := range a.opened {
		if s.Console == nil || s.Console.Backlogs == nil {
			continue
		}
		facts, err := s.Console.Backlogs(ctx)
		if err != nil {
			facts = []service.Fact{{Name: "unknown", Cell: service.Cell{State: service.Wrong, Text: fault.Message(err)}}}
		}
		for _, f := range facts {
			if f.To != "" {
				f.To = s.name + "/" + f.To
			}
			t.Rows = append(t.Rows, []service.Cell{service.TextCell(s.name), service.TextCell(f.Name), f.Cell})
		}
	}
	return t
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

// fileSizes returns the size of a SQLite file with its write-ahead log, and the free space
// of its disk.
func fileSizes(path string) (size, free service.Cell) {
	var bytes int64
	for _, name := range []string{path, path + "-wal"} {
		if info, err := os.Stat(name); err == nil {
			bytes += info.Size()
		}
	}
	size, free = service.TextCell(service.FormatBytes(bytes)), service.TextCell("-")
	if n, _, err := diskSpace(filepath.Dir(path)); err == nil {
		free = service.TextCell(service.FormatBytes(int64(n)))
	}
	return size, free
}

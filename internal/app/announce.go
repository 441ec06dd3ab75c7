package app

import (
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"

	"holdfast/internal/app/service"
	"holdfast/internal/listen"
	"holdfast/internal/obs"
	"holdfast/internal/secrets"
)

// announcement is the start's output: where the server listens, where its data is, and how to continue.
type announcement struct {
	version string
	address string // URL for clients
	facts   []fact
	hints   []namedHint // e.g. a link to the console
}

// fact is a line of the announcement. note may be "".
type fact struct{ name, where, note string }

type namedHint struct {
	service string
	service.Hint
}

// announce prints the announcement, with log.format json as log lines. Only a terminal gets the console's sign-in
// link, because other output may be stored. last prints the link: call it after the lines that a start logs, so that
// the link stays the last line.
func (a *App) announce(out io.Writer, listeners []listener) (last func()) {
	all := a.announcement(listeners)
	if a.cfg.Log.Format == "json" {
		all.log(out)
		return func() {}
	}
	isTerminal := service.IsTerminal(out)
	_, _ = io.WriteString(out, all.text(isTerminal))
	hint, ok := a.consoleHint(listeners)
	if !ok || !isTerminal {
		return func() {}
	}
	return func() { _, _ = io.WriteString(out, hint.text()) }
}

// announcement collects the text after all listeners are open, because a port 0 has become a number.
func (a *App) announcement(listeners []listener) (all announcement) {
	all.version = a.version.String()
	var base string
	add := func(name, where, note string) { all.facts = append(all.facts, fact{name, where, note}) }
	for _, l := range listeners {
		switch at := l.Addr().String(); l.name {
		case service.Main:
			base = a.address(at)
			all.address = base
			note := ""
			if a.publicURL() != "" {
				note = "listening on " + a.scheme() + "://" + at
			}
			add("clients", base, note)
		case service.Admin:
			add(l.name, a.cfg.Server.AdminURL(at), "/readyz, /metrics")
			if url := a.consoleURL(); url != "" {
				add("console", url, "in a browser")
			}
		case service.Redirect:
			add(l.name, "http://"+at, "to "+base)
		default:
			add(l.name, a.scheme()+"://"+at, "")
		}
	}
	if a.publicURL() == "" {
		for _, l := range listeners {
			if l.name == service.Main {
				if all := listen.AddressesOf(l.Addr().String(), a.scheme()); len(all) > 0 {
					add("addresses", strings.Join(all, " "), "")
				}
			}
		}
	}
	for _, d := range a.databases() {
		add(d.Service, d.Where, "")
	}
	for _, s := range a.cfg.Services {
		if off := whyOff(s); off != "" {
			add(s.Name, "off", off)
		}
	}
	path := secrets.Path(a.data, secrets.File)
	if _, err := os.Stat(path); err == nil {
		add("secrets", path, "")
	}
	for _, s := range a.opened {
		if s.Hint != nil {
			all.hints = append(all.hints, namedHint{s.Name, s.Hint(base)})
		}
	}
	return all
}

// text returns the announcement for a person. On a terminal it may include secrets.
func (all *announcement) text(terminal bool) string {
	var b strings.Builder
	fmt.Fprintf(&b, "Holdfast %s on %s\n\n", all.version, all.address)
	for _, r := range all.facts {
		fmt.Fprintf(&b, "  %-12s %s", r.name, r.where)
		if r.note != "" {
			fmt.Fprintf(&b, " (%s)", r.note)
		}
		b.WriteByte('\n')
	}
	for _, h := range all.hints {
		if terminal && h.Private != nil {
			h.Hint = *h.Private
		}
		b.WriteString(h.text())
	}
	b.WriteByte('\n')
	return b.String()
}

// text returns the hint for a person.
func (h *namedHint) text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "\n%s:\n\n", h.Text)
	for _, line := range h.Lines {
		fmt.Fprintf(&b, "  %s\n", line)
	}
	return b.String()
}

// log writes two kinds of lines: "listening" with all facts, and "hint". It never writes a Hint's Private part.
func (all *announcement) log(out io.Writer) {
	log, err := obs.NewLog(out, "info", "json")
	if err != nil {
		panic(err) // level and format are valid
	}
	attrs := []any{slog.String("version", all.version)}
	for _, r := range all.facts {
		attrs = append(attrs, slog.String(r.name, r.where))
		if r.note != "" {
			attrs = append(attrs, slog.String(r.name+"_note", r.note))
		}
	}
	log.Info("listening", attrs...)
	for _, h := range all.hints {
		log.Info("hint", "service", h.service, "text", h.Text, "lines", h.Lines)
	}
}

// whyOff returns why a service is off although its operator did not turn it off, or "".
func whyOff(s service.Service) string {
	if off, ok := s.Config.(service.Explained); ok {
		return off.WhyOff()
	}
	return ""
}

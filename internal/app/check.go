package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"holdfast/internal/app/service"
	"holdfast/internal/conf"
	"holdfast/internal/db/engine"
)

// ConfigFindings says what reading the configuration came to; err is that of
// Load.
func ConfigFindings(file string, report conf.Report, err error) []service.Finding {
	from := "defaults and environment"
	if file != "" {
		from = file + " and environment"
	}
	var found []service.Finding
	if wrong, ok := errors.AsType[*conf.Error](err); ok {
		for _, p := range wrong.Problems {
			found = append(found, service.Finding{State: service.Wrong, What: p.Where, Says: p.Message(), Fix: p.Fix})
		}
	} else {
		found = append(found, service.Finding{State: service.OK, What: "configuration", Says: "read from " + from})
	}
	for _, p := range report.Warnings {
		found = append(found, service.Finding{State: service.Warning, What: p.Where, Says: p.Message(), Fix: p.Fix})
	}
	for _, p := range report.Notes {
		found = append(found, service.Finding{State: service.Warning, What: p.Where, Says: p.Message(), Fix: p.Fix})
	}
	return found
}

// checkTimeout bounds each thing that is reached.
const checkTimeout = 10 * time.Second

// Check reaches everything that is configured. It changes nothing.
func Check(ctx context.Context, cfg *Config, data string) []service.Finding {
	found := checkFiles(cfg, data)
	for _, s := range cfg.Services {
		found = append(found, checkService(ctx, cfg, s, data)...)
	}
	found = append(found, checkListeners(cfg)...)
	if cfg.Server.PublicURL != "" {
		found = append(found, checkPublicURL(ctx, cfg))
	} else if !loopback(cfg.Server.Listen) {
		found = append(found, service.Finding{
			State: service.Warning, What: "server.public_url", Says: "unset: clients get the address that each request was sent to",
			Fix: "behind a proxy, set it, or trusted_proxies",
		})
	}
	for _, s := range cfg.enabled() {
		if s.Probe != nil {
			found = append(found, s.Probe(ctx)...)
		}
	}
	return found
}

// checkFiles looks at the data folder and the secrets in it.
func checkFiles(cfg *Config, data string) []service.Finding {
	info, err := os.Stat(data)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return []service.Finding{{State: service.OK, What: "data folder", Says: data + " will be created at the first start"}}
	case err != nil:
		return []service.Finding{{State: service.Wrong, What: "data folder", Says: err.Error(), Fix: "choose another with --data"}}
	case !info.IsDir():
		return []service.Finding{{State: service.Wrong, What: "data folder", Says: data + " is not a folder", Fix: "choose another with --data"}}
	}
	found := []service.Finding{writable(data)}
	if _, _, err := loadSecrets(data, false, nil); err == nil {
		found = append(found, service.Finding{State: service.OK, What: "secrets", Says: filepath.Join(data, SecretsFile)})
	} else if cfg.Server.MasterSecret == "" {
		found = append(found, service.Finding{State: service.Warning, What: "secrets", Says: err.Error()})
	}
	return found
}

func writable(dir string) service.Finding {
	f, err := os.CreateTemp(dir, ".check-*")
	if err != nil {
		return service.Finding{State: service.Wrong, What: "data folder", Says: "cannot be written: " + err.Error(), Fix: "chown it to the user that runs holdfast"}
	}
	err = errors.Join(f.Close(), os.Remove(f.Name()))
	if err != nil {
		return service.Finding{State: service.Wrong, What: "data folder", Says: err.Error()}
	}
	return service.Finding{State: service.OK, What: "data folder", Says: dir + " is writable"}
}

// checkService opens a service without creating or changing anything, and reaches
// its databases.
func checkService(ctx context.Context, cfg *Config, s service.Service, data string) []service.Finding {
	what := s.Name + " database"
	if !s.Config.IsEnabled() {
		return []service.Finding{{State: service.OK, What: what, Says: "the service is off"}}
	}
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	one := *cfg
	one.Services = []service.Service{s}
	// A check signs nothing, so it needs no real secrets.
	for _, secret := range one.generated() {
		if secret.unset {
			secret.set(strings.Repeat("check", 8))
			defer secret.set("")
		}
	}
	fix := func(otherwise string) string {
		if s.DatabaseFix != nil {
			return s.DatabaseFix()
		}
		return otherwise
	}
	a, err := Open(ctx, Options{Config: &one, Data: data, LogTo: io.Discard, Quiet: true, Leave: true})
	if missing, ok := errors.AsType[*engine.MissingError](err); ok {
		return []service.Finding{{State: service.OK, What: what, Says: missing.Path + " will be created at the first start"}}
	}
	if err != nil {
		return []service.Finding{{State: service.Wrong, What: what, Says: err.Error(), Fix: fix("correct " + s.Name + ".database_url; --data names the folder of the embedded databases")}}
	}
	defer func() { _ = a.Close() }() // nothing was written
	var found []service.Finding
	start := fix("start the database, or correct " + s.Name + ".database_url")
	for _, d := range a.databases() {
		found = append(found, checkDatabase(ctx, d, what, start)...)
	}
	wrong := func(f service.Finding) bool { return f.State == service.Wrong }
	if slices.ContainsFunc(found, wrong) || a.opened[0].Inspect == nil {
		return found
	}
	more, err := a.opened[0].Inspect(ctx)
	if err != nil {
		more = []service.Finding{{State: service.Wrong, What: what, Says: err.Error(), Fix: start}}
	}
	return append(found, more...)
}

// checkDatabase reaches a database.
func checkDatabase(ctx context.Context, d *engine.Database, what, fix string) []service.Finding {
	pending, err := d.Pending(ctx)
	switch {
	case err != nil:
		return []service.Finding{{State: service.Wrong, What: what, Says: d.Where + ": " + err.Error(), Fix: fix}}
	case len(pending) > 0 && d.Embedded():
		return []service.Finding{{State: service.OK, What: what, Says: fmt.Sprintf("%s: %s will be applied at the next start", d.Where, migrations(len(pending)))}}
	case len(pending) > 0:
		return []service.Finding{{State: service.Wrong, What: what, Says: fmt.Sprintf("%s: %s not applied yet", d.Where, migrations(len(pending))), Fix: "run: holdfast migrate"}}
	}
	found := service.Finding{State: service.OK, What: what, Says: d.Where + ": reached, tables are up to date"}
	if d.Pooler == nil {
		return []service.Finding{found}
	}
	switch pooled, prepares, err := d.Pooler(ctx); {
	case err != nil:
		found = service.Finding{State: service.Wrong, What: what, Says: d.Where + ": " + err.Error(), Fix: fix}
	case pooled && prepares:
		found = service.Finding{
			State: service.Warning, What: what, Says: d.Where + ": reached through a connection pooler, and statements are prepared",
			Fix: "add default_query_exec_mode=exec to " + d.Service + ".database_url, unless the pooler keeps prepared statements (PgBouncer 1.21, max_prepared_statements)",
		}
	case pooled:
		found.Says += ", through a connection pooler"
	}
	return []service.Finding{found}
}

// migrations counts them in words.
func migrations(n int) string {
	if n == 1 {
		return "1 migration"
	}
	return fmt.Sprintf("%d migrations", n)
}

// checkListeners says whether the addresses are free, or this server's own.
func checkListeners(cfg *Config) []service.Finding {
	var found []service.Finding
	for _, l := range cfg.listeners() {
		if l.Address == "" {
			continue
		}
		ln, err := net.Listen("tcp", l.Address)
		if err != nil {
			found = append(found, service.Finding{State: service.Warning, What: l.Setting, Says: err.Error(), Fix: "nothing, if that is a running holdfast; else choose another address"})
			continue
		}
		_ = ln.Close()
		found = append(found, service.Finding{State: service.OK, What: l.Setting, Says: l.Address + " is free"})
	}
	return found
}

func loopback(addr string) bool {
	host, _, err := net.SplitHostPort(addr)
	ip := net.ParseIP(host)
	return err == nil && (host == "localhost" || ip != nil && ip.IsLoopback())
}

// checkPublicURL asks the server under its public address.
func checkPublicURL(ctx context.Context, cfg *Config) service.Finding {
	const what = "server.public_url"
	address := strings.TrimRight(cfg.Server.PublicURL, "/") + "/__heartbeat__"
	status, err := service.Fetch(ctx, address)
	switch {
	case err != nil:
		return service.Finding{State: service.Warning, What: what, Says: err.Error(), Fix: "start the server and its proxy, then check again"}
	case status != http.StatusOK:
		return service.Finding{State: service.Wrong, What: what, Says: fmt.Sprintf("%s answers %d", address, status), Fix: "the proxy must pass the public path on, with or without its prefix"}
	}
	return service.Finding{State: service.OK, What: what, Says: "reaches a healthy server"}
}

package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"

	"holdfast/internal/app/service"
	"holdfast/internal/conf"
	"holdfast/internal/db/engine"
	"holdfast/internal/db/sqlitedb"
	"holdfast/internal/readonly"
)

// ConfigFindings returns the findings about the configuration. err is the error of Load.
func ConfigFindings(file string, report conf.Report, err error) []service.Finding {
	from := "defaults and environment"
	if file != "" {
		from = file + " and environment"
	}
	var found []service.Finding
	if wrong, ok := errors.AsType[*conf.Error](err); ok {
		for _, p := range wrong.Problems {
			found = append(found, problem(service.Wrong, p))
		}
	} else {
		found = append(found, service.Finding{State: service.OK, What: "configuration", Says: "read from " + from})
	}
	for _, p := range report.Warnings {
		found = append(found, problem(service.Warning, p))
	}
	for _, p := range report.Notes {
		found = append(found, problem(service.Warning, p))
	}
	return found
}

// problem converts a problem of the configuration to a finding. A setting with its
// default is named by its key, others by where they are set.
func problem(state service.State, p conf.Problem) service.Finding {
	if p.Where == "default" && p.Key != "" {
		return service.Finding{State: state, What: p.Key, Says: p.What, Fix: p.Fix}
	}
	return service.Finding{State: state, What: p.Where, Says: p.Message(), Fix: p.Fix}
}

// checkTimeout is the timeout of the check of one service.
const checkTimeout = 10 * time.Second

// CheckOptions are options of Check.
type CheckOptions struct {
	Deep bool // read every database, and find damage

	// Progress, if set, is called with each step that may take long.
	Progress func(what string)
}

// check is the state of Check.
type check struct {
	cfg  *Config
	data string
	CheckOptions

	secretsBroken bool     // the secrets file cannot be used, so no secret is compared
	secretsLost   bool     // a secret that data was written with does not exist any more
	usesFolder    bool     // the configuration uses the data folder
	folders       []folder // of SQLite databases outside of the data folder

	held    *sqlitedb.InUseError // a SQLite database that a running server uses
	running bool                 // a server with this configuration is running

	distributed []distributed // what Citus distributes
}

// folder is the folder of a service's SQLite database.
type folder struct{ what, dir string }

// Check checks everything that the configuration names: files, addresses, databases,
// other servers. It changes nothing.
func Check(ctx context.Context, cfg *Config, data string, o CheckOptions) []service.Finding {
	c := &check{cfg: cfg, data: data, CheckOptions: o}
	secrets := c.secrets()
	var databases []service.Finding
	for _, s := range cfg.Services {
		databases = append(databases, c.service(ctx, s)...)
	}
	if c.secretsLost {
		secrets = c.missingSecrets(secrets)
	}
	found := slices.Concat(c.checkFolders(), secrets, databases, c.distributions(), c.listeners(ctx), c.certificate())
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

// service opens a service without creating or changing anything, and checks its
// databases.
func (c *check) service(ctx context.Context, s service.Service) []service.Finding {
	what := s.Name + " database"
	if !s.Config.IsEnabled() {
		says := "the service is off"
		if s.Off != nil && s.Off() != "" {
			says += ": " + s.Off()
		}
		return []service.Finding{{State: service.OK, What: what, Says: says}}
	}
	c.usesFolder = c.usesFolder || s.KeepsFiles != nil && s.KeepsFiles()
	whole := ctx // for what takes as long as it takes
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	one := c.cfg.Only(s.Name)
	unknown := map[string]bool{}
	for _, secret := range one.generated() {
		if secret.unset && c.secretsBroken {
			secret.set(strings.Repeat("check", 8)) // any value: a check signs nothing
			unknown[secret.setting] = true
		}
		if secret.unset {
			defer secret.set("")
		}
	}
	fix := func(otherwise string) string {
		if s.DatabaseFix != nil {
			return s.DatabaseFix()
		}
		return otherwise
	}
	a, err := Open(ctx, Options{Config: one, Data: c.data, LogTo: io.Discard, Quiet: true, Leave: true, NoSecrets: true, Unknown: unknown})
	if missing, ok := errors.AsType[*engine.MissingError](err); ok {
		c.keptIn(what, missing.Path)
		return []service.Finding{{State: service.OK, What: what, Says: missing.Path + " will be created at the first start"}}
	}
	if invalid, ok := errors.AsType[*engine.URLError](err); ok {
		return []service.Finding{{State: service.Wrong, What: invalid.Setting, Says: errors.Unwrap(invalid).Error(), Fix: "correct " + invalid.Setting + ", or unset it to use a SQLite file in the data folder"}}
	}
	if err != nil {
		how := fix("correct " + s.Name + ".database_url; --data names the folder of the embedded databases")
		if errors.Is(err, fs.ErrPermission) {
			how = "chown the file and its folder to the user that runs holdfast"
		} else if file, ok := errors.AsType[*engine.FileError](err); ok {
			how = file.Remedy()
		}
		return []service.Finding{{State: service.Wrong, What: what, Says: err.Error(), Fix: how}}
	}
	defer func() { _ = a.Close() }() // nothing was written, so nothing can be lost
	if len(a.opened) == 0 {
		return nil
	}
	for _, d := range a.databases() {
		if !d.Embedded() {
			continue
		}
		if held, ok := errors.AsType[*sqlitedb.InUseError](sqlitedb.InUse(d.Target.Path)); ok {
			c.held = held
		}
	}
	found := c.opened(ctx, a, a.opened[0], fix("start the database, or correct "+s.Name+".database_url"))
	if c.Deep {
		found = append(found, c.verify(whole, what, a.databases())...)
	}
	return found
}

// verify reads databases and reports damage.
func (c *check) verify(ctx context.Context, what string, all []*engine.Database) (found []service.Finding) {
	for _, d := range all {
		if c.Progress != nil {
			c.Progress("reading " + d.Where)
		}
		problems, how, err := d.Verify(ctx)
		f := service.Finding{State: service.OK, What: what, Says: d.Where + ": " + how}
		switch {
		case err != nil:
			f.State, f.Says = service.Wrong, d.Where+": cannot be read: "+err.Error()
			f.Fix = cmp.Or(d.Remedy(err), "start the database, or correct "+d.Service+".database_url")
		case len(problems) > 0:
			f.State, f.Says = service.Wrong, damaged(d.Where, problems)
			f.Fix = "stop the server, and restore the database from its last backup that is intact (holdfast backup verify DIR); keep the damaged one"
			if !d.Embedded() {
				f.Fix = "follow the manual of the database: an index can be built anew (REINDEX), a table is restored from a backup"
			}
		}
		found = append(found, f)
	}
	return found
}

const (
	maxDamages   = 3   // how many problems of a database are printed
	maxDamageLen = 160 // of each
)

// damaged describes the problems of a database.
func damaged(where string, problems []string) string {
	var lines []string
	for _, p := range problems[:min(len(problems), maxDamages)] {
		p = strings.Join(strings.Fields(p), " ")
		if len(p) > maxDamageLen {
			p = strings.ToValidUTF8(p[:maxDamageLen], "") + "…"
		}
		lines = append(lines, p)
	}
	if more := len(problems) - maxDamages; more > 0 {
		lines = append(lines, fmt.Sprintf("and at least %d more", more))
	}
	return where + " is damaged: " + strings.Join(lines, "; ")
}

// opened checks the databases of an open service. start says how to fix one that cannot be
// used.
func (c *check) opened(ctx context.Context, a *App, s *opened, start string) (found []service.Finding) {
	what := s.Name + " database"
	for _, d := range s.Databases {
		if d.Embedded() {
			c.keptIn(what, d.Target.Path)
		}
		found = append(found, checkDatabase(ctx, d, what, start)...)
	}
	wrong := func(f service.Finding) bool { return f.State == service.Wrong }
	if slices.ContainsFunc(found, wrong) {
		return found
	}
	if !c.secretsBroken {
		more, lost := a.checkBound(ctx, s)
		found, c.secretsLost = append(found, more...), c.secretsLost || lost
	}
	found = append(found, checkWritable(ctx, s)...)
	found = append(found, c.distribution(ctx, s, start)...)
	if s.Inspect == nil {
		return found
	}
	more, err := s.Inspect(ctx)
	if err != nil {
		if len(s.Databases) > 0 {
			start = cmp.Or(s.Databases[0].Remedy(err), start)
		}
		more = []service.Finding{{State: service.Wrong, What: what, Says: err.Error(), Fix: start}}
	}
	return append(found, more...)
}

// checkWritable reports a database that is read-only, or has only a part of a copy.
func checkWritable(ctx context.Context, s *opened) []service.Finding {
	what := s.Name + " database"
	if err := checkWhole(ctx, s.Running, patience); err != nil {
		return []service.Finding{{State: service.Wrong, What: what, Says: err.Error()}}
	}
	db := s.Rows()
	if db == nil {
		return nil
	}
	holder, until, err := db.ReadOnly(ctx, s.Name)
	if err != nil || holder == "" || !until.IsZero() {
		return nil // a database that cannot be reached has its own finding, and a copy ends by itself
	}
	return []service.Finding{{State: service.Warning, What: what, Says: "read-only, by " + holder, Fix: readonly.End(s.Name, holder)}}
}

// checkBound compares the secrets of a service with those that its data was written
// with. lost means that one of those does not exist any more.
func (a *App) checkBound(ctx context.Context, s *opened) (found []service.Finding, lost bool) {
	all, err := s.compareSecrets(ctx, &a.hasher, patience)
	if errors.Is(err, errNoTable) {
		return nil, false // a pending migration, which has its own finding
	}
	what := s.Name + " secrets"
	if err != nil {
		return []service.Finding{{State: service.Wrong, What: what, Says: err.Error()}}, false
	}
	for _, c := range all {
		f := service.Finding{State: service.OK, What: what}
		switch c.like {
		case same:
			f.Says = c.setting + " is the secret that the data was written with"
		case sameAsOld:
			f.Says = c.setting + " is new; the data was written with one of the old ones, which are accepted too"
		case unrecorded:
			f.Says = c.setting + " will be recorded at the next start"
		case different:
			f.State = service.Wrong
			f.Says, f.Fix = describe([]comparison{c}, a.data)
		}
		found, lost = append(found, f), lost || c.like == different && c.made
	}
	return found, lost
}

// checkDatabase checks the connection to a database, its migrations and its pooler.
func checkDatabase(ctx context.Context, d *engine.Database, what, fix string) []service.Finding {
	pending, err := d.Pending(ctx)
	switch {
	case err != nil:
		return []service.Finding{{State: service.Wrong, What: what, Says: d.Where + ": " + err.Error(), Fix: cmp.Or(d.Remedy(err), fix)}}
	case len(pending) > 0 && d.Embedded():
		return []service.Finding{{State: service.OK, What: what, Says: fmt.Sprintf("%s: %s will be applied at the next start", d.Where, service.Count(int64(len(pending)), "migration"))}}
	case len(pending) > 0:
		return []service.Finding{{State: service.Wrong, What: what, Says: fmt.Sprintf("%s: %s not applied yet", d.Where, service.Count(int64(len(pending)), "migration")), Fix: "run: holdfast migrate"}}
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

func loopback(addr string) bool {
	host, _, err := net.SplitHostPort(addr)
	ip := net.ParseIP(host)
	return err == nil && (host == "localhost" || ip != nil && ip.IsLoopback())
}

// checkPublicURL sends a request to the public URL.
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

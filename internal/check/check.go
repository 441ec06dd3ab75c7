package check

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"

	"holdfast/internal/app/service"
	"holdfast/internal/backup"
	"holdfast/internal/certificates"
	"holdfast/internal/conf"
	"holdfast/internal/db/engine"
	"holdfast/internal/db/sqlitedb"
	"holdfast/internal/fserror"
	"holdfast/internal/importing"
	"holdfast/internal/listen"
	"holdfast/internal/readonly"
	"holdfast/internal/replica/location"
	"holdfast/internal/replication"
	"holdfast/internal/secrets"
)

// Configuration returns findings about the configuration; err is from loading it.
func Configuration(file string, report conf.Report, err error) []service.Finding {
	from := "defaults and environment"
	if file != "" {
		from = file + " and environment"
	}
	var findings []service.Finding
	if invalid, ok := errors.AsType[*conf.Error](err); ok {
		for _, p := range invalid.Problems {
			findings = append(findings, problem(service.Wrong, p))
		}
	} else {
		findings = append(findings, service.Finding{State: service.OK, What: "configuration", Says: "read from " + from})
	}
	for _, p := range report.Warnings {
		findings = append(findings, problem(service.Warning, p))
	}
	for _, p := range report.Notes {
		findings = append(findings, problem(service.Warning, p))
	}
	return findings
}

// problem names the setting, or else the line or variable where the problem is.
func problem(state service.State, p conf.Problem) service.Finding {
	if p.Where == "default" && p.Key != "" {
		return service.Finding{State: state, What: p.Key, Says: p.What, Fix: p.Fix}
	}
	return service.Finding{State: state, What: p.Where, Says: p.Message(), Fix: p.Fix}
}

const (
	// serviceTimeout limits the checks of a service or of another machine.
	serviceTimeout = 10 * time.Second
	// patience limits the wait for a database that is locked.
	patience = 10 * time.Second
)

// Server describes the server to check: its settings and, in a running server, its parts.
type Server struct {
	Data      string // data folder
	PublicURL string
	Listen    string // host:port of the main listener
	TLSCert   string // file; "": no TLS or ACME
	TLSKey    string

	Domain        string // ACME domain, or ""
	ACMEDirectory string
	HTTPListen    string

	Certificates certificates.Source // nil in another process or without TLS

	Replica     replication.Settings
	Replication *replication.Replication // nil in another process

	Backup backup.Settings
	Clouds location.Clouds // opens the places of backups and of the replica

	Master     string   // master secret as configured; "": in the secrets file
	OldMasters []string // former master secrets that are still accepted

	Settings map[string]string // values by path, also secrets, to compare with a server that runs already; nil: not compared

	AdminListen string // "": no admin listener
	AdminToken  string // as configured; "": in the secrets file
	ViewerToken string // "": none

	Services  []service.Service  // all, also those that are off
	Listeners []service.Listener // all, with their settings
	Secrets   []secrets.Secret   // of all services

	// Writable returns an error if a service's database must not be written.
	Writable func(ctx context.Context, s *service.Running, patience time.Duration) error
}

// Opened are services opened for a check.
type Opened struct {
	Services []*service.Running
	Guard    *secrets.Guard // compares secrets with the databases
	Close    func() error   // closes the services
}

// Options say how thoroughly Run checks.
type Options struct {
	Deep  bool // read all databases and files
	Start bool // check only for reasons not to start: no addresses, database servers or other machines

	Progress func(what string) // called before slow steps; may be nil

	// Open opens a service without changing anything.
	Open func(ctx context.Context, name string, noSecrets bool) (*Opened, error)
}

// check is a run.
type check struct {
	*Server
	Options

	secretsBroken bool // the file is unusable, so secrets are not compared
	secretsLost   bool
	usesFolder    bool     // the data folder is needed
	folders       []folder // other folders with databases

	own service.Finding // about the data folder

	databases []*engine.Database // of all services that were opened

	held    *sqlitedb.InUseError // a server uses a SQLite file
	running bool                 // a server answers on one of the addresses

	distributed []distributed // databases on Citus
}

type folder struct{ what, dir string }

// Run checks everything in a server's configuration: files, addresses, databases, other servers.
func Run(ctx context.Context, s *Server, o Options) []service.Finding {
	c := &check{Server: s, Options: o, own: service.CheckFolder("data folder", s.Data, chooseFolder)}
	findings := c.secrets()
	var databases []service.Finding
	for _, s := range c.Services {
		databases = append(databases, c.service(ctx, s)...)
	}
	if c.secretsLost {
		findings = c.missingSecrets(findings)
	}
	findings = slices.Concat(c.checkFolders(), findings, databases, c.distributions())
	if c.Start {
		return append(findings, c.certificate(ctx)...)
	}
	findings = slices.Concat(findings, c.listeners(ctx), c.certificate(ctx))
	if c.PublicURL == "" && !listen.IsLoopback(c.Listen) {
		findings = append(findings, service.Finding{
			State: service.Warning, What: "server.public_url", Says: "unset: clients get the address that each request was sent to",
			Fix: "behind a proxy, set it, or trusted_proxies",
		})
	}
	return append(findings, c.outside(ctx)...)
}

// Running checks a running server like Run, except for its addresses.
func Running(ctx context.Context, s *Server, open *Opened, report conf.Report) (findings []service.Finding) {
	c := &check{Server: s, own: service.CheckFolder("data folder", s.Data, chooseFolder)}
	own := c.secrets()
	for _, p := range slices.Concat(report.Warnings, report.Notes) {
		f := problem(service.Warning, p)
		if name, _, _ := strings.Cut(p.Key, "."); slices.ContainsFunc(c.Services, func(s service.Service) bool { return s.Name == name }) {
			f.Service = name
		}
		findings = append(findings, f)
	}
	var databases []service.Finding
	for _, running := range open.Services {
		limited, cancel := context.WithTimeout(ctx, serviceTimeout)
		databases = append(databases, concerning(running.Name, c.opened(limited, open, running))...)
		cancel()
	}
	findings = slices.Concat(findings, c.checkFolders(), own, databases, c.distributions(), c.certificate(ctx))
	return append(findings, c.outside(ctx)...)
}

// concerning names the service of findings.
func concerning(name string, findings []service.Finding) []service.Finding {
	for i := range findings {
		findings[i].Service = name
	}
	return findings
}

// outside checks everything beyond this machine's files: replica, backups and other machines.
func (c *check) outside(ctx context.Context) (findings []service.Finding) {
	if s := c.Replication.State(); s != nil {
		findings = append(findings, s.Finding())
	} else {
		limited, cancel := context.WithTimeout(ctx, serviceTimeout)
		findings = append(findings, replication.Check(limited, c.Clouds, &c.Replica, c.Data)...)
		cancel()
	}
	limited, cancel := context.WithTimeout(ctx, serviceTimeout)
	backups := backup.Checked{Settings: &c.Backup, Clouds: c.Clouds, Data: c.Data}
	findings = append(findings, backup.Check(limited, backups, time.Now())...)
	findings = append(findings, backup.CheckContents(limited, backups, backup.NamesOf(c.Services), c.databases)...)
	cancel()
	if c.PublicURL != "" {
		findings = append(findings, checkPublicURL(ctx, c.PublicURL))
	}
	for _, s := range c.Services {
		if s.Config.IsEnabled() && s.Import != nil && s.Import.Of == s.Name {
			findings = append(findings, concerning(s.Name, importing.Check(c.Data, s.Name))...)
		}
		if s.Config.IsEnabled() && s.Probe != nil {
			findings = append(findings, concerning(s.Name, s.Probe(ctx))...)
		}
	}
	return findings
}

// remediable is an error that knows its fix.
type remediable interface {
	error
	Remedy() string
}

// service opens and checks an enabled service.
func (c *check) service(ctx context.Context, s service.Service) []service.Finding {
	what := s.Name + " database"
	if !s.Config.IsEnabled() {
		says := "the service is off"
		if off, ok := s.Config.(service.Explained); ok && off.WhyOff() != "" {
			says += ": " + off.WhyOff()
		}
		return []service.Finding{{State: service.OK, What: what, Says: says}}
	}
	if files, ok := s.Config.(service.FileKeeper); ok {
		c.usesFolder = c.usesFolder || files.KeepsFiles()
	}
	whole := ctx
	ctx, cancel := context.WithTimeout(ctx, serviceTimeout)
	defer cancel()
	open, err := c.Open(ctx, s.Name, c.secretsBroken)
	if missing, ok := errors.AsType[*engine.MissingError](err); ok {
		c.keptIn(what, missing.Path)
		return []service.Finding{{State: service.OK, What: what, Says: missing.Path + " will be created at the first start"}}
	}
	if invalid, ok := errors.AsType[*engine.URLError](err); ok {
		return []service.Finding{{State: service.Wrong, What: invalid.Setting, Says: errors.Unwrap(invalid).Error(), Fix: "correct " + invalid.Setting + ", or unset it to use a SQLite file in the data folder"}}
	}
	if err != nil && c.isFolderError(err) {
		c.usesFolder = true
		return nil
	}
	if err != nil {
		how := "correct " + s.Name + ".database_url; --data names the embedded databases' folder"
		if advice := fserror.Advice(err); advice != "" {
			how = advice
		} else if known, ok := errors.AsType[remediable](err); ok {
			how = known.Remedy()
		}
		return []service.Finding{{State: service.Wrong, What: what, Says: err.Error(), Fix: how}}
	}
	defer func() { _ = open.Close() }()
	if len(open.Services) == 0 {
		return nil
	}
	opened := open.Services[0]
	if c.Start && !opened.Embedded() {
		return []service.Finding{{State: service.OK, What: what, Says: "not checked: a server also starts while its database is away"}}
	}
	for _, d := range opened.Databases {
		if !d.Embedded() {
			continue
		}
		if held, ok := errors.AsType[*sqlitedb.InUseError](sqlitedb.InUse(d.Target.Path)); ok {
			c.held = held
		}
	}
	findings := c.opened(ctx, open, opened)
	if c.Deep {
		findings = append(findings, c.verify(whole, what, opened.Databases)...)
	}
	return findings
}

// verify reads databases completely.
func (c *check) verify(ctx context.Context, what string, all []*engine.Database) (findings []service.Finding) {
	for _, d := range all {
		if c.Progress != nil {
			c.Progress("reading " + d.Where)
		}
		problems, how, err := d.Verify(ctx)
		f := service.Finding{State: service.OK, What: what, Says: d.Where + ": " + how}
		switch {
		case err != nil:
			f.State, f.Says = service.Wrong, d.Where+": cannot be read: "+err.Error()
			f.Fix = d.Advice(err)
		case len(problems) > 0:
			f.State, f.Says = service.Wrong, damaged(d.Where, problems)
			f.Fix = "stop the server, and restore the database from its last intact backup (holdfast backup verify DIR); keep the damaged file"
			if !d.Embedded() {
				f.Fix = "follow the database's manual: rebuild an index (REINDEX), restore a table from a backup"
			}
		}
		findings = append(findings, f)
	}
	return findings
}

const (
	maxDamages   = 3
	maxDamageLen = 160
)

// damaged returns a text with the first problems.
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

// opened checks a service's databases, tables and dependencies.
func (c *check) opened(ctx context.Context, open *Opened, s *service.Running) (findings []service.Finding) {
	what := s.Name + " database"
	c.databases = append(c.databases, s.Databases...)
	for _, d := range s.Databases {
		if d.Embedded() {
			c.keptIn(what, d.Target.Path)
		}
		findings = append(findings, checkDatabase(ctx, d, what)...)
	}
	isWrong := func(f service.Finding) bool { return f.State == service.Wrong }
	if slices.ContainsFunc(findings, isWrong) {
		return findings
	}
	if !c.secretsBroken {
		more, lost := c.bound(ctx, open.Guard, s.Name)
		findings, c.secretsLost = append(findings, more...), c.secretsLost || lost
	}
	findings = append(findings, c.writable(ctx, s)...)
	findings = append(findings, c.distribution(ctx, s)...)
	if s.Inspect == nil {
		return findings
	}
	more, err := s.Inspect(ctx)
	if err != nil {
		f := service.Finding{State: service.Wrong, What: what, Says: err.Error()}
		if len(s.Databases) > 0 {
			f.Fix = s.Databases[0].Advice(err)
		}
		more = []service.Finding{f}
	}
	return append(findings, more...)
}

// writable reports partial copies and services that are read-only for good.
func (c *check) writable(ctx context.Context, s *service.Running) []service.Finding {
	what := s.Name + " database"
	if err := c.Writable(ctx, s, patience); err != nil {
		return []service.Finding{{State: service.Wrong, What: what, Says: err.Error()}}
	}
	db := s.Rows()
	if db == nil {
		return nil
	}
	hold, err := db.ReadOnly(ctx, s.Name)
	if err != nil || hold.Holder == "" || !hold.Until.IsZero() {
		return nil // an unreachable database is another finding, and a copy ends by itself
	}
	return []service.Finding{{State: service.Warning, What: what, Says: readonly.Describe(hold, ""), Fix: readonly.End(s.Name, hold.Holder)}}
}

// bound returns lost if a secret with which data was written no longer exists.
func (c *check) bound(ctx context.Context, guard *secrets.Guard, name string) (findings []service.Finding, lost bool) {
	all, err := guard.Compare(ctx, name)
	if errors.Is(err, secrets.ErrNoTable) {
		return nil, false // a pending migration is another finding
	}
	what := name + " secrets"
	if err != nil {
		return []service.Finding{{State: service.Wrong, What: what, Says: err.Error()}}, false
	}
	for _, secret := range all {
		f := service.Finding{State: service.OK, What: what}
		switch secret.Like {
		case secrets.Same:
			f.Says = secret.Setting + " is the secret that the data was written with"
		case secrets.SameAsOld:
			f.Says = secret.Setting + " is new; the data was written with an old secret, which is still accepted"
		case secrets.Unrecorded:
			f.Says = secret.Setting + " will be recorded at the next start"
		case secrets.Different:
			f.State = service.Wrong
			f.Says, f.Fix = secrets.Describe([]secrets.Comparison{secret}, c.Data)
		}
		findings, lost = append(findings, f), lost || secret.Like == secrets.Different && secret.Made
	}
	return findings, lost
}

// checkDatabase connects, and reports pending migrations and connection poolers.
func checkDatabase(ctx context.Context, d *engine.Database, what string) []service.Finding {
	pending, err := d.Pending(ctx)
	switch {
	case err != nil:
		return []service.Finding{{State: service.Wrong, What: what, Says: d.Where + ": " + err.Error(), Fix: d.Advice(err)}}
	case len(pending) > 0 && d.Embedded():
		return []service.Finding{{State: service.OK, What: what, Says: fmt.Sprintf("%s: %s will be applied at the next start", d.Where, service.Count(int64(len(pending)), "migration"))}}
	case len(pending) > 0:
		return []service.Finding{{State: service.Wrong, What: what, Says: fmt.Sprintf("%s: %s not applied yet", d.Where, service.Count(int64(len(pending)), "migration")), Fix: "run: holdfast migrate"}}
	}
	finding := service.Finding{State: service.OK, What: what, Says: d.Where + ": reached, tables are up to date"}
	if d.Pooler == nil {
		return []service.Finding{finding}
	}
	switch pooled, prepares, err := d.Pooler(ctx); {
	case err != nil:
		finding = service.Finding{State: service.Wrong, What: what, Says: d.Where + ": " + err.Error(), Fix: d.Advice(err)}
	case pooled && prepares:
		finding = service.Finding{
			State: service.Warning, What: what, Says: d.Where + ": reached through a connection pooler, and statements are prepared",
			Fix: "add default_query_exec_mode=exec to " + d.Service + ".database_url, unless the pooler keeps prepared statements (PgBouncer 1.21, max_prepared_statements)",
		}
	case pooled:
		finding.Says += ", through a connection pooler"
	}
	return []service.Finding{finding}
}

// checkPublicURL asks the server through its public URL.
func checkPublicURL(ctx context.Context, public string) service.Finding {
	const what = "server.public_url"
	address := strings.TrimRight(public, "/") + "/__heartbeat__"
	status, err := service.Fetch(ctx, address)
	switch {
	case err != nil:
		fix := "start the server and its proxy, then check again"
		if dns, ok := errors.AsType[*net.DNSError](err); ok && dns.IsNotFound {
			fix = "create an A or AAAA record for the name"
		}
		if _, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
			fix = "serve a certificate for this name from an authority that clients trust"
		}
		return service.Finding{State: service.Warning, What: what, Says: err.Error(), Fix: fix}
	case status != http.StatusOK:
		return service.Finding{State: service.Wrong, What: what, Says: fmt.Sprintf("%s answers %d", address, status), Fix: "the proxy must pass the public path on, with or without its prefix"}
	}
	return service.Finding{State: service.OK, What: what, Says: "reaches a healthy server"}
}

package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/url"
	"slices"
	"strings"
	"time"

	"holdfast/internal/app/service"
	"holdfast/internal/check"
	"holdfast/internal/conf"
	"holdfast/internal/db/engine"
	"holdfast/internal/engines"
	"holdfast/internal/listen"
	"holdfast/internal/secrets"
)

// Check checks everything that the configuration names; see check.Run. on lists the same engines as Services got.
func Check(ctx context.Context, cfg *Config, data string, o check.Options, on ...engines.Engine) []service.Finding {
	o.Open = func(ctx context.Context, name string, noSecrets bool) (*check.Opened, error) {
		return openForCheck(ctx, cfg.Only(name), data, noSecrets)
	}
	s := cfg.checked(data, on)
	s.Settings = cfg.comparable()
	return check.Run(ctx, s, o)
}

// checked describes the configured server to package check.
func (c *Config) checked(data string, on engines.List) *check.Server {
	s := &check.Server{
		Data: data, PublicURL: c.Server.PublicURL, Listen: c.Server.Listen, TLSCert: c.Server.TLSCert, TLSKey: c.Server.TLSKey,
		Domain: c.Server.Domain, ACMEDirectory: c.Server.ACMEDirectory, HTTPListen: c.Server.HTTPListen,
		Master: c.Server.MasterSecret.Reveal(), AdminToken: c.Server.AdminToken.Reveal(), ViewerToken: c.Server.ViewerToken.Reveal(),
		AdminListen: c.Server.AdminListen,
		Replica:     c.Replica, Backup: c.Backup, Clouds: on.Clouds(), Services: c.Services, Listeners: c.listeners(), Secrets: c.generated(), Writable: checkWhole,
	}
	for _, old := range c.Server.OldMasterSecrets {
		s.OldMasters = append(s.OldMasters, old.Reveal())
	}
	return s
}

// openForCheck opens a service without changing anything. Generated secrets stay in memory and are removed from the
// configuration again, because the next service's check must find it as it was. noSecrets replaces all missing
// secrets by placeholders: the secrets file is broken, which is another finding.
func openForCheck(ctx context.Context, cfg *Config, data string, noSecrets bool) (*check.Opened, error) {
	all := cfg.generated()
	restore := func() {
		for _, s := range all {
			if s.Unset {
				s.Set("")
			}
		}
	}
	o := Options{Config: cfg, Data: data, LogTo: io.Discard, Mode: ModeCheck}
	if noSecrets {
		o.placeholders = withoutSecrets(all)
	}
	a, err := Open(ctx, o)
	if err != nil {
		restore()
		return nil, err
	}
	return &check.Opened{Services: a.running(), Guard: a.guard, Close: func() error {
		restore()
		return a.Close()
	}}, nil
}

// checkRunning skips the addresses, because this server itself listens on them. It checks the settings in use, also after
// a reload: a problem that a reload solved has ended. The services are the opened ones, because their checks use what they
// opened.
func (a *App) checkRunning(ctx context.Context) []service.Finding {
	now := a.current()
	s := now.checked(a.data, a.on)
	s.Certificates, s.Replication, s.Services, s.Secrets = a.certificates, a.replication, a.cfg.Services, a.cfg.generated()
	findings := check.Running(ctx, s, &check.Opened{Services: a.running(), Guard: a.guard}, now.report)
	return append(append(findings, a.alerts.Findings()...), a.reloadFindings()...)
}

// comparable returns the settings that a server and a command beside it must have in common, as texts by path. Addresses are
// left out: a command does not listen, and guides set them for the server alone. So are generated secrets that are not
// set: the secrets file has them, or their service is off.
func (c *Config) comparable() map[string]string {
	all := conf.Plain(c.sections())
	maps.DeleteFunc(all, func(setting, _ string) bool { return strings.HasSuffix(setting, "listen") })
	secret := func(setting, value string) {
		if value == "" {
			delete(all, setting)
		}
	}
	secret(secrets.Master, c.Server.MasterSecret.Reveal())
	secret(secrets.Admin, c.Server.AdminToken.Reveal())
	for _, s := range c.Services {
		for _, own := range s.Secrets {
			if own.Setting != nil {
				secret(s.Name+"."+own.Name, *own.Setting)
			}
		}
	}
	return all
}

// comparable is Config.comparable without the secrets that this process made up for itself.
func (a *App) comparable() map[string]string {
	all := a.current().comparable()
	for setting := range a.unsaved {
		delete(all, setting)
	}
	return all
}

// compareTimeout limits the question to a running server: a command must not wait for a program that does not answer.
const compareTimeout = time.Second

// CompareWithRunning returns a warning if a running server has another configuration than this command, whose output may
// then be about other data. It returns "" if no server is found, or if it has the same configuration.
func (a *App) CompareWithRunning(ctx context.Context) string {
	ctx, cancel := context.WithTimeout(ctx, compareTimeout)
	defer cancel()
	complete := true // whether all addresses are known
	for _, l := range a.cfg.listeners() {
		switch listen.PortOf(l.Address) {
		case "":
			continue
		case "0":
			complete = false
			continue
		}
		id, err := a.instance.Ask(ctx, l.Address, a.cfg.Server.scheme() == "https" && l.Name != service.Admin)
		switch {
		case errors.Is(err, listen.ErrOtherSecrets):
			return fmt.Sprintf("the Holdfast server on %s (%s) has other secrets, so probably other data than this command, which uses the data folder %s; %s", l.Address, l.Setting, a.instance.Data, engine.Elsewhere)
		case err != nil:
			continue
		case id.Data != a.instance.Data:
			return fmt.Sprintf("the server on %s (%s) uses the data folder %s, but this command uses %s; %s", l.Address, l.Setting, id.Data, a.instance.Data, engine.Elsewhere)
		case len(id.Differ) > 0:
			return fmt.Sprintf("the running server has other values than this command for %s: %s", service.FirstNames(id.Differ), check.FixOtherSettings)
		}
		return ""
	}
	for _, d := range a.databases() {
		if held := check.Holder(d); complete && held != nil {
			return held.Error() + " that listens on none of this command's addresses: give the command the same configuration"
		}
	}
	return ""
}

// rules returns the rules about the settings that belong to no service. Services add their own: service.Service.Rules.
func (c *Config) rules(report conf.Report) (all []conf.Rule) { //nolint:funlen // a table
	s := &c.Server
	isSet := func(setting string) bool { return report.Where(setting) != "default" }
	never := func(setting, needs string, without bool) conf.Rule {
		return conf.Rule{
			Settings: []string{setting, needs}, When: setting + " without " + needs, Fix: "set " + needs + ", or unset it",
			Says: conf.Says(without && isSet(setting), "has no effect without "+needs),
		}
	}
	all = []conf.Rule{
		{
			Settings: []string{"server.tls_cert_file", "server.tls_key_file"}, When: "server.tls_key_file without server.tls_cert_file", Refuses: true,
			Says: conf.Says(s.TLSKey != "" && s.TLSCert == "", "must be set too: TLS needs both tls_cert_file and tls_key_file"),
		},
		{
			Settings: []string{"server.tls_key_file", "server.tls_cert_file"}, When: "server.tls_cert_file without server.tls_key_file", Refuses: true,
			Says: conf.Says(s.TLSCert != "" && s.TLSKey == "", "must be set too: TLS needs both tls_cert_file and tls_key_file"),
		},
		{
			Settings: []string{"server.domain", "server.tls_cert_file", "server.tls_key_file"}, When: "server.domain with certificate files", Refuses: true,
			Says: conf.Says(s.Domain != "" && (s.TLSCert != "" || s.TLSKey != ""), "cannot be set together with tls_cert_file and tls_key_file"),
		},
		{
			Settings: []string{"server.viewer_token", "server.admin_token"}, When: "the same token for viewers and the administrator", Refuses: true,
			Says: conf.Says(s.ViewerToken != "" && s.ViewerToken == s.AdminToken, "must differ from admin_token"),
		},
		{
			Settings: []string{"backup.url", "replica.url"}, When: "backups and the replica in the same place", Refuses: true,
			Says: conf.Says(c.Backup.URL != "" && samePlace(c.Backup.URL, c.Replica.URL), "must differ from replica.url, e.g. by another prefix"),
		},
		{Settings: []string{"server.public_url"}, When: "a public URL with the path of a protocol", Refuses: true, Says: c.protocolPath},
		{
			Settings: []string{"server.public_url", "server.tls_cert_file", "server.domain"}, When: "a plain public URL with TLS",
			Says: conf.Says(s.scheme() == "https" && strings.HasPrefix(s.PublicURL, "http://"), "begins with http://, but the listeners use TLS: clients that follow it get 400"),
			Fix:  "write https://",
		},
		{
			Settings: []string{"server.public_url", "server.domain"}, When: "a public URL for another host than server.domain",
			Says: conf.Says(s.Domain != "" && hostOf(s.PublicURL) != "" && hostOf(s.PublicURL) != s.Domain, "names another host than server.domain, for which the certificate is: clients refuse it"),
			Fix:  "use the same name in both",
		},
		{
			Settings: []string{"server.trusted_proxies", "server.listen"}, When: "trusted proxies everywhere, and a listener for other machines",
			Says: conf.Says(trustsAll(s.TrustedProxies) && !listen.IsLoopback(s.Listen), "trusts every address: each client can choose the address that logs, limits and the public URL are based on"),
			Fix:  "name only the addresses of your proxies",
		},
		{
			Settings: []string{"server.trusted_proxies", "server.public_url", "log.client_address"}, When: "client addresses in the log behind a proxy that is not trusted",
			Says: conf.Says(c.Log.ClientAddress && s.isProxied(), "unset, but server.public_url leads to a proxy: the log has the proxy's address for every client"),
			Fix:  "add the proxy's address",
		},
		{
			Settings: []string{"alerts.backup_age", "backup.schedule"}, When: "an alert for backups that are younger than the schedule makes them",
			Says: conf.Says(c.Alerts.URL != "" && c.Alerts.BackupAge > 0 && c.Alerts.BackupAge < c.Backup.LongestWait(), "is shorter than the time between two backups of backup.schedule: an alert is sent before each backup"),
			Fix:  "make it longer than the schedule",
		},
		{
			Settings: []string{"alerts.replica_lag", "replica.interval"}, When: "an alert for a lag within the replica's interval",
			Says: conf.Says(c.Alerts.URL != "" && c.Replica.URL != "" && c.Alerts.ReplicaLag > 0 && c.Alerts.ReplicaLag <= c.Replica.Interval, "is not longer than replica.interval: the replica is always late"),
			Fix:  "make it several times replica.interval",
		},
		{
			Settings: []string{"server.console", "server.admin_listen"}, When: "server.console without server.admin_listen",
			Says: conf.Says(s.Console && isSet("server.console") && s.AdminListen == "", "has no effect without server.admin_listen"), Fix: "set server.admin_listen, or unset it",
		},
		{
			Settings: []string{"server.http_listen", "server.domain"}, When: "server.http_listen without server.domain",
			Says: conf.Says(isSet("server.http_listen") && s.HTTPListen != "" && s.Domain == "", "has no effect without server.domain"), Fix: "set server.domain, or unset it",
		},
		never("server.viewer_token", "server.console", s.ViewerToken != "" && !s.hasConsole()),
		never("server.console_networks", "server.console", len(s.ConsoleNetworks) > 0 && !s.hasConsole()),
		never("server.acme_directory", "server.domain", s.Domain == ""),
		never("server.acme_root_file", "server.domain", s.Domain == "" && s.ACMERootFile != ""),
		never("server.acme_email", "server.domain", s.Domain == "" && s.ACMEEmail != ""),
		never("backup.keep", "backup.url", c.Backup.URL == "" && c.Backup.Keep != ""),
		never("backup.verify", "backup.url", c.Backup.URL == ""),
		never("replica.interval", "replica.url", c.Replica.URL == ""),
		never("replica.retention", "replica.url", c.Replica.URL == ""),
		never("alerts.format", "alerts.url", c.Alerts.URL == ""),
		never("alerts.backup_age", "alerts.url", c.Alerts.URL == ""),
		never("alerts.replica_lag", "alerts.url", c.Alerts.URL == ""),
		never("alerts.disk_days", "alerts.url", c.Alerts.URL == ""),
	}
	for _, setting := range []string{secrets.Admin, secrets.Viewer} {
		all = append(all, conf.Rule{
			Settings: []string{setting, "server.admin_listen"}, When: "a short " + setting + " that other machines can guess", Refuses: true,
			Says: func() string {
				for _, t := range s.shortTokens() {
					if t.Setting == setting && s.AdminListen != "" && !listen.IsLoopback(s.AdminListen) {
						return t.says
					}
				}
				return ""
			},
		})
	}
	all = append(all, c.addressRules()...)
	for _, svc := range c.enabled() {
		all = append(all, c.serviceRules(svc)...)
	}
	return all
}

// addressRules compares each listener with the listeners before it. Port 0 is a free port.
func (c *Config) addressRules() (all []conf.Rule) {
	listeners := c.listeners()
	for i, l := range listeners {
		for _, other := range listeners[:i] {
			_, port, _ := net.SplitHostPort(l.Address)
			all = append(all, conf.Rule{
				Settings: []string{l.Setting, other.Setting}, When: l.Setting + " is " + other.Setting, Refuses: true,
				Says: conf.Says(l.Address == other.Address && port != "" && port != "0", "is the same address as "+other.Setting+": choose another port"),
			})
		}
	}
	return all
}

// serviceRules returns the rules about the server's settings that follow from a service.
func (c *Config) serviceRules(s service.Service) (all []conf.Rule) {
	if s.LargestRequest != nil {
		all = append(all, conf.Rule{
			Settings: []string{"server.request_memory", s.Name}, When: "server.request_memory below the largest request of " + s.Name, Refuses: true,
			Says: func() string {
				largest := s.LargestRequest()
				least := largest + largest/6 + 1 // the reserve is an eighth
				return conf.Says(c.Server.RequestMemory >= 1 && c.Server.RequestMemory < least, fmt.Sprintf("must be at least %d, for the largest request within the limits of %s", least, s.Name))()
			},
		})
	}
	return all
}

// protocolPath refuses a public URL with the path of a protocol, in any case and anywhere. The server appends these paths,
// so clients would get them twice.
func (c *Config) protocolPath() string {
	u, err := url.Parse(c.Server.PublicURL)
	if err != nil {
		return ""
	}
	lower := strings.ToLower(u.Path) + "/"
	first, conflict := len(lower), ""
	for _, s := range c.enabled() {
		for _, path := range s.ProtocolPaths {
			if i := strings.Index(lower, path+"/"); i >= 0 && i < first {
				first, conflict = i, path+", the path of "+s.Name
			}
		}
	}
	if conflict == "" {
		return ""
	}
	u.Path, u.RawPath = strings.TrimRight(u.Path[:first], "/"), ""
	return fmt.Sprintf("must not contain %s, which the server appends: write %s", conflict, u)
}

// samePlace compares URLs without regard to slashes at the end.
func samePlace(a, b string) bool { return strings.TrimRight(a, "/") == strings.TrimRight(b, "/") }

// hostOf returns a URL's host in lower case, or "".
func hostOf(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return ""
	}
	return strings.ToLower(u.Hostname())
}

// trustsAll reports a network that contains every IPv4 or IPv6 address.
func trustsAll(networks []string) bool {
	return slices.ContainsFunc(networks, func(n string) bool { return strings.HasSuffix(n, "/0") })
}

// isProxied reports whether clients come through a proxy that is not trusted: only this machine reaches the listener, but
// the public URL is for others.
func (s *Server) isProxied() bool {
	host := hostOf(s.PublicURL)
	return listen.IsLoopback(s.Listen) && host != "" && !listen.IsLoopback(net.JoinHostPort(host, "80")) && host != "localhost" && len(s.TrustedProxies) == 0
}

// hasConsole reports whether the console can be reached.
func (s *Server) hasConsole() bool { return s.Console && s.AdminListen != "" }

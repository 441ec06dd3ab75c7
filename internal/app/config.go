package app

import (
	"errors"
	"io/fs"
	"net"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"holdfast/internal/alerts"
	"holdfast/internal/app/service"
	"holdfast/internal/backup"
	"holdfast/internal/certificates"
	"holdfast/internal/conf"
	"holdfast/internal/listen"
	"holdfast/internal/replication"
	"holdfast/internal/secrets"
	"holdfast/internal/web"
)

// Config is the server configuration with a section per service.
type Config struct {
	Server   Server
	Log      Log
	Alerts   alerts.Settings
	Replica  replication.Settings
	Backup   backup.Settings
	Services []service.Service // with their sections, which Load fills

	report conf.Report // warnings and origins from Load
}

// Only returns a configuration with one service, which shares the sections with c.
func (c *Config) Only(name string) *Config {
	return c.with(func(s *service.Service) bool { return s.Name == name })
}

// with returns a configuration with some services.
func (c *Config) with(keep func(*service.Service) bool) *Config {
	some := *c
	some.Services = slices.DeleteFunc(slices.Clone(c.Services), func(s service.Service) bool { return !keep(&s) })
	return &some
}

// Server is the section [server].
type Server struct {
	Listen         string   `toml:"listen" doc:"Main listener for clients, host:port. Without a host, e.g. :8000, it listens on all addresses."`
	AdminListen    string   `toml:"admin_listen" doc:"Admin listener: health, metrics, profiles and administration. Empty: disabled."`
	InternalListen string   `toml:"internal_listen" doc:"Internal listener for your own services. Empty: disabled."`
	PublicURL      string   `toml:"public_url" doc:"Public URL, e.g. https://sync.example.org, with port and path prefix if any. Unset: each request's own address."`
	TrustedProxies []string `toml:"trusted_proxies" reload:"true" doc:"Addresses and networks of trusted proxies, e.g. 127.0.0.1 or 10.0.0.0/8. Only their Forwarded and X-Forwarded headers are used."`

	Domain        string `toml:"domain" doc:"Server name, e.g. sync.example.org, to obtain and renew a certificate for by ACME, accepting the terms of the certificate authority (CA). Enables HTTPS on all listeners except an admin listener on loopback, sets public_url, and changes the default of listen to :443. Unset: no CA is contacted."`
	HTTPListen    string `toml:"http_listen" doc:"Plain HTTP listener, used only with domain: answers the CA (HTTP-01) and redirects browsers to HTTPS. Empty: disabled; the CA then uses port 443 (TLS-ALPN-01)."`
	ACMEDirectory string `toml:"acme_directory" doc:"ACME directory URL of the CA."`
	ACMERootFile  string `toml:"acme_root_file" doc:"PEM file with root certificates to verify acme_directory, for a private CA. Unset: the system's roots."`
	ACMEEmail     string `toml:"acme_email" doc:"Contact address for the CA account. Optional."`

	TLSCert string `toml:"tls_cert_file" doc:"PEM file with the certificate chain. With tls_key_file, enables HTTPS on all listeners except the admin listener. Changed files are loaded without a restart."`
	TLSKey  string `toml:"tls_key_file" doc:"PEM file with the private key."`

	MasterSecret     conf.Secret   `toml:"master_secret" doc:"Signs storage tokens. Set the same value on the accounts server and all storage nodes. Unset: generated and kept in the secrets file."`
	OldMasterSecrets []conf.Secret `toml:"old_master_secrets" doc:"Former master secrets, still accepted while you rotate the master secret."`
	AdminToken       conf.Secret   `toml:"admin_token" doc:"Bearer token for the admin listener. At least 32 characters, unless admin_listen is on loopback. Unset: generated and kept in the secrets file."`

	ViewerToken conf.Secret `toml:"viewer_token" reload:"true" doc:"Token for read-only access to the console. At least 32 characters, unless admin_listen is on loopback. Unset: no such access."`

	Console         bool     `toml:"console" doc:"Serve the operators' console under /console/ on the admin listener."`
	ConsoleNetworks []string `toml:"console_networks" reload:"true" doc:"Addresses and networks that may use the console without TLS, as this machine may. In a container, connections to a published port come from the bridge, e.g. 172.17.0.1. Anyone who can capture traffic there can read the admin token."`

	MaxRequests   int           `toml:"max_requests" reload:"true" doc:"Maximum number of concurrent requests, shared fairly among clients. Requests that wait longer than queue_wait get 503."`
	QueueWait     time.Duration `toml:"queue_wait" reload:"true" doc:"Maximum wait for max_requests or request_memory."`
	RequestMemory int64         `toml:"request_memory" reload:"true" unit:"bytes" doc:"Total memory for request bodies, decoded values and responses, shared fairly among clients. Requests that wait longer than queue_wait get 503."`
	HeaderTimeout time.Duration `toml:"header_timeout" doc:"Maximum time to receive the request header."`
	ClientGrace   time.Duration `toml:"client_grace" doc:"Total time a client may stall while sending a body or reading a response. Each KiB transferred earns one second back."`
	IdleTimeout   time.Duration `toml:"idle_timeout" doc:"Close connections that are idle this long. A proxy in front must use a shorter timeout, or it loses requests."`
	DocumentsLink string        `toml:"documents_link" reload:"true" doc:"Link shown on the status page at /. Empty: no link."`
	ReadOnly      bool          `toml:"read_only" reload:"true" doc:"Make all services read-only in their databases: every server that uses them answers writes with 503. Ends with the next start or reload without it."`
	DrainDelay    time.Duration `toml:"drain_delay" reload:"true" doc:"On shutdown, keep serving this long after reporting not ready."`
	ShutdownGrace time.Duration `toml:"shutdown_grace" reload:"true" doc:"Time limit for active requests at shutdown."`
}

// Log is the section [log].
type Log struct {
	Level         string `toml:"level" reload:"true" doc:"Minimum log level: debug, info, warn or error."`
	Format        string `toml:"format" doc:"Log format: text or json. json also applies to everything else that serve prints."`
	Access        bool   `toml:"access" reload:"true" doc:"Log every request."`
	ClientAddress bool   `toml:"client_address" reload:"true" doc:"Log the client address with every request, and log refused requests even if access is false. Behind trusted_proxies, it is the address they report."`
	OTLPEndpoint  string `toml:"otlp_endpoint" doc:"OTLP/HTTP URL for traces, e.g. http://127.0.0.1:4318. Unset: OTEL_EXPORTER_OTLP_ENDPOINT, or no traces."`
}

// NewConfig returns the defaults. The services' sections contain their own.
func NewConfig(services []service.Service) *Config {
	limits := web.DefaultLimits()
	return &Config{
		Server: Server{
			Listen:        "127.0.0.1:8000",
			AdminListen:   "127.0.0.1:8001",
			HTTPListen:    ":80",
			ACMEDirectory: certificates.LetsEncrypt,
			Console:       true,
			MaxRequests:   256,
			QueueWait:     2 * time.Second,
			RequestMemory: 256 << 20,
			HeaderTimeout: limits.Header,
			ClientGrace:   limits.Pace.Grace,
			IdleTimeout:   limits.Idle,
			ShutdownGrace: 30 * time.Second,
		},
		Log:      Log{Level: "info", Format: "text", Access: true},
		Alerts:   alerts.Defaults(),
		Replica:  replication.Defaults(),
		Backup:   backup.Defaults(),
		Services: services,
	}
}

// sections returns the sections in the reference's order.
func (c *Config) sections() []conf.Section {
	all := []conf.Section{
		{Key: "server", Doc: "Listeners, secrets and the limits that all services share.", Value: &c.Server},
		{Key: "log", Doc: "Logs and traces.", Value: &c.Log},
		{Key: "alerts", Doc: "Messages to an operator when something is wrong.", Value: &c.Alerts},
		{Key: "replica", Doc: "Continuous replication of the SQLite databases.", Value: &c.Replica},
		{Key: "backup", Doc: "Backups in a folder or a bucket, by holdfast backup or by the server itself.", Value: &c.Backup},
	}
	for _, s := range c.Services {
		all = append(all, conf.Section{Key: s.Name, Doc: s.Doc, Value: s.Config})
	}
	return all
}

// enabled returns the services that are on.
func (c *Config) enabled() (all []service.Service) {
	for _, s := range c.Services {
		if s.Config.IsEnabled() {
			all = append(all, s)
		}
	}
	return all
}

// aliases returns Mozilla's variables that are understood or ignored with a note.
func (c *Config) aliases() []conf.Alias {
	all := []conf.Alias{
		{Env: "SYNC_MASTER_SECRET", Path: "server.master_secret"},
		{Env: "SYNC_PUBLIC_URL", Path: "server.public_url"},
		{Env: "SYNC_HOST", Path: "server.listen", Transform: withHost},
		{Env: "SYNC_PORT", Path: "server.listen", Transform: withPort},
		{Env: "SYNC_HUMAN_LOGS", Note: "set log.format instead"},
		{Env: "SYNC_ACTIX_KEEP_ALIVE", Note: "set server.idle_timeout instead"},
		{Env: "SYNC_WORKER_MAX_BLOCKING_THREADS", Note: "there are no worker threads"},
		{Env: "SYNC_STATSD_HOST", Note: "Prometheus scrapes the admin listener instead"},
		{Env: "SYNC_STATSD_PORT", Note: "Prometheus scrapes the admin listener instead"},
		{Env: "SYNC_INCLUDE_HOSTNAME_TAG", Note: "Prometheus scrapes the admin listener instead"},
		{Env: "SYNC_ENVIRONMENT", Note: "nothing depends on it"},
		{Env: "SYNC_CORS_*", Note: "Firefox needs no CORS headers"},
	}
	for _, s := range c.Services {
		all = append(all, s.Aliases...)
	}
	return all
}

// errListen is for SYNC_HOST and SYNC_PORT, which each replace an address part.
var errListen = errors.New("changes part of server.listen, which is not host:port")

// withHost replaces an address's host. It accepts an IPv6 address with or without brackets.
func withHost(current, host string) (string, error) {
	_, port, err := net.SplitHostPort(current)
	if err != nil {
		return "", errListen
	}
	return net.JoinHostPort(strings.Trim(host, "[]"), port), nil
}

// withPort replaces an address's port.
func withPort(current, port string) (string, error) {
	host, _, err := net.SplitHostPort(current)
	if err != nil {
		return "", errListen
	}
	return net.JoinHostPort(host, port), nil
}

// Load reads defaults, file, environment and flags. It returns a *conf.Error with all problems, including the
// services'.
func Load(services []service.Service, file string, environ []string, flags ...conf.Flag) (*Config, conf.Report, error) {
	c := NewConfig(services)
	report, err := conf.Load(c.sections(), conf.Options{File: file, Environ: environ, Flags: flags, Aliases: c.aliases()})
	var problems []conf.Problem
	var invalid *conf.Error
	switch {
	case errors.As(err, &invalid):
		problems = invalid.Problems
	case err != nil:
		return nil, report, err
	}
	c.Server.followDomain(&report)
	rules := c.problems(&report)
	conf.ShowValues(c.sections(), report, rules)
	if problems = append(problems, rules...); len(problems) > 0 {
		return nil, report, &conf.Error{Problems: problems}
	}
	c.report = report
	return c, report, nil
}

// problems also adds settings without effect to the report.
func (c *Config) problems(report *conf.Report) (all []conf.Problem) {
	all = append(all, c.Server.check().In("server", *report)...)
	all = append(all, c.Log.check().In("log", *report)...)
	all = append(all, c.Alerts.Check().In("alerts", *report)...)
	all = append(all, c.Replica.Check().In("replica", *report)...)
	all = append(all, c.Backup.Check().In("backup", *report)...)
	for _, s := range c.enabled() {
		all = append(all, s.CheckSettings(report, c.settings())...)
	}
	return append(all, conf.Apply(c.rules(*report), report)...)
}

// settings returns the settings that services' rules may depend on.
func (c *Config) settings() service.Settings {
	return service.Settings{
		LogLevel: strings.ToLower(c.Log.Level), Public: c.Server.whyPublic(), PublicURL: c.Server.PublicURL,
		HasMasterSecret: c.Server.MasterSecret != "", IsProxied: c.Server.isProxied(),
		HasService: func(name string) bool {
			return slices.ContainsFunc(c.enabled(), func(s service.Service) bool { return s.Name == name })
		},
	}
}

// followDomain sets the defaults that depend on server.domain.
func (s *Server) followDomain(report *conf.Report) {
	if s.Domain == "" {
		return
	}
	if report.Where("server.listen") == "default" {
		s.Listen = ":443"
		report.Derive("server.listen", "server.domain")
	}
	if s.PublicURL == "" {
		s.PublicURL = "https://" + s.Domain
		if port := listen.PortOf(s.Listen); port != "443" {
			s.PublicURL += ":" + port
		}
		report.Derive("server.public_url", "server.domain")
	}
}

// AdminURL uses TLS only with a domain, and only if other machines reach the listener.
func (s *Server) AdminURL(address string) string {
	if s.adminHasTLS() {
		return "https://" + net.JoinHostPort(s.Domain, listen.PortOf(address))
	}
	return "http://" + address
}

// adminHasTLS is false on loopback, where the certificate's name does not lead.
func (s *Server) adminHasTLS() bool { return s.Domain != "" && !listen.IsLoopback(s.AdminListen) }

// scheme returns the scheme for all listeners but the admin listener.
func (s *Server) scheme() string {
	if s.TLSCert != "" || s.Domain != "" {
		return "https"
	}
	return "http"
}

// whyPublic names the setting that lets clients on other machines reach the server: an address for others, or a proxy. It
// returns "" if clients can only be on this machine.
func (s *Server) whyPublic() string {
	switch {
	case s.Domain != "":
		return "server.domain is set"
	case s.PublicURL != "":
		return "server.public_url is set"
	case len(s.TrustedProxies) > 0:
		return "server.trusted_proxies is set"
	case !listen.IsLoopback(s.Listen):
		return "server.listen is not a loopback address"
	}
	return ""
}

// check returns problems with single settings, with keys relative to the section. Combinations are in Config.rules.
func (s *Server) check() (problems conf.Problems) {
	addf := problems.Addf
	s.checkAddresses(addf)
	s.checkTLS(addf)
	s.checkDomain(addf)
	if s.DocumentsLink != "" && !conf.IsURL(s.DocumentsLink) {
		addf("documents_link", "is not a URL that begins with https:// or http://")
	}
	if s.MaxRequests < 1 {
		addf("max_requests", "must be at least 1")
	}
	if s.RequestMemory < 1 {
		addf("request_memory", "must be at least 1")
	}
	for key, d := range map[string]time.Duration{"queue_wait": s.QueueWait, "drain_delay": s.DrainDelay, "shutdown_grace": s.ShutdownGrace} {
		if d < 0 {
			addf(key, "must not be negative")
		}
	}
	for key, d := range map[string]time.Duration{"header_timeout": s.HeaderTimeout, "client_grace": s.ClientGrace, "idle_timeout": s.IdleTimeout} {
		if d <= 0 {
			addf(key, "must be more than 0")
		}
	}
	return problems
}

// shortToken is a token that other machines could guess.
type shortToken struct{ Setting, says string }

func (t shortToken) Error() string { return t.Setting + ": " + t.says }

// shortTokens returns the operators' tokens that are too short for an admin listener which other machines reach.
func (s *Server) shortTokens() (all []shortToken) {
	for _, t := range []struct{ setting, value string }{{secrets.Admin, s.AdminToken.Reveal()}, {secrets.Viewer, s.ViewerToken.Reveal()}} {
		if short := secrets.ShortToken(t.value); short != "" {
			all = append(all, shortToken{t.setting, short + ", and other machines can reach server.admin_listen, where they can guess it: make one with: " + secrets.MakeOne})
		}
	}
	return all
}

// checkAddresses checks addresses, URLs and networks. addf adds a problem.
func (s *Server) checkAddresses(addf func(key, format string, args ...any)) {
	for key, addr := range map[string]string{"listen": s.Listen, "admin_listen": s.AdminListen, "internal_listen": s.InternalListen, "http_listen": s.HTTPListen} {
		if addr == "" && key != "listen" {
			continue
		}
		_, port, err := net.SplitHostPort(addr)
		if _, noPort := strconv.ParseUint(port, 10, 16); err != nil || noPort != nil {
			addf(key, "must be host:port, e.g. 127.0.0.1:8000")
		}
	}
	if s.PublicURL != "" {
		u, err := url.Parse(s.PublicURL)
		if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || u.RawQuery != "" || u.Fragment != "" || u.User != nil {
			addf("public_url", "must be a URL, e.g. https://sync.example.org, with only an optional port and path")
		}
	}
	for key, networks := range map[string][]string{"trusted_proxies": s.TrustedProxies, "console_networks": s.ConsoleNetworks} {
		for _, p := range networks {
			if _, err := web.NewResolver("", []string{p}); err != nil {
				addf(key, "invalid value %q: expected an IP address or a network, e.g. 10.0.0.0/8", p)
			}
		}
	}
}

// checkTLS checks only that the files can be read; a start and holdfast check parse them.
func (s *Server) checkTLS(addf func(key, format string, args ...any)) {
	for key, file := range map[string]string{"tls_cert_file": s.TLSCert, "tls_key_file": s.TLSKey} {
		if _, err := os.Stat(file); file != "" && err != nil {
			addf(key, "cannot read %s: %v", file, fileError(err))
		}
	}
}

// checkDomain checks the settings for ACME. It sends no request.
func (s *Server) checkDomain(addf func(key, format string, args ...any)) {
	if s.Domain == "" {
		return
	}
	u, err := url.Parse("https://" + s.Domain)
	if err != nil || u.Hostname() != s.Domain || s.Domain != strings.ToLower(s.Domain) || net.ParseIP(s.Domain) != nil ||
		!strings.Contains(strings.Trim(s.Domain, "."), ".") || strings.Contains(s.Domain, "*") {
		addf("domain", "must be a lower-case host name without a port, e.g. sync.example.org")
	}
	if u, err := url.Parse(s.ACMEDirectory); err != nil || u.Host == "" || u.Scheme != "https" {
		addf("acme_directory", "must be a URL that begins with https://")
	}
	if s.ACMEEmail != "" && !strings.Contains(s.ACMEEmail, "@") {
		addf("acme_email", "must be an e-mail address")
	}
	if _, err := os.Stat(s.ACMERootFile); s.ACMERootFile != "" && err != nil {
		addf("acme_root_file", "cannot read %s: %v", s.ACMERootFile, fileError(err))
	}
}

// fileError drops the path, which the message names already.
func fileError(err error) error {
	if p, ok := errors.AsType[*fs.PathError](err); ok {
		return p.Err
	}
	return err
}

// limits returns the time limits for client connections.
func (s *Server) limits() web.Limits {
	l := web.DefaultLimits()
	l.Header, l.Idle, l.Pace.Grace = s.HeaderTimeout, s.IdleTimeout, s.ClientGrace
	return l
}

// check returns problems with keys relative to the section.
func (l *Log) check() (problems conf.Problems) {
	switch strings.ToLower(l.Level) {
	case "debug", "info", "warn", "error":
	default:
		problems.Addf("level", "must be debug, info, warn or error")
	}
	switch l.Format {
	case "text", "json":
	default:
		problems.Addf("format", "must be text or json")
	}
	if l.OTLPEndpoint != "" && !conf.IsURL(l.OTLPEndpoint) {
		problems.Addf("otlp_endpoint", "must be a URL, e.g. http://127.0.0.1:4318")
	}
	return problems
}

// Reference returns docs/configuration.md.
func Reference() string {
	d := NewConfig(Services())
	return "# Configuration\n\n" +
		"Generated by `holdfast config reference`. `holdfast config example` prints a configuration file with all settings and their\n" +
		"defaults. Every setting is optional. `holdfast check` reports mistakes.\n\n" +
		"Later sources override earlier ones: defaults, the TOML file (`--config` or `HOLDFAST_CONFIG`), the variables of Mozilla's\n" +
		"server (`SYNC_…`), Holdfast's variables (`HOLDFAST_…`).\n\n" +
		"* **Durations** need a unit, e.g. `\"30s\"`, `\"2h\"`, `\"90d\"` or `\"2w\"`, except 0. A bare number in a `SYNC_…` variable means seconds, as on\n" +
		"  Mozilla's server. **Sizes** are whole numbers in bytes.\n" +
		"* **Secrets**: instead of `KEY`, set `KEY_file` to a file that contains the value.\n" +
		"* **Variables**: separate list items by commas. `NAME` is read in lower case; put names with a dash or dot into the file.\n" +
		"* **Unknown settings** and `HOLDFAST_…` variables are errors, except the variables that Kubernetes sets for a service named holdfast.\n" +
		"* **Changes** need a restart, or a [reload](operations.md#change-settings) for settings marked *Reloadable*.\n\n" +
		conf.Reference(d.sections(), d.aliases()...) + conf.RuleReference(everyRule())
}

// everyRule returns the rules about settings that do not work together, also for listeners and services that the default
// settings disable. They are for their texts, and do not describe the default settings.
func everyRule() []conf.Rule {
	c := NewConfig(Services())
	c.Server.Domain = "sync.example.org" // with a domain, server.http_listen is a listener
	all, in := c.rules(conf.Report{}), c.settings()
	in.Origin = func(string) string { return "default" }
	for _, s := range c.Services {
		if s.Rules != nil {
			all = append(all, s.Rules(in)...)
		}
	}
	return all
}

// Example returns a configuration file with all settings and defaults.
func Example() string { return conf.Example(NewConfig(Services()).sections()) }

package app

import (
	"errors"
	"net"
	"net/netip"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"holdfast/internal/app/service"
	"holdfast/internal/conf"
	"holdfast/internal/web"
)

// Config is everything that can be configured: the sections of the server and
// one of each service.
type Config struct {
	Server   Server
	Log      Log
	Services []service.Service
}

// Server is the section [server].
type Server struct {
	Listen         string   `toml:"listen" doc:"Address of the main listener, which clients reach."`
	AdminListen    string   `toml:"admin_listen" doc:"Address of the admin listener: health, metrics, profiles and the administration of services. Empty: none."`
	InternalListen string   `toml:"internal_listen" doc:"Address of the internal listener, for services of the operator. Empty: none."`
	PublicURL      string   `toml:"public_url" doc:"Scheme, host, port and path prefix under which clients reach the server. Unset: the address that each request was sent to."`
	TrustedProxies []string `toml:"trusted_proxies" doc:"Addresses or networks whose Forwarded and X-Forwarded headers are trusted."`
	TLSCert        string   `toml:"tls_cert_file" doc:"Certificate chain in PEM; with tls_key_file the main and the internal listener speak HTTPS."`
	TLSKey         string   `toml:"tls_key_file" doc:"Private key in PEM."`

	MasterSecret     conf.Secret   `toml:"master_secret" doc:"Signs storage tokens; the same on the tokenserver and every storage node. Unset: generated into the secrets file."`
	OldMasterSecrets []conf.Secret `toml:"old_master_secrets" doc:"Also accepted in tokens, while a new master secret is brought in."`
	AdminToken       conf.Secret   `toml:"admin_token" doc:"The bearer token of the admin listener. Unset: generated into the secrets file."`

	MaxRequests   int           `toml:"max_requests" doc:"Maximum number of requests that are worked on at once, shared by clients; more wait for queue_wait and are then answered with 503."`
	QueueWait     time.Duration `toml:"queue_wait" doc:"How long a request may wait for one of max_requests, or for memory."`
	RequestMemory int64         `toml:"request_memory" unit:"bytes" doc:"Memory that bodies being received, what is decoded from them, and answers being sent may take together, shared by clients; a request that needs more waits for queue_wait and is then answered with 503."`
	HeaderTimeout time.Duration `toml:"header_timeout" doc:"How long a client may take to send the header of a request."`
	ClientGrace   time.Duration `toml:"client_grace" doc:"Total time that a client may stall while it sends a body or reads an answer; each KiB transferred earns one second back."`
	IdleTimeout   time.Duration `toml:"idle_timeout" doc:"How long a connection may wait for its next request. Longer than a proxy in front keeps its connections, or requests that the proxy sends at that moment are lost."`
	DocumentsLink string        `toml:"documents_link" doc:"Where a browser that opens the root of the server is redirected; empty: nowhere."`
	DrainDelay    time.Duration `toml:"drain_delay" doc:"How long the server goes on serving at shutdown after it has become not ready."`
	ShutdownGrace time.Duration `toml:"shutdown_grace" doc:"How long open requests may take at shutdown."`
}

// Log is the section [log].
type Log struct {
	Level        string `toml:"level" doc:"debug, info, warn or error."`
	Format       string `toml:"format" doc:"text or json."`
	Access       bool   `toml:"access" doc:"Write a line for every request."`
	OTLPEndpoint string `toml:"otlp_endpoint" doc:"Where traces are sent by OTLP over HTTP, such as http://127.0.0.1:4318. Unset: what OTEL_EXPORTER_OTLP_ENDPOINT says, or no traces."`
}

// NewConfig returns the defaults of a server with these services.
func NewConfig(services []service.Service) *Config {
	limits := web.DefaultLimits()
	return &Config{
		Server: Server{
			Listen:        "127.0.0.1:8000",
			AdminListen:   "127.0.0.1:8001",
			MaxRequests:   256,
			QueueWait:     2 * time.Second,
			RequestMemory: 256 << 20,
			HeaderTimeout: limits.Header,
			ClientGrace:   limits.Pace.Grace,
			IdleTimeout:   limits.Idle,
			ShutdownGrace: 30 * time.Second,
			DocumentsLink: "https://mozilla-services.readthedocs.io/en/latest/storage/apis-1.5.html",
		},
		Log:      Log{Level: "info", Format: "text", Access: true},
		Services: services,
	}
}

// sections are the configuration as package conf reads and describes it.
func (c *Config) sections() []conf.Section {
	all := []conf.Section{
		{Key: "server", Doc: "Listeners, addresses, secrets and what all services share.", Value: &c.Server},
		{Key: "log", Doc: "Log and traces.", Value: &c.Log},
	}
	for _, s := range c.Services {
		all = append(all, conf.Section{Key: s.Name, Doc: s.Doc, Value: s.Config})
	}
	return all
}

// enabled are the services that are served.
func (c *Config) enabled() (all []service.Service) {
	for _, s := range c.Services {
		if s.Config.IsEnabled() {
			all = append(all, s)
		}
	}
	return all
}

// aliases are the variables of the reference server that are understood.
func (c *Config) aliases() []conf.Alias {
	all := []conf.Alias{
		{Env: "SYNC_MASTER_SECRET", Path: "server.master_secret"},
		{Env: "SYNC_PUBLIC_URL", Path: "server.public_url"},
		{Env: "SYNC_HOST", Path: "server.listen", Transform: withHost},
		{Env: "SYNC_PORT", Path: "server.listen", Transform: withPort},
		{Env: "SYNC_HUMAN_LOGS", Note: "the format of the log is set in [log]"},
		{Env: "SYNC_ACTIX_KEEP_ALIVE", Note: "server.idle_timeout says how long connections are kept"},
		{Env: "SYNC_WORKER_MAX_BLOCKING_THREADS", Note: "there are no worker threads to size"},
		{Env: "SYNC_STATSD_HOST", Note: "metrics are scraped from the admin listener"},
		{Env: "SYNC_STATSD_PORT", Note: "metrics are scraped from the admin listener"},
	}
	for _, s := range c.Services {
		all = append(all, s.Aliases...)
	}
	return all
}

// reserved are the sections of services to come.
var reserved = []string{"guest", "buckets"}

var errListen = errors.New("server.listen, which it is a part of, is not an address")

func withHost(current, host string) (string, error) {
	_, port, err := net.SplitHostPort(current)
	if err != nil {
		return "", errListen
	}
	return net.JoinHostPort(strings.Trim(host, "[]"), port), nil
}

func withPort(current, port string) (string, error) {
	host, _, err := net.SplitHostPort(current)
	if err != nil {
		return "", errListen
	}
	return net.JoinHostPort(host, port), nil
}

// Load reads the configuration of a server with these services: defaults, file,
// environment, flags. The error is a *conf.Error with everything that is wrong,
// the rules of the services included.
func Load(services []service.Service, file string, environ []string, flags ...conf.Flag) (*Config, conf.Report, error) {
	c := NewConfig(services)
	report, err := conf.Load(c.sections(), conf.Options{File: file, Environ: environ, Flags: flags, Aliases: c.aliases(), Reserved: reserved})
	var problems []conf.Problem
	var wrong *conf.Error
	switch {
	case errors.As(err, &wrong):
		// A setting that could not be read has its default, so the rules below
		// do not report it a second time.
		problems = wrong.Problems
	case err != nil:
		return nil, report, err
	}
	problems = append(problems, c.Server.check().In("server", report)...)
	problems = append(problems, c.Log.check().In("log", report)...)
	for _, s := range c.enabled() {
		if s.LargestRequest != nil {
			problems = append(problems, c.Server.fits(s.Name, s.LargestRequest()).In("server", report)...)
		}
		problems = append(problems, s.CheckSettings(&report, strings.ToLower(c.Log.Level))...)
	}
	if len(problems) > 0 {
		return nil, report, &conf.Error{Problems: problems}
	}
	return c, report, nil
}

func (s *Server) check() (problems conf.Problems) {
	wrong := problems.Addf
	for key, addr := range map[string]string{"listen": s.Listen, "admin_listen": s.AdminListen, "internal_listen": s.InternalListen} {
		if addr == "" && key != "listen" {
			continue
		}
		_, port, err := net.SplitHostPort(addr)
		if _, noPort := strconv.ParseUint(port, 10, 16); err != nil || noPort != nil {
			wrong(key, "is not an address of the form host:port")
		}
	}
	if s.PublicURL != "" {
		u, err := url.Parse(s.PublicURL)
		if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || u.RawQuery != "" || u.Fragment != "" || u.User != nil {
			wrong("public_url", "is not of the form https://host[:port][/prefix]")
		}
	}
	for _, p := range s.TrustedProxies {
		_, errNet := netip.ParsePrefix(p)
		_, errAddr := netip.ParseAddr(p)
		if errNet != nil && errAddr != nil {
			wrong("trusted_proxies", "holds %q, which is neither an address nor a network", p)
		}
	}
	if (s.TLSCert == "") != (s.TLSKey == "") {
		wrong("tls_cert_file", "and tls_key_file go together")
	}
	for key, file := range map[string]string{"tls_cert_file": s.TLSCert, "tls_key_file": s.TLSKey} {
		if _, err := os.Stat(file); file != "" && err != nil {
			wrong(key, "cannot be read: %v", err)
		}
	}
	if s.MaxRequests < 1 {
		wrong("max_requests", "must be at least 1")
	}
	if s.RequestMemory < 1 {
		wrong("request_memory", "must be at least 1")
	}
	for key, d := range map[string]time.Duration{"queue_wait": s.QueueWait, "drain_delay": s.DrainDelay, "shutdown_grace": s.ShutdownGrace} {
		if d < 0 {
			wrong(key, "must not be negative")
		}
	}
	for key, d := range map[string]time.Duration{"header_timeout": s.HeaderTimeout, "client_grace": s.ClientGrace, "idle_timeout": s.IdleTimeout} {
		if d <= 0 {
			wrong(key, "must be more than 0")
		}
	}
	return problems
}

// fits checks that the memory of requests is enough for the largest one of a service. A
// request that needs more than all but the reserve would never be answered.
func (s *Server) fits(name string, largest int64) (problems conf.Problems) {
	if least := largest + largest/6 + 1; s.RequestMemory < least { // the reserve is an eighth
		problems.Addf("request_memory", "is %d; the largest request that the limits of %s allow needs %d", s.RequestMemory, name, least)
	}
	return problems
}

// limits are those of the main listener's connections.
func (s *Server) limits() web.Limits {
	l := web.DefaultLimits()
	l.Header, l.Idle, l.Pace.Grace = s.HeaderTimeout, s.IdleTimeout, s.ClientGrace
	return l
}

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
	if u, err := url.Parse(l.OTLPEndpoint); l.OTLPEndpoint != "" && (err != nil || u.Host == "") {
		problems.Addf("otlp_endpoint", "is not a URL")
	}
	return problems
}

package app

import (
	"errors"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"holdfast/internal/auth/bearer"
	"holdfast/internal/conf"
	ext "holdfast/internal/extstorage"
	"holdfast/internal/syncstorage"
	"holdfast/internal/tokenserver"
	"holdfast/internal/web"
)

// Config is everything that can be configured, a section per room.
type Config struct {
	Server      Server             `toml:"server" doc:"Listeners, addresses, secrets and what all rooms share."`
	Log         Log                `toml:"log" doc:"Log and traces."`
	Syncstorage syncstorage.Config `toml:"syncstorage" doc:"The room of Firefox Sync's records."`
	Tokenserver tokenserver.Config `toml:"tokenserver" doc:"The room that signs Firefox accounts in and tells them where their records are."`
	Extstorage  ext.Config         `toml:"extstorage" doc:"The room of extensions' JSON records."`
}

// Server is the section [server].
type Server struct {
	Listen         string   `toml:"listen" doc:"Address of the main listener, which clients reach."`
	AdminListen    string   `toml:"admin_listen" doc:"Address of the admin listener: health, metrics, profiles, and the register of extensions' installs. Empty: none."`
	InternalListen string   `toml:"internal_listen" doc:"Address of the internal listener, for services that speak for installs of extensions. Empty: none."`
	PublicURL      string   `toml:"public_url" doc:"Scheme, host, port and path prefix under which clients reach the server. Unset: what each request was sent to."`
	TrustedProxies []string `toml:"trusted_proxies" doc:"Addresses or networks whose Forwarded and X-Forwarded headers are believed."`
	TLSCert        string   `toml:"tls_cert_file" doc:"Certificate chain in PEM; with tls_key_file the main and the internal listener speak HTTPS."`
	TLSKey         string   `toml:"tls_key_file" doc:"Private key in PEM."`

	MasterSecret     conf.Secret   `toml:"master_secret" doc:"Signs storage tokens; the same on the tokenserver and every storage node. Unset: generated into the secrets file."`
	OldMasterSecrets []conf.Secret `toml:"old_master_secrets" doc:"Also accepted in tokens, while a new master secret is brought in."`
	AdminToken       conf.Secret   `toml:"admin_token" doc:"What the admin listener wants as bearer token. Unset: generated into the secrets file."`

	MaxRequests   int           `toml:"max_requests" doc:"Most requests that are served at once; more are answered with 503."`
	QueueWait     time.Duration `toml:"queue_wait" doc:"How long a request may wait to be one of them."`
	HeaderTimeout time.Duration `toml:"header_timeout" doc:"In which time the header of a request must have come."`
	ClientGrace   time.Duration `toml:"client_grace" doc:"How long a client may keep the server waiting, in sum, while it sends a body or takes an answer; each KiB makes good for a second."`
	IdleTimeout   time.Duration `toml:"idle_timeout" doc:"How long a connection may wait for its next request. Longer than a proxy in front keeps its connections, or requests that the proxy sends at that moment are lost."`
	DrainDelay    time.Duration `toml:"drain_delay" doc:"How long the server goes on serving after it has said that it is not ready, at shutdown."`
	ShutdownGrace time.Duration `toml:"shutdown_grace" doc:"How long open requests may take at shutdown."`
}

// Log is the section [log].
type Log struct {
	Level        string `toml:"level" doc:"debug, info, warn or error."`
	Format       string `toml:"format" doc:"text or json."`
	Access       bool   `toml:"access" doc:"Write a line for every request."`
	OTLPEndpoint string `toml:"otlp_endpoint" doc:"Where traces are sent by OTLP over HTTP, such as http://127.0.0.1:4318. Unset: what OTEL_EXPORTER_OTLP_ENDPOINT says, or no traces."`
}

// DefaultConfig is the server as it runs without a word of configuration.
func DefaultConfig() Config {
	limits := web.DefaultLimits()
	return Config{
		Server: Server{
			Listen:        "127.0.0.1:8000",
			AdminListen:   "127.0.0.1:8001",
			MaxRequests:   256,
			QueueWait:     2 * time.Second,
			HeaderTimeout: limits.Header,
			ClientGrace:   limits.Pace.Grace,
			IdleTimeout:   limits.Idle,
			ShutdownGrace: 30 * time.Second,
		},
		Log:         Log{Level: "info", Format: "text", Access: true},
		Syncstorage: syncstorage.DefaultConfig(),
		Tokenserver: tokenserver.Defaults(),
		Extstorage:  ext.DefaultConfig(),
	}
}

// Aliases are the names that operators of the reference server know.
func Aliases() []conf.Alias {
	none := func(env, note string) conf.Alias { return conf.Alias{Env: env, Note: note} }
	return []conf.Alias{
		{Env: "SYNC_MASTER_SECRET", Path: "server.master_secret"},
		{Env: "SYNC_PUBLIC_URL", Path: "server.public_url"},
		{Env: "SYNC_HOST", Path: "server.listen", Transform: withHost},
		{Env: "SYNC_PORT", Path: "server.listen", Transform: withPort},
		none("SYNC_HUMAN_LOGS", "the log's form is set in [log]"),
		none("SYNC_ACTIX_KEEP_ALIVE", "server.idle_timeout says how long connections are kept"),
		none("SYNC_WORKER_MAX_BLOCKING_THREADS", "there are no worker threads to size"),
		none("SYNC_SYNCSTORAGE__DATABASE_USE_TEST_TRANSACTIONS", "a setting of that server's own tests"),
		none("SYNC_SYNCSTORAGE__STATSD_LABEL", "metrics are scraped from the admin listener"),
		none("SYNC_TOKENSERVER__STATSD_LABEL", "metrics are scraped from the admin listener"),
		none("SYNC_TOKENSERVER__ADDITIONAL_BLOCKING_THREADS_FOR_FXA_REQUESTS", "there are no worker threads to size"),
		none("SYNC_STATSD_HOST", "metrics are scraped from the admin listener"),
		none("SYNC_STATSD_PORT", "metrics are scraped from the admin listener"),
		{Env: "SPANNER_EMULATOR_HOST", Path: "syncstorage.spanner_emulator_host"}, // Google's own name for it
		{Env: "SYNC_SYNCSTORAGE__LIMITS__*", Path: "syncstorage.limits.*"},
		{Env: "SYNC_SYNCSTORAGE__*", Path: "syncstorage.*"},
		{Env: "SYNC_TOKENSERVER__*", Path: "tokenserver.*"},
	}
}

// Reserved are the sections of rooms to come.
func Reserved() []string { return []string{"guest", "buckets"} }

func withHost(current, host string) (string, error) {
	_, port, err := net.SplitHostPort(current)
	if err != nil {
		return "", errors.New("server.listen, which it is a part of, is no address")
	}
	return net.JoinHostPort(strings.Trim(host, "[]"), port), nil
}

func withPort(current, port string) (string, error) {
	host, _, err := net.SplitHostPort(current)
	if err != nil {
		return "", errors.New("server.listen, which it is a part of, is no address")
	}
	return net.JoinHostPort(host, port), nil
}

// Load reads the configuration: defaults, file, environment. The error is a
// *conf.Error with everything that is wrong, the rules of the rooms included.
func Load(file string, environ []string) (*Config, conf.Report, error) {
	c := DefaultConfig()
	report, err := conf.Load(&c, conf.Options{File: file, Environ: environ, Aliases: Aliases(), Reserved: Reserved()})
	var problems []conf.Problem
	var wrong *conf.Error
	switch {
	case errors.As(err, &wrong):
		// A setting that could not be read has its default, so the rules below
		// say nothing of it a second time.
		problems = wrong.Problems
	case err != nil:
		return nil, report, err
	}
	add := func(section string, errs []error) {
		for _, err := range errs {
			key, what, _ := strings.Cut(err.Error(), " ")
			path := section + "." + strings.TrimSuffix(key, ":")
			problems = append(problems, conf.Problem{Where: report.Where(path), What: path + " " + what})
		}
	}
	add("server", c.Server.check())
	add("log", c.Log.check())
	if c.Syncstorage.Enabled {
		add("syncstorage", c.Syncstorage.Check())
		add("syncstorage", c.fitSpanner(&report))
	}
	if c.Tokenserver.Enabled {
		add("tokenserver", split(c.Tokenserver.Check()))
	}
	maps.DeleteFunc(c.Extstorage.TokenKeys, func(_ string, k ext.TokenKey) bool { return k == ext.TokenKey{} }) // as the example has one
	if c.Extstorage.Enabled {
		add("extstorage", append(c.Extstorage.Check(), checkTokenKeys(&c.Extstorage)...))
		if level := strings.ToLower(c.Log.Level); c.Extstorage.Audit == "log" && (level == "warn" || level == "error") {
			add("extstorage", []error{errors.New("audit is log, which needs log.level info")})
		}
	}
	if len(problems) > 0 {
		return nil, report, &conf.Error{Problems: problems}
	}
	return &c, report, nil
}

// checkTokenKeys says which keys cannot be read.
func checkTokenKeys(c *ext.Config) (errs []error) {
	for name, k := range c.TokenKeys {
		if _, err := bearer.NewKeyring(bearer.Options{Keys: []bearer.Key{{ID: k.KeyID(name), Alg: k.Alg, Text: k.Key}}}); err != nil {
			errs = append(errs, fmt.Errorf("token_keys.%s %w", name, err))
		}
	}
	return errs
}

// split takes joined errors apart.
func split(err error) []error {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		return joined.Unwrap()
	}
	if err == nil {
		return nil
	}
	return []error{err}
}

func (s *Server) check() (errs []error) {
	wrong := func(key, format string, args ...any) {
		errs = append(errs, fmt.Errorf("%s %s", key, fmt.Sprintf(format, args...)))
	}
	for key, addr := range map[string]string{"listen": s.Listen, "admin_listen": s.AdminListen, "internal_listen": s.InternalListen} {
		if addr == "" && key != "listen" {
			continue
		}
		_, port, err := net.SplitHostPort(addr)
		if _, noPort := strconv.ParseUint(port, 10, 16); err != nil || noPort != nil {
			wrong(key, "is no address of the form host:port")
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
	return errs
}

// limits are those of the main listener's connections.
func (s *Server) limits() web.Limits {
	l := web.DefaultLimits()
	l.Header, l.Idle, l.Pace.Grace = s.HeaderTimeout, s.IdleTimeout, s.ClientGrace
	return l
}

func (l *Log) check() (errs []error) {
	switch strings.ToLower(l.Level) {
	case "debug", "info", "warn", "error":
	default:
		errs = append(errs, errors.New("level is not debug, info, warn or error"))
	}
	switch l.Format {
	case "text", "json":
	default:
		errs = append(errs, errors.New("format is not text or json"))
	}
	if u, err := url.Parse(l.OTLPEndpoint); l.OTLPEndpoint != "" && (err != nil || u.Host == "") {
		errs = append(errs, errors.New("otlp_endpoint is no URL"))
	}
	return errs
}

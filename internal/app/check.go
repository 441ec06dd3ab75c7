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
	"strings"
	"time"

	"holdfast/internal/conf"
)

// State is what a check came to.
type State string

// The states.
const (
	Right   State = "ok"
	Warning State = "warn"
	Wrong   State = "WRONG"
)

// Finding is a line of the table that `holdfast check` prints.
type Finding struct {
	State State
	What  string // what was checked
	Says  string // what was found
	Mend  string // what to do about it, "" when nothing is to be done
}

// ConfigFindings says what reading the configuration came to; err is that of
// Load.
func ConfigFindings(file string, report conf.Report, err error) []Finding {
	from := "defaults and environment"
	if file != "" {
		from = file + " and environment"
	}
	var found []Finding
	if wrong, ok := errors.AsType[*conf.Error](err); ok {
		for _, p := range wrong.Problems {
			found = append(found, Finding{Wrong, p.Where, p.What, p.Mend})
		}
	} else {
		found = append(found, Finding{State: Right, What: "configuration", Says: "read from " + from})
	}
	for _, p := range report.Warnings {
		found = append(found, Finding{Warning, p.Where, p.What, p.Mend})
	}
	for _, p := range report.Notes {
		found = append(found, Finding{Warning, p.Where, p.What, p.Mend})
	}
	return found
}

// checkTimeout bounds each thing that is reached.
const checkTimeout = 10 * time.Second

// Check reaches everything that is configured. It changes nothing.
func Check(ctx context.Context, cfg *Config, data string) []Finding {
	found := checkFiles(cfg, data)
	found = append(found, checkDatabases(ctx, cfg, data)...)
	if path, ok := strings.CutPrefix(cfg.Extstorage.Audit, "file:"); ok && cfg.Extstorage.Enabled {
		found = append(found, checkAudit(path))
	}
	found = append(found, checkListeners(cfg)...)
	if cfg.Server.PublicURL != "" {
		found = append(found, checkPublicURL(ctx, cfg))
	} else if !loopback(cfg.Server.Listen) {
		found = append(found, Finding{Warning, "server.public_url", "unset: clients get the address that each request was sent to",
			"behind a proxy, set it, or trusted_proxies"})
	}
	if cfg.Tokenserver.Enabled {
		found = append(found, checkAccounts(ctx, cfg))
	}
	return found
}

// checkFiles looks at the data folder and the secrets in it.
func checkFiles(cfg *Config, data string) []Finding {
	info, err := os.Stat(data)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return []Finding{{State: Right, What: "data folder", Says: data + " will be created at the first start"}}
	case err != nil:
		return []Finding{{Wrong, "data folder", err.Error(), "choose another with --data"}}
	case !info.IsDir():
		return []Finding{{Wrong, "data folder", data + " is no folder", "choose another with --data"}}
	}
	found := []Finding{writable(data)}
	if _, err := loadSecrets(data, false); err == nil {
		found = append(found, Finding{State: Right, What: "secrets", Says: filepath.Join(data, SecretsFile)})
	} else if cfg.Server.MasterSecret == "" {
		found = append(found, Finding{State: Warning, What: "secrets", Says: err.Error()})
	}
	return found
}

func writable(dir string) Finding {
	f, err := os.CreateTemp(dir, ".check-*")
	if err != nil {
		return Finding{Wrong, "data folder", "cannot be written: " + err.Error(), "chown it to the user that runs holdfast"}
	}
	err = errors.Join(f.Close(), os.Remove(f.Name()))
	if err != nil {
		return Finding{Wrong, "data folder", err.Error(), ""}
	}
	return Finding{State: Right, What: "data folder", Says: dir + " is writable"}
}

// checkDatabases opens each room's database without creating or changing
// anything.
func checkDatabases(ctx context.Context, cfg *Config, data string) []Finding {
	var found []Finding
	for _, r := range []struct {
		room, url string
		enabled   bool
	}{
		{syncRoom, cfg.Syncstorage.DatabaseURL, cfg.Syncstorage.Enabled},
		{tokenRoom, cfg.Tokenserver.DatabaseURL, cfg.Tokenserver.Enabled},
		{extRoom, cfg.Extstorage.DatabaseURL, cfg.Extstorage.Enabled},
	} {
		what := r.room + " database"
		if !r.enabled {
			found = append(found, Finding{State: Right, What: what, Says: "the room is off"})
			continue
		}
		t, err := parseTarget(r.room, r.url, data)
		if err != nil {
			found = append(found, Finding{State: Wrong, What: what, Says: err.Error()})
			continue
		}
		if t.engine == engineSQLite {
			if _, err := os.Stat(t.path); errors.Is(err, os.ErrNotExist) {
				found = append(found, Finding{State: Right, What: what, Says: t.path + " will be created at the first start"})
				continue
			}
		}
		found = append(found, checkDatabase(ctx, cfg, r.room, what, data)...)
	}
	return found
}

func checkDatabase(ctx context.Context, cfg *Config, room, what, data string) []Finding {
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	one := *cfg
	one.Syncstorage.Enabled, one.Tokenserver.Enabled, one.Extstorage.Enabled = room == syncRoom, room == tokenRoom, room == extRoom
	// Nobody signs anything in a check.
	one.Server.MasterSecret, one.Server.AdminToken, one.Tokenserver.FxAMetricsHashSecret = "check", "check", "check"
	one.Extstorage.TokenSecret = strings.Repeat("check", 8)
	a, err := Open(ctx, Options{Config: &one, Data: data, LogTo: io.Discard, Quiet: true, Leave: true})
	switch {
	case err != nil && room == syncRoom && cfg.OnSpanner():
		return []Finding{{Wrong, what, err.Error(), "gcloud auth application-default login, or name a key by GOOGLE_APPLICATION_CREDENTIALS; for the emulator, set syncstorage.spanner_emulator_host"}}
	case err != nil:
		return []Finding{{Wrong, what, err.Error(), "see the message; --data says where the embedded databases are"}}
	}
	defer func() { _ = a.Close() }() // nothing was written
	d := a.databases[0]
	pending, err := d.pending(ctx, d.set)
	switch {
	case err != nil:
		return []Finding{{Wrong, what, d.where + ": " + err.Error(), cfg.mend(room, d.engine)}}
	case len(pending) > 0 && d.engine == engineSQLite:
		return []Finding{{State: Right, What: what, Says: fmt.Sprintf("%s: %d changes of the tables will be applied at the next start", d.where, len(pending))}}
	case len(pending) > 0:
		return []Finding{{Wrong, what, fmt.Sprintf("%s: the tables need %d changes", d.where, len(pending)), "run: holdfast migrate"}}
	}
	found := Finding{State: Right, What: what, Says: d.where + ": reached, tables are up to date"}
	if d.engine == engineSpanner && cfg.Syncstorage.EmulatorHost != "" {
		found.Says += ", in an emulator, which keeps nothing"
	}
	if d.pooler == nil {
		return []Finding{found}
	}
	switch pooled, prepares, err := d.pooler(ctx); {
	case err != nil:
		return []Finding{{Wrong, what, d.where + ": " + err.Error(), cfg.mend(room, d.engine)}}
	case pooled && prepares:
		found = Finding{Warning, what, d.where + ": reached through a connection pooler, and statements are prepared",
			"add default_query_exec_mode=exec to " + room + ".database_url, unless the pooler keeps prepared statements (PgBouncer 1.21, max_prepared_statements)"}
	case pooled:
		found.Says += ", through a connection pooler"
	}
	if d.inspect == nil {
		return []Finding{found}
	}
	more, err := d.inspect(ctx)
	if err != nil {
		return []Finding{{Wrong, what, d.where + ": " + err.Error(), cfg.mend(room, d.engine)}}
	}
	return append([]Finding{found}, more...)
}

// checkListeners says whether the addresses are free, or this server's own.
func checkListeners(cfg *Config) []Finding {
	var found []Finding
	for _, l := range []struct{ key, addr string }{{"server.listen", cfg.Server.Listen}, {"server.admin_listen", cfg.Server.AdminListen}, {"server.internal_listen", cfg.Server.InternalListen}} {
		if l.addr == "" {
			continue
		}
		ln, err := net.Listen("tcp", l.addr)
		if err != nil {
			found = append(found, Finding{Warning, l.key, err.Error(), "nothing, if that is a running holdfast; else choose another address"})
			continue
		}
		_ = ln.Close()
		found = append(found, Finding{State: Right, What: l.key, Says: l.addr + " is free"})
	}
	return found
}

func loopback(addr string) bool {
	host, _, err := net.SplitHostPort(addr)
	ip := net.ParseIP(host)
	return err == nil && (host == "localhost" || ip != nil && ip.IsLoopback())
}

// checkPublicURL asks the server under its public address.
func checkPublicURL(ctx context.Context, cfg *Config) Finding {
	const what = "server.public_url"
	address := strings.TrimRight(cfg.Server.PublicURL, "/") + "/__heartbeat__"
	status, err := fetch(ctx, address)
	switch {
	case err != nil:
		return Finding{Warning, what, err.Error(), "start the server and its proxy, then check again"}
	case status != http.StatusOK:
		return Finding{Wrong, what, fmt.Sprintf("%s answers %d", address, status), "the proxy must pass the public path on, with or without its prefix"}
	}
	return Finding{State: Right, What: what, Says: "reaches a healthy server"}
}

// checkAccounts asks the accounts server for its keys.
func checkAccounts(ctx context.Context, cfg *Config) Finding {
	const what = "accounts server"
	if cfg.Tokenserver.FxAOAuthPrimaryJWK.IsSet() {
		return Finding{State: Right, What: what, Says: "not needed: its key is configured"}
	}
	base := strings.TrimRight(cfg.Tokenserver.FxAOAuthServerURL, "/")
	status, err := fetch(ctx, base+"/v1/jwks")
	switch {
	case err != nil:
		return Finding{Wrong, what, err.Error(), "let the server reach it (HTTPS_PROXY is honoured), or set tokenserver.fxa_oauth_primary_jwk"}
	case status != http.StatusOK:
		return Finding{Wrong, what, fmt.Sprintf("%s/v1/jwks answers %d", base, status), "correct tokenserver.fxa_oauth_server_url"}
	}
	return Finding{State: Right, What: what, Says: base + " answers"}
}

func fetch(ctx context.Context, address string) (status int, err error) {
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return 0, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, err
	}
	return resp.StatusCode, resp.Body.Close()
}

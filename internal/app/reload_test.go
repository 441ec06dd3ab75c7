package app

import (
	"bytes"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/big"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"holdfast/internal/app/overview"
	"holdfast/internal/app/service"
	"holdfast/internal/conf"
	"holdfast/internal/durations"
	"holdfast/internal/testdb"
)

type lockedBuffer struct {
	mu sync.Mutex
	bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.Buffer.Write(p)
}

// take returns and clears the text.
func (b *lockedBuffer) take() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	text := b.String()
	b.Reset()
	return text
}

type reloadable struct {
	*App
	t        *testing.T
	log      lockedBuffer
	environ  []string
	file     string
	flags    []conf.Flag
	main     http.Handler
	admin    http.Handler
	signals  chan os.Signal
	operator *operator

	unchecked bool // flags may have values that no check accepts
}

const reloadedSecret = "a-token-of-an-operator-0123456789"

func openReloadable(t *testing.T, environ ...string) *reloadable {
	t.Helper()
	r := &reloadable{t: t, file: filepath.Join(t.TempDir(), "holdfast.toml"), signals: make(chan os.Signal)}
	r.environ = append([]string{"HOLDFAST_SERVER__ADMIN_TOKEN=" + reloadedSecret, "HOLDFAST_GUEST__ENABLED=true"}, environ...)
	r.write("")
	cfg, err := r.read()
	if err != nil {
		t.Fatal(err)
	}
	r.App, err = Open(t.Context(), Options{
		Config: cfg, Data: t.TempDir(), LogTo: &r.log, Mode: ModeServe, Reload: Reload{Signals: r.signals, Read: r.read},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	})
	r.main = r.listenerHandler(service.Main, nil)
	r.admin = r.listenerHandler(service.Admin, &atomic.Bool{})
	r.operator = &operator{t: t, h: r.admin}
	go r.awaitReloads(t.Context())
	<-r.reloads.serving
	return r
}

func (r *reloadable) write(text string) {
	r.t.Helper()
	if err := os.WriteFile(r.file, []byte(text), 0o600); err != nil {
		r.t.Fatal(err)
	}
}

// read reads the configuration with the test's flags.
func (r *reloadable) read() (*Config, error) {
	if !r.unchecked {
		cfg, _, err := Load(Services(), r.file, r.environ, r.flags...)
		return cfg, err
	}
	cfg, _, err := Load(Services(), r.file, r.environ)
	if err == nil {
		cfg.report, err = conf.Load(cfg.sections(), conf.Options{Flags: r.flags})
	}
	return cfg, err
}

func (r *reloadable) must() overview.Reloaded {
	r.t.Helper()
	done, err := r.reload(r.t.Context())
	if err != nil {
		r.t.Error(err)
	}
	return done
}

func (r *reloadable) send(method, path string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	q := httptest.NewRequest(method, path, http.NoBody)
	q.RemoteAddr = "192.0.2.7:1000"
	r.main.ServeHTTP(w, q)
	return w
}

type effect struct {
	text string // new value, as on the command line
	was  string // see returns it before the reload
	is   string // and afterwards
	see  func(*reloadable) string
}

// effects are for the server's own reloadable settings. Services test theirs with servicetest.Reloads.
var effects = map[string]effect{
	"server.trusted_proxies": {"10.9.9.9", "false, false", "true, true", func(r *reloadable) string {
		ip := netip.MustParseAddr("10.9.9.9")
		return fmt.Sprintf("%t, %t", r.resolver.Trusts(ip), r.console.Resolver.Trusts(ip))
	}},
	"server.viewer_token": {"other-viewer-token-0123456789", "403", "303", func(r *reloadable) string {
		status, _, _ := r.operator.do(http.MethodPost, "/console/sign-in", url.Values{"token": {"other-viewer-token-0123456789"}})
		return fmt.Sprint(status)
	}},
	"server.console_networks": {"10.8.8.8", "false", "true", func(r *reloadable) string {
		return fmt.Sprint(r.console.IsNear(netip.MustParseAddr("10.8.8.8")))
	}},
	"server.max_requests":   {"17", "256", "17", func(r *reloadable) string { return fmt.Sprint(r.gate.Stats().Slots) }},
	"server.request_memory": {"300000000", "268435456", "300000000", func(r *reloadable) string { return fmt.Sprint(r.memory.Stats().Capacity) }},
	"server.queue_wait": {"1ms", "", "503", func(r *reloadable) string {
		if r.current().Server.QueueWait > 1e9 {
			return "" // it would take equally long
		}
		r.gate.Resize(1, r.current().Server.QueueWait)
		defer r.occupy(r.t)()
		return fmt.Sprint(r.send(http.MethodPost, "/bff/consumer/v1/session").Code)
	}},
	"server.documents_link": {"https://docs.example", "false", "true", func(r *reloadable) string {
		return fmt.Sprint(strings.Contains(r.send(http.MethodGet, "/").Body.String(), "https://docs.example"))
	}},
	"server.read_only": {"true", "", "server.read_only", func(r *reloadable) string {
		hold, err := r.running()[0].Rows().ReadOnly(r.t.Context(), r.running()[0].Name)
		if err != nil {
			r.t.Error(err)
		}
		return hold.Holder
	}},
	"server.drain_delay":    {"3s", "0s 30s", "3s 30s", seeDrain},
	"server.shutdown_grace": {"4s", "0s 30s", "0s 4s", seeDrain},
	"log.level": {"debug", "false", "true", func(r *reloadable) string {
		return fmt.Sprint(r.App.log.Enabled(r.t.Context(), slog.LevelDebug))
	}},
	"log.access": {"false", "true", "false", func(r *reloadable) string { return r.logs("msg=request") }},
	"log.client_address": {"true", "false", "true", func(r *reloadable) string {
		return r.logs("client_address=192.0.2.7")
	}},
	"alerts.url":         {"https://alerts.example/secret", "", "https://alerts.example/secret", func(r *reloadable) string { return r.alerts.Settings().URL.Reveal() }},
	"alerts.format":      {"slack", "json", "slack", func(r *reloadable) string { return r.alerts.Settings().Format }},
	"alerts.backup_age":  {"5h", "48h0m0s", "5h0m0s", func(r *reloadable) string { return r.alerts.Settings().BackupAge.String() }},
	"alerts.replica_lag": {"7m", "5m0s", "7m0s", func(r *reloadable) string { return r.alerts.Settings().ReplicaLag.String() }},
	"backup.keep":        {"3d", "7d 4w 6m", "3d", func(r *reloadable) string { return r.backups.Settings().Keep }},
	"backup.schedule":    {"6h", "", "6h", func(r *reloadable) string { return r.backups.Settings().Schedule }},
	"backup.verify":      {"false", "true", "false", func(r *reloadable) string { return fmt.Sprint(r.backups.Settings().Verify) }},
	"alerts.disk_days":   {"3", "7", "3", func(r *reloadable) string { return fmt.Sprint(r.alerts.Settings().DiskDays) }},
}

// settingOf returns a setting's value as text.
func settingOf(c *Config, path string) string {
	for _, s := range conf.Settings(c.sections(), c.report) {
		if s.Path == path {
			return strings.Trim(s.Value, `"`)
		}
	}
	return ""
}

// serviceEffect returns another value for a service's setting, which the service must accept.
func serviceEffect(defaults *Config, path string) (e effect) {
	e.see = func(r *reloadable) string { return settingOf(r.current(), path) }
	e.was = settingOf(defaults, path)
	n, notInteger := strconv.ParseInt(e.was, 10, 64)
	x, notNumber := strconv.ParseFloat(e.was, 64)
	d, notDuration := durations.Parse(e.was)
	switch {
	case e.was == "true" || e.was == "false":
		e.is = strconv.FormatBool(e.was == "false")
	case path == "syncstorage.limits.max_record_payload_bytes": // no greater than max_post_bytes
		e.is = strconv.FormatInt(n-1, 10)
	case notInteger == nil:
		e.is = strconv.FormatInt(n+1, 10)
	case notNumber == nil:
		e.is = strconv.FormatFloat(x*3/4, 'g', -1, 64)
	case notDuration == nil:
		e.is = durations.Format(d + time.Hour)
	default:
		e.is = "other/text"
	}
	e.text = e.is
	return e
}

func seeDrain(r *reloadable) string { return fmt.Sprint(r.drainTimes()) }

func (r *reloadable) logs(text string) string {
	r.log.take()
	r.send(http.MethodGet, "/")
	return fmt.Sprint(strings.Contains(r.log.take(), text))
}

// TestReloadedSettings covers each setting tagged reload. Each service reloads all its settings at once; the server
// reloads its own separately.
func TestReloadedSettings(t *testing.T) {
	t.Parallel()
	r := openReloadable(t, "HOLDFAST_BACKUP__URL=file:///backups") // required by a schedule
	defaults := NewConfig(Services())
	ofServices := map[string]map[string]effect{}
	for _, path := range conf.Reloadable(defaults.sections()) {
		e, known := effects[path]
		switch name, _, _ := strings.Cut(path, "."); {
		case known:
			checkEffects(r, map[string]effect{path: e})
		case slices.ContainsFunc(defaults.Services, func(s service.Service) bool { return s.Name == name }):
			if ofServices[name] == nil {
				ofServices[name] = map[string]effect{}
			}
			ofServices[name][path] = serviceEffect(defaults, path)
		default:
			t.Errorf("%s: no effect of it is known", path)
		}
	}
	for _, all := range ofServices {
		checkEffects(r, all)
	}
	for path := range effects {
		if !slices.Contains(conf.Reloadable(defaults.sections()), path) {
			t.Errorf("%s: a reload does not apply it", path)
		}
	}
}

// checkEffects reloads with other values, and with the former ones. Exactly these settings are applied, and the log names
// them.
func checkEffects(r *reloadable, all map[string]effect) {
	t := r.t
	t.Helper()
	paths := slices.Sorted(maps.Keys(all))
	see := func(when string, want func(effect) string) {
		t.Helper()
		for _, path := range paths {
			if got, want := all[path].see(r), want(all[path]); got != want {
				t.Errorf("%s %s: %q, want %q", path, when, got, want)
			}
		}
	}
	reload := func(when string) {
		t.Helper()
		done := r.must()
		slices.Sort(done.Applied)
		if !slices.Equal(done.Applied, paths) || len(done.Restart) > 0 {
			t.Errorf("%q %s: %+v", paths, when, done)
		}
	}
	see("before", func(e effect) string { return e.was })
	for _, path := range paths {
		r.flags = append(r.flags, conf.Flag{Name: "--test", Path: path, Value: all[path].text})
		if of := slices.IndexFunc(r.opened, func(s *opened) bool { return strings.HasPrefix(path, s.Name+".") }); of >= 0 && r.opened[of].Reload == nil {
			t.Errorf("%s: the service applies nothing", path)
		}
	}
	r.log.take()
	reload("after")
	log := r.log.take()
	for _, path := range paths {
		if text := all[path].text; !strings.Contains(log, path) || strings.Contains(log, text) && strings.Contains(text, "secret") {
			t.Errorf("%s: the log is\n%s", path, log)
		}
	}
	see("after", func(e effect) string { return e.is })
	r.flags = nil
	reload("back")
	see("back", func(e effect) string { return e.was })
}

// TestSettingsNeedRestart checks that a reload reports every other setting and does not change it.
func TestSettingsNeedRestart(t *testing.T) {
	t.Parallel()
	r := openReloadable(t)
	start := r.current()
	reloaded := conf.Reloadable(start.sections())
	other, err := r.read() // differs from start in the settings in r.flags
	if err != nil {
		t.Fatal(err)
	}
	var paths []string
	for _, s := range conf.Settings(start.sections(), start.report) {
		if slices.Contains(reloaded, s.Path) {
			continue
		}
		paths = append(paths, s.Path)
		// At least one is a different value that the type allows.
		for _, text := range []string{"true", "false", "77", "7.5", "77s", "other"} {
			flag := conf.Flag{Name: "--test", Path: s.Path, Value: text}
			if _, err := conf.Load(other.sections(), conf.Options{Flags: []conf.Flag{flag}}); err == nil && slices.Contains(conf.Changes(start.sections(), other.sections()), conf.Change{Path: s.Path}) {
				r.flags = append(r.flags, flag)
				break
			}
		}
	}
	if len(paths) < 100 {
		t.Errorf("%d settings", len(paths))
	}
	r.unchecked = true
	done, err := r.reload(t.Context())
	if err != nil || len(done.Applied) > 0 {
		t.Errorf("%+v, %v", done, err)
	}
	found := r.reloadFindings()
	for _, path := range paths {
		if !slices.Contains(done.Restart, path) {
			t.Errorf("%s: a reload does not report it: %q", path, done.Restart)
		}
		if !slices.ContainsFunc(found, func(f service.Finding) bool { return f.What == path && f.State == service.Warning }) {
			t.Errorf("%s: no finding in %v", path, found)
		}
	}
	if changed := conf.Changes(start.sections(), r.current().sections()); len(changed) > 0 {
		t.Errorf("the settings in use have changed: %v", changed)
	}
	r.flags, r.unchecked = nil, false
	if done := r.must(); len(done.Applied)+len(done.Restart) > 0 || len(r.reloadFindings()) > 0 {
		t.Errorf("the former values again: %+v, %v", done, r.reloadFindings())
	}
}

// TestReloadAllOrNothing checks that an invalid configuration changes nothing, including its valid settings, and is
// reported until it is corrected.
func TestReloadAllOrNothing(t *testing.T) {
	t.Parallel()
	r := openReloadable(t)
	for _, tc := range []struct{ name, text, says string }{
		{"a wrong value", "server.max_requests = 0\nlog.level = \"debug\"", "server.max_requests: must be at least 1"},
		{"no TOML", "log.level = \"debug\"\n[", "not valid TOML"},
		{"a problem with a setting that needs a restart", "log.level = \"debug\"\nserver.admin_listen = \"x\"", "server.admin_listen: must be host:port"},
		{"a value that needs another one, which needs a restart", "server.viewer_token = \"" + reloadedSecret + "\"\nlog.level = \"debug\"", "server.viewer_token: must differ from admin_token"},
	} {
		if tc.name == "a value that needs another one, which needs a restart" {
			r.environ[0] = "HOLDFAST_SERVER__ADMIN_TOKEN=another-token-of-an-operator-0123"
		}
		r.write(tc.text)
		r.log.take()
		done, err := r.reload(t.Context())
		if err == nil || len(done.Applied)+len(done.Restart) > 0 || r.current().Log.Level != "info" || r.App.log.Enabled(t.Context(), slog.LevelDebug) {
			t.Errorf("%s: %+v, %v", tc.name, done, err)
		}
		if log := r.log.take(); strings.Count(log, "level=ERROR") != 1 || !strings.Contains(log, tc.says) || strings.Contains(log, reloadedSecret) {
			t.Errorf("%s: the log is\n%s", tc.name, log)
		}
		if found := r.reloadFindings(); len(found) != 1 || found[0].State != service.Wrong || !strings.Contains(found[0].Says, tc.says) {
			t.Errorf("%s: %+v", tc.name, found)
		}
	}
	r.environ[0] = "HOLDFAST_SERVER__ADMIN_TOKEN=" + reloadedSecret
	r.write("log.level = \"debug\"\nserver.max_requests = 9\nserver.listen = \":1\"\n")
	r.signals <- syscall.SIGHUP
	r.signals <- syscall.SIGHUP
	log := r.log.take()
	for _, want := range []string{`msg="settings applied" settings="[server.max_requests log.level]"`, `level=WARN msg="settings need a restart" settings=[server.listen]`} {
		if !strings.Contains(log, want) {
			t.Errorf("no %s in\n%s", want, log)
		}
	}
	if r.gate.Stats().Slots != 9 || !r.App.log.Enabled(t.Context(), slog.LevelDebug) || r.cfg.Server.Listen == ":1" {
		t.Error("not applied")
	}
}

func TestReloadCertificate(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	certFile, keyFile := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	put := func(until time.Time) (key []byte) {
		t.Helper()
		cert, key, err := testdb.SelfSigned(&x509.Certificate{SerialNumber: big.NewInt(until.Unix()), NotBefore: until.Add(-48 * time.Hour), NotAfter: until, DNSNames: []string{"localhost"}})
		if err == nil {
			err = errors.Join(os.WriteFile(certFile, cert, 0o600), os.WriteFile(keyFile, key, 0o600))
		}
		if err != nil {
			t.Fatal(err)
		}
		return key
	}
	first := time.Now().Add(time.Hour).Truncate(time.Second)
	key := put(first)
	r := openReloadable(t, "HOLDFAST_SERVER__TLS_CERT_FILE="+certFile, "HOLDFAST_SERVER__TLS_KEY_FILE="+keyFile)
	if err := r.openCertificates(); err != nil {
		t.Fatal(err)
	}
	second := first.Add(time.Hour)
	put(second)
	r.must()
	if until := r.certificates.State().Until; !until.Equal(second) {
		t.Errorf("until %v, want %v", until, second)
	}
	if err := os.WriteFile(keyFile, key, 0o600); err != nil {
		t.Fatal(err)
	}
	r.write("log.level = \"debug\"")
	if _, err := r.reload(t.Context()); err == nil || !strings.Contains(err.Error(), "cannot be used with server.tls_key_file") || r.current().Log.Level != "info" {
		t.Errorf("a key of another certificate: %v", err)
	}
}

// TestReloadPage checks the reload button and the settings that wait for a restart. Removing a viewer token ends its
// sessions.
func TestReloadPage(t *testing.T) {
	t.Parallel()
	r := openReloadable(t, "HOLDFAST_SERVER__VIEWER_TOKEN="+viewerToken)
	signIn := func(token string) *operator {
		o := &operator{t: t, h: r.admin}
		o.want("sign-in", http.StatusSeeOther, "/console/", http.MethodPost, "/console/sign-in", url.Values{"token": {token}})
		return o
	}
	admin, viewer := signIn(reloadedSecret), signIn(viewerToken)
	const page = "/console/settings"
	if text := viewer.want("viewer", http.StatusOK, "log.level", http.MethodGet, page, nil); strings.Contains(text, "?do=") || strings.Contains(text, "waits") {
		t.Errorf("a viewer sees\n%s", text)
	}
	r.write("log.level = \"error\"\nserver.listen = \":1\"\n")
	r.environ = slices.DeleteFunc(r.environ, func(s string) bool { return strings.Contains(s, viewerToken) })
	admin.want("reload", http.StatusSeeOther, page, http.MethodPost, page+"?do=reload", admin.form(page))
	admin.want("result", http.StatusOK, "Applied: server.viewer_token, log.level; these need a restart: server.listen", http.MethodGet, page, nil)
	admin.want("waiting", http.StatusOK, "a restart, for which its new value waits", http.MethodGet, page, nil)
	viewer.want("a viewer that is no more", http.StatusSeeOther, "/console/sign-in", http.MethodGet, page, nil)
	r.write("log.level = \"loud\"")
	admin.want("refused", http.StatusBadRequest, "log.level: must be debug, info, warn or error", http.MethodPost, page+"?do=reload", admin.form(page))
	q := httptest.NewRequest(http.MethodPost, "/settings/reload", http.NoBody)
	q.Host = "127.0.0.1:8001"
	q.Header.Set("Authorization", "Bearer "+reloadedSecret)
	w := httptest.NewRecorder()
	r.write("")
	r.admin.ServeHTTP(w, q)
	if got := strings.TrimSpace(w.Body.String()); w.Code != http.StatusOK || got != `{"applied":["log.level"],"restart":[]}` {
		t.Errorf("%d %s", w.Code, got)
	}
}

// TestReloadUnderLoad checks that no request fails while a reload changes everything that it uses.
func TestReloadUnderLoad(t *testing.T) {
	t.Parallel()
	r := openReloadable(t, "HOLDFAST_GUEST__RATE_LIMITS=false", "HOLDFAST_GUEST__BOTS__ENABLED=false")
	var failed, served atomic.Int64
	visit := func() bool {
		for _, q := range [][2]string{{http.MethodGet, "/"}, {http.MethodGet, "/__heartbeat__"}, {http.MethodPost, "/bff/consumer/v1/session"}} {
			if w := r.send(q[0], q[1]); w.Code >= http.StatusBadRequest {
				failed.Add(1)
				t.Logf("%s: %d %s", q[1], w.Code, w.Body)
				return false
			}
		}
		served.Add(1)
		return true
	}
	stop := make(chan struct{})
	var load sync.WaitGroup
	for range 8 {
		load.Go(func() {
			for visit() {
				select {
				case <-stop:
					return
				default:
				}
			}
		})
	}
	for i := range 50 {
		before := served.Load()
		r.write(fmt.Sprintf(`
[server]
trusted_proxies = ["10.0.0.%[1]d"]
viewer_token = "viewer-token-of-a-test-%[1]d"
console_networks = ["10.0.1.%[1]d"]
max_requests = %[2]d
queue_wait = "%[3]ds"
request_memory = %[4]d
documents_link = "https://docs.example/%[1]d"
drain_delay = "%[1]ds"
[log]
level = "%[5]s"
access = %[6]t
client_address = %[6]t
[alerts]
disk_days = %[1]d
[syncstorage.limits]
max_user_quota = %[4]d
[extstorage.rates]
reads_per_minute = %[2]d
[extstorage.tiers.gold]
bytes = %[4]d
[buckets]
garbage_after = "%[3]dh"
[guest]
sample_sessions = %[2]d
[guest.rates]
bootstrap = %[2]d
`, i, 7+(i%5)*40, 20+i, (100+i)<<20, []string{"info", "error", "debug"}[i%3], i%2 == 0))
		if done := r.must(); len(done.Applied) < 8 || len(done.Restart) > 0 {
			t.Errorf("%+v", done)
		}
		for served.Load() < before+3 && failed.Load() == 0 {
			runtime.Gosched()
		}
	}
	close(stop)
	load.Wait()
	if s := r.gate.Stats(); s.Active != 0 || s.Waiting != 0 || failed.Load() > 0 {
		t.Errorf("%d of %d failed, %+v", failed.Load(), served.Load(), s)
	}
	if s := r.memory.Stats(); s.Used != 0 {
		t.Errorf("%+v", s)
	}
}

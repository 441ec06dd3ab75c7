// Package proxy tests the binary behind reverse proxies, with the configurations from docs/https.md.
package proxy

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"holdfast/internal/testdb"
	"holdfast/test/binary"
)

func TestMain(m *testing.M) { os.Exit(binary.MainOfWaiting(m, 8)) }

type guide struct {
	file     string
	host     string // name in the certificate
	upstream string
}

var (
	ofMain = guide{"https.md", "example.org", "http://127.0.0.1:8000"}
	ofS3   = guide{"buckets-operate.md", "s3.example.org", "http://127.0.0.1:9000"}
)

func (g guide) block(t *testing.T, language string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("../../docs", g.file))
	if err != nil {
		t.Fatal(err)
	}
	parts := strings.Split(string(text), "\n```"+language+"\n")
	if len(parts) != 2 {
		t.Fatalf("%s has %d blocks of %s", g.file, len(parts)-1, language)
	}
	found, _, _ := strings.Cut(parts[1], "\n```\n")
	return found + "\n"
}

// replace replaces texts that occur once, given as pairs of old and new.
func replace(t *testing.T, text string, pairs ...string) string {
	t.Helper()
	for i := 0; i < len(pairs); i += 2 {
		if strings.Count(text, pairs[i]) != 1 {
			t.Fatalf("the configuration of the guide has %q not once:\n%s", pairs[i], text)
		}
		text = strings.Replace(text, pairs[i], pairs[i+1], 1)
	}
	return text
}

type program struct {
	cmd   *exec.Cmd
	ended chan struct{}
	said  bytes.Buffer // read after the end
}

// run starts a program and returns once it listens on the address, or false if another process has taken the port.
func run(t *testing.T, address string, cmd *exec.Cmd) (p *program, ok bool) {
	t.Helper()
	p = &program{cmd: cmd, ended: make(chan struct{})}
	cmd.Stdout, cmd.Stderr = &p.said, &p.said
	// The program must not outlive a killed test process.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { _ = cmd.Wait(); close(p.ended) }() // the output explains the exit status
	t.Cleanup(func() {
		p.end()
		if t.Failed() {
			t.Logf("%s said:\n%s", filepath.Base(cmd.Path), &p.said)
		}
	})
	ctx, cancel := context.WithTimeout(t.Context(), binary.Bound)
	defer cancel()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		if conn, err := net.Dial("tcp", address); err == nil {
			conn.Close()
			return p, true
		}
		select {
		case <-tick.C:
		case <-p.ended:
			if !strings.Contains(p.said.String(), "ddress already in use") {
				t.Fatalf("%s ended", cmd.Path)
			}
			return p, false
		case <-ctx.Done():
			t.Fatalf("nothing listens on %s", address)
		}
	}
}

func (p *program) end() {
	select {
	case <-p.ended:
	default:
		_ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL)
		<-p.ended
	}
}

type proxy struct {
	name string
	away int // status while the server is stopped
	// normalizes reports whether the proxy rewrites unnecessary escapes (%41, %7b), which changes a request's signature.
	normalizes bool
	// start runs the proxy in front of upstream and returns its address. edit changes the guide's configuration.
	start func(t *testing.T, g guide, upstream, cert, key string, edit func(string) string) string
}

var proxies = []proxy{
	{name: "nginx", away: http.StatusBadGateway, start: startNginx},
	{name: "caddy", away: http.StatusBadGateway, start: startCaddy},
	{name: "apache", away: http.StatusServiceUnavailable, start: startApache},
	{name: "traefik", away: http.StatusBadGateway, normalizes: true, start: startTraefik},
}

const attempts = 5

func startNginx(t *testing.T, g guide, upstream, cert, key string, edit func(string) string) string {
	t.Helper()
	path := binary.Program(t, "nginx")
	for range attempts {
		dir, address := t.TempDir(), testdb.FreeAddress(t)
		site := edit(replace(t, g.block(t, "nginx"),
			"listen 443 ", "listen "+address+" ",
			"/etc/letsencrypt/live/"+g.host+"/fullchain.pem", cert,
			"/etc/letsencrypt/live/"+g.host+"/privkey.pem", key,
			g.upstream, upstream))
		// The rest of a distribution's nginx.conf, without folders.
		conf := "daemon off; master_process off; pid nginx.pid; error_log stderr;\n" +
			"events {}\nhttp {\naccess_log off;\n"
		for _, kind := range []string{"client_body", "proxy", "fastcgi", "uwsgi", "scgi"} {
			conf += fmt.Sprintf("%s_temp_path %s;\n", kind, filepath.Join(dir, kind))
		}
		write(t, filepath.Join(dir, "nginx.conf"), conf+site+"}\n")
		if _, ok := run(t, address, exec.Command(path, "-p", dir, "-c", "nginx.conf", "-e", "stderr")); ok {
			return address
		}
	}
	t.Fatal("nginx does not start")
	return ""
}

func startCaddy(t *testing.T, g guide, upstream, cert, key string, edit func(string) string) string {
	t.Helper()
	return runCaddy(t, edit(replace(t, g.block(t, "caddyfile"),
		g.host+" {\n", fmt.Sprintf("%s {\n\tbind 127.0.0.1\n\ttls %s %s\n", g.host, cert, key),
		strings.TrimPrefix(g.upstream, "http://"), strings.TrimPrefix(upstream, "http://"))))
}

func startCompose(t *testing.T, _ guide, upstream, cert, key string, edit func(string) string) string {
	t.Helper()
	text, err := os.ReadFile("../../packaging/Caddyfile")
	if err != nil {
		t.Fatal(err)
	}
	return runCaddy(t, edit(replace(t, string(text),
		"{$DOMAIN} {\n", fmt.Sprintf("{$DOMAIN} {\n\tbind 127.0.0.1\n\ttls %s %s\n", cert, key),
		"holdfast:8000", strings.TrimPrefix(upstream, "http://"))), "DOMAIN=example.org", "S3_DOMAIN=http://s3.invalid")
}

func runCaddy(t *testing.T, site string, env ...string) string {
	t.Helper()
	path := binary.Program(t, "caddy")
	for range attempts {
		dir, address := t.TempDir(), testdb.FreeAddress(t)
		_, port, _ := net.SplitHostPort(address)
		global := fmt.Sprintf("{\n\tadmin off\n\tauto_https disable_redirects\n\thttps_port %s\n\tstorage file_system %s\n}\n", port, dir)
		file := filepath.Join(dir, "Caddyfile")
		write(t, file, global+site)
		cmd := exec.Command(path, "run", "--config", file, "--adapter", "caddyfile")
		cmd.Env = append(append(os.Environ(), "HOME="+dir, "XDG_CONFIG_HOME="+dir, "XDG_DATA_HOME="+dir), env...)
		if _, ok := run(t, address, cmd); ok {
			return address
		}
	}
	t.Fatal("caddy does not start")
	return ""
}

func startApache(t *testing.T, g guide, upstream, cert, key string, edit func(string) string) string {
	t.Helper()
	path := binary.Program(t, "apache2")
	for range attempts {
		dir, address := t.TempDir(), testdb.FreeAddress(t)
		site := edit(replace(t, g.block(t, "apache"),
			"<VirtualHost *:443>", "<VirtualHost "+address+">",
			"/etc/letsencrypt/live/"+g.host+"/fullchain.pem", cert,
			"/etc/letsencrypt/live/"+g.host+"/privkey.pem", key,
			g.upstream, upstream))
		// The rest of a distribution's apache2.conf, and the guide's modules.
		conf := "ServerRoot " + dir + "\nServerName localhost\nPidFile apache.pid\nDefaultRuntimeDir " + dir + "\nErrorLog /dev/stderr\nListen " + address + "\n"
		if os.Geteuid() == 0 {
			conf += "User nobody\nGroup nogroup\n"
		}
		for _, module := range []string{"mpm_event", "authz_core", "deflate", "filter", "socache_shmcb", "ssl", "http2", "proxy", "proxy_http", "headers"} {
			conf += fmt.Sprintf("LoadModule %s_module /usr/lib/apache2/modules/mod_%s.so\n", module, module)
		}
		file := filepath.Join(dir, "apache2.conf")
		write(t, file, conf+site)
		if _, ok := run(t, address, exec.Command(path, "-D", "FOREGROUND", "-f", file)); ok {
			return address
		}
	}
	t.Fatal("apache2 does not start")
	return ""
}

// startTraefik tests Traefik if it is installed: Debian does not package it.
func startTraefik(t *testing.T, g guide, upstream, cert, key string, edit func(string) string) string {
	t.Helper()
	path := binary.Program(t, "traefik")
	for range attempts {
		dir, address := t.TempDir(), testdb.FreeAddress(t)
		site := filepath.Join(dir, "holdfast.yml")
		write(t, filepath.Join(dir, "traefik.yml"), replace(t, g.block(t, "yaml"),
			`":443"`, `"`+address+`"`, "/etc/traefik/holdfast.yml", site))
		write(t, site, edit(replace(t, g.block(t, "yml"),
			"/etc/letsencrypt/live/"+g.host+"/fullchain.pem", cert,
			"/etc/letsencrypt/live/"+g.host+"/privkey.pem", key,
			g.upstream, upstream)))
		cmd := exec.Command(path, "--configFile="+filepath.Join(dir, "traefik.yml"))
		cmd.Dir = dir
		if _, ok := run(t, address, cmd); ok {
			awaitCertificate(t, address, cert)
			return address
		}
	}
	t.Fatal("traefik does not start")
	return ""
}

// awaitCertificate returns once the proxy uses the certificate: Traefik listens before it has read its site.
func awaitCertificate(t *testing.T, address, cert string) {
	t.Helper()
	text, err := os.ReadFile(cert)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(text) {
		t.Fatalf("no certificate in %s", cert)
	}
	dialer := tls.Dialer{Config: &tls.Config{ServerName: "example.org", RootCAs: pool, MinVersion: tls.VersionTLS12}}
	ctx, cancel := context.WithTimeout(t.Context(), binary.Bound)
	defer cancel()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		conn, err := dialer.DialContext(ctx, "tcp", address)
		if err == nil {
			conn.Close()
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("%s does not show its certificate: %v", address, err)
		}
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

type site struct {
	proxy   proxy
	server  *binary.Server
	address string // the proxy's real address
	public  string // the address for clients
	client  *http.Client
}

// build starts a server and a proxy in front of it. public is the clients' address, e.g. https://example.org/sync.
func (p proxy) build(t *testing.T, public string, edit func(string) string, vars ...string) *site {
	t.Helper()
	if edit == nil {
		edit = func(conf string) string { return conf }
	}
	if strings.Count(public, "/") == 2 { // no path prefix
		inner := edit
		edit = func(conf string) string { return inner(strings.ReplaceAll(conf, "/sync/", "/")) }
	}
	cert, key, client := binary.Certificate(t)
	server := binary.Start(t, t.TempDir(), vars...)
	s := &site{proxy: p, server: server, address: p.start(t, ofMain, server.URL, cert, key, edit), public: public, client: client}
	dialOnly(client, s.address)
	return s
}

func dialOnly(client *http.Client, address string) {
	client.Transport.(*http.Transport).DialContext = func(ctx context.Context, network, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, network, address)
	}
}

func (s *site) user(uid int64) binary.Credentials {
	c := s.server.Token(uid)
	c.Endpoint = fmt.Sprintf("%s/1.5/%d", s.public, uid)
	return c
}

func (s *site) want(t *testing.T, c binary.Credentials, status int, method, path, body string) binary.Answer {
	t.Helper()
	a, err := c.SendBy(t.Context(), s.client, method, path, body)
	if err != nil {
		t.Fatalf("%s %s: %v", method, path, err)
	}
	if a.Status != status {
		t.Fatalf("%s %s: %d %.200s, want %d", method, path, a.Status, a.Body, status)
	}
	return a
}

package e2e

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"holdfast/internal/testdb"
	"holdfast/internal/testdb/acmetest"
	"holdfast/test/binary"
)

// domainClient returns a client that resolves every name to this machine and trusts only the test authority.
func domainClient(t *testing.T, roots *x509.CertPool) *http.Client {
	t.Helper()
	c := &http.Client{
		Timeout: 10 * time.Second,
		Transport: &http.Transport{
			TLSClientConfig: &tls.Config{RootCAs: roots}, ForceAttemptHTTP2: true, DisableKeepAlives: true,
			DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
				_, port, err := net.SplitHostPort(address)
				if err != nil {
					return nil, err
				}
				return (&net.Dialer{}).DialContext(ctx, network, net.JoinHostPort("127.0.0.1", port))
			},
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	t.Cleanup(c.CloseIdleConnections)
	return c
}

// TestDomain sets only a domain, and the test's addresses and authority. The server must get its certificate, serve
// HTTPS to all clients, and redirect browsers.
func TestDomain(t *testing.T) {
	t.Parallel()
	const domain = "sync.example.org"
	main, plain, s3, admin := testdb.FreeAddress(t), testdb.FreeAddress(t), testdb.FreeAddress(t), testdb.FreeAddress(t)
	authority := acmetest.Start(t, main, plain, 24*3600)
	_, mainPort, err := net.SplitHostPort(main)
	if err != nil {
		t.Fatal(err)
	}
	_, adminPort, err := net.SplitHostPort(admin)
	if err != nil {
		t.Fatal(err)
	}
	data := t.TempDir()
	s := binary.Start(t, data, "HOLDFAST_SERVER__DOMAIN="+domain, "HOLDFAST_SERVER__LISTEN="+main, "HOLDFAST_SERVER__HTTP_LISTEN="+plain,
		"HOLDFAST_SERVER__ACME_DIRECTORY="+authority.Directory, "HOLDFAST_SERVER__ACME_ROOT_FILE="+authority.RootFile,
		"HOLDFAST_BUCKETS__ENABLED=true", "HOLDFAST_BUCKETS__LISTEN="+s3, "HOLDFAST_SERVER__ADMIN_LISTEN="+admin)
	s.AwaitMetric(`holdfast_tls_certificate_renewals_total{outcome="ok"} 1`)
	client, base := domainClient(t, authority.Roots()), "https://"+net.JoinHostPort(domain, mainPort)
	answer := func(url string, status int) http.Header {
		t.Helper()
		resp, err := client.Get(url)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		if resp.StatusCode != status {
			t.Errorf("%s: %d", url, resp.StatusCode)
		}
		return resp.Header
	}
	answer(base+"/__heartbeat__", http.StatusOK)
	_, s3Port, err := net.SplitHostPort(s3)
	if err != nil {
		t.Fatal(err)
	}
	answer("https://"+net.JoinHostPort(domain, s3Port)+"/", http.StatusForbidden)
	if got := answer("http://"+plain+"/a//b?c", http.StatusPermanentRedirect).Get("Location"); got != base+"/a//b?c" {
		t.Errorf("redirected to %s", got)
	}
	answer("http://127.0.0.1:"+adminPort+"/readyz", http.StatusOK)
	if token := s.Token(1); !strings.HasPrefix(token.Endpoint, base+"/") {
		t.Errorf("endpoint %s, want domain %s", token.Endpoint, base)
	}
	if r := binary.Run(t, s.Env, "health"); r.Status != 0 {
		t.Errorf("health: %s%s", r.Stdout, r.Stderr)
	}
	if r := binary.Run(t, s.Env, "check"); !strings.Contains(r.Stdout, "the certificate for "+domain+" is valid until") ||
		!strings.Contains(r.Stdout, plain+" is in use by this server itself") {
		t.Errorf("check:\n%s", r.Stdout)
	}
	key := ""
	if err := filepath.WalkDir(filepath.Join(data, "certificates"), func(name string, _ os.DirEntry, err error) error {
		if strings.HasSuffix(name, domain+".key") {
			key = name
		}
		return err
	}); err != nil || key == "" {
		t.Errorf("no key is stored: %v", err)
	}
}

// TestDomainAdmin checks that an admin listener with a public address also uses the certificate. Before that, it uses
// a temporary certificate, which clients refuse, and the check gives the reason.
func TestDomainAdmin(t *testing.T) {
	t.Parallel()
	const domain = "sync.none" // does not resolve to this machine
	main, plain := testdb.FreeAddress(t), testdb.FreeAddress(t)
	authority := acmetest.Start(t, main, plain, 24*3600)
	_, adminPort, err := net.SplitHostPort(testdb.FreeAddress(t))
	if err != nil {
		t.Fatal(err)
	}
	env := binary.Environ("HOLDFAST_DATA="+t.TempDir(), "HOLDFAST_SERVER__DOMAIN="+domain, "HOLDFAST_SERVER__LISTEN="+main, "HOLDFAST_SERVER__HTTP_LISTEN="+plain,
		"HOLDFAST_SERVER__ACME_DIRECTORY="+authority.Directory, "HOLDFAST_SERVER__ACME_ROOT_FILE="+authority.RootFile,
		"HOLDFAST_BUCKETS__LISTEN="+testdb.FreeAddress(t), "HOLDFAST_SERVER__ADMIN_LISTEN=:"+adminPort)
	ctx, stop := context.WithCancel(t.Context())
	server := exec.CommandContext(ctx, binary.Path(), "serve")
	server.Env = env
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { stop(); _ = server.Wait() }()
	untrusting, trusting := domainClient(t, authority.Roots()), domainClient(t, nil)
	trusting.Transport.(*http.Transport).TLSClientConfig.InsecureSkipVerify = true
	body := ""
	for end := time.Now().Add(testdb.Patient(30 * time.Second)); !strings.Contains(body, `renewals_total{outcome="error"} 1`); {
		if time.Now().After(end) {
			t.Fatalf("no failure:\n%s", body)
		}
		time.Sleep(50 * time.Millisecond)
		if resp, err := trusting.Get("https://" + net.JoinHostPort(domain, adminPort) + "/metrics"); err == nil {
			text, err := io.ReadAll(resp.Body)
			if body = string(text); err != nil || resp.Body.Close() != nil {
				t.Fatal(err)
			}
		}
	}
	if !strings.Contains(body, "holdfast_tls_certificate_expiry_timestamp_seconds 0") {
		t.Error("the metric contains an expiry without a certificate")
	}
	if _, err := untrusting.Get("https://" + net.JoinHostPort(domain, adminPort) + "/readyz"); err == nil || !strings.Contains(err.Error(), "certificate") {
		t.Errorf("the temporary certificate: %v", err)
	}
	wrong(t, binary.Run(t, env, "check"), "server.domain", "has no certificate; the last attempt failed: the certificate authority refuses: ")
}

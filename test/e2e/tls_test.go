package e2e

import (
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"holdfast/internal/auth/hawk"
	"holdfast/test/binary"
)

func TestTLS(t *testing.T) {
	t.Parallel()
	cert, key, client := binary.Certificate(t)
	s := binary.Start(t, t.TempDir(), "HOLDFAST_SERVER__TLS_CERT_FILE="+cert, "HOLDFAST_SERVER__TLS_KEY_FILE="+key,
		"HOLDFAST_SERVER__INTERNAL_LISTEN=127.0.0.1:0")
	c := s.Token(1)
	if !strings.HasPrefix(c.Endpoint, "https://") {
		t.Fatalf("endpoint %s", c.Endpoint)
	}
	req, err := http.NewRequest(http.MethodGet, c.Endpoint+"/info/collections", nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := hawk.SignHTTP(req, c.ID, c.Key, time.Now(), ""); err != nil {
		t.Fatal(err)
	}
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK || resp.ProtoMajor != 2 {
		t.Errorf("status %d over HTTP/%d", resp.StatusCode, resp.ProtoMajor)
	}
	internal, err := client.Post(s.Internal()+"/internal/ext-storage/install/7e000000-0000-4000-8000-000000000011", "application/json", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	defer internal.Body.Close()
	if internal.StatusCode != http.StatusUnauthorized {
		t.Errorf("the internal listener: %d", internal.StatusCode)
	}
}

// TestNewCertificate checks that a server loads new certificate files without a restart, and keeps the old certificate
// while the files are broken.
func TestNewCertificate(t *testing.T) {
	t.Parallel()
	cert, key, client := binary.Certificate(t)
	newCert, newKey, newClient := binary.Certificate(t)
	s := binary.Start(t, t.TempDir(), "HOLDFAST_SERVER__TLS_CERT_FILE="+cert, "HOLDFAST_SERVER__TLS_KEY_FILE="+key)
	served := func(c *http.Client) bool {
		c.CloseIdleConnections()
		resp, err := c.Get(s.URL + "/__lbheartbeat__")
		return err == nil && resp.Body.Close() == nil && resp.StatusCode == http.StatusOK
	}
	if !served(client) || served(newClient) {
		t.Fatal("the first certificate is not served")
	}
	if err := os.Rename(newCert, cert); err != nil {
		t.Fatal(err)
	}
	s.AwaitMetric(`holdfast_tls_certificate_renewals_total{outcome="error"} 1`)
	if !served(client) {
		t.Error("the former certificate is not served while the files do not match")
	}
	wrong(t, binary.Run(t, s.Env, "check"), "server.tls_cert_file", "both in PEM")
	if err := os.Rename(newKey, key); err != nil {
		t.Fatal(err)
	}
	s.AwaitMetric(`holdfast_tls_certificate_renewals_total{outcome="ok"} 1`)
	if !served(newClient) || served(client) {
		t.Error("the new certificate is not served")
	}
}

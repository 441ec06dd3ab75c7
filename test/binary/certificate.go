package binary

import (
	"crypto/tls"
	"crypto/x509"
	"holdfast/internal/testdb"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// Certificate writes a certificate and key for 127.0.0.1, localhost, example.org and *.s3.example.org, and returns a
// client that trusts it.
func Certificate(t *testing.T) (cert, key string, client *http.Client) {
	t.Helper()
	certPEM, keyPEM, err := testdb.SelfSigned(&x509.Certificate{
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, DNSNames: []string{"localhost", "example.org", "s3.example.org", "*.s3.example.org"}, IsCA: true, BasicConstraintsValid: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	write := func(name string, text []byte) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(certPEM)
	client = &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}, ForceAttemptHTTP2: true}}
	t.Cleanup(client.CloseIdleConnections)
	return write("cert.pem", certPEM), write("key.pem", keyPEM), client
}

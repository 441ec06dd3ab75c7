//test:unraced compiling Google's clients for the race detector takes a minute
//test:check linking all engines takes seconds

package main

import (
	"crypto/x509"
	"os"
	"os/exec"
	"testing"
)

// TestCertificateAuthorities checks that the binary uses its own certificate authorities if the system has none. It
// starts another process, because a process loads them only once.
func TestCertificateAuthorities(t *testing.T) {
	t.Parallel()
	const child = "CERTIFICATE_AUTHORITIES_OF_THIS_PROCESS"
	if os.Getenv(child) == "" {
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestCertificateAuthorities$")
		cmd.Env = append(os.Environ(), child+"=1", "SSL_CERT_FILE=/nonexistent", "SSL_CERT_DIR="+t.TempDir())
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		return
	}
	pool, err := x509.SystemCertPool()
	if err != nil || pool.Equal(x509.NewCertPool()) {
		t.Errorf("no authorities: %v", err)
	}
}

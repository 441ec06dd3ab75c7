package sourcedb

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/url"
	"os"
	"strings"

	"github.com/go-sql-driver/mysql"
)

// Parameters of a mysql:// URL are named like the options in MySQL's client library, as in Mozilla's server.
var parameters = []string{"unix_socket", "ssl_mode", "ssl_ca", "ssl_cert", "ssl_key"}

var errMode = errors.New("ssl_mode: expected DISABLED, PREFERRED, REQUIRED, VERIFY_CA or VERIFY_IDENTITY")

// connectTLS configures TLS. Like MySQL's library, it defaults to a plain connection, or to VERIFY_CA if ssl_ca is
// set.
func connectTLS(cfg *mysql.Config, host string, query url.Values) error {
	mode, ca := strings.ToUpper(query.Get("ssl_mode")), query.Get("ssl_ca")
	if mode == "" && ca != "" {
		mode = "VERIFY_CA"
	}
	t := &tls.Config{ServerName: host, MinVersion: tls.VersionTLS12}
	switch mode {
	case "", "DISABLED":
		if query.Has("ssl_cert") || query.Has("ssl_key") {
			return errors.New("ssl_cert, ssl_key: a client certificate requires TLS: set ssl_ca, or ssl_mode to another value than DISABLED")
		}
		return nil
	case "PREFERRED":
		cfg.AllowFallbackToPlaintext, t.InsecureSkipVerify = true, true
	case "REQUIRED":
		t.InsecureSkipVerify = true
	case "VERIFY_CA":
		t.InsecureSkipVerify = true // VerifyConnection checks all but the name
		t.VerifyConnection = func(s tls.ConnectionState) error { return verifyChain(s, t.RootCAs) }
	case "VERIFY_IDENTITY":
	default:
		return errMode
	}
	if ca != "" {
		pem, err := os.ReadFile(ca)
		if err != nil {
			return fmt.Errorf("ssl_ca: %w", err)
		}
		t.RootCAs = x509.NewCertPool()
		if !t.RootCAs.AppendCertsFromPEM(pem) {
			return fmt.Errorf("ssl_ca: %s has no certificate: expected PEM", ca)
		}
	}
	if cert, key := query.Get("ssl_cert"), query.Get("ssl_key"); cert != "" || key != "" {
		if cert == "" || key == "" {
			return errors.New("ssl_cert, ssl_key: expected both, or none of them")
		}
		pair, err := tls.LoadX509KeyPair(cert, key)
		if err != nil {
			if missing, ok := errors.AsType[*os.PathError](err); ok {
				return fmt.Errorf("ssl_cert, ssl_key: cannot read %s: %w", missing.Path, missing.Err)
			}
			return errors.New("ssl_cert, ssl_key: expected the PEM files of a certificate and its key")
		}
		t.Certificates = []tls.Certificate{pair}
	}
	cfg.TLS = t
	return nil
}

// verifyChain verifies the certificate without the host name.
func verifyChain(s tls.ConnectionState, roots *x509.CertPool) error {
	options := x509.VerifyOptions{Roots: roots, Intermediates: x509.NewCertPool()}
	for _, c := range s.PeerCertificates[1:] {
		options.Intermediates.AddCert(c)
	}
	_, err := s.PeerCertificates[0].Verify(options)
	return err
}

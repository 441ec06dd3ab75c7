package certificates

import (
	"context"
	"crypto/tls"
	"log/slog"
	"time"

	"holdfast/internal/clock"
)

// Source provides the listeners' certificate and replaces it before it expires.
type Source interface {
	// TLS configures an HTTPS listener. Each handshake uses the newest certificate.
	TLS() *tls.Config

	// Run replaces the certificate until ctx is done.
	Run(ctx context.Context)

	// Reload looks for a new certificate, and fails if it is unusable.
	Reload() error

	// State describes the certificate in use.
	State() State
}

// State describes a certificate.
type State struct {
	Until   time.Time // expiry; zero without a certificate
	Problem string    // replacement failure, or ""
}

// Options configures every Source.
type Options struct {
	Clock clock.Clock
	Log   *slog.Logger

	// Observe, if set, is called after each replacement (nil) and each failure.
	Observe func(err error)
}

func (o *Options) observe(err error) {
	if o.Observe != nil {
		o.Observe(err)
	}
}

func serve(get func(*tls.ClientHelloInfo) (*tls.Certificate, error)) *tls.Config {
	return &tls.Config{GetCertificate: get, NextProtos: []string{"h2", "http/1.1"}}
}

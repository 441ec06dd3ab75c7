package certificates

import (
	"context"
	"crypto/tls"
	"log/slog"
	"time"

	"holdfast/internal/clock"
)

// Source provides the listeners' certificate and replaces it before it expires. It is safe for concurrent use.
type Source interface {
	// TLS returns the listeners' configuration.
	TLS() *tls.Config

	// Run replaces the certificate when necessary, until ctx ends.
	Run(ctx context.Context)

	// Reload looks for a new certificate at once, and returns why it cannot be used.
	Reload() error

	State() State
}

// State describes the current certificate.
type State struct {
	Until   time.Time // expiry; zero without a certificate
	Problem string    // why it was not replaced, or ""
}

// Options are common to all sources. Clock and Log are required.
type Options struct {
	Clock clock.Clock // decides whether a certificate has expired
	Log   *slog.Logger

	// Observe, if set, is called after each replacement (nil) and each failure.
	Observe func(err error)
}

func (o *Options) observe(err error) {
	if o.Observe != nil {
		o.Observe(err)
	}
}

// serve returns a configuration that asks get for each connection, so that a new certificate needs no restart.
func serve(get func(*tls.ClientHelloInfo) (*tls.Certificate, error)) *tls.Config {
	return &tls.Config{GetCertificate: get, NextProtos: []string{"h2", "http/1.1"}}
}

package certificates

import (
	"context"
	"crypto/tls"
	"log/slog"
	"time"

	"holdfast/internal/clock"
)

// Source provides the certificate of the listeners and replaces it before it expires.
type Source interface {
	// TLS returns the configuration of a listener that serves HTTPS. Each handshake uses the newest certificate.
	TLS() *tls.Config

	// Run replaces the certificate until ctx ends.
	Run(ctx context.Context)

	// Reload looks for a new certificate now. The error says why there is one that cannot be used.
	Reload() error

	// State describes the certificate in use.
	State() State
}

// State describes a certificate.
type State struct {
	Until   time.Time // when the certificate in use expires; zero without a certificate
	Problem string    // why it could not be replaced, or "" if nothing is wrong
}

// Options are options of every Source.
type Options struct {
	Clock clock.Clock
	Log   *slog.Logger

	// Observe, if set, is called with each certificate that replaces another one (nil), and with each that could not
	// be obtained or used.
	Observe func(err error)
}

func (o *Options) observe(err error) {
	if o.Observe != nil {
		o.Observe(err)
	}
}

// serve returns the configuration of a listener.
func serve(get func(*tls.ClientHelloInfo) (*tls.Certificate, error)) *tls.Config {
	return &tls.Config{GetCertificate: get, NextProtos: []string{"h2", "http/1.1"}}
}

// Package nats lets services publish to NATS JetStream, and receive from it.
package nats

import (
	"context"
	"net/url"

	"holdfast/internal/broker/nats"
	"holdfast/internal/broker/sinks"
	"holdfast/internal/engines"
)

// Engine returns NATS, with and without TLS.
func Engine() engines.Engine {
	return engines.Engine{Brokers: sinks.Brokers{"nats": open, "tls": open}}
}

// open is a function of sinks.Brokers.
func open(_ context.Context, u *url.URL, once bool) (sinks.Broker, error) {
	server := url.URL{Scheme: u.Scheme, User: u.User, Host: u.Host}
	return nats.Open(nats.Options{URL: server.String(), Credentials: u.Query().Get("credentials"), Once: once})
}

// Package pubsub lets services publish to Google Pub/Sub, and receive from it.
package pubsub

import (
	"context"
	"net/url"

	"holdfast/internal/broker/pubsub"
	"holdfast/internal/broker/sinks"
	"holdfast/internal/engines"
)

// Engine returns Pub/Sub.
func Engine() engines.Engine { return engines.Engine{Brokers: sinks.Brokers{"pubsub": open}} }

// open is a function of sinks.Brokers. Opening connects to nothing, so once makes no difference.
func open(ctx context.Context, u *url.URL, _ bool) (sinks.Broker, error) {
	return pubsub.Open(ctx, pubsub.Options{Project: u.Host, Emulator: u.Query().Get("emulator")})
}

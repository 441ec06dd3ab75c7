// Package sinks opens configured brokers and sinks.
package sinks

import (
	"context"
	"log/slog"
	"net/url"
	"strings"

	"holdfast/internal/broker"
	"holdfast/internal/clock"
	"holdfast/internal/errcode"
	"holdfast/internal/outbox"
)

// Options configure Open.
type Options struct {
	Setting string // as settings.CheckSink accepts it
	Source  string // CloudEvents source
	Secret  string // webhook signing key; "" means unsigned
	Log     *slog.Logger
	Clock   clock.Clock
	Memory  broker.Broker // broker for the setting "memory"

	// Encode is Webhook.Encode.
	Encode func(events []outbox.Event) (body []byte, contentType string, err error)
}

// MemoryTopic is the topic on Options.Memory.
const MemoryTopic = "events"

func nothing() error { return nil }

// Open opens a sink. The caller closes it, even after an error.
func Open(ctx context.Context, o Options) (sink outbox.Sink, end func() error, err error) {
	if path, ok := strings.CutPrefix(o.Setting, "file:"); ok {
		lines, err := outbox.OpenLines(path)
		return lines, lines.Close, err
	}
	switch scheme, _, _ := strings.Cut(o.Setting, ":"); scheme {
	case "memory":
		return &broker.Sink{Broker: o.Memory, Topic: MemoryTopic, Source: o.Source}, nothing, nil
	case "log":
		return outbox.Log{Logger: o.Log}, nothing, nil
	case "http", "https":
		return &broker.Webhook{URL: o.Setting, Secret: o.Secret, Source: o.Source, Clock: o.Clock, Encode: o.Encode}, nothing, nil
	}
	b, names, err := Broker(ctx, o.Setting)
	if err != nil {
		return nil, nothing, err
	}
	return &broker.Sink{Broker: b, Topic: names[0], Source: o.Source}, b.Close, nil
}

// Broker opens a URL's broker, and returns the names in its path: a topic, and for receivers a subscription.
func Broker(ctx context.Context, setting string) (b broker.Broker, names []string, err error) {
	u, err := url.Parse(setting)
	if err != nil {
		return nil, nil, errcode.New(errcode.Invalid, "the URL of the broker is not valid")
	}
	return open(ctx, u, false)
}

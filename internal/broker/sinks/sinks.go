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
	Setting string   // as settings.CheckSink accepts it
	Source  string   // CloudEvents source
	Secrets []string // webhook secrets; see broker.Webhook
	Log     *slog.Logger
	Clock   clock.Clock
	Memory  broker.Broker // broker for the setting "memory"

	// Encode is Webhook.Encode.
	Encode func(e *outbox.Event) (body []byte, contentType string, err error)
}

// MemoryTopic is the topic on Options.Memory.
const MemoryTopic = "events"

func nothing() error { return nil }

// Brokers opens the message brokers that a program links, by the scheme of their URLs, e.g. "nats". A nil map supports
// no brokers, only files, the log, webhooks and Options.Memory.
type Brokers map[string]func(ctx context.Context, u *url.URL, once bool) (Broker, error)

// Broker is an open broker that can look for topics without creating them. If Brokers is called with once, it fails
// if no server is reachable; otherwise it connects in the background.
type Broker interface {
	broker.Broker
	Exists(ctx context.Context, topic, subscription string) (bool, error)
}

// Open opens a sink. The caller closes it, even after an error.
func (b Brokers) Open(ctx context.Context, o Options) (sink outbox.Sink, end func() error, err error) {
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
		return &broker.Webhook{URL: o.Setting, Secrets: o.Secrets, Source: o.Source, Clock: o.Clock, Encode: o.Encode}, nothing, nil
	}
	opened, names, err := b.Broker(ctx, o.Setting)
	if err != nil {
		return nil, nothing, err
	}
	return &broker.Sink{Broker: opened, Topic: names[0], Source: o.Source}, opened.Close, nil
}

// Broker opens a URL's broker, and returns the names in its path: a topic, and for receivers a subscription.
func (b Brokers) Broker(ctx context.Context, setting string) (opened broker.Broker, names []string, err error) {
	u, err := url.Parse(setting)
	if err != nil {
		return nil, nil, errcode.New(errcode.Invalid, "the URL of the broker is not valid")
	}
	return b.open(ctx, u, false)
}

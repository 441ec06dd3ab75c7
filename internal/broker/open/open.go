// Package open opens the sink of an outbox that a setting selects.
package open

import (
	"context"
	"errors"
	"log/slog"
	"strings"

	"holdfast/internal/broker"
	"holdfast/internal/clock"
	"holdfast/internal/outbox"
)

// Options are what a sink may need.
type Options struct {
	Setting string // as settings.CheckSink accepts it
	Source  string // of the events, a URI reference
	Secret  string // signs the requests of a webhook; "": no signature
	Log     *slog.Logger
	Clock   clock.Clock
	Memory  *broker.Memory // of the process
}

// Sink opens a sink. The caller closes it, also after an error.
func Sink(ctx context.Context, o Options) (sink outbox.Sink, end func() error, err error) {
	nothing := func() error { return nil }
	if path, ok := strings.CutPrefix(o.Setting, "file:"); ok {
		lines, err := outbox.OpenLines(path)
		return lines, lines.Close, err
	}
	scheme, _, _ := strings.Cut(o.Setting, ":")
	switch scheme {
	case "memory":
		return &broker.Sink{Broker: o.Memory, Topic: Topic, Source: o.Source}, nothing, nil
	case "log":
		return outbox.Log{Logger: o.Log}, nothing, nil
	case "http", "https":
		return &broker.Webhook{URL: o.Setting, Secret: o.Secret, Source: o.Source, Clock: o.Clock}, nothing, nil
	}
	return nil, nothing, errors.New("no such sink")
}

// Topic is the topic of events in the broker of the process.
const Topic = "events"

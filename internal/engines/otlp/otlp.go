// Package otlp lets the server send traces to an OpenTelemetry collector.
package otlp

import (
	"context"
	"log/slog"

	"holdfast/internal/engines"
	"holdfast/internal/obs/tracing"
)

// Engine returns the collector.
func Engine() engines.Engine { return engines.Engine{StartTraces: start} }

// start returns nil without an endpoint. A nil *tracing.Traces in the interface would not be nil.
func start(ctx context.Context, endpoint, version string, log *slog.Logger) (engines.Traces, error) {
	traces, err := tracing.Start(ctx, endpoint, version, log)
	if traces == nil || err != nil {
		return nil, err
	}
	return traces, nil
}

// Package engines has the type of the external systems that a program may link: database servers, message brokers, cloud
// providers and a collector for traces. It imports no driver: each system is the value of a folder, and package all
// lists those of this release.
package engines

import (
	"context"
	"log/slog"
	"maps"
	"net/http"

	"holdfast/internal/broker/sinks"
	bucketsbackend "holdfast/internal/buckets/backend"
	"holdfast/internal/buckets/blobs"
	"holdfast/internal/db/engine"
	"holdfast/internal/errcode"
	extbackend "holdfast/internal/extstorage/backend"
	guestbackend "holdfast/internal/guest/backend"
	"holdfast/internal/replica/location"
	"holdfast/internal/syncstorage"
	"holdfast/internal/tokenserver"
)

// Engine is an external system: what services and the server can do with it. Most fields of an engine are zero. SQLite
// is not listed: it is built in, and each service names its own backend on it.
type Engine struct {
	// The backends of the services that support a database server.
	Sync       engine.Backend[syncstorage.Store]
	Accounts   engine.Backend[tokenserver.Store]
	Extensions engine.Backend[extbackend.Store]
	Buckets    engine.Backend[bucketsbackend.Store]
	Guest      engine.Backend[guestbackend.Store]

	// Clouds opens buckets with a replica or backups.
	Clouds location.Clouds
	// Nodes opens buckets with the bodies of objects.
	Nodes blobs.Clouds
	// Brokers opens message brokers, by the scheme of their URLs.
	Brokers sinks.Brokers
	// StartTraces is tracing.Start.
	StartTraces func(ctx context.Context, endpoint, version string, log *slog.Logger) (Traces, error)
}

// Traces sends a span for each request until Close.
type Traces interface {
	Trace(w http.ResponseWriter, r *http.Request, route string, next http.HandlerFunc)
	Close(ctx context.Context) error
}

// List is the external systems of a program.
type List []Engine

// Clouds returns nil if no engine opens buckets.
func (l List) Clouds() location.Clouds {
	for i := range l {
		if l[i].Clouds != nil {
			return l[i].Clouds
		}
	}
	return nil
}

// Nodes returns the zero value if no engine opens buckets.
func (l List) Nodes() blobs.Clouds {
	for i := range l {
		if l[i].Nodes.Open != nil {
			return l[i].Nodes
		}
	}
	return blobs.Clouds{}
}

// Brokers returns the brokers of all engines.
func (l List) Brokers() sinks.Brokers {
	all := sinks.Brokers{}
	for i := range l {
		maps.Copy(all, l[i].Brokers)
	}
	return all
}

// StartTraces starts traces to a collector, or to the one of OpenTelemetry's variables if endpoint is "". It returns nil
// if no collector is configured.
func (l List) StartTraces(ctx context.Context, endpoint, version string, log *slog.Logger) (Traces, error) {
	for i := range l {
		if l[i].StartTraces != nil {
			return l[i].StartTraces(ctx, endpoint, version, log)
		}
	}
	if endpoint != "" {
		return nil, errcode.New(errcode.Invalid, "log.otlp_endpoint is set, and this program sends no traces")
	}
	return nil, nil //nolint:nilnil // documented
}

// Sync returns the backends of sync storage, one for each engine; that of an engine without the service is zero.
func (l List) Sync() []engine.Backend[syncstorage.Store] {
	return each(l, func(e *Engine) engine.Backend[syncstorage.Store] { return e.Sync })
}

// Accounts returns the backends of the tokenserver, as Sync does.
func (l List) Accounts() []engine.Backend[tokenserver.Store] {
	return each(l, func(e *Engine) engine.Backend[tokenserver.Store] { return e.Accounts })
}

// Extensions returns the backends of extension storage, as Sync does.
func (l List) Extensions() []engine.Backend[extbackend.Store] {
	return each(l, func(e *Engine) engine.Backend[extbackend.Store] { return e.Extensions })
}

// Buckets returns the backends of buckets, as Sync does.
func (l List) Buckets() []engine.Backend[bucketsbackend.Store] {
	return each(l, func(e *Engine) engine.Backend[bucketsbackend.Store] { return e.Buckets })
}

// Guest returns the backends of guests, as Sync does.
func (l List) Guest() []engine.Backend[guestbackend.Store] {
	return each(l, func(e *Engine) engine.Backend[guestbackend.Store] { return e.Guest })
}

// each returns one service's backends: a field of every engine.
func each[S any](l List, field func(e *Engine) engine.Backend[S]) []engine.Backend[S] {
	backends := make([]engine.Backend[S], len(l))
	for i := range l {
		backends[i] = field(&l[i])
	}
	return backends
}

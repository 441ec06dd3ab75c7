// Package engines has the type of a database engine that a program may link. It imports no driver: each engine is the
// value of a folder, and package all lists the engines of this release.
package engines

import (
	bucketsbackend "holdfast/internal/buckets/backend"
	"holdfast/internal/db/engine"
	extbackend "holdfast/internal/extstorage/backend"
	guestbackend "holdfast/internal/guest/backend"
	"holdfast/internal/syncstorage"
	"holdfast/internal/tokenserver"
)

// Engine is a database server with the backends of the services that support it; the others have the zero value. SQLite
// is not listed: it is built in, and each service names its own backend on it.
type Engine struct {
	Sync       engine.Backend[syncstorage.Store]
	Accounts   engine.Backend[tokenserver.Store]
	Extensions engine.Backend[extbackend.Store]
	Buckets    engine.Backend[bucketsbackend.Store]
	Guest      engine.Backend[guestbackend.Store]
}

// List is the engines of a program.
type List []Engine

// Sync returns the backends of sync storage. The methods below return those of the other services.
func (l List) Sync() []engine.Backend[syncstorage.Store] {
	return each(l, func(e *Engine) engine.Backend[syncstorage.Store] { return e.Sync })
}

func (l List) Accounts() []engine.Backend[tokenserver.Store] {
	return each(l, func(e *Engine) engine.Backend[tokenserver.Store] { return e.Accounts })
}

func (l List) Extensions() []engine.Backend[extbackend.Store] {
	return each(l, func(e *Engine) engine.Backend[extbackend.Store] { return e.Extensions })
}

func (l List) Buckets() []engine.Backend[bucketsbackend.Store] {
	return each(l, func(e *Engine) engine.Backend[bucketsbackend.Store] { return e.Buckets })
}

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

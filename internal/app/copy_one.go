package app

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"holdfast/internal/app/service"
	"holdfast/internal/db/engine"
)

// One is one open service with its only database.
type One struct {
	Service  service.Service
	Database *engine.Database
	app      *App
}

// Close closes the service.
func (o *One) Close() error { return o.app.Close() }

// OpenOne opens one service of a configuration, without the others.
func OpenOne(ctx context.Context, name string, o Options) (*One, error) {
	cfg := *o.Config
	cfg.Services = slices.DeleteFunc(slices.Clone(cfg.Services), func(s service.Service) bool { return s.Name != name })
	o.Config = &cfg
	o.Leave = !o.Create
	a, err := Open(ctx, o)
	if err != nil {
		return nil, err
	}
	if len(a.opened) != 1 || len(a.databases()) != 1 {
		return nil, errors.Join(fmt.Errorf("%s is disabled", name), a.Close())
	}
	one := &One{Service: cfg.Services[0], Database: a.databases()[0], app: a}
	if o.Leave {
		pending, err := one.Database.Pending(ctx)
		if err == nil && len(pending) > 0 {
			err = fmt.Errorf("%s: the tables of %s are not up to date: run holdfast migrate", name, one.Database.Where)
		}
		if err != nil {
			return nil, errors.Join(err, a.Close())
		}
	}
	return one, nil
}

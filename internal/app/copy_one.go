package app

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"holdfast/internal/app/service"
	"holdfast/internal/db/engine"
	"holdfast/internal/db/rows"
)

// One is one open service with its only database.
type One struct {
	Service  service.Service
	Database *engine.Database
	Owners   rows.Owners // see OpenOwners
	app      *App
}

// Close closes the service.
func (o *One) Close() error { return o.app.Close() }

// OnSpanner reports whether the database is Spanner.
func (o *One) OnSpanner() bool { return o.Database.Target.Kind == engine.Spanner }

// OpenOwners opens the accounts of a configuration, and sets them as the owners of a service.
func (o *One) OpenOwners(ctx context.Context, options Options) (closeIt func() error, err error) {
	accounts, err := OpenOne(ctx, accountsName, options)
	if err != nil {
		return nil, err
	}
	o.Owners = ownersIn(accounts.Database.Rows(nil))
	return accounts.Close, nil
}

// OpenOne opens one service of a configuration, without the others.
func OpenOne(ctx context.Context, name string, o Options) (*One, error) {
	cfg := *o.Config
	cfg.Services = slices.DeleteFunc(slices.Clone(cfg.Services), func(s service.Service) bool { return s.Name != name })
	o.Config = &cfg
	o.Leave, o.Copies = !o.Create, true
	a, err := Open(ctx, o)
	if err != nil {
		return nil, err
	}
	if len(a.opened) != 1 || len(a.databases()) != 1 {
		return nil, errors.Join(fmt.Errorf("%s is disabled: set %s.enabled", name, name), a.Close())
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

package app

import (
	"context"
	"errors"
	"fmt"

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

// outdatedError means that a database lacks migrations.
type outdatedError struct{ service, where string }

func (e *outdatedError) Error() string {
	return fmt.Sprintf("%s: the tables of %s are not up to date: run holdfast migrate", e.service, e.where)
}

// OpenTarget is OpenOne for the target of a copy, which only a copy creates.
func OpenTarget(ctx context.Context, name string, o Options) (*One, error) {
	one, err := OpenOne(ctx, name, o)
	if missing, ok := errors.AsType[*engine.MissingError](err); ok {
		return nil, fmt.Errorf("--to: %s does not exist: run the command without --verify first", missing.Path)
	}
	if outdated, ok := errors.AsType[*outdatedError](err); ok {
		return nil, fmt.Errorf("--to: the tables of %s are missing or not up to date: run the command without --verify first", outdated.where)
	}
	return one, err
}

// OpenOne opens one service of a configuration, without the others.
func OpenOne(ctx context.Context, name string, o Options) (*One, error) {
	o.Config = o.Config.Only(name)
	o.Leave, o.Copies = !o.Create, true
	a, err := Open(ctx, o)
	if err != nil {
		return nil, err
	}
	if len(a.opened) != 1 || len(a.databases()) != 1 {
		return nil, errors.Join(fmt.Errorf("%s is disabled: set %s.enabled", name, name), a.Close())
	}
	one := &One{Service: o.Config.Services[0], Database: a.databases()[0], app: a}
	if o.Leave && !o.DryRun {
		pending, err := one.Database.Pending(ctx)
		if err == nil && len(pending) > 0 {
			err = &outdatedError{name, one.Database.Where}
		}
		if err != nil {
			return nil, errors.Join(err, a.Close())
		}
	}
	return one, nil
}

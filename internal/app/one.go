package app

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"holdfast/internal/app/service"
	"holdfast/internal/copying"
	"holdfast/internal/db/engine"
	"holdfast/internal/db/rows"
	"holdfast/internal/importing"
)

// One is a single open service with its only database.
type One struct {
	Service  service.Service
	Database *engine.Database
	app      *App
}

// Close closes the service and its database.
func (o *One) Close() error { return o.app.Close() }

// NewCopy returns a copy from this database to target, with the default limits.
func (o *One) NewCopy(target *engine.Database) *copying.Copy {
	return &copying.Copy{Service: o.Service.Name, Groups: o.Service.Tables, Source: o.Database, Target: target}
}

// OpenOwners opens the database with a copy's owners, which belongs to another configured service. The mode is
// ModeCopyRead.
func (o *One) OpenOwners(ctx context.Context, c *copying.Copy, options Options) (closeIt func() error, err error) {
	in, owners := ownersOf(o.Service.Name)
	if owners == nil {
		return nil, fmt.Errorf("%s has no owners with names", o.Service.Name)
	}
	options.Mode = ModeCopyRead
	opened, err := OpenOne(ctx, in, options)
	if err != nil {
		return nil, err
	}
	c.Owners, c.OwnersIn = owners(opened.Database.Rows(nil)), in
	return opened.Close, nil
}

// outdatedError means that a command needs a migration first.
type outdatedError struct{ service, where string }

func (e *outdatedError) Error() string {
	return fmt.Sprintf("%s: the tables in %s are not up to date: run holdfast migrate", e.service, e.where)
}

// OpenTarget is OpenOne for the target of a copy. Only copies create it.
func OpenTarget(ctx context.Context, name string, o Options) (*One, error) {
	opened, err := OpenOne(ctx, name, o)
	if missing, ok := errors.AsType[*engine.MissingError](err); ok {
		return nil, fmt.Errorf("--to: %s does not exist: run the command without --verify first", missing.Path)
	}
	if outdated, ok := errors.AsType[*outdatedError](err); ok {
		return nil, fmt.Errorf("--to: the tables in %s are missing or not up to date: run the command without --verify first", outdated.where)
	}
	return opened, err
}

// OpenOne opens the service name in one of the modes for copies. To read, it returns an error if a migration is pending.
func OpenOne(ctx context.Context, name string, o Options) (*One, error) {
	o.Config = o.Config.Only(name)
	a, err := Open(ctx, o)
	if err != nil {
		return nil, err
	}
	if len(a.opened) != 1 || len(a.databases()) != 1 {
		return nil, errors.Join(fmt.Errorf("%s is disabled: set %s.enabled", name, name), a.Close())
	}
	opened := &One{Service: o.Config.Services[0], Database: a.databases()[0], app: a}
	if o.Mode == ModeCopyRead {
		pending, err := opened.Database.Pending(ctx)
		if err == nil && len(pending) > 0 {
			err = &outdatedError{name, opened.Database.Where}
		}
		if err != nil {
			return nil, errors.Join(err, a.Close())
		}
	}
	return opened, nil
}

// OpenServices opens the services that are enabled, e.g. after a restore.
func OpenServices(ctx context.Context, names []string, o Options) (*App, error) {
	o.Config = o.Config.with(func(s *service.Service) bool { return slices.Contains(names, s.Name) })
	return Open(ctx, o)
}

// Services returns the opened services.
func (a *App) Services() []*service.Running { return a.running() }

// AfterRestore runs the restored services' steps for clients that know more than the restored data. It reports each
// step to progress.
func AfterRestore(ctx context.Context, restored []*service.Running, r service.Restored, progress func(step string)) error {
	for _, s := range restored {
		for _, step := range s.AfterRestore {
			progress(s.Name + ": " + step.Doc)
			if err := step.Run(ctx, r); err != nil {
				return fmt.Errorf("%s: %s: %w", s.Name, step.Doc, err)
			}
		}
	}
	return nil
}

// MigrateRestored updates the tables of restored services, which may be from an older release. The steps and reports of
// a restore expect the newest tables.
func MigrateRestored(ctx context.Context, restored []*service.Running, progress func(step string)) error {
	for _, s := range restored {
		lines, failed := migrateAll(ctx, s.Databases)
		for _, line := range lines {
			progress(line)
		}
		if err := failed[s.Name]; err != nil {
			return fmt.Errorf("%s: %w", s.Name, err)
		}
	}
	return nil
}

// Credentials describes the restored services' credentials, a line for each kind, with the commands that revoke or limit
// them. Kinds of which the data contains none are left out. Kinds that cannot be counted are listed, too, and unknown
// has the reasons.
func Credentials(ctx context.Context, restored []*service.Running) (lines, unknown []string) {
	for _, s := range restored {
		for _, c := range s.Credentials {
			what := c.Of
			if c.Table != "" {
				switch n, err := total(ctx, s, c.Counted); {
				case err != nil:
					what = "each " + c.Of
					unknown = append(unknown, fmt.Sprintf("%s: %s: the number in the restored data is unknown: %v", s.Name, c.Of, err))
				case n == 0:
					continue
				default:
					what = service.Count(n, c.Of)
				}
			}
			var commands []string
			for _, path := range c.Again {
				commands = append(commands, strings.ReplaceAll(path, "/", " "))
			}
			lines = append(lines, fmt.Sprintf("%s: %s: holdfast %s %s", s.Name, what, s.Command, strings.Join(commands, ", ")))
		}
	}
	return lines, unknown
}

// total counts or sums as a Console.Counts entry does.
func total(ctx context.Context, s *service.Running, c service.Counted) (n int64, err error) {
	db, t := s.Rows(), s.Table(c.Table)
	if db == nil || t == nil {
		return 0, fmt.Errorf("no table %s", c.Table)
	}
	err = db.View(ctx, func(v rows.View) error {
		n, err = v.Total(rows.Total{Table: t, Sum: c.Sum, Where: c.Where})
		return err
	})
	return n, err
}

// OpenParts opens the services that an import fills, with new databases, and their sources. urls are the
// Service.Import flags. The mode is one of those for copies.
func OpenParts(ctx context.Context, of string, urls map[string]string, o Options) (parts []*importing.Part, closing func() error, err error) {
	o.Config = o.Config.with(func(s *service.Service) bool { return s.Import != nil && s.Import.Of == of })
	a, err := Open(ctx, o)
	if err != nil {
		return nil, nil, err
	}
	fail := func(err error) ([]*importing.Part, func() error, error) { return nil, nil, errors.Join(err, a.Close()) }
	for _, s := range o.Config.Services {
		url, enabled := urls[s.Import.Flag], s.Config.IsEnabled()
		switch {
		case enabled && url == "":
			return fail(service.Usagef("--%s is required, because %s is enabled", s.Import.Flag, s.Name))
		case !enabled && url != "":
			return fail(service.Usagef("--%s: %s is disabled", s.Import.Flag, s.Name))
		case !enabled:
			continue
		}
		source, err := s.Import.Open(url, a.server())
		if err != nil {
			return fail(service.Usagef("--%s: %v", s.Import.Flag, err))
		}
		parts = append(parts, &importing.Part{Service: s, Database: a.databases()[len(parts)], Source: source})
	}
	if len(parts) == 0 {
		return fail(fmt.Errorf("%s is disabled", of))
	}
	return parts, a.Close, nil
}

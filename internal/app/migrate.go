package app

import (
	"context"
	"errors"
	"fmt"

	"holdfast/internal/db/engine"
)

// Migrate applies what the databases still need and says what it did, a line
// for each change. It goes on to the next service when one fails.
func (a *App) Migrate(ctx context.Context) ([]string, error) {
	lines, err := migrateAll(ctx, a.databases())
	if err == nil {
		err = a.settleServices(ctx)
	}
	if err == nil {
		err = a.migrateSecrets(ctx)
	}
	return lines, err
}

func migrateAll(ctx context.Context, databases []*engine.Database) (lines []string, err error) {
	for _, d := range databases {
		applied, failed := d.Migrate(ctx)
		for _, m := range applied {
			lines = append(lines, fmt.Sprintf("%s: applied %04d_%s to %s", d.Service, m.Version, m.Name, d.Where))
		}
		if failed == nil && d.AfterMigrate != nil {
			var made string
			if made, failed = d.AfterMigrate(ctx); made != "" {
				lines = append(lines, fmt.Sprintf("%s: made %s in %s", d.Service, made, d.Where))
			}
		}
		if failed != nil {
			err = errors.Join(err, fmt.Errorf("%s: %s: %w", d.Service, d.Where, failed))
		}
	}
	return lines, err
}

// migrateEmbedded brings the SQLite files up to date.
func (a *App) migrateEmbedded(ctx context.Context) error {
	for _, d := range a.databases() {
		if !d.Embedded() {
			continue
		}
		if _, err := d.Migrate(ctx); err != nil {
			return fmt.Errorf("%s: %s: %w", d.Service, d.Where, err)
		}
	}
	return nil
}

// settle does what a start has to do as soon as the databases can be reached:
// the migrations that were asked for, and what the services need after them.
func (a *App) settle(ctx context.Context) error {
	var asked []*engine.Database
	for _, d := range a.databases() {
		if a.migrate || d.MigrateAtStart {
			asked = append(asked, d)
		}
	}
	lines, err := migrateAll(ctx, asked)
	for _, line := range lines {
		a.log.Info(line)
	}
	return errors.Join(err, a.settleServices(ctx))
}

func (a *App) settleServices(ctx context.Context) (err error) {
	for _, s := range a.opened {
		if s.Settle != nil {
			err = errors.Join(err, s.Settle(ctx))
		}
	}
	return err
}

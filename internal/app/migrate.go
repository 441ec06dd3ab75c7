package app

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strconv"

	"holdfast/internal/app/service"
	"holdfast/internal/conf"
	"holdfast/internal/db/engine"
	"holdfast/internal/fserror"
	"holdfast/internal/secrets"
)

// Migrate migrates all databases and returns a line per change. If a service fails, it continues with the next.
func (a *App) Migrate(ctx context.Context) ([]string, error) {
	lines, failed := migrateAll(ctx, a.databases())
	if len(failed) == 0 {
		failed = a.settleServices(ctx)
	}
	var err error
	for _, name := range slices.Sorted(maps.Keys(failed)) {
		err = errors.Join(err, fmt.Errorf("%s: %w", name, failed[name]))
	}
	if err == nil {
		err = a.guard.Record(ctx)
	}
	return lines, err
}

// unusedError means that a command found no data.
type unusedError struct{ data string }

func (e *unusedError) Error() string {
	return "there is nothing to migrate: no server has used the data folder " + service.Absolute(e.data) + ", and the configuration names no database server; " +
		engine.Elsewhere + ". A new server needs no migration: start it with holdfast serve"
}

// hasData reports whether a server has used the data folder or a configured SQLite file. It returns an *unusedError if
// there is no database server either.
func (a *App) hasData() (bool, error) {
	hasServer, files := false, []string{filepath.Join(a.data, secrets.File)}
	settings := conf.Plain(a.cfg.sections())
	for _, s := range a.cfg.enabled() {
		url, err := strconv.Unquote(settings[s.Name+".database_url"])
		if err != nil { // a service without a database
			continue
		}
		if file := engine.FileOf(url, filepath.Join(a.data, engine.FileName(s.Name))); file != "" {
			files = append(files, file)
		} else {
			hasServer = true
		}
	}
	for _, path := range files {
		if found, err := fserror.Exists(path); found || err != nil {
			return found, err
		}
	}
	if !hasServer {
		return false, &unusedError{a.data}
	}
	return false, nil
}

// migrateAll returns a line for each change, and the errors by service. It continues after an error.
func migrateAll(ctx context.Context, databases []*engine.Database) (lines []string, failed map[string]error) {
	failed = map[string]error{}
	for _, d := range databases {
		applied, err := d.Migrate(ctx)
		for _, m := range applied {
			lines = append(lines, fmt.Sprintf("%s: applied %04d_%s to %s", d.Service, m.Version, m.Name, d.Where))
		}
		if err == nil && d.AfterMigrate != nil {
			var made string
			if made, err = d.AfterMigrate(ctx); made != "" {
				lines = append(lines, fmt.Sprintf("%s: made %s in %s", d.Service, made, d.Where))
			}
		}
		if err != nil {
			failed[d.Service] = errors.Join(failed[d.Service], fmt.Errorf("%s: %w", d.Where, err))
		}
	}
	return lines, failed
}

// migrateEmbedded migrates the SQLite files, which no other server uses.
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

// settle prepares the databases while the server already listens: migrations (with --migrate), new databases,
// read-only mode. It returns the errors by service, and is retried until it returns no error.
func (a *App) settle(ctx context.Context) (failed map[string]error) {
	var asked []*engine.Database
	for _, d := range a.databases() {
		if a.may.migrateServers || d.MigrateAtStart {
			asked = append(asked, d)
		}
	}
	lines, failed := migrateAll(ctx, asked)
	for _, line := range lines {
		a.log.Info(line)
	}
	for _, more := range []map[string]error{a.settleServices(ctx), a.readOnly.Settle(ctx)} {
		for name, err := range more {
			failed[name] = errors.Join(failed[name], err)
		}
	}
	return failed
}

// settleServices calls each service's Settle; see service.Opened.
func (a *App) settleServices(ctx context.Context) (failed map[string]error) {
	failed = map[string]error{}
	for _, s := range a.opened {
		if s.Settle == nil {
			continue
		}
		if err := s.Settle(ctx); err != nil {
			failed[s.Name] = err
		}
	}
	return failed
}

package backup

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"holdfast/internal/app/service"
	"holdfast/internal/clock"
	"holdfast/internal/db/engine"
	"holdfast/internal/durable"
	"holdfast/internal/replica"
	"holdfast/internal/replica/location"
	"holdfast/internal/secrets"
)

// Server makes backups from open services, and knows the data folder's records about them.
type Server struct {
	Services []*service.Running // open, with their databases
	Clouds   location.Clouds    // for a repository in a bucket
	Data     string             // data folder
	// Known are the files that this release may have written to a repository, also for services that are off now.
	Known replica.Names
	Log   *slog.Logger
	Clock clock.Clock
}

// NamesOf returns the files that repositories of these services may contain. Pass all services of the release: an older
// restore point may contain the database of a service that is off now.
func NamesOf(services []service.Service) replica.Names {
	known := replica.Names{Also: []string{secrets.File}}
	for _, s := range services {
		known.Databases = append(known.Databases, engine.FileName(s.Name))
	}
	return known
}

// Options say how Make copies.
type Options struct {
	WithoutFiles bool // copy only databases and secrets

	// Progress, if set, receives the number of service files copied.
	Progress func(done, total int64)
}

// IncompleteError means that a backup was made without files that could not be read.
type IncompleteError struct{ Lost int64 }

func (e *IncompleteError) Error() string {
	return fmt.Sprintf("the backup was made without %s that could not be read: see the lines above", service.Count(e.Lost, "file"))
}

// partialName is in the name of a folder whose backup is not complete.
const partialName = ".partial-"

// IsPartial reports whether a folder is an interrupted backup.
func IsPartial(dir string) bool {
	return strings.Contains(filepath.Base(service.Absolute(dir)), partialName)
}

// Make copies a server's data to a new folder, named DIR.partial-… until everything is durable, and returns the
// file names. It removes a failed backup, except after an *IncompleteError.
func (b *Server) Make(ctx context.Context, dir string, o Options) (files []string, err error) {
	dir = filepath.Clean(dir)
	if _, err := os.Lstat(dir); err == nil {
		return nil, fmt.Errorf("%s already exists: name a folder that does not", dir)
	}
	if err := location.Outside(dir, b.Data); err != nil {
		return nil, err
	}
	ctx, release, err := b.hold(ctx, o)
	if err != nil {
		return nil, fmt.Errorf("backup failed, nothing was kept: %w", err)
	}
	defer release() // runs after a failed folder is removed, so that the database can write again on a full disk
	partial, err := os.MkdirTemp(filepath.Dir(dir), filepath.Base(dir)+partialName+"*")
	if err != nil {
		return nil, fmt.Errorf("cannot create a folder in %s: %s: choose a folder that exists and that this user may write to", filepath.Dir(dir), service.Reason(err))
	}
	var lost int64
	defer func() {
		switch {
		case err == nil && lost > 0:
			err = &IncompleteError{lost}
		case err != nil:
			files, err = nil, errors.Join(fmt.Errorf("backup failed, nothing was kept: %w", err), os.RemoveAll(partial))
		}
	}()
	names, err := b.copyTo(ctx, partial)
	if err != nil {
		return nil, err
	}
	folders, lost, err := b.copyFiles(ctx, partial, o)
	if err != nil {
		return nil, err
	}
	names = append(names, folders...)
	if err := publish(partial, dir); err != nil {
		return nil, err
	}
	for _, name := range names {
		files = append(files, filepath.Join(dir, name))
	}
	if err := b.Record(dir, lost, names); err != nil {
		b.Log.Warn("could not record the backup for the console", "error", err)
	}
	return files, nil
}

// hold makes services keep the files that their databases refer to.
func (b *Server) hold(ctx context.Context, o Options) (held context.Context, release func(), err error) {
	var releases []func()
	release = func() {
		for _, release := range slices.Backward(releases) {
			release()
		}
	}
	for _, s := range b.Services {
		if s.Files == nil || o.WithoutFiles {
			continue
		}
		holding, end, err := s.Files.Hold(ctx)
		if err != nil {
			release()
			return nil, nil, fmt.Errorf("%s: %w", s.Name, err)
		}
		ctx, releases = holding, append(releases, end) //nolint:fatcontext // it ends when the hold of any service ends
	}
	return ctx, release, nil
}

// copyFiles copies the services' files, or without them logs the omissions. lost counts files that could not be read.
func (b *Server) copyFiles(ctx context.Context, dir string, o Options) (names []string, lost int64, err error) {
	progress := o.Progress
	if progress == nil {
		progress = func(int64, int64) {}
	}
	for _, s := range b.Services {
		if s.Files == nil {
			continue
		}
		var copied service.Copied
		if o.WithoutFiles {
			copied.Missing, err = s.Files.Omitted(ctx)
		} else {
			copied, err = s.Files.Copy(ctx, dir, progress)
		}
		if err != nil {
			return nil, 0, fmt.Errorf("%s: %w", s.Name, cmp.Or(context.Cause(ctx), err))
		}
		for _, what := range copied.Missing {
			b.Log.Warn("not in the backup", "service", s.Name, "what", what)
		}
		for _, what := range copied.Lost {
			b.Log.Error("could not be read", "service", s.Name, "what", what)
		}
		names, lost = append(names, copied.Names...), lost+int64(len(copied.Lost))
	}
	return names, lost, nil
}

// copyTo copies the SQLite databases and the secrets file.
func (b *Server) copyTo(ctx context.Context, dir string) (names []string, err error) {
	for _, d := range b.databases() {
		if !d.Embedded() {
			b.Log.Warn("database not copied, use its server's tools", "service", d.Service, "database", d.Where)
			continue
		}
		name := engine.FileName(d.Service)
		if err := d.Backup(ctx, filepath.Join(dir, name)); err != nil {
			return nil, fmt.Errorf("%s: %w", d.Service, err)
		}
		names = append(names, name)
	}
	text, err := os.ReadFile(filepath.Join(b.Data, secrets.File))
	if errors.Is(err, fs.ErrNotExist) {
		return names, nil
	}
	if err != nil {
		return nil, err
	}
	return append(names, secrets.File), durable.Create(filepath.Join(dir, secrets.File), durable.Bytes(text))
}

// publish gives a complete backup its name.
func publish(partial, dir string) error {
	if err := durable.SyncFolder(partial); err != nil {
		return err
	}
	return durable.Rename(partial, dir)
}

// Files returns the files of a backup with all databases of the server, also those on database servers.
func (b *Server) Files() (files []string) {
	for _, d := range b.databases() {
		files = append(files, engine.FileName(d.Service))
	}
	return files
}

// has returns the files that a backup at a URL contains, if it is made now.
func (b *Server) has() (files []string) {
	for _, d := range b.databases() {
		if d.Embedded() {
			files = append(files, engine.FileName(d.Service))
		}
	}
	if exists(filepath.Join(b.Data, secrets.File)) {
		files = append(files, secrets.File)
	}
	return files
}

// databases returns the databases of all services.
func (b *Server) databases() (all []*engine.Database) {
	for _, s := range b.Services {
		all = append(all, s.Databases...)
	}
	return all
}

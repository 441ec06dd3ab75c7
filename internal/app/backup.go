package app

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// Backup copies the SQLite databases and the secrets file to a new folder and returns
// the files. The folder is named DIR.partial-… until everything is on the disk, so a
// folder named DIR is complete. If the backup fails, the folder is removed.
func (a *App) Backup(ctx context.Context, dir string) (files []string, err error) {
	dir = filepath.Clean(dir)
	if _, err := os.Lstat(dir); err == nil {
		return nil, fmt.Errorf("%s already exists: name a folder that does not", dir)
	}
	partial, err := os.MkdirTemp(filepath.Dir(dir), filepath.Base(dir)+".partial-*")
	if err != nil {
		return nil, fmt.Errorf("cannot create a folder in %s: %w: choose a folder that exists and that this user may write to", filepath.Dir(dir), fileError(err))
	}
	defer func() {
		if err != nil {
			files, err = nil, errors.Join(fmt.Errorf("backup failed, nothing was kept: %w", err), os.RemoveAll(partial))
		}
	}()
	names, err := a.copyTo(ctx, partial)
	if err != nil {
		return nil, err
	}
	if err := errors.Join(syncDir(partial), os.Rename(partial, dir), syncDir(filepath.Dir(dir))); err != nil {
		return nil, err
	}
	for _, name := range names {
		files = append(files, filepath.Join(dir, name))
	}
	return files, nil
}

// copyTo copies the files of a backup in the order of the services and returns their
// names.
func (a *App) copyTo(ctx context.Context, dir string) (names []string, err error) {
	for _, d := range a.databases() {
		if !d.Embedded() {
			a.log.Warn("database not copied, use the tools of its server", "service", d.Service, "database", d.Where)
			continue
		}
		name := d.Service + ".db"
		if err := d.Backup(ctx, filepath.Join(dir, name)); err != nil {
			return nil, fmt.Errorf("%s: %w", d.Service, err)
		}
		names = append(names, name)
	}
	text, err := os.ReadFile(filepath.Join(a.data, SecretsFile))
	if errors.Is(err, fs.ErrNotExist) {
		return names, nil
	}
	if err != nil {
		return nil, err
	}
	return append(names, SecretsFile), writeFile(filepath.Join(dir, SecretsFile), text)
}

func writeFile(path string, text []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	return errors.Join(err, f.Sync(), f.Close())
}

// syncDir makes the directory entries of a folder durable.
func syncDir(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

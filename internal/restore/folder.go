package restore

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"holdfast/internal/app/service"
	"holdfast/internal/backup"
	"holdfast/internal/db/engine"
	"holdfast/internal/db/sqlitedb"
	"holdfast/internal/durable"
	"holdfast/internal/errcode"
	"holdfast/internal/fserror"
	"holdfast/internal/replica"
	"holdfast/internal/secrets"
)

// folder is a backup folder, which somebody else may have written: only regular files below it are read.
type folder struct {
	path   string
	opened *durable.Folder // set by plan
}

// openFolder opens nothing yet: plan chooses the folder.
func openFolder(path string) (*folder, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		return nil, fmt.Errorf("%s is not a folder: expected a backup folder, or a URL, e.g. s3://bucket?prefix=holdfast/", path)
	}
	return &folder{path: path}, nil
}

func (s *folder) close() error {
	if s.opened == nil {
		return nil
	}
	return s.opened.Close()
}

// backupFolder is a folder that contains databases or secrets.
type backupFolder struct {
	path     string
	at       time.Time // the oldest database's modification time: later writes may be missing
	services []string
	secrets  bool // it has the secrets file
}

// read returns nil if the folder contains no backup.
func (s *folder) read(path string) (*backupFolder, error) {
	entries, err := os.ReadDir(path)
	if err != nil {
		return nil, err
	}
	b := &backupFolder{path: path}
	for _, e := range entries {
		service, isDatabase := engine.ServiceOf(e.Name())
		info, err := e.Info()
		if err != nil {
			return nil, err
		}
		switch {
		case e.IsDir():
			continue
		case isDatabase:
			b.services = append(b.services, service)
		case e.Name() == secrets.File:
			b.secrets = true
		default:
			continue
		}
		if !e.Type().IsRegular() {
			return nil, fmt.Errorf("%s is a link or a device: expected a file, as backup writes it", filepath.Join(path, e.Name()))
		}
		if b.at.IsZero() || isDatabase && info.ModTime().Before(b.at) {
			b.at = info.ModTime()
		}
	}
	if len(b.services) == 0 && !b.secrets {
		return nil, nil //nolint:nilnil // documented
	}
	return b, nil
}

// choose returns the backup in the folder itself, or else the newest one in a folder below it; at limits the time
// unless it is zero.
func (s *folder) choose(at time.Time) (*backupFolder, error) {
	marked, err := fserror.Exists(filepath.Join(s.path, replica.MarkerName))
	if err != nil {
		return nil, err
	}
	if marked {
		return nil, fmt.Errorf("%s contains a replica or backups: write file://%s", s.path, filepath.ToSlash(service.Absolute(s.path)))
	}
	b, err := s.read(s.path)
	switch {
	case err != nil:
		return nil, err
	case b != nil && backup.IsPartial(s.path):
		return nil, fmt.Errorf("%s is not complete: its backup was interrupted; restore another backup", s.path)
	case b != nil && !at.IsZero() && b.at.After(at):
		return nil, errcode.Newf(errcode.NotFound, "the backup %s is from %s, after that time", s.path, service.FormatMoment(b.at))
	case b != nil:
		return b, nil
	}
	entries, err := os.ReadDir(s.path)
	if err != nil {
		return nil, err
	}
	var newest *backupFolder
	for _, e := range entries {
		if !e.IsDir() || backup.IsPartial(e.Name()) {
			continue
		}
		folder, err := s.read(filepath.Join(s.path, e.Name()))
		if err != nil {
			return nil, err
		}
		if folder != nil && (at.IsZero() || !folder.at.After(at)) && (newest == nil || folder.at.After(newest.at)) {
			newest = folder
		}
	}
	if newest == nil {
		text := s.path + " contains no backup"
		if !at.IsZero() {
			text += " of " + service.FormatMoment(at) + " or before"
		}
		return nil, errcode.New(errcode.NotFound, text)
	}
	return newest, nil
}

// plan chooses the backup and opens its folder, so that changing a link later has no effect.
func (s *folder) plan(_ context.Context, r *Request) (*Plan, error) {
	b, err := s.choose(r.At)
	if err != nil {
		return nil, err
	}
	if s.opened, err = durable.OpenFolder(b.path); err != nil {
		return nil, err
	}
	p := &Plan{From: b.path, At: b.at, Until: b.at, Secrets: b.secrets}
	for _, service := range b.services {
		if r.wants(service) {
			p.Services = append(p.Services, service)
		}
	}
	return p, nil
}

// restore copies the plan's databases, verifies each, and copies the secrets file.
func (s *folder) restore(ctx context.Context, r *Request, p *Plan, into *durable.Folder) error {
	for _, service := range p.Services {
		name := engine.FileName(service)
		r.stepf("restoring %s", name)
		if err := s.copyFile(ctx, name, into); err != nil {
			return err
		}
		copied, err := into.FileName(name)
		if err != nil {
			return err
		}
		problems, err := sqlitedb.VerifyFile(ctx, copied)
		if err != nil {
			return err
		}
		if len(problems) > 0 {
			return fmt.Errorf("%s is damaged: %s", filepath.Join(s.opened.Path(), name), problems[0])
		}
	}
	if !p.Secrets {
		return nil
	}
	return s.copyFile(ctx, secrets.File, into)
}

// copyFile copies a file until ctx ends.
func (s *folder) copyFile(ctx context.Context, name string, into *durable.Folder) error {
	file, err := s.opened.Open(name)
	if err != nil {
		return err
	}
	return errors.Join(into.Create(name, func(w io.Writer) error {
		_, err := io.Copy(w, replica.NewReader(ctx, file))
		return err
	}), file.Close())
}

// open finds a service's file under its name or in a node's folder.
func (s *folder) open(_ context.Context, service, name string, _ int64) (io.ReadCloser, error) {
	folders := []string{service}
	nodes := service + ".nodes"
	if sub, err := s.opened.OpenFolder(nodes); err == nil {
		entries, err := sub.Entries()
		if err := errors.Join(err, sub.Close()); err != nil {
			return nil, err
		}
		for _, e := range entries {
			if !e.IsDir() {
				continue
			}
			folders = append(folders, filepath.Join(nodes, e.Name()))
		}
	} else if !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	for _, folder := range folders {
		file, err := s.opened.Open(filepath.Join(folder, filepath.FromSlash(name)))
		if err == nil {
			return file, nil
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
	}
	return nil, errcode.Newf(errcode.NotFound, "the backup contains no file %s for %s", name, service)
}

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
	"holdfast/internal/replica"
	"holdfast/internal/secrets"
)

type folder struct{ path string }

func openFolder(path string) (*folder, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		return nil, fmt.Errorf("%s is not a folder: expected a backup folder, or a URL, e.g. s3://bucket?prefix=holdfast/", path)
	}
	return &folder{path}, nil
}

func (*folder) close() error { return nil }

type backupFolder struct {
	path     string
	at       time.Time
	services []string
	secrets  bool
}

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
		if b.at.IsZero() || isDatabase && info.ModTime().Before(b.at) {
			b.at = info.ModTime()
		}
	}
	if len(b.services) == 0 && !b.secrets {
		return nil, nil //nolint:nilnil // documented
	}
	return b, nil
}

func (s *folder) choose(at time.Time) (*backupFolder, error) {
	if exists(filepath.Join(s.path, replica.MarkerName)) {
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
		one, err := s.read(filepath.Join(s.path, e.Name()))
		if err != nil {
			return nil, err
		}
		if one != nil && (at.IsZero() || !one.at.After(at)) && (newest == nil || one.at.After(newest.at)) {
			newest = one
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

func (s *folder) plan(_ context.Context, r *Request) (*Plan, error) {
	b, err := s.choose(r.At)
	if err != nil {
		return nil, err
	}
	s.path = b.path
	p := &Plan{From: b.path, At: b.at, Until: b.at, Secrets: b.secrets}
	for _, service := range b.services {
		if r.wants(service) {
			p.Services = append(p.Services, service)
		}
	}
	return p, nil
}

func (s *folder) restore(ctx context.Context, r *Request, p *Plan, into string) error {
	for _, service := range p.Services {
		name := engine.FileName(service)
		r.stepf("restoring %s", name)
		copied := filepath.Join(into, name)
		if err := copyFile(ctx, filepath.Join(s.path, name), copied); err != nil {
			return err
		}
		problems, err := sqlitedb.VerifyFile(ctx, copied)
		if err != nil {
			return err
		}
		if len(problems) > 0 {
			return fmt.Errorf("%s is damaged: %s", filepath.Join(s.path, name), problems[0])
		}
	}
	if !p.Secrets {
		return nil
	}
	return copyFile(ctx, filepath.Join(s.path, secrets.File), filepath.Join(into, secrets.File))
}

func copyFile(ctx context.Context, from, to string) error {
	file, err := os.Open(from)
	if err != nil {
		return err
	}
	return errors.Join(durable.Create(to, func(w io.Writer) error {
		_, err := io.Copy(w, replica.NewReader(ctx, file))
		return err
	}), file.Close())
}

// open finds a service's file under its name or in a node's folder.
func (s *folder) open(_ context.Context, service, name string) (io.ReadCloser, error) {
	nodes, err := filepath.Glob(filepath.Join(s.path, service+".nodes", "*"))
	if err != nil {
		return nil, err
	}
	for _, dir := range append([]string{filepath.Join(s.path, service)}, nodes...) {
		file, err := os.OpenInRoot(dir, filepath.FromSlash(name))
		if err == nil {
			return file, nil
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
	}
	return nil, errcode.Newf(errcode.NotFound, "the backup contains no file %s for %s", name, service)
}

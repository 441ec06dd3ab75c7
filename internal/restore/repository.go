package restore

import (
	"context"
	"io"
	"slices"

	"holdfast/internal/db/engine"
	"holdfast/internal/durable"
	"holdfast/internal/replica"
	"holdfast/internal/replica/location"
	"holdfast/internal/secrets"
)

// repository is a source with backups or a replica, at a URL.
type repository struct {
	name    string // the URL without credentials
	from    replica.Restoring
	point   replica.Point // restored
	closeIt func() error
}

// openRepository reads the private key before it connects, so that a wrong file is found at once.
func openRepository(ctx context.Context, r *Request) (*repository, error) {
	s := &repository{name: location.Name(r.From), from: replica.Restoring{Known: r.Known, Trust: r.Trust, AtLeast: r.AtLeast}}
	var err error
	if r.Identity != "" {
		if s.from.Identities, err = location.Identities(r.Identity); err != nil {
			return nil, err
		}
	}
	s.from.Target, s.closeIt, err = r.Clouds.Open(ctx, r.From)
	return s, err
}

func (s *repository) close() error { return s.closeIt() }

// plan chooses the newest point at or before the request's time, and verifies who signed it.
func (s *repository) plan(ctx context.Context, r *Request) (*Plan, error) {
	from := s.from
	from.At = r.At
	content, err := replica.Look(ctx, from)
	if err != nil {
		return nil, err
	}
	p := &Plan{
		From: s.name, At: content.Point.Time, Until: content.Until,
		Signer: replica.Signer{Key: content.Point.Key, Repository: content.Point.Repository}, IsProven: len(s.from.Trust.Signers) > 0,
	}
	for name := range content.Point.Files {
		if service, ok := engine.ServiceOf(name); ok && r.wants(service) {
			p.Services = append(p.Services, service)
		}
	}
	slices.Sort(p.Services)
	_, p.Secrets = content.Point.Also[secrets.File]
	return p, nil
}

// restore restores and verifies the plan's files.
func (s *repository) restore(ctx context.Context, r *Request, p *Plan, into *durable.Folder) error {
	only := []string{}
	for _, service := range p.Services {
		only = append(only, engine.FileName(service))
	}
	// Restore as of the plan's moment, because a replica may continue.
	from := s.from
	from.Into, from.At, from.Only = into.Path(), p.At, only
	from.Progress = func(name string) { r.stepf("restoring %s", name) }
	from.Ignored = func(damage error) { r.stepf("restored without a file that others replace: %s", damage) }
	done, err := replica.Restore(ctx, from)
	s.point = done.Point
	return err
}

// open opens a body of the restored point. Call it after restore.
func (s *repository) open(ctx context.Context, service, name string, size int64) (io.ReadCloser, error) {
	return s.from.OpenBody(ctx, s.point, service, name, size)
}

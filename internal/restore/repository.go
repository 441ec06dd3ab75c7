package restore

import (
	"context"
	"io"
	"slices"

	"filippo.io/age"

	"holdfast/internal/db/engine"
	"holdfast/internal/durable"
	"holdfast/internal/replica"
	"holdfast/internal/replica/location"
	"holdfast/internal/secrets"
)

type repository struct {
	name    string
	target  replica.Target
	known   replica.Names
	keys    []age.Identity
	closeIt func() error
}

func openRepository(ctx context.Context, r *Request) (*repository, error) {
	var keys []age.Identity
	if r.Identity != "" {
		var err error
		if keys, err = location.Identities(r.Identity); err != nil {
			return nil, err
		}
	}
	target, closeIt, err := location.Open(ctx, r.From)
	if err != nil {
		return nil, err
	}
	return &repository{location.Name(r.From), target, r.Known, keys, closeIt}, nil
}

func (s *repository) close() error { return s.closeIt() }

func (s *repository) plan(ctx context.Context, r *Request) (*Plan, error) {
	found, err := replica.Look(ctx, replica.Restoring{Target: s.target, Known: s.known, Identities: s.keys, At: r.At})
	if err != nil {
		return nil, err
	}
	p := &Plan{From: s.name, At: found.Point.Time, Until: found.Until}
	for name := range found.Point.Files {
		if service, ok := engine.ServiceOf(name); ok && r.wants(service) {
			p.Services = append(p.Services, service)
		}
	}
	slices.Sort(p.Services)
	_, p.Secrets = found.Point.Also[secrets.File]
	return p, nil
}

func (s *repository) restore(ctx context.Context, r *Request, p *Plan, into *durable.Folder) error {
	only := []string{}
	for _, service := range p.Services {
		only = append(only, engine.FileName(service))
	}
	// Restore as of the plan's moment, because a replica may continue.
	_, err := replica.Restore(ctx, replica.Restoring{
		Target: s.target, Known: s.known, Identities: s.keys, Into: into.Path(), At: p.At, Only: only,
		Progress: func(name string) { r.stepf("restoring %s", name) },
	})
	return err
}

func (s *repository) open(ctx context.Context, service, name string) (io.ReadCloser, error) {
	return replica.Restoring{Target: s.target, Known: s.known, Identities: s.keys}.OpenBody(ctx, service, name)
}

package main

import (
	"context"
	"errors"
	"net/http"
	"os"
	"os/exec"

	"holdfast/internal/testdb"
	"holdfast/internal/workload/buckets"
)

type s3Peer struct {
	*s3Load

	command func(listen, dir string) *exec.Cmd
	secret  string
}

const s3PeerKey = "benchbench"

// MinIO syncs its writes.
func (o *options) withMinIO(ctx context.Context, fn func(*side) error) error {
	return o.withS3(ctx, "minio", func(listen, dir string) *exec.Cmd {
		cmd := exec.Command(o.minIO, "server", "--quiet", "--address", listen, dir)
		cmd.Env = append(os.Environ(), "MINIO_ROOT_USER="+s3PeerKey, "MINIO_ROOT_PASSWORD="+s3PeerKey, "MINIO_BROWSER=off", "MINIO_UPDATE=off")
		return cmd
	}, fn)
}

// versitygw does not sync its writes.
func (o *options) withVersityGW(ctx context.Context, fn func(*side) error) error {
	return o.withS3(ctx, "versitygw", func(listen, dir string) *exec.Cmd {
		return exec.Command(o.versityGW, "--port", listen, "--access", s3PeerKey, "--secret", s3PeerKey, "--keep-alive", "posix", dir)
	}, fn)
}

func (o *options) withS3(ctx context.Context, name string, command func(listen, dir string) *exec.Cmd, fn func(*side) error) error {
	dir, err := os.MkdirTemp("", "holdfast-bench-")
	if err != nil {
		return err
	}
	p := &s3Peer{newS3(o.size), command, s3PeerKey}
	s := &server{engine: &engine{name: name}, dir: dir, next: 1}
	if err = p.start(ctx, s); err == nil {
		err = fn(&side{name: name, service: p, engine: s.engine, server: s})
	}
	return errors.Join(err, s.remove())
}

func (p *s3Peer) start(ctx context.Context, s *server) (err error) {
	if s.listen, err = testdb.FreePort(); err != nil {
		return err
	}
	if err := os.Mkdir(s.data(), 0o700); err != nil {
		return err
	}
	if err := s.run(p.command(s.listen, s.data())); err != nil {
		return err
	}
	owner, err := p.owner(s, 1)
	if err != nil {
		return err
	}
	return s.until(ctx, func() error {
		c, err := dial(ctx, owner)
		if err != nil {
			return err
		}
		defer c.hangUp()
		_, err = c.send(ctx, http.MethodGet, "/", nil, "")
		return err
	})
}

func (p *s3Peer) settings(*engine) []string { return nil }

func (p *s3Peer) owner(s *server, _ int) (credentials, error) {
	return credentials{Endpoint: "http://" + s.listen, sign: p.signer(buckets.Key(s3PeerKey, p.secret)), retries: 100}, nil
}

func (p *s3Peer) limit(context.Context, *options, *engine, int) (limit, error) {
	return nil, errors.New("another server is not compared with a limit")
}

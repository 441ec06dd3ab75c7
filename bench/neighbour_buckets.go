package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"strings"
)

const (
	s3Attacked  = "/attacked"
	s3Neighbour = "/neighbour"
	// Escaping in lists makes them six times as long.
	s3LongKeys = 1000
	// s3Listers is the number of attackers. A list takes as long as a hundred other requests.
	s3Listers = 48
)

type neighbourBuckets struct{ *bucketsLoad }

func (w neighbourBuckets) owner(s *server, n int) (credentials, error) {
	first, err := w.bucketsLoad.owner(s, 1)
	if err != nil || n == 1 {
		return first, err
	}
	cmd := exec.Command(s.binary, "buckets", "accounts", "create", "neighbour")
	cmd.Env = s.env
	if out, err := cmd.CombinedOutput(); err != nil {
		return first, fmt.Errorf("%s: %w: %s", cmd, err, out)
	}
	key, err := accessKey(s, "neighbour")
	return credentials{Endpoint: first.Endpoint, sign: w.signer(key)}, err
}

func (w neighbourBuckets) fill(ctx context.Context, _ *engine, owners []credentials) error {
	attacker, err := dial(ctx, owners[0])
	if err != nil {
		return err
	}
	defer attacker.hangUp()
	if err := attacker.exchange(ctx, http.MethodPut, s3Attacked, nil, "", io.Discard); err != nil {
		return err
	}
	for i := range s3LongKeys {
		key := fmt.Sprintf("%s/%04d%s", s3Attacked, i, strings.Repeat("%22", 1000))
		if err := attacker.exchange(ctx, http.MethodPut, key, nil, "", io.Discard); err != nil {
			return err
		}
	}
	neighbour, err := dial(ctx, owners[1])
	if err != nil {
		return err
	}
	defer neighbour.hangUp()
	if err := neighbour.exchange(ctx, http.MethodPut, s3Neighbour, nil, "", io.Discard); err != nil {
		return err
	}
	return neighbour.exchange(ctx, http.MethodPut, s3Neighbour+"/small", w.body(s3Small), "", io.Discard)
}

func bucketsNeighbours(of service) neighbours {
	if e, ok := of.(*entry); ok {
		of = e.service
	}
	lists := flood("s3 list, 1,000 long keys", func(ctx context.Context, c *caller, _ int) error {
		return c.exchange(ctx, http.MethodGet, s3Attacked+"?list-type=2", nil, "", io.Discard)
	})
	lists.callers = s3Listers
	works := operation{name: workGetSmall, do: func(ctx context.Context, c *caller, _ int) error {
		return c.exchange(ctx, http.MethodGet, s3Neighbour+"/small", nil, "", io.Discard)
	}}
	return neighbours{service: neighbourBuckets{of.(*bucketsLoad)}, title: "buckets", works: works, attacks: []attack{lists}}
}

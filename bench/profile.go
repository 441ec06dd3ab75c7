package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

func (s *server) profile(ctx context.Context, o *options, name string, load func(more) error) error {
	if o.profiles == "" {
		return nil
	}
	profile, err := s.profiled(ctx, o.window, load)
	if err != nil {
		return err
	}
	return o.saveProfile(name, profile)
}

func (o *options) saveProfile(name string, profile []byte) error {
	if o.profiles == "" {
		return nil
	}
	name = strings.NewReplacer(": ", "-", " ", "-", "/", "-", ",", "").Replace(name) + ".pprof"
	return os.WriteFile(filepath.Join(o.profiles, name), profile, 0o600)
}

// profiled profiles the server under a load that lasts 1 s longer than the profile. The load is not measured, because
// profiling costs CPU time.
func (s *server) profiled(ctx context.Context, d time.Duration, load func(more) error) ([]byte, error) {
	seconds := wholeSeconds(d)
	done := make(chan error, 1)
	go func() { done <- load(lasting(time.Duration(seconds+1) * time.Second)) }()
	profile, err := s.ask(ctx, fmt.Sprintf("/debug/pprof/profile?seconds=%d", seconds))
	if err = errors.Join(err, <-done); err != nil {
		return nil, err
	}
	return profile, nil
}

func wholeSeconds(d time.Duration) int { return int((d + time.Second - 1) / time.Second) }

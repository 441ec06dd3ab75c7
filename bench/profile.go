package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/pelletier/go-toml/v2"
)

// profile saves a CPU profile of the server under a load where the row has
// missed its goal, if profiles are wanted. The load, which should last a second
// longer than a window, is not measured: being profiled costs.
func (s *server) profile(ctx context.Context, o *options, r *row, load func() error) error {
	if o.profiles == "" || !r.missed() {
		return nil
	}
	var secrets struct {
		AdminToken string `toml:"admin_token"`
	}
	text, err := os.ReadFile(filepath.Join(s.dir, "data", "secrets.toml")) //nolint:gosec // in a folder that serve has made
	if err != nil {
		return err
	}
	if err := toml.Unmarshal(text, &secrets); err != nil {
		return err
	}
	done := make(chan error, 1)
	go func() { done <- load() }()
	profile, err := s.ask(ctx, fmt.Sprintf("/debug/pprof/profile?seconds=%d", int(o.window.Seconds())), secrets.AdminToken)
	if err = errors.Join(err, <-done); err != nil {
		return err
	}
	work := strings.NewReplacer(": ", "-", " ", "-", "/", "-", ",", "").Replace(r.work)
	name := fmt.Sprintf("%s-%s-%d.pprof", work, r.engine, r.connections)
	return os.WriteFile(filepath.Join(o.profiles, name), profile, 0o600) //nolint:gosec // the folder that was asked for
}

package app

import (
	"path/filepath"
	"testing"

	"holdfast/internal/backup"
)

// Commands work on the data folder of an older release with fewer services.
func TestBeforeTheServicesFirstStart(t *testing.T) {
	t.Parallel()
	o := Options{Data: t.TempDir(), LogTo: t.Output(), Quiet: true}
	for _, environ := range [][]string{{"HOLDFAST_EXTSTORAGE__ENABLED=false"}, nil} {
		cfg, _, err := Load(Services(), "", environ)
		if err != nil {
			t.Fatal(err)
		}
		o.Config, o.Create = cfg, environ != nil
		a, err := Open(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		if n := len(a.databases()); n != len(cfg.Services)-1 {
			t.Errorf("with %q there are %d databases of %d services", environ, n, len(cfg.Services))
		}
		if files, err := a.Backup(t.Context(), filepath.Join(t.TempDir(), "copy"), backup.Options{}); err != nil || len(files) < 3 {
			t.Errorf("backup: %v, %v", files, err)
		}
		if err := a.Close(); err != nil {
			t.Error(err)
		}
	}
}

package app

import (
	"os"
	"path/filepath"
	"testing"

	"holdfast/internal/backup"
)

// Commands work on the data folder of an older release with fewer services.
func TestBeforeTheServicesFirstStart(t *testing.T) {
	t.Parallel()
	cfg, _, err := Load(Services(), "", nil)
	if err != nil {
		t.Fatal(err)
	}
	o := Options{Config: cfg, Data: t.TempDir(), LogTo: t.Output(), Quiet: true, Create: true}
	for _, create := range []bool{true, false} {
		o.Create = create
		a, err := Open(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		if there := len(a.databases()) == len(cfg.Services); there != create {
			t.Errorf("created %v: the service is there: %v", create, there)
		}
		if files, err := a.Backup(t.Context(), filepath.Join(t.TempDir(), "copy"), backup.Options{}); err != nil || len(files) < 3 {
			t.Errorf("backup: %v, %v", files, err)
		}
		if err := a.Close(); err != nil {
			t.Error(err)
		}
		if err := os.Remove(filepath.Join(o.Data, "extstorage.db")); create && err != nil {
			t.Fatal(err)
		}
	}
}

package app

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"holdfast/internal/app/service"
	"holdfast/internal/backup"
	"holdfast/internal/check"
	"holdfast/internal/db/engine"
)

// TestNewService checks that commands skip a service that never used the data folder. A lost database file is an
// error.
func TestNewService(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	open := func(mode Mode, environ ...string) ([]string, error) {
		t.Helper()
		cfg, _, err := Load(Services(), "", environ)
		if err != nil {
			t.Fatal(err)
		}
		a, err := Open(t.Context(), Options{Config: cfg, Data: data, LogTo: io.Discard, Mode: mode})
		if err != nil {
			return nil, err
		}
		var names []string
		for _, s := range a.opened {
			names = append(names, s.Name)
		}
		if n := len(a.databases()); n != len(names) {
			t.Errorf("%d databases of %d services", n, len(names))
		}
		if files, err := a.Backup(t.Context(), filepath.Join(t.TempDir(), "copy"), backup.Options{}); err != nil || len(files) <= len(names) {
			t.Errorf("backup of %v: %v, %v", names, files, err)
		}
		return names, a.Close()
	}
	later := []string{"extstorage", "buckets", "guest"}
	off := func(names []string) (environ []string) {
		for _, name := range names {
			environ = append(environ, "HOLDFAST_"+strings.ToUpper(name)+"__ENABLED=false")
		}
		return environ
	}
	if _, err := open(ModeServe, off(later)...); err != nil {
		t.Fatal(err)
	}
	first := []string{"syncstorage", "tokenserver"}
	if names, err := open(ModeOperate); err != nil || !slices.Equal(names, first) {
		t.Errorf("services without a file: %v %v", names, err)
	}
	if _, err := open(ModeServe); err != nil {
		t.Fatal(err)
	}
	if names, err := open(ModeOperate); err != nil || len(names) != len(first)+len(later) {
		t.Errorf("all services: %v %v", names, err)
	}
	for _, name := range slices.Concat(later, first) {
		path := filepath.Join(data, name+".db")
		if err := os.Rename(path, path+".lost"); err != nil {
			t.Fatal(err)
		}
		_, err := open(ModeOperate)
		if missing, ok := errors.AsType[*engine.MissingError](err); !ok || missing.Service != name {
			t.Errorf("the file of %s is lost: %v", name, err)
		}
		if err := os.Rename(path+".lost", path); err != nil {
			t.Fatal(err)
		}
	}
}

// TestUnusedFolder checks that an unusable data folder is an error only if a service stores data in it.
func TestUnusedFolder(t *testing.T) {
	t.Parallel()
	data := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(data, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	elsewhere := t.TempDir()
	alone := func(name string) (environ []string) {
		for _, s := range Services() {
			if s.Name != name {
				environ = append(environ, "HOLDFAST_"+strings.ToUpper(s.Name)+"__ENABLED=false")
			}
		}
		secret := strings.Repeat("secret", 6)
		return append(environ, "HOLDFAST_SERVER__MASTER_SECRET="+secret, "HOLDFAST_SERVER__ADMIN_TOKEN="+secret,
			"HOLDFAST_EXTSTORAGE__TOKEN_SECRET="+secret, "HOLDFAST_BUCKETS__KEY_SECRET="+secret,
			"HOLDFAST_"+strings.ToUpper(name)+"__DATABASE_URL=sqlite:"+filepath.Join(elsewhere, name+".db"))
	}
	for _, tc := range []struct {
		service, file string
		want          service.State
	}{
		{"extstorage", "", service.Wrong},
		{"extstorage", "[extstorage]\naudit = \"log\"", service.Warning},
		{"buckets", "", service.Wrong},
		{"buckets", "[buckets.nodes.\"home:one\"]\nurl = \"file://" + filepath.ToSlash(elsewhere) + "\"", service.Warning},
		{"syncstorage", "", service.Warning},
	} {
		file := filepath.Join(t.TempDir(), "holdfast.toml")
		if err := os.WriteFile(file, []byte(tc.file), 0o600); err != nil {
			t.Fatal(err)
		}
		cfg, _, err := Load(Services(), file, alone(tc.service))
		if err != nil {
			t.Errorf("%s %s: %v", tc.service, tc.file, err)
			continue
		}
		found := Check(context.WithoutCancel(t.Context()), cfg, data, check.Options{})
		i := slices.IndexFunc(found, func(f service.Finding) bool { return f.What == "data folder" })
		if i < 0 || found[i].State != tc.want {
			t.Errorf("%s %s: %+v, want %s", tc.service, tc.file, found, tc.want)
		}
	}
}

package app

import (
	"bytes"
	"context"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"holdfast/internal/app/service"
	"holdfast/internal/backup"
	"holdfast/internal/clock"
	"holdfast/internal/replica/location"
	"holdfast/internal/restore"
	"holdfast/internal/testdb"
)

// TestForgedBackups changes each object of a running server's backup, as somebody with write access can. The server's
// verification (the console's Verify) and a restore refuse it, name the object and write nothing outside their folders,
// and the server continues.
func TestForgedBackups(t *testing.T) {
	t.Parallel()
	a, browse := openConsole(t)
	root := t.TempDir()
	folder := filepath.Join(root, "deep", "backups")
	settings := backup.Defaults()
	settings.URL, settings.Verify = "file://"+filepath.ToSlash(folder), false
	a.backups.Set(settings)
	sent, err := a.backups.Make(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	trust, err := location.Own(a.data)
	if err != nil {
		t.Fatal(err)
	}
	refused := 0
	check := func(what, object string) {
		t.Helper()
		data := filepath.Join(root, "deep", "restored")
		outside := testdb.Tree(t, root, folder)
		above := testdb.Tree(t, filepath.Dir(a.data), a.data)
		says := ""
		found, err := a.backups.Verify(t.Context(), sent.Point.Time.Add(time.Second), func(string) {})
		if err != nil {
			says = err.Error()
		}
		for _, f := range found {
			if f.State == service.Wrong {
				says += f.Says
			}
		}
		if !strings.Contains(says, object) {
			t.Errorf("%s of %s: the verification says %q", what, object, says)
		}
		_, err = restore.Run(t.Context(), &restore.Request{
			From: settings.URL, Known: backup.NamesOf(a.cfg.Services), Trust: trust, Data: data, Clock: clock.System,
			Finish: func(context.Context, *restore.Finishing) error { return nil },
		})
		if err == nil || !strings.Contains(err.Error(), object) {
			t.Errorf("%s of %s: the restore says %v", what, object, err)
		}
		testdb.WantTree(t, what+" of "+object, outside, testdb.Tree(t, root, folder))
		testdb.WantTree(t, what+" of "+object, above, testdb.Tree(t, filepath.Dir(a.data), a.data))
		left, err := filepath.Glob(filepath.Join(a.data, "backup-spool", "*", "holdfast-verify-*"))
		if err != nil || len(left) > 0 {
			t.Errorf("%s of %s leaves %v, %v", what, object, left, err)
		}
		refused++
	}
	err = filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		name, err := filepath.Rel(folder, path)
		if err != nil {
			return err
		}
		object := filepath.ToSlash(name)
		if strings.HasPrefix(object, "unreferenced") {
			return nil // no restore reads it
		}
		good, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		forged := map[string][]byte{"a missing byte": good[:len(good)-1], "an attacker's content": []byte(strings.Repeat("attacker ", 20))}
		for _, name := range []string{"syncstorage.db", "secrets.toml"} {
			if strings.HasPrefix(object, "points/") {
				forged["../../x instead of "+name] = bytes.ReplaceAll(good, []byte(name), []byte("../../x"))
			}
		}
		for what, content := range forged {
			if err := os.WriteFile(path, content, 0o600); err != nil {
				return err
			}
			check(what, object)
		}
		return os.WriteFile(path, good, 0o600)
	})
	if err != nil || refused < 15 {
		t.Fatalf("%d changes, %v", refused, err)
	}
	if found, err := a.backups.Verify(t.Context(), sent.Point.Time.Add(time.Second), func(string) {}); err != nil || len(found) < 5 {
		t.Errorf("the good backup: %v, %v", found, err)
	}
	browse(a.Config().Server.AdminToken.Reveal()).want("the server continues", http.StatusOK, "Overview", http.MethodGet, "/console/", nil)
}

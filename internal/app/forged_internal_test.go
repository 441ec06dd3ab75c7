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
	f := &forger{t: t, a: a, root: root, folder: folder, made: sent.Point.Time, verifyAt: sent.Point.Time.Add(time.Second), restore: restore.Request{
		From: settings.URL, Known: backup.NamesOf(a.cfg.Services), Trust: trust, Data: filepath.Join(root, "deep", "restored"), Clock: clock.System,
		Finish: func(context.Context, *restore.Finishing) error { return nil },
	}}
	err = filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		return f.forge(path)
	})
	if err != nil || f.refused < 15 {
		t.Fatalf("%d changes, %v", f.refused, err)
	}
	if found, err := a.backups.Verify(t.Context(), f.verifyAt, func(string) {}); err != nil || len(found) < 5 {
		t.Errorf("the good backup: %v, %v", found, err)
	}
	browse(a.Config().Server.AdminToken.Reveal()).want("the server continues", http.StatusOK, "Overview", http.MethodGet, "/console/", nil)
}

// forger changes objects of a backup.
type forger struct {
	t            *testing.T
	a            *App
	root, folder string // folder has the backup; it and the restored data are below root
	made         time.Time
	verifyAt     time.Time
	restore      restore.Request
	refused      int // changes that were checked
}

// forge changes an object in each way, wants the changes refused, and puts the good content back.
func (f *forger) forge(path string) error {
	f.t.Helper()
	name, err := filepath.Rel(f.folder, path)
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
	for what, content := range forgeries(object, good) {
		if err := os.WriteFile(path, content, 0o600); err != nil {
			return err
		}
		f.wantRefused(what, object)
	}
	if !strings.HasPrefix(object, "points/") { // without its only point, a target is empty
		if err := os.Remove(path); err != nil {
			return err
		}
		f.wantRefused("a deletion", object)
	}
	return os.WriteFile(path, good, 0o600)
}

// forgeries returns the contents that an attacker writes instead of an object's.
func forgeries(object string, good []byte) map[string][]byte {
	forged := map[string][]byte{"a missing byte": good[:len(good)-1], "an attacker's content": []byte(strings.Repeat("attacker ", 20))}
	for _, name := range []string{"syncstorage.db", "secrets.toml"} {
		if strings.HasPrefix(object, "points/") {
			forged["../../x instead of "+name] = bytes.ReplaceAll(good, []byte(name), []byte("../../x"))
		}
	}
	return forged
}

func (f *forger) wantRefused(what, object string) {
	f.t.Helper()
	t, a := f.t, f.a
	outside := testdb.Tree(t, f.root, f.folder)
	above := testdb.Tree(t, filepath.Dir(a.data), a.data)
	if says := f.verify(); !strings.Contains(says, object) {
		t.Errorf("%s of %s: the verification says %q", what, object, says)
	}
	request := f.restore
	_, err := restore.Run(t.Context(), &request)
	if err == nil || !strings.Contains(err.Error(), object) {
		t.Errorf("%s of %s: the restore says %v", what, object, err)
	}
	testdb.WantTree(t, what+" of "+object, outside, testdb.Tree(t, f.root, f.folder))
	testdb.WantTree(t, what+" of "+object, above, testdb.Tree(t, filepath.Dir(a.data), a.data))
	left, err := filepath.Glob(filepath.Join(a.data, "backup-spool", "*", "holdfast-verify-*"))
	if err != nil || len(left) > 0 {
		t.Errorf("%s of %s leaves %v, %v", what, object, left, err)
	}
	f.refused++
}

// verify returns the damage that the server's verification finds.
func (f *forger) verify() (says string) {
	found, err := f.a.backups.Verify(f.t.Context(), f.verifyAt, func(string) {})
	if err != nil {
		says = err.Error()
	}
	for _, one := range found {
		if one.State == service.Wrong {
			says += one.Says
		}
	}
	if verified := backup.Verified(f.a.data, f.restore.From)[f.made.UnixNano()]; err == nil && (says == "") != (verified.Damage == "") {
		f.t.Errorf("%q is recorded as %+v", says, verified)
	}
	return says
}

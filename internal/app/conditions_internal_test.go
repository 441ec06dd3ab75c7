package app

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"holdfast/internal/alerts"
	"holdfast/internal/app/overview"
	"holdfast/internal/app/service"
)

func TestConditions(t *testing.T) {
	t.Parallel()
	a := openApp(t)
	now := time.Now()
	a.overview.Clock = func() time.Time { return now }
	go a.checks.Run(t.Context(), a.now, a.checkRunning)
	s := alerts.Defaults()
	s.DiskDays = 0
	names := func() (all []string) {
		for _, c := range a.overview.Conditions(t.Context(), s) {
			if c.State != service.Warning && c.State != service.Wrong || c.Says == "" {
				t.Errorf("%+v", c)
			}
			if c.Name != overview.DiskFull { // depends on the machine that runs the test
				all = append(all, c.Name)
			}
		}
		return all
	}
	want := func(when string, want ...string) {
		t.Helper()
		if got := names(); !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", when, got, want)
		}
	}
	want("without a backup", overview.BackupLate)
	s.BackupAge = 0
	want("a backup is not expected")
	s.BackupAge = time.Hour
	record := filepath.Join(a.data, "last-backup.json")
	if err := os.WriteFile(record, []byte(`{"at":"`+now.UTC().Format(time.RFC3339)+`","path":"/backup"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	want("a fresh backup")
	now = now.Add(2 * time.Hour)
	want("an old backup", overview.BackupLate)
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(a.data, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("last-backup.json", `{"at":"`+now.UTC().Format(time.RFC3339)+`","path":"file:///backups"}`)
	s.BackupAge = 100 * time.Hour
	settings := a.cfg.Backup
	settings.URL, settings.Schedule = "file:///backups", "1h"
	a.backups.Set(settings)
	now = now.Add(2*time.Hour - 2*time.Second)
	want("a backup of the second last time")
	now = now.Add(3 * time.Second)
	want("a backup that the schedule says is late", overview.BackupLate)
	write("last-backup.json", `{"at":"`+now.UTC().Format(time.RFC3339)+`","path":"file:///backups"}`)
	write("backup-failed.json", `{"at":"`+now.UTC().Format(time.RFC3339)+`","url":"file:///backups","says":"no space left on device"}`)
	want("a failed backup", overview.BackupFails)
	settings.URL = "file:///new"
	a.backups.Set(settings)
	want("a failed backup to a former URL", overview.BackupFails)
	settings.URL, settings.Schedule = "", ""
	a.backups.Set(settings)
	want("a failed backup that nothing repeats")
	settings.URL, settings.Schedule = "file:///backups", "1h"
	a.backups.Set(settings)
	if err := os.Remove(filepath.Join(a.data, "backup-failed.json")); err != nil {
		t.Fatal(err)
	}
	s.BackupAge = 0
	if err := a.opened[0].Databases[0].Close(); err != nil {
		t.Fatal(err)
	}
	if got := names(); !slices.Contains(got, overview.NotReady) {
		t.Errorf("a closed database: %q", got)
	}
}

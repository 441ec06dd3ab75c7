package replication

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"

	"holdfast/internal/app/service"
	"holdfast/internal/backup"
)

func TestRetained(t *testing.T) {
	t.Parallel()
	data, now := t.TempDir(), time.Date(2026, 11, 26, 12, 0, 0, 0, time.UTC)
	folder := filepath.Join(data, "folder")
	if err := os.Mkdir(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	b, r := backup.Defaults(), Defaults()
	retained := func(when string, want ...service.Retained) service.Copies {
		t.Helper()
		got, err := Retained(data, &b, &r, now)
		if err != nil || len(got) != len(want) {
			t.Fatalf("%s: %+v, %v", when, got, err)
		}
		for i := range want {
			if got[i] != want[i] {
				t.Errorf("%s: %+v, want %+v", when, got[i], want[i])
			}
		}
		return got
	}
	if text := retained("nothing").String(); text != "no known backup or replica" {
		t.Error(text)
	}
	text, err := json.Marshal(map[string]any{"at": now, "path": "s3://here", "earlier": []map[string]any{
		{"at": now.Add(-time.Hour), "path": folder}, {"at": now.Add(-2 * time.Hour), "path": "s3://here"}, {"at": now.Add(-3 * time.Hour), "path": "gs://former"},
		{"at": now.Add(-3 * time.Hour), "path": filepath.Join(data, "gone")},
	}})
	if err == nil {
		err = os.WriteFile(filepath.Join(data, backup.RecordFile), text, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	inFolder := service.Retained{Kind: service.InBackup, Where: folder, At: now.Add(-time.Hour)}
	former := service.Retained{Kind: service.InBackup, Where: "gs://former"}
	retained("no settings", service.Retained{Kind: service.InBackup, Where: "s3://here"}, inFolder, former)
	b.URL, b.Keep, r.URL = "s3://here", "7d 4w 6m", "azblob://replica"
	halfYear, month := time.Date(2027, 5, 28, 12, 0, 0, 0, time.UTC), time.Date(2026, 12, 25, 12, 0, 0, 0, time.UTC)
	here := service.Retained{Kind: service.InBackup, Where: "s3://here", Until: halfYear}
	there := service.Retained{Kind: service.InReplica, Where: "azblob://replica", Until: month}
	all := retained("rules", here, inFolder, former, there)
	want := "the backups at s3://here until 2027-05-28; the backup " + folder + " of 2026-11-26 11:00:00 UTC until you delete it; " +
		"the backups at gs://former until you delete it; the replica azblob://replica until 2026-12-25"
	if text := all.String(); text != want {
		t.Errorf("%s, want %s", text, want)
	}
	moved, err := json.Marshal(map[string]any{"at": now, "path": "s3://here", "has": []string{"secrets.toml"}, "earlier": []map[string]any{
		{"at": now.Add(-time.Hour), "path": folder, "has": []string{"sync.db"}}, {"at": now.Add(-2 * time.Hour), "path": "s3://here", "has": []string{"toys.db", "secrets.toml"}},
	}})
	if err == nil {
		err = os.WriteFile(filepath.Join(data, backup.RecordFile), moved, 0o600)
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(data, spoolFolder+".lacking"), []byte(`{"toys.db":"2026-11-26T10:00:00Z"}`), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	heldHere, heldThere := service.Retained{Kind: service.InBackup, Where: "s3://here", Held: "toys"}, service.Retained{Kind: service.InReplica, Where: "azblob://replica", Held: "toys"}
	retained("after a database moved away", heldHere, inFolder, heldThere)
	for file, want := range map[string]int{"toys.db": 2, "sync.db": 1, "other.db": 0} {
		if got, err := Retained(data, &b, &r, now, file); err != nil || len(got) != want || want == 2 && got.String() != "the backups at s3://here until you run holdfast databases dismiss for toys; the replica azblob://replica until you run holdfast databases dismiss for toys" {
			t.Errorf("data of %s: %v, %v", file, got, err)
		}
	}
	if err := os.WriteFile(filepath.Join(data, backup.RecordFile), text, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(data, spoolFolder+".lacking")); err != nil {
		t.Fatal(err)
	}
	b.Keep, r.Keep, r.Retention = "", "", 100*24*time.Hour
	here.Until, there.Until = time.Time{}, now.AddDate(0, 0, 101)
	retained("no rules", here, inFolder, former, there)
	if err := os.WriteFile(filepath.Join(data, backup.RecordFile), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got, err := Retained(data, &b, &r, now); err == nil {
		t.Errorf("a broken record: %v", got)
	}
}

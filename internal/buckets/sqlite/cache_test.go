package sqlite

import (
	"path/filepath"
	"testing"
	"time"

	"holdfast/internal/buckets"
	"holdfast/internal/db/sqlitedb"
	"holdfast/internal/testdb/opened"
)

// TestChangesByCommands checks that a server sees changes that another process makes in its file.
func TestChangesByCommands(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "buckets.db")
	server, command := New(opened.SQLite(t, sqlitedb.Options{Path: path}, Migrations)), New(opened.SQLite(t, sqlitedb.Options{Path: path}, nil))
	now := time.Now()
	server.cache.clock = func() time.Time { return now }
	const owner = buckets.AccountID("a0000000-0000-4000-8000-000000000001")
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(server.CreateAccount(t.Context(), buckets.Account{ID: owner, Name: "main"}))
	ref := buckets.BucketRef{Name: "photos", ID: buckets.BucketID(buckets.NewUUID())}
	_, err := server.CreateBucket(t.Context(), owner, ref, 1)
	must(err)
	for _, public := range []bool{true, false} {
		_, err := server.Bucket(t.Context(), owner, ref.Name)
		must(err)
		must(command.SetBucket(t.Context(), owner, ref, buckets.SettingsChange{PublicRead: &public}))
		now = now.Add(buckets.KeyDelay)
		b, err := server.Bucket(t.Context(), owner, ref.Name)
		must(err)
		if b.Settings.PublicRead != public {
			t.Errorf("a command has set public to %v", public)
		}
	}
	must(command.DeleteBucket(t.Context(), owner, ref, 2))
	now = now.Add(buckets.KeyDelay)
	if _, err := server.Bucket(t.Context(), owner, ref.Name); err != buckets.ErrNoBucket {
		t.Errorf("a command has deleted the bucket: %v", err)
	}
}

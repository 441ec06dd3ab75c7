package e2e

import (
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"holdfast/internal/testdb"
	"holdfast/test/binary"
)

// TestRestoredUsersAreNotMixedUp checks that after a restore no other account gets the storage user of an account that
// signed in after the backup.
func TestRestoredUsersAreNotMixedUp(t *testing.T) {
	t.Parallel()
	fxa := newAccounts(t)
	trusts := "SYNC_TOKENSERVER__FXA_OAUTH_SERVER_URL=" + fxa.URL
	s := binary.Start(t, t.TempDir(), trusts)
	dir := t.TempDir()
	none, one := filepath.Join(dir, "none"), filepath.Join(dir, "one")
	s.Verb("backup", none)
	before, _ := fxa.signIn(t, s, "before", 1)
	s.Verb("backup", one)
	after, _ := fxa.signIn(t, s, "after", 1)
	for _, backup := range []string{none, one} {
		restored := binary.Start(t, backup, trusts)
		stranger, a := fxa.signIn(t, restored, "stranger", 1)
		if a.Status != http.StatusOK || stranger.UID == before.UID || stranger.UID == after.UID {
			t.Errorf("%s: another account is user %d; %d and %d were assigned before: %d %s", backup, stranger.UID, before.UID, after.UID, a.Status, a.Body)
		}
		again, _ := fxa.signIn(t, restored, "before", 1)
		if backup == one && again.UID != before.UID {
			t.Errorf("user %d is %d after the restore", before.UID, again.UID)
		}
	}
}

func TestRestoredUsersAreNotMixedUpOnPostgres(t *testing.T) {
	t.Parallel()
	dump := binary.Program(t, "pg_dump")
	fxa := newAccounts(t)
	trusts, service := "SYNC_TOKENSERVER__FXA_OAUTH_SERVER_URL="+fxa.URL, "HOLDFAST_TOKENSERVER__DATABASE_URL="
	url, other := testdb.PostgresDatabase(t), testdb.PostgresDatabase(t)
	s := binary.Launch(t, t.TempDir(), trusts, service+url)
	s.Verb("migrate")
	s.Await("/readyz", http.StatusOK)
	before, _ := fxa.signIn(t, s, "before", 1)
	saved := filepath.Join(t.TempDir(), "dump")
	if out, err := exec.Command(dump, "--format=custom", "--file="+saved, url).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	after, _ := fxa.signIn(t, s, "after", 1)
	data := t.TempDir()
	if err := os.WriteFile(filepath.Join(data, "secrets.toml"), []byte(readFile(t, filepath.Join(s.Data, "secrets.toml"))), 0o600); err != nil {
		t.Fatal(err)
	}
	if r := binary.Run(t, binary.Environ("HOLDFAST_DATA="+data, service+other), "restore", saved, "--trust-dump", "--service", "tokenserver"); r.Status != 0 {
		t.Fatalf("status %d\n%s%s", r.Status, r.Stdout, r.Stderr)
	}
	restored := binary.Start(t, data, trusts, service+other)
	again, _ := fxa.signIn(t, restored, "before", 1)
	stranger, a := fxa.signIn(t, restored, "stranger", 1)
	if again.UID != before.UID || stranger.UID <= after.UID || a.Status != http.StatusOK {
		t.Errorf("user %d is %d after the restore; another account is %d, and %d came after the dump: %d %s",
			before.UID, again.UID, stranger.UID, after.UID, a.Status, strings.TrimSpace(a.Body))
	}
}

package e2e

import (
	"net/http"
	"path/filepath"
	"testing"

	"holdfast/test/binary"
)

// Who signs in after a backup was made has a token and records that the backup
// knows nothing of. When it is restored nobody else may become that user.
func TestRestoredUsersAreNotMixedUp(t *testing.T) {
	t.Parallel()
	fxa := newAccounts(t)
	trusts := "SYNC_TOKENSERVER__FXA_OAUTH_SERVER_URL=" + fxa.URL
	s := binary.Start(t, t.TempDir(), trusts)
	dir := t.TempDir()
	none, one := filepath.Join(dir, "none"), filepath.Join(dir, "one")
	s.Verb("backup", none) // before anybody has signed in
	before, _ := fxa.signIn(t, s, "before", 1)
	s.Verb("backup", one)
	after, _ := fxa.signIn(t, s, "after", 1)
	for _, backup := range []string{none, one} {
		restored := binary.Start(t, backup, trusts)
		stranger, a := fxa.signIn(t, restored, "stranger", 1)
		if a.Status != http.StatusOK || stranger.UID == before.UID || stranger.UID == after.UID {
			t.Errorf("%s: a stranger is user %d; %d and %d were given before: %d %s", backup, stranger.UID, before.UID, after.UID, a.Status, a.Body)
		}
		again, _ := fxa.signIn(t, restored, "before", 1)
		if backup == one && again.UID != before.UID {
			t.Errorf("user %d is %d after the restore", before.UID, again.UID)
		}
	}
}

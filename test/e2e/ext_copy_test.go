package e2e

import (
	"path/filepath"
	"strings"
	"testing"

	"holdfast/internal/testdb"
	"holdfast/test/binary"
)

// TestVerifyServedCopy runs copy --verify and --dry-run while a server uses the target's SQLite file. A real copy to
// this file is refused.
func TestVerifyServedCopy(t *testing.T) {
	t.Parallel()
	secret := "HOLDFAST_EXTSTORAGE__TOKEN_SECRET=" + strings.Repeat("t", 32)
	s := binary.Start(t, t.TempDir(), secret)
	url := "sqlite:" + filepath.Join(testdb.SQLite(t), "target.db")
	s.Verb("copy", "extstorage", "--to", url)
	binary.Start(t, t.TempDir(), secret, "HOLDFAST_EXTSTORAGE__DATABASE_URL="+url)
	if r := binary.Run(t, s.Env, "copy", "extstorage", "--to", url, "--verify"); r.Status != 0 || !strings.Contains(r.Stdout, "are equal") {
		t.Errorf("--verify: %+v", r)
	}
	if r := binary.Run(t, s.Env, "copy", "extstorage", "--to", url); r.Status != 1 || !strings.Contains(r.Stderr, "in use by another server") {
		t.Errorf("copy to a file that a server uses: %+v", r)
	}
}

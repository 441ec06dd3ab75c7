package e2e

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"holdfast/internal/testdb"
	"holdfast/test/binary"
)

// TestDeleteDuringWrites checks that the cleanup deletes writes that arrived after an account was deleted: a storage
// node without access to the accounts accepts them until the token expires. The cleanup also deletes the storage user
// if the first deletion failed because the node was down.
func TestDeleteDuringWrites(t *testing.T) {
	t.Parallel()
	for name, away := range map[string]bool{"the node is there": false, "the node is away": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			fxa, listen, data := newAccounts(t), testdb.FreeAddress(t), t.TempDir()
			shared := []string{"SYNC_MASTER_SECRET=shared", "HOLDFAST_EXTSTORAGE__ENABLED=false", "HOLDFAST_LOG__ACCESS=false"}
			onNode := append([]string{"HOLDFAST_TOKENSERVER__ENABLED=false", "HOLDFAST_SERVER__LISTEN=" + listen}, shared...)
			node := binary.Start(t, data, onNode...)
			accounts := binary.Start(t, t.TempDir(), append([]string{"HOLDFAST_SYNCSTORAGE__ENABLED=false",
				"SYNC_TOKENSERVER__FXA_OAUTH_SERVER_URL=" + fxa.URL, "HOLDFAST_TOKENSERVER__INIT_NODE_URL=http://" + listen}, shared...)...)
			alice, _ := fxa.signIn(t, accounts, "alice", 1)
			put := func(from, to int) {
				t.Helper()
				for i := from; i < to; i++ {
					alice.Want(t, http.StatusOK, "PUT", fmt.Sprintf("/storage/tabs/%d", i), `{"payload":"x"}`)
				}
			}
			put(0, 10)
			if away {
				node.Kill()
			}
			r := binary.Run(t, accounts.Env, "tokenserver", "accounts", "delete", "alice", "--yes")
			if (r.Status != 0) != away {
				t.Errorf("delete: %d %s", r.Status, r.Stderr)
			}
			if away {
				binary.Start(t, data, onNode...)
			}
			put(10, 20)
			if a := alice.Want(t, http.StatusOK, "GET", "/info/collection_counts", ""); (a.Body == `{"tabs":20}`) != away || !away && a.Body != `{"tabs":10}` {
				t.Errorf("after the deletion: %s", a.Body)
			}

			wantSwept(t, accounts, "60m", 0) // of 70m, and time passes
			alice.Want(t, http.StatusOK, "GET", "/storage/tabs/10", "")
			wantSwept(t, accounts, "71m", 1)
			if a := alice.Want(t, http.StatusOK, "GET", "/info/collection_counts", ""); a.Body != "{}" {
				t.Errorf("after the cleanup: %s", a.Body)
			}
			if out := accounts.Verb("tokenserver", "accounts", "list", "--replaced"); strings.Contains(out, "alice") {
				t.Errorf("the storage user is still there:\n%s", out)
			}
		})
	}
}

// wantSwept sweeps with a clock that is ahead, and checks how many storage users were removed.
func wantSwept(t *testing.T, s *binary.Server, ahead string, users int) {
	t.Helper()
	by := filepath.Join(t.TempDir(), "ahead")
	if err := os.WriteFile(by, []byte(ahead), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(binary.Build(t, "holdfast/test/fault/clocked"), "sweep")
	cmd.Env = append(s.Env, "CLOCKED_BY="+by)
	out, err := cmd.CombinedOutput()
	if want := fmt.Sprintf("replaced users' storage: %d\n", users); err != nil || !strings.Contains(string(out), want) {
		t.Errorf("sweep %s ahead: %v\n%s", ahead, err, out)
	}
}

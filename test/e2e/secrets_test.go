package e2e

import (
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"holdfast/internal/testdb"
	"holdfast/internal/testdb/spannertest"
	"holdfast/test/binary"
)

func onEachEngine(t *testing.T, fn func(t *testing.T, data string, vars []string)) {
	t.Helper()
	t.Run("sqlite", func(t *testing.T) {
		t.Parallel()
		fn(t, testdb.SQLite(t), nil)
	})
	onEachServer(t, fn)
}

// onEachServer runs a test on the engines that processes can share.
func onEachServer(t *testing.T, fn func(t *testing.T, data string, vars []string)) {
	t.Helper()
	t.Run("postgres", func(t *testing.T) {
		t.Parallel()
		url := testdb.PostgresDatabase(t)
		fn(t, t.TempDir(), []string{"HOLDFAST_SYNCSTORAGE__DATABASE_URL=" + url, "HOLDFAST_TOKENSERVER__DATABASE_URL=" + url, "HOLDFAST_EXTSTORAGE__DATABASE_URL=" + url})
	})
	t.Run("spanner", func(t *testing.T) {
		t.Parallel()
		fn(t, t.TempDir(), onSpanner(spannertest.Name(t)))
	})
}

const (
	lostMaster  = "server.master_secret is lost"
	otherMaster = "server.master_secret is not the secret that the data was written with"
	otherToken  = "extstorage.token_secret is not the secret that the data was written with"
	remedy      = "holdfast serve --new-secrets"
)

// TestLostSecrets checks that a server with lost or different secrets does not start and changes nothing, that check
// gives the reason, and that each fix works.
func TestLostSecrets(t *testing.T) {
	t.Parallel()
	onEachEngine(t, func(t *testing.T, data string, vars []string) {
		if vars != nil {
			testdb.SoakOnly(t, "SQLite has shown the same")
		}
		w := newWritten(t, data, vars)
		t.Log("lost")
		w.lost(t)
		t.Log("left by a power cut")
		w.left(t)
		t.Log("others")
		w.others(t)
		t.Log("restored")
		w.restored(t)
		t.Log("replaced")
		w.replaced(t)
		t.Log("given up")
		w.givenUp(t)
	})
}

type written struct {
	data       string
	vars, env  []string
	path, file string
	client     binary.Credentials
	master     string
}

func newWritten(t *testing.T, data string, vars []string) *written {
	t.Helper()
	w := &written{data: data, vars: append(vars, "SYNC_TOKENSERVER__FXA_OAUTH_SERVER_URL="+newAccounts(t).URL), path: filepath.Join(data, "secrets.toml")}
	binary.Migrate(t, data, w.vars...)
	if _, err := os.Stat(w.path); err == nil {
		t.Error("migrate created secrets")
	}
	s := binary.Start(t, data, w.vars...)
	w.client = s.Token(1, "--fxa-uid", "alice", "--fxa-kid", "1-qqo")
	w.client.Want(t, http.StatusOK, "PUT", "/storage/tabs/x", `{"payload":"kept"}`)
	w.env, w.file, w.master = s.Env, readFile(t, w.path), secretOf(t, s, "master_secret")
	right(t, w.check(t), "server.master_secret is the secret that the data was written with", "extstorage.token_secret is the secret that the data was written with")
	s.Kill()
	return w
}

func (w *written) with(vars ...string) []string { return append(slices.Clip(w.env), vars...) }

func (w *written) check(t *testing.T, vars ...string) binary.Result {
	t.Helper()
	return binary.Run(t, w.with(vars...), "check")
}

func (w *written) start(t *testing.T, vars ...string) *binary.Server {
	t.Helper()
	return binary.Start(t, w.data, append(slices.Clip(w.vars), vars...)...)
}

func (w *written) lost(t *testing.T) {
	t.Helper()
	if err := os.Remove(w.path); err != nil {
		t.Fatal(err)
	}
	r := w.check(t)
	wrong(t, r, "syncstorage secrets", lostMaster, "restore "+w.path, remedy)
	wrong(t, r, "secrets ", w.path+" does not exist")
	refused(t, w.env, lostMaster, "syncstorage", "tokenserver", "extstorage.token_secret is lost", "restore "+w.path, remedy)
	if _, err := os.Stat(w.path); err == nil {
		t.Error("refused server left secrets")
	}
}

// left leaves the secrets only in a temporary file next to an empty file, as after a power cut. The messages must name
// the temporary file and the command to run.
func (w *written) left(t *testing.T) {
	t.Helper()
	whole, empty, other := filepath.Join(w.data, ".secrets-1234"), filepath.Join(w.data, ".secrets-0"), filepath.Join(w.data, ".secrets-1")
	write(t, empty, "")
	write(t, other, "[server]\nmaster_secret = '"+strings.Repeat("o", 64)+"'\n")
	refused(t, w.env, lostMaster, empty+", left by an interrupted start, does not contain it", other+", left by an interrupted start, does not contain it", remedy)
	write(t, whole, w.file)
	move := "mv " + whole + " " + w.path
	refused(t, w.env, lostMaster, whole+", left by an interrupted start, contains this secret: run: "+move)
	r := w.check(t)
	wrong(t, r, "syncstorage secrets", lostMaster, move)
	wrong(t, r, "secrets ", w.path+" does not exist", empty+", which an interrupted start left, cannot be used: it is empty", move)
	if r := binary.Run(t, w.env, "tokenserver", "accounts", "list"); r.Status != 1 || !strings.Contains(r.Stderr, move) {
		t.Errorf("sync user list: %d\n%s", r.Status, r.Stderr)
	}
	for _, file := range []string{empty, other} {
		if err := os.Remove(file); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Rename(whole, w.path); err != nil {
		t.Fatal(err)
	}
	right(t, w.check(t))
	w.start(t).Kill()
}

func (w *written) others(t *testing.T) {
	t.Helper()
	for _, tc := range []struct{ text, variable, says, silent string }{
		{strings.Replace(w.file, "master_secret = '", "master_secret = 'x", 1), "", otherMaster, otherToken},
		{strings.Replace(w.file, "\ntoken_secret = '", "\ntoken_secret = 'x", 1), "", otherToken, otherMaster},
		{w.file, "HOLDFAST_SERVER__MASTER_SECRET=" + strings.Repeat("n", 40), otherMaster, otherToken},
		{w.file, "SYNC_MASTER_SECRET=" + strings.Repeat("n", 40), otherMaster, otherToken},
		{w.file, "HOLDFAST_EXTSTORAGE__TOKEN_SECRET=" + strings.Repeat("n", 40), otherToken, otherMaster},
	} {
		write(t, w.path, tc.text)
		wrong(t, w.check(t, tc.variable), "secrets", tc.says, remedy)
		refused(t, w.with(tc.variable), tc.says, remedy)
		if r := binary.Run(t, w.with(tc.variable), "serve"); strings.Contains(r.Stderr, tc.silent) {
			t.Errorf("both secrets are reported as wrong:\n%s", r.Stderr)
		}
		if r := binary.Run(t, w.with(tc.variable), "migrate"); r.Status != 1 || !strings.Contains(r.Stderr, tc.says) {
			t.Errorf("migrate: %d\n%s", r.Status, r.Stderr)
		}
		if readFile(t, w.path) != tc.text {
			t.Error("the file was changed")
		}
	}
}

// restored restores the file. The admin token may differ.
func (w *written) restored(t *testing.T) {
	t.Helper()
	const admin = "HOLDFAST_SERVER__ADMIN_TOKEN=another-token-of-an-operator-0123"
	write(t, w.path, w.file)
	right(t, w.check(t, admin))
	s := w.start(t, admin)
	w.client.Endpoint = s.URL + "/1.5/1"
	w.client.Want(t, http.StatusOK, "GET", "/storage/tabs/x", "")
	s.Kill()
}

// replaced lists the former secret as an old secret. Then the file is not required.
func (w *written) replaced(t *testing.T) {
	t.Helper()
	next := strings.Repeat("n", 40)
	withOld := []string{"HOLDFAST_SERVER__MASTER_SECRET=" + next, "HOLDFAST_SERVER__OLD_MASTER_SECRETS=" + w.master}
	right(t, w.check(t, withOld...), "written with an old secret")
	w.start(t, withOld...).Kill()
	w.start(t, withOld[0]).Kill()
	wrong(t, w.check(t), "syncstorage secrets", otherMaster)
	w.start(t, "HOLDFAST_SERVER__OLD_MASTER_SECRETS="+next).Kill()
	right(t, w.check(t))
}

func (w *written) givenUp(t *testing.T) {
	t.Helper()
	const first, second = "HOLDFAST_SERVER__MASTER_SECRET=a new secret of 32 characters, 1.", "HOLDFAST_SERVER__MASTER_SECRET=a new secret of 32 characters, 2."
	refused(t, w.with(first), otherMaster)
	accept(t, w.data, append(slices.Clip(w.vars), first)...)
	w.start(t, first).Kill()
	refused(t, w.with(second), otherMaster)
	if r := binary.Run(t, w.with(second), "migrate", "--new-secrets"); r.Status != 0 {
		t.Errorf("migrate --new-secrets: %d\n%s", r.Status, r.Stderr)
	}
	w.start(t, second).Kill()
	if err := os.Remove(w.path); err != nil {
		t.Fatal(err)
	}
	accept(t, w.data, w.vars...) // without any files the server creates new secrets
	s := w.start(t)
	if readFile(t, w.path) == w.file {
		t.Error("the lost file is back")
	}
	s.Token(1, "--fxa-uid", "alice", "--fxa-kid", "1-qqo").Want(t, http.StatusOK, "GET", "/storage/tabs/x", "")
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func accept(t *testing.T, data string, vars ...string) {
	t.Helper()
	s := binary.LaunchFlags(t, []string{"--new-secrets"}, data, vars...)
	s.Await("/readyz", http.StatusOK)
	if out := s.Output.String(); !strings.Contains(out, "accepted a new secret") {
		t.Errorf("the accepted secret is not reported:\n%s", out)
	}
	s.Kill()
}

// TestSecretsOfTwoServers starts two servers with different secrets on an empty database. One must serve and the other
// exit. With the same secrets both serve.
func TestSecretsOfTwoServers(t *testing.T) {
	t.Parallel()
	onEachServer(t, func(t *testing.T, data string, vars []string) {
		binary.Migrate(t, data, vars...)
		ended := make(chan *process, 2)
		both := []*process{begin(t, vars, ended), begin(t, vars, ended)}
		loser := <-ended
		if loser.cmd.ProcessState.ExitCode() != 1 || !strings.Contains(loser.output.String(), " is lost: ") {
			t.Fatalf("%v\n%s", loser.cmd.ProcessState, loser.output)
		}
		winner := both[0]
		if winner == loser {
			winner = both[1]
		}
		if _, err := os.Stat(filepath.Join(loser.data, "secrets.toml")); err == nil {
			t.Error("the refused server left secrets")
		}
		// With the first server's secrets, both serve.
		write(t, filepath.Join(loser.data, "secrets.toml"), readFile(t, filepath.Join(winner.data, "secrets.toml")))
		s := binary.Start(t, loser.data, vars...)
		right(t, binary.Run(t, append(s.Env, "SYNC_TOKENSERVER__FXA_OAUTH_SERVER_URL="+newAccounts(t).URL), "check"))
		select {
		case <-ended:
			t.Errorf("the other server ended, too:\n%s", winner.output)
		default:
		}
	})
}

// process is a server with its own data folder, which may exit without being stopped.
type process struct {
	cmd    *exec.Cmd
	data   string
	output *binary.Output
}

func begin(t *testing.T, vars []string, ended chan<- *process) *process {
	t.Helper()
	p := &process{cmd: exec.CommandContext(t.Context(), binary.Path(), "serve"), data: t.TempDir(), output: &binary.Output{}}
	p.cmd.Env = binary.Environ(append(slices.Clip(vars), "HOLDFAST_DATA="+p.data, "HOLDFAST_SERVER__LISTEN=127.0.0.1:0", "HOLDFAST_SERVER__ADMIN_LISTEN=127.0.0.1:0")...)
	p.cmd.Stdout, p.cmd.Stderr = p.output, p.output
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() { _ = p.cmd.Wait(); ended <- p; close(done) }()
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill()
		<-done
	})
	return p
}

// TestSecretsOfADatabaseThatWasAway starts a server while its database is unavailable. When the database returns with
// data written under other secrets, the server must exit.
func TestSecretsOfADatabaseThatWasAway(t *testing.T) {
	t.Parallel()
	postgres := testdb.OwnPostgres(t, testdb.PostgresOptions{})
	service := "HOLDFAST_SYNCSTORAGE__DATABASE_URL=" + postgres.URL()
	first := binary.Launch(t, t.TempDir(), service)
	first.Verb("migrate")
	first.Await("/readyz", http.StatusOK)
	first.Kill()
	if err := postgres.Stop(); err != nil {
		t.Fatal(err)
	}
	same, other := binary.Launch(t, first.Data, service), binary.Launch(t, t.TempDir(), service)
	other.Await("/readyz", http.StatusServiceUnavailable)
	if err := postgres.Start(); err != nil {
		t.Fatal(err)
	}
	<-other.Ended
	if code := other.Cmd.ProcessState.ExitCode(); code != 1 || !strings.Contains(other.Output.String(), lostMaster) {
		t.Errorf("status %d\n%s", code, other.Output)
	}
	same.Await("/readyz", http.StatusOK)
	// With the right secrets the server starts, so it has not recorded the wrong secrets.
	write(t, filepath.Join(other.Data, "secrets.toml"), readFile(t, filepath.Join(first.Data, "secrets.toml")))
	binary.Start(t, other.Data, service)
}

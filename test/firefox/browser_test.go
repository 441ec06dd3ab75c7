package firefox

import (
	"context"
	_ "embed"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"
	"time"

	"holdfast/test/firefox/accounts"
	"holdfast/test/firefox/marionette"
)

const patience = 2 * time.Minute

// bounded returns a context for a step. It ends before the test binary's deadline, so all processes can still be killed.
func bounded(t *testing.T) (context.Context, context.CancelFunc) {
	end := time.Now().Add(patience)
	if last, ok := t.Deadline(); ok && last.Add(-10*time.Second).Before(end) {
		end = last.Add(-10 * time.Second)
	}
	return context.WithDeadline(t.Context(), end)
}

//go:embed device.js
var deviceJS string

var listening = regexp.MustCompile(`Marionette\s+INFO\s+Listening on port (\d+)`)

type browser struct {
	name   string
	remote *marionette.Client
}

// startBrowser starts program headless with a new profile and returns once its first window is open.
func startBrowser(t *testing.T, program, name, accountsURL, storageURL string, network *journal) (*browser, error) {
	ctx, cancel := bounded(t)
	defer cancel()
	home, profile := t.TempDir(), t.TempDir()
	if err := writeProfile(profile, accountsURL, storageURL, network.wire(t, name)); err != nil {
		return nil, err
	}
	t.Cleanup(func() { showSyncLogs(t, name, profile) })
	env := []string{
		"HOME=" + home, // as root, Firefox refuses to run in another user's home
		"PATH=" + os.Getenv("PATH"),
		"MOZ_HEADLESS=1",
		"MOZ_CRASHREPORTER_DISABLE=1",
		"MOZ_DISABLE_NONLOCAL_CONNECTIONS=1", // additional safeguard to the proxy
	}
	p, err := start(t, name, env, program, "--marionette", "--remote-allow-system-access", "--no-remote", "--profile", profile)
	if err != nil {
		return nil, err
	}
	port, err := p.await(ctx, listening)
	if err != nil {
		return nil, err
	}
	remote, err := marionette.Dial(ctx, "127.0.0.1:"+port)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	t.Cleanup(func() { _ = remote.Close() })
	return &browser{name: name, remote: remote}, nil
}

func showSyncLogs(t *testing.T, name, profile string) {
	if !t.Failed() {
		return
	}
	logs, err := filepath.Glob(filepath.Join(profile, "weave", "logs", "*.txt"))
	if err != nil {
		t.Error(err)
	}
	slices.Sort(logs)
	// The last log belongs to the failed sync.
	for _, path := range logs[max(0, len(logs)-1):] {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Error(err)
		}
		t.Logf("---- %s, %s:\n%s", name, filepath.Base(path), tail(text))
	}
}

func call[T any](t *testing.T, b *browser, function string, args ...any) T {
	t.Helper()
	ctx, cancel := bounded(t)
	defer cancel()
	var result T
	if err := b.remote.Execute(ctx, deviceJS+"\nreturn "+function+"(...arguments);", args, &result); err != nil {
		t.Fatalf("%s: %s: %v", b.name, function, err)
	}
	return result
}

func (b *browser) do(t *testing.T, function string, args ...any) {
	t.Helper()
	call[any](t, b, function, args...)
}

type outcome struct {
	Service string            `json:"service"`
	Login   string            `json:"login"`
	Sync    string            `json:"sync"`
	Engines map[string]string `json:"engines"`
}

// sync syncs all engines and fails the test if any engine failed.
func (b *browser) sync(t *testing.T) {
	t.Helper()
	got := call[outcome](t, b, "sync")
	if got.Service != "success.status_ok" || got.Sync != "success.sync" {
		t.Fatalf("%s: the sync ended with %+v", b.name, got)
	}
}

func (b *browser) signIn(t *testing.T, account *accounts.Server) {
	t.Helper()
	credentials, err := account.SignIn()
	if err != nil {
		t.Fatal(err)
	}
	b.do(t, "signIn", credentials)
}

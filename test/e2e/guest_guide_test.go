package e2e

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"holdfast/test/binary"
)

func TestGuestTutorial(t *testing.T) {
	t.Parallel()
	text := guide(t, "guest-tutorial.md")
	settings, commands := blocks(text, "toml"), sessions(text)
	if len(settings) != 1 || len(commands) < 15 {
		t.Fatalf("%d settings, %d commands", len(settings), len(commands))
	}
	folder := t.TempDir()
	config := filepath.Join(folder, "holdfast.toml")
	if err := os.WriteFile(config, []byte(settings[0]), 0o600); err != nil {
		t.Fatal(err)
	}
	s := binary.Start(t, filepath.Join(folder, "holdfast-data"), "HOLDFAST_CONFIG="+config, binary.GuestsByDefault, "HOLDFAST_GUEST__BOTS__ENABLED=true", "HOLDFAST_SERVER__INTERNAL_LISTEN=127.0.0.1:0")
	typeAll(t, s.Env, folder, []string{"127.0.0.1:8000", host(t, s.URL), "127.0.0.1:8002", host(t, s.Internal())}, commands)
	beginFromTwoAddresses(t, s)
}

// beginFromTwoAddresses begins sessions, as the shop's server does for its visitors: when one visitor's address may begin no
// more, another may.
func beginFromTwoAddresses(t *testing.T, s *binary.Server) {
	t.Helper()
	begin := func(visitor, browser string) int {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.URL+"/bff/consumer/v1/session", http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("X-Forwarded-For", visitor)
		req.Header.Set("User-Agent", browser)
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		return resp.StatusCode
	}
	status := http.StatusCreated
	for i := 0; i < 1000 && status == http.StatusCreated; i++ {
		status = begin("192.0.2.1", fmt.Sprint("browser ", i))
	}
	if status != http.StatusTooManyRequests {
		t.Errorf("one address begins many sessions: status %d, want 429", status)
	}
	if got := begin("192.0.2.2", "another browser"); got != http.StatusCreated {
		t.Errorf("another address begins a session: status %d, want 201", got)
	}
}

// TestGuestExamples checks that the tutorials' code equals the tested examples in test/clients or the client's README.
func TestGuestExamples(t *testing.T) {
	t.Parallel()
	for name, folder := range map[string]string{"guest-tutorial.md": "express", "guest-nextjs.md": "nextjs"} {
		code := ""
		root := filepath.Join("..", "..", "clients", "typescript", "examples", folder)
		err := filepath.WalkDir(root, func(path string, d os.DirEntry, err error) error {
			if err == nil && d.Name() == "node_modules" {
				return filepath.SkipDir
			}
			if err != nil || d.IsDir() || !slices.Contains([]string{".js", ".ts", ".tsx"}, filepath.Ext(path)) {
				return err
			}
			text, err := os.ReadFile(path)
			code += string(text)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		all := append(blocks(guide(t, name), "js"), blocks(guide(t, name), "ts")...)
		if len(all) < 5 {
			t.Errorf("%s has %d code blocks", name, len(all))
		}
		readme, err := os.ReadFile(filepath.Join("..", "..", "clients", "typescript", "README.md"))
		if err != nil {
			t.Fatal(err)
		}
		for _, block := range all {
			if !strings.Contains(code, block) && !strings.Contains(string(readme), block) {
				t.Errorf("%s contains code that is in no example:\n%s", name, block)
			}
		}
	}
}

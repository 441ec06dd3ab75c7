package secrets

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

var ownSecrets = []string{Master, Admin}

func TestSecretsAreMadeOnce(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	if _, err := load(data, MustExist, ownSecrets); err == nil || !strings.Contains(err.Error(), "start the server once") {
		t.Errorf("without a file: %v", err)
	}
	if made, err := load(data, MakeUp, ownSecrets); err != nil || !made.made[Master] || made.newFile || made.values[Master] == "" {
		t.Errorf("for this process only: %+v, %v", made, err)
	}
	if entries, err := os.ReadDir(data); err != nil || len(entries) != 0 {
		t.Errorf("the folder holds %v, %v", entries, err)
	}
	// Servers that start concurrently use the same secrets.
	made := make([]loaded, 8)
	var wg sync.WaitGroup
	for i := range made {
		wg.Go(func() {
			var err error
			if made[i], err = load(data, Create, ownSecrets); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	first := 0
	for _, s := range made {
		if !maps.Equal(s.values, made[0].values) || len(s.values[Master]) != 64 || s.values[Master] == s.values[Admin] {
			t.Errorf("secrets differ or are weak: %+v", s)
		}
		if s.newFile {
			first++
		}
	}
	if first != 1 {
		t.Errorf("%d servers say that they have created the file", first)
	}
	if entries, err := os.ReadDir(data); err != nil || len(entries) != 1 {
		t.Errorf("the folder holds %v, %v", entries, err)
	}
}

func TestLeftSecrets(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	left := filepath.Join(data, ".secrets-1234")
	if err := os.WriteFile(left, []byte("[server]\nmaster_secret = 'hunter2'\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := load(data, MustExist, ownSecrets); err == nil || !strings.Contains(err.Error(), "mv "+left+" "+filepath.Join(data, File)) || strings.Contains(err.Error(), "hunter2") {
		t.Errorf("%v", err)
	}
	if err := os.Truncate(left, 0); err != nil {
		t.Fatal(err)
	}
	if _, err := load(data, MustExist, ownSecrets); err == nil || !strings.Contains(err.Error(), left) || strings.Contains(err.Error(), "mv ") {
		t.Errorf("%v", err)
	}
	// A start still succeeds, because the first start may have been killed before any data was written.
	if s, err := load(data, Create, ownSecrets); err != nil || !s.newFile {
		t.Errorf("%+v, %v", s, err)
	}
}

func TestSecretsOfAnOlderRelease(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	path := filepath.Join(data, File)
	if err := os.WriteFile(path, []byte("[server]\nmaster_secret = 'old'\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if s, err := load(data, MustExist, ownSecrets); err != nil || !s.made[Admin] || s.made[Master] {
		t.Fatalf("of this process only: %+v, %v", s, err)
	}
	s, err := load(data, Create, ownSecrets)
	if err != nil || s.values[Master] != "old" || s.values[Admin] == "" || s.newFile {
		t.Fatalf("%+v, %v", s, err)
	}
	if again, err := load(data, MustExist, ownSecrets); err != nil || !maps.Equal(again.values, s.values) || len(again.made) > 0 {
		t.Errorf("not kept: %+v, %v", again, err)
	}
	// Secrets of other releases and services are kept.
	if more, err := load(data, Create, []string{"toy.secret"}); err != nil || more.values[Admin] != s.values[Admin] || more.values["toy.secret"] == "" {
		t.Errorf("%+v, %v", more, err)
	}
}

// TestUnusableSecrets checks that an unusable file is an error in every mode, and is not changed.
func TestUnusableSecrets(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name, text string
		mode       os.FileMode
		says, fix  string
	}{
		{"mode 0644", "[server]\nmaster_secret = 'hunter2'\n", 0o644, "can be read by others (mode 0644)", "chmod 600"},
		{"mode 0620", "[server]\nmaster_secret = 'hunter2'\n", 0o620, "can be read by others (mode 0620)", "chmod 600"},
		{"not TOML", "[server]\nmaster_secret = 'hunter2", 0o600, "is not valid", "restore it from a backup"},
		{"without sections", "master_secret = 'hunter2'\n", 0o600, "expected TOML with sections", "restore it from a backup"},
		{"not text", "[server]\nmaster_secret = 1\n", 0o600, "is not valid", "restore it from a backup"},
		{"empty", "", 0o600, "is empty", "restore it from a backup"},
		{"only a comment", "# hunter2\n", 0o600, "is empty", "restore it from a backup"},
		{"only a section", "[server]\n", 0o600, "is empty", "restore it from a backup"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			data := t.TempDir()
			path := filepath.Join(data, File)
			if err := errors.Join(os.WriteFile(path, []byte(tc.text), 0o600), os.Chmod(path, tc.mode)); err != nil { // independent of the umask
				t.Fatal(err)
			}
			for _, how := range []Absent{MustExist, MakeUp, Create} {
				_, err := load(data, how, ownSecrets)
				broken, ok := errors.AsType[*FileError](err)
				if !ok || !strings.Contains(broken.What, tc.says) || !strings.Contains(broken.Fix, tc.fix) || strings.Contains(err.Error(), "hunter2") {
					t.Errorf("%v", err)
				}
			}
			if text, err := os.ReadFile(path); err != nil || string(text) != tc.text {
				t.Errorf("the file is now %q, %v", text, err)
			}
		})
	}
}
